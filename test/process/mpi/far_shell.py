"""What `mpirun` takes for ssh, to the hosts of a lab: a server that starts a command on a host, and a client that
mpirun runs.

    far_shell.py SOCKET [ssh's options] HOST COMMAND...
"""
import contextlib
import json
import os
import socket
import socketserver
import subprocess
import sys
import threading


class FarShell(socketserver.ThreadingUnixStreamServer):
    """`with FarShell(lab, path):` serves at this socket. `.command` is the client, for mpirun to execute. The
    commands' outputs are those of the client."""

    daemon_threads = True

    def __init__(self, lab, path):
        self.lab = lab
        self.command = f"{path}.sh"
        with open(os.open(self.command, os.O_WRONLY | os.O_CREAT, 0o755), "w") as script:
            script.write(f"#!/bin/sh\nexec {sys.executable} {os.path.abspath(__file__)} {path} \"$@\"\n")
        super().__init__(path, Handler)

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        said, fds, _, _ = socket.recv_fds(self.request, 1 << 20, 3)
        asked = json.loads(said)
        try:
            child = self.server.lab.host(asked["host"]).popen(["sh", "-c", asked["command"]], env=asked["env"], cwd="/",
                                                              stdin=fds[0], stdout=fds[1], stderr=fds[2],
                                                              start_new_session=True)
        finally:
            for fd in fds:
                os.close(fd)
        ended = threading.Thread(target=lambda: self.tell(child.wait()))
        ended.start()
        # The client's end, as ssh's, ends the command.
        with contextlib.suppress(ConnectionError):
            self.request.recv(1)
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        ended.join()

    def tell(self, code):
        with contextlib.suppress(OSError):
            self.request.sendall(b"%d\n" % code)
            self.request.shutdown(socket.SHUT_RDWR)


def main():
    path, *words = sys.argv[1:]
    while words and words[0].startswith("-"):
        del words[:2 if words[0] in ("-o", "-l", "-p", "-i") else 1]
    host, command = words[0], " ".join(words[1:])
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(path)
        said = json.dumps({"host": host, "command": command, "env": env}).encode()
        socket.send_fds(channel, [said], [0, 1, 2])
        code = channel.makefile().readline()
    return int(code) if code else 255


if __name__ == "__main__":
    sys.exit(main())
