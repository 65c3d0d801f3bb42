"""Runs a row of the matrix under an engine."""
import os
import pathlib
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "launcher")]

from rows import GONE_SECONDS, HELPED  # noqa: E402
from support import comm_of, pids, proc_file, until  # noqa: E402

DEADLINE = 60
ENDLESS = -1
MARK = f"DTRAIN_TEST_MATRIX={os.getpid()}"  # what each submitter, and what takes its environment, carries


@dataclass
class Outcome:
    code: int
    seconds: float
    left: list
    said: str


def marked():
    return [pid for pid in pids() if pid != os.getpid() and MARK.encode() in proc_file(pid, "environ").split(b"\0")]


class Job:
    """A submitter. A thread reads what it says, so that it never waits for us."""

    def __init__(self, engine, words):
        self.said = b""
        self.more = threading.Condition()
        self.process = engine.popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        while chunk := os.read(self.process.stdout.fileno(), 65536):
            with self.more:
                self.said += chunk
                self.more.notify()
        with self.more:
            self.reader = None
            self.more.notify()

    def text(self):
        return self.said.decode(errors="replace")

    def until_ready(self, ranks):
        with self.more:
            come = self.more.wait_for(lambda: self.said.count(b"ready") >= ranks or not self.reader, DEADLINE)
            if not come or self.said.count(b"ready") < ranks:
                raise AssertionError(f"{ranks} ranks did not come; the job said: {self.text()}")

    def wait(self):
        """Its exit code, as a shell says it; ENDLESS if it does not end."""
        try:
            code = self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            return ENDLESS
        return code if code >= 0 else 128 - code

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        with self.more:
            self.more.wait_for(lambda: not self.reader, DEADLINE)
        self.process.stdout.close()


def open_fifo(path):
    """Let the rank go that waits for this FIFO."""
    def opened():
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # it has not come so far
            return None
    fd = until(opened, DEADLINE, "the rank that waits")
    os.write(fd, b"go\n")
    os.close(fd)


def command_of(engine, row, folder):
    go = os.path.join(folder, "go")
    if row.name == "script missing on one node":
        return [engine.missing]
    if row.name == "wrong interpreter":
        path = pathlib.Path(folder, "wrong")
        path.write_text("#!/no/such/python\n")
        path.chmod(0o755)
        return [str(path)]
    return ["sh", "-c", row.script.format(go=go)]


def run_row(engine, row, folder):
    """The row's Outcome. What is left of the job is killed."""
    go = os.path.join(folder, "go")
    if not os.path.exists(go):
        os.mkfifo(go)
    words = engine.too_few if row.name == "too few resources" else engine.words
    flags = (*HELPED.get((engine.name, row.name), ((),))[0], *row.flags)
    began = time.monotonic()
    job = Job(engine, words(flags, command_of(engine, row, folder)))
    events = {"go": lambda: open_fifo(go), "agent": lambda: os.kill(engine.agent(), 9), "node": engine.lose_node,
              "power": engine.cut_power, "submitter": job.process.kill}
    try:
        if row.event:
            job.until_ready(2)
            began = time.monotonic()
            events[row.event]()
        code = job.wait()
        seconds = time.monotonic() - began
        left = left_of(engine)
        if row.event == "submitter":  # it ends at once: what counts is the end of what it has started
            seconds = time.monotonic() - began
    finally:
        job.end()
        kill_left(engine)
        if row.event in ("node", "power"):
            engine.find_node()
        engine.settle()
    return Outcome(code, seconds, left, job.text())


def left_of(engine):
    """Names of the processes that are left when the time for their end is over."""
    try:
        until(lambda: not engine.left(), GONE_SECONDS, "the end of all that the job has started")
    except AssertionError:
        return [f"{comm_of(pid)} ({pid})" for pid in engine.left()]
    return []


def kill_left(engine):
    def left():
        found = engine.left()
        for pid in found:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        return found
    until(lambda: not left(), DEADLINE, "the end of what was left")


def loss_of(engine, train, data, folder):
    """The bytes that the example has written about the loss of each step, and its last line."""
    file = os.path.join(folder, f"loss-{engine.name}.csv")
    job = Job(engine, engine.words((), [train, "--data", data, "--epochs", "2", "--double", "--loss-csv", file]))
    try:
        code = job.wait()
    finally:
        job.end()
        kill_left(engine)
        engine.settle()
    if code:
        raise AssertionError(f"{engine.name}: exit code {code}: {job.text()}")
    return pathlib.Path(file).read_bytes()
