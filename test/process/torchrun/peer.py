"""Starts command lines, torchrun's without the three seconds that `import torch` takes: this process imports it once
and forks for each. Runs under the Python whose torch is compared. usage: peer.py SOCKET [plain]

Each connection is one start. It sends a JSON line: `cwd`, `env`, `stdin`, `stdout`, `stderr` (paths), and `argv` with
`how`: "run" (as torchrun), "launch" (as torch.distributed.launch) or "exec" (argv[0] is executed). Answers: a line with
the pid, then one with the wait status. With `network` the start has a network of its own, so that fixed ports of two
starts never meet. `plain`: for "exec" alone, without torch, which makes each fork cheaper.
"""
import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import threading

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def own_network():
    """A network with nothing but a loopback of its own; False where this user may not."""
    if libc.unshare(CLONE_NEWNET) != 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        up = struct.pack("16sH14s", b"lo", 0x1 | 0x40, b"")  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(s, 0x8914, up)  # SIOCSIFFLAGS
    return True


def may_own_network():
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if own_network() else 1)
        except OSError:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def tell(connection, number):
    with contextlib.suppress(ConnectionError):  # who asked has given up
        connection.sendall(f"{number}\n".encode())


def serve(listener):
    """Returns a request, in the child that is to become it. The parent stays here until its standard input ends."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(0, select.POLLIN | select.POLLHUP)
    running = {}
    while True:
        for fd, _ in poll.poll():
            if fd == 0:
                os._exit(0)
            if fd == listener.fileno():
                connection = listener.accept()[0]
                request = json.loads(connection.makefile().readline())
                child = os.fork()
                if child == 0:
                    return request
                tell(connection, child)
                watch = os.pidfd_open(child)
                running[watch] = (child, connection)
                poll.register(watch, select.POLLIN)
            else:
                child, connection = running.pop(fd)
                poll.unregister(fd)
                os.close(fd)
                tell(connection, os.waitpid(child, 0)[1])
                connection.close()


def become(request):
    os.setpgid(0, 0)
    fresh = request["how"] == "exec"  # else as Python sets them at its start
    signal.signal(signal.SIGPIPE, signal.SIG_DFL if fresh else signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_DFL if fresh else signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if request["network"]:
        own_network()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for fd, path, how in ((0, request["stdin"], os.O_RDONLY), (1, request["stdout"], flags),
                          (2, request["stderr"], flags)):
        opened = os.open(path, how, 0o644)
        os.dup2(opened, fd)
        os.close(opened)
    os.closerange(3, 1024)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None
    sys.path[0] = request["cwd"]
    if fresh:
        os.execve(request["argv"][0], request["argv"], request["env"])
    sys.argv = request["argv"]


def end_as_python(run):
    """Call it and end as the interpreter would, but for tearing down all of torch, which takes most of a second."""
    code = 0
    try:
        run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def import_launchers():
    """What torchrun imports at its start, and one thing more that it imports later."""
    launchers = {"run": importlib.import_module("torch.distributed.run"),
                 "launch": importlib.import_module("torch.distributed.launch")}
    importlib.import_module("torch.distributed.elastic.rendezvous.c10d_rendezvous_backend")
    gc.freeze()  # so that a collection in a child does not touch, and so copy, all of it
    return launchers


def main():
    launchers = import_launchers() if "plain" not in sys.argv else {}
    version = launchers["run"].torch.__version__ if launchers else ""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen(64)
    print(json.dumps({"version": version, "network": may_own_network()}), flush=True)
    request = serve(listener)
    become(request)
    end_as_python(launchers[request["how"]].main)


if __name__ == "__main__":
    main()
