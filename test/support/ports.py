"""Ports for what must be told its port before it can take it."""
import atexit
import contextlib
import socket

# Sockets that are bound and do not listen: while they live, the kernel gives their ports to nobody else.
HELD = contextlib.ExitStack()

atexit.register(HELD.close)


def free_port():
    """A port that is free on every address, and free for whoever binds it by its number (with SO_REUSEADDR, as servers
    do) until this process ends. Nothing answers there before. A port that is free on one address may be some
    connection's on another, and then a server that binds every address doesn't get it."""
    holder = socket.socket(socket.AF_INET6)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    holder.bind(("::", 0))
    HELD.enter_context(holder)
    return holder.getsockname()[1]
