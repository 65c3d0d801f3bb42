"""A real terminal for tests: a program behind a pty of a given size, and what it printed there."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

DEADLINE_S = 60
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[=>()][0-9AB]?|\x1b\][^\x07]*\x07|[\x00\x0f]")


class Terminal:
    """A program that has the pty as its controlling terminal. Use it in a `with`: the end kills what is left."""

    def __init__(self, argv, columns=80, rows=24, env=None, folder=None):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
                if folder:
                    os.chdir(folder)
                os.execvpe(argv[0], argv, env if env is not None else os.environ)
            finally:
                os._exit(127)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.pid:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def type(self, text):
        os.write(self.fd, text.encode())

    def _more(self, until):
        ready, _, _ = select.select([self.fd], [], [], max(0, until - time.monotonic()))
        if not ready:
            raise TimeoutError(f"nothing more after {self.seen[-2000:]!r}")
        try:
            chunk = os.read(self.fd, 65536)
        except OSError:  # EIO: nobody has the terminal open any more
            chunk = b""
        self.seen += chunk
        return chunk

    def wait_for(self, text):
        """What was printed since the last wait_for, up to and with `text`; without escape sequences."""
        until = time.monotonic() + DEADLINE_S
        while text.encode() not in ESCAPES.sub(b"", self.seen):
            if not self._more(until):
                raise EOFError(f"it ended before {text!r}: {self.seen[-2000:]!r}")
        before, _, after = ESCAPES.sub(b"", self.seen).partition(text.encode())
        self.seen = after
        return before.decode(errors="replace") + text

    def finish(self):
        """Everything printed up to the program's end, as bytes, and its exit code (-n for signal n)."""
        until = time.monotonic() + DEADLINE_S
        while self._more(until):
            pass
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return self.seen, os.waitstatus_to_exitcode(status)
