"""Ports for what must be told its port before it can take it."""
import atexit
import contextlib
import socket

# Sockets that are bound and do not listen: while they live, the kernel gives their ports to nobody else.
HELD = contextlib.ExitStack()

atexit.register(HELD.close)


def free_port(address="127.0.0.1"):
    """A port that is free, and free for whoever binds it by its number (with SO_REUSEADDR, as servers do) until this
    process ends. Nothing answers there before."""
    holder = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((address, 0))
    HELD.enter_context(holder)
    return holder.getsockname()[1]
