"""What the tests of netlab share: where things are, and sockets on hosts."""
import os
import pathlib
import socket
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT_FOLDER = HERE.parents[2]
MODULES = ROOT_FOLDER / "test" / "support"
TOOL = ROOT_FOLDER / "scripts" / "netlab"

sys.path[:0] = [str(MODULES), str(HERE.parent / "launcher")]

# For those who import this module.
import netlab  # noqa: E402, F401
from lab_case import LabCase, certify, make_authority, new_token  # noqa: E402, F401

DEADLINE = 60


def listen(host, address=None):
    """A listening socket on a host."""
    address = address or host.ipv4
    with host.network():
        return socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)


def connect(host, address):
    """A connection from a host."""
    with host.network():
        return socket.create_connection(address, DEADLINE)


def pair(a, b, address=None):
    """A TCP connection from host `a` to host `b`: both ends of it."""
    with listen(b, address) as server:
        server.settimeout(DEADLINE)
        near = connect(a, server.getsockname()[:2])
        far, _ = server.accept()
    far.settimeout(DEADLINE)
    return near, far


class Post:
    """A UDP socket on a host: a datagram arrives at once or never, so what a host did not get needs no waiting."""

    def __init__(self, host):
        with host.network():
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((host.ipv4, 4000))
        self.socket.settimeout(DEADLINE)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)

    def send(self, text, host):
        self.socket.sendto(text.encode(), (host.ipv4, 4000))

    def receive(self):
        return self.socket.recv(100).decode()

    def close(self):
        self.socket.close()


def gone(pid):
    return not os.path.exists(f"/proc/{pid}")
