"""Linux namespaces from Python: make, enter and leave them, and run a command in those of a host.

Python has os.setns only since 3.12, hence the C library's calls.
"""
import contextlib
import ctypes
import os
import shutil
import sys

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
FS = 0x200
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000

# What a host has for itself, in the order in which its file descriptors travel. "init" is a pidfd of its first process.
OF_A_HOST = ("net", "uts", "ipc", "mnt", "pid", "init")
ENTERED = (("net", NEWNET), ("uts", NEWUTS), ("ipc", NEWIPC), ("mnt", NEWNS))

_libc = ctypes.CDLL(None, use_errno=True)


class LabError(Exception):
    """The lab could not do what it was asked for."""


class Unavailable(LabError):
    """This machine cannot have a lab, or not that part of one; the text says why. Tests skip with it."""


def _checked(result, what):
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags):
    _checked(_libc.unshare(flags), "unshare")


def setns(fd, kind):
    _checked(_libc.setns(fd, kind), "setns")


def mount(source, target, kind=None, flags=0):
    arguments = [text.encode() if text else None for text in (source, target, kind)]
    _checked(_libc.mount(*arguments, ctypes.c_ulong(flags), None), f"mount {target}")


def open_namespace(name):
    """A file descriptor that keeps the calling thread's namespace alive."""
    return os.open(f"/proc/thread-self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)


@contextlib.contextmanager
def _and_back(name, kind):
    own = open_namespace(name)
    try:
        yield
    finally:
        try:
            setns(own, kind)
        finally:
            os.close(own)


@contextlib.contextmanager
def network_of(fd):
    """The calling thread is in another network: sockets, threads and processes made meanwhile stay there."""
    with _and_back("net", NEWNET):
        setns(fd, NEWNET)
        yield


@contextlib.contextmanager
def children_in(fd=None):
    """Processes that the calling thread starts go into that PID namespace; without `fd`, into a new one."""
    with _and_back("pid", NEWPID):
        if fd is None:
            unshare(NEWPID)
        else:
            setns(fd, NEWPID)
        yield


@contextlib.contextmanager
def hidden(folder):
    """Processes and threads that the calling thread starts meanwhile, and theirs, find this folder empty. The calling
    thread shares its current folder with no other thread afterwards."""
    current, own = os.getcwd(), open_namespace("mnt")
    try:
        unshare(NEWNS)
        mount(None, "/", None, MS_REC | MS_PRIVATE)
        mount("tmpfs", folder, "tmpfs")
        yield
    finally:
        try:
            unshare(FS)  # from the threads that it has started meanwhile: the kernel demands it
            setns(own, NEWNS)
            os.chdir(current)
        finally:
            os.close(own)


def entering(fds, then=None):
    """What a forked child calls before it becomes the command: it is in the host, in the folder where it was."""
    def enter():
        folder = os.getcwd()
        for name, kind in ENTERED:
            setns(fds[name], kind)
        os.chdir(folder)
        if then:
            then()
    return enter


def become_able():
    """Call first in a program that will make a lab. Without root, run the program anew as the root of a user namespace
    of its own, where the kernel allows that; Unavailable where it does not, or where a tool is missing.
    """
    for tool in ("ip", "tc"):
        if not shutil.which(tool, path=search_path()):
            raise Unavailable(f"needs '{tool}' (Debian package iproute2)")
    if os.geteuid() == 0:
        return
    # Once is enough: the mark keeps a machine that maps us to another user from doing it for ever.
    if "NETLAB_USER_NAMESPACE" in os.environ or not user_namespaces_work():
        raise Unavailable("needs root, or user namespaces, which this machine does not allow")
    os.environ["NETLAB_USER_NAMESPACE"] = "1"
    arguments = getattr(sys, "orig_argv", [sys.executable, *sys.argv])[1:]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvp("unshare", [*as_own_root(), sys.executable, *arguments])


def as_own_root():
    """The command line that runs what follows it as the root of new namespaces; they end with it."""
    return ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child",
            "--mount-proc", "--"]


def user_namespaces_work():
    child = os.fork()
    if child == 0:
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 2)
            os.execvp("unshare", [*as_own_root(), "true"])
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def search_path():
    """PATH, and where Debian keeps ip and tc, which is not on every user's PATH."""
    return os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
