"""Jobs whose ranks are killed while they print: for survivors_test.py and test/bench/engines."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "launcher")]

from support import pids, proc_file  # noqa: E402

LIMIT = 120


def environment(**more):
    hidden = ("DTRAIN_", "PET_", "TORCHELASTIC_", "RANK", "WORLD_SIZE", "OMP_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    return {**kept, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", **more}


class Job:
    """Commands that print to one reader. [(what starts it, its words)], and variables for all of them."""

    def __init__(self, commands, **more):
        self.text, self.changed, self.seen = "", threading.Condition(), 0
        self.mark = f"SURVIVORS_TEST={os.getpid()}-{time.monotonic_ns()}".encode()
        more = {**more, **dict([self.mark.decode().split("=")])}
        self.processes = [start(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, env=environment(**more)) for start, words in commands]
        self.readers = [threading.Thread(target=self.read, args=(process.stdout,)) for process in self.processes]
        for reader in self.readers:
            reader.start()

    def read(self, stream):
        for line in stream:
            with self.changed:
                self.text += line
                self.changed.notify_all()

    def expect(self, pattern):
        """The match that comes next after the last one that was expected."""
        with self.changed:
            found = self.changed.wait_for(lambda: re.search(pattern, self.text[self.seen:]), LIMIT)
            if not found:
                raise AssertionError(f"{pattern!r} did not come:\n{self.text[-4000:]}")
            self.seen += found.end()
        return found

    def kill(self, variable):
        """The process that has NAME=VALUE. Returns the time of the kill."""
        # The hosts of a lab have numbers of their own for processes.
        known = {variable.encode(), self.mark}
        pid, = [pid for pid in pids() if known <= set(proc_file(pid, "environ").split(b"\0"))]
        at = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)
        return at

    def end(self):
        codes = [process.wait(LIMIT) for process in self.processes]
        for reader in self.readers:
            reader.join(LIMIT)
        return codes

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        self.end()
        for process in self.processes:
            process.stdout.close()
