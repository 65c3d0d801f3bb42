"""What the sections of run.py share: where the programs are, how one is timed, and what a section hands back."""
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import List, Optional

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from page import Bar  # noqa: E402

QUIETLY = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
               (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
               (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]


@dataclass
class Section:
    title: str
    says: List[str] = field(default_factory=list)  # how it was measured, one sentence each
    header: List[str] = field(default_factory=list)
    rows: List[List[str]] = field(default_factory=list)
    bars: List[Bar] = field(default_factory=list)


@dataclass
class Context:
    bin_dir: str
    torchrun: Optional[str]
    mpirun: Optional[str]
    scratch: str
    quick: bool

    def __post_init__(self):
        self.dtrain = os.path.join(self.bin_dir, "dtrain")
        self.worker = os.path.join(self.bin_dir, "bench_worker")
        self.fork_exec = os.path.join(self.bin_dir, "bench_fork_exec")

    def times(self, thorough, quick):
        return quick if self.quick else thorough

    def folder(self):
        return tempfile.TemporaryDirectory(dir=self.scratch, prefix="dtrain-bench-")

    def dtrain_run(self, workers, *rest):
        return [self.dtrain, "run", "--quiet", "--nproc", str(workers), *rest]

    def torchrun_run(self, workers, *rest):
        return [self.torchrun, "--standalone", "--nproc-per-node", str(workers), "--no-python", *rest]

    def mpirun_run(self, workers, *rest):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return [self.mpirun, *root, "--oversubscribe", "-n", str(workers), *rest]


def wall(command, timeout=60.0):
    """Seconds from start to end of a command; None if it failed or took longer than `timeout` and was killed."""
    start = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=QUIETLY, setpgroup=0)
    watch = os.pidfd_open(pid)
    hangs = not _ends_within(watch, timeout)
    took = time.perf_counter() - start
    if hangs:
        os.killpg(pid, signal.SIGKILL)
    os.close(watch)
    _, status = os.waitpid(pid, 0)
    return None if hangs or status != 0 else took


def _ends_within(pidfd, timeout):
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(timeout * 1000))


def start(command, **popen):
    """A job that goes on beside the benchmark, in a process group of its own."""
    popen = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **popen}
    return subprocess.Popen(command, start_new_session=True, **popen)


def stop(process, number=signal.SIGTERM, timeout=60):
    process.send_signal(number)
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(word) for word in f.read().split()]


def comm(pid):
    with open(f"/proc/{pid}/comm") as f:
        return f.read().strip()


def comm_if_alive(pid):
    try:
        return comm(pid)
    except (FileNotFoundError, ProcessLookupError):
        return ""


def until(condition, timeout, what):
    """Wait for something of /proc, which sends no events."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come within {timeout:g} s")
        time.sleep(0.01)  # tidy: allow sleep, because /proc sends no events; the deadline is above


def processes_of(front):
    """{"front": pid, "agent": pid, "guard": pid} of a running dtrain."""
    found = {"front": front}
    for name, parent, called in (("agent", "front", "dtrain-agent"), ("guard", "agent", "dt-guard")):
        def known():
            # By name: for an instant each may have another child, which tries out what the kernel allows.
            found.update({name: pid for pid in children(found[parent]) if comm_if_alive(pid) == called})
            return name in found
        until(known, 20, f"the {name}")
    return found


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values):
    return statistics.median(values) if values else None


def ms(seconds):
    if seconds is None:
        return "-"
    value = seconds * 1e3
    return f"{value:.2f} ms" if value < 10 else f"{value:.1f} ms" if value < 100 else f"{value:,.0f} ms"


def times(slow, fast):
    if slow is None or fast is None:
        return "-"
    ratio = slow / fast
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.1f}x"


def first_existing(*paths):
    return next((os.path.abspath(p) for p in paths if p and os.path.exists(p)), None)


def torchs_torchrun(path):
    """torchrun of a torch, never dtrain's link of that name."""
    candidate = path or first_existing(".venv/bin/torchrun", shutil.which("torchrun"))
    if candidate is None:
        return None
    with open(candidate, "rb") as f:
        return os.path.abspath(candidate) if f.read(2) == b"#!" else None
