"""A shell on a pseudo-terminal, for tests of what is typed there."""
import os
import pty
import re
import select
import time

from support import DEADLINE


class Terminal:
    """A shell with job control on a pseudo-terminal."""

    def __init__(self, *command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"PS1": "$ ", "TERM": "xterm", "HISTFILE": "/dev/null"})
            os.execvp(command[0], command)
        self.text = b""

    def type(self, text):
        os.write(self.fd, text)

    def expect(self, pattern, timeout=DEADLINE):
        """Wait for a regular expression in what came since the last match; returns the match."""
        end = time.monotonic() + timeout
        while True:
            match = re.search(pattern, self.text)
            if match:
                self.text = self.text[match.end():]
                return match
            ready = select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]
            try:
                chunk = os.read(self.fd, 65536) if ready else b""
            except OSError:
                chunk = b""
            if not chunk:
                raise AssertionError(f"{pattern!r} did not come: {self.text!r}")
            self.text += chunk

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)
