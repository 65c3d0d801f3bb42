"""Run dtrain with real workers and prove that nothing is left of it: shared by the launcher's process tests.

DTRAIN_BIN_DIR holds dtrain, DTRAIN_TEST_BIN_DIR the test workers. No test of these needs root; those that use it skip
themselves by name without it.
"""
import atexit
import glob
import os
import re
import resource
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "support"))

from ports import free_port  # noqa: E402, F401

BIN_DIR = os.environ.get("DTRAIN_BIN_DIR", "build/bin")
DTRAIN = os.path.join(BIN_DIR, "dtrain")
TEST_BIN_DIR = os.environ.get("DTRAIN_TEST_BIN_DIR", os.path.join(BIN_DIR, "../test/bin"))
HOSTILE = os.path.join(TEST_BIN_DIR, "hostile")
ROOT = os.geteuid() == 0
NOBODY = 65534


def reachable_copies(*programs):
    """Copies that every user may execute, for a checkout in a private folder such as /root; gone when the test ends."""
    folder = tempfile.mkdtemp(prefix="dtrain-test-bin-")
    os.chmod(folder, 0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return [shutil.copy(program, folder) for program in programs]


if ROOT:
    DTRAIN, HOSTILE = reachable_copies(DTRAIN, HOSTILE)

# Sanitizers make every process several times slower.
SLOW = float(os.environ.get("DTRAIN_TEST_SLOWER", "1"))
DEADLINE = 20 * SLOW
# What the kernel and the guard may need to empty a containment on a machine that is busy with other things. How long it
# takes on a quiet one is what soak.py measures.
WITHIN = 5.0 * SLOW

# A client of the store that asks how many keys there are (opcode 7).
STORE_CLIENT = r"""
import socket, struct, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 20) as s:
    try:
        s.sendall(b"\x00" + struct.pack("<I", 0x3C85F7CE) + b"\x07")
        print("served" if len(s.recv(8)) == 8 else "refused")
    except ConnectionError:
        print("refused")
"""

needs_root = unittest.skipUnless(ROOT, "needs root")


def stat_of(pid):
    """(state, parent pid, start time) of a process, None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            fields = f.read().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[1]), int(fields[19])
    except (OSError, IndexError):
        return None


def comm_of(pid):
    return proc_file(pid, "comm").strip().decode(errors="replace")


def status_of(pid, name):
    """A field of /proc/PID/status as a number; 0 if it is not there."""
    found = re.search(rf"(?m)^{name}:\s*(\d+)", proc_file(pid, "status").decode())
    return int(found.group(1)) if found else 0


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def proc_file(pid, name):
    """The bytes of /proc/PID/name; none if the process, or the thread or descriptor of that name, is gone by now."""
    try:
        return contents(f"/proc/{pid}/{name}")
    except OSError:
        return b""


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children_of(parent):
    found = []
    for pid in pids():
        stat = stat_of(pid)
        if stat and stat[1] == parent and stat[0] not in "ZX":
            found.append(pid)
    return found


def tagged(tag):
    """Living processes that carry the name `tag`."""
    found = []
    for pid in pids():
        if comm_of(pid) == tag:
            stat = stat_of(pid)
            if stat and stat[0] not in "ZX":
                found.append(pid)
    return found


def until(condition, timeout, what="the condition"):
    """Wait for something that gives no event to wait for. Returns its value."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come within {timeout:g} s")
        time.sleep(0.005)  # tidy: allow sleep, because /proc sends no events; the deadline is above


def said_by(case, job, code, timeout):
    """All that a job says until it ends, with this exit code."""
    said = job.communicate(timeout=timeout)[0]
    case.assertEqual(job.returncode, code, said)
    return said


def until_it_counts():
    """Wait until a stop signal is a second request, and no copy of the first."""
    # tidy: allow sleep, because the time between two signals is what tells
    time.sleep(1.1)


def cgroup2_folder():
    """Where this process is in the cgroup v2 tree; None without one that dtrain could use."""
    path = point = None
    with open("/proc/self/cgroup") as f:
        for line in f:
            if line.startswith("0::"):
                path = line[3:].strip()
    with open("/proc/self/mountinfo") as f:
        for line in f:
            if " - cgroup2 " in line:
                point = point or line.split()[4]
    return None if path is None or point is None else point + path.rstrip("/")


def can_contain(level, user=None):
    """Whether this machine gives the level: what `dtrain run` itself says."""
    done = subprocess.run([DTRAIN, "run", "--contain", level, "--quiet", "true"], stdin=subprocess.DEVNULL,
                          capture_output=True, **as_user(user))
    return done.returncode == 0


def levels(user=None):
    return [level for level in ("cgroup", "subreaper", "pidns") if can_contain(level, user)]


def as_user(user):
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


class Lifeline:
    """A pipe whose reading end everything below dtrain inherits as standard input. No reader left: nothing is left."""

    def __init__(self):
        self.reader, self.writer = os.pipe()

    def handed_over(self):
        os.close(self.reader)

    def wait_broken(self, timeout):
        """Seconds until the last reader was gone; None if one is still there after `timeout`."""
        start = time.monotonic()
        poll = select.poll()
        poll.register(self.writer, 0)
        for _, what in poll.poll(timeout * 1000):
            if what & select.POLLERR:
                return time.monotonic() - start
        return None

    def close(self):
        os.close(self.writer)


class Job:
    """`dtrain run ARGS` with a lifeline as standard input and a private TMPDIR. Use as a context manager."""

    def __init__(self, *args, env=None, user=None, stdout=subprocess.PIPE, prefix=(), **popen):
        self.tag = "h" + secrets.token_hex(6)
        self.folder = tempfile.mkdtemp(prefix="dtrain-test-")
        os.chmod(self.folder, 0o711)
        self.tmp = os.path.join(self.folder, "tmp")
        os.mkdir(self.tmp)
        if user is not None:
            os.chown(self.tmp, user, user)
        self.lifeline = Lifeline()
        self.errors = open(os.path.join(self.folder, "stderr"), "w+b")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("DTRAIN_", "PET_", "TORCHELASTIC_"))}
        environment.update({"TMPDIR": self.tmp, "HOSTILE_TAG": self.tag}, **(env or {}))
        self.process = subprocess.Popen(
            [*prefix, DTRAIN, "run", "--rdzv-id", self.tag, *map(str, args)], stdin=self.lifeline.reader, stdout=stdout,
            stderr=self.errors, env=environment, start_new_session=True, **as_user(user), **popen)
        self.lifeline.handed_over()
        self.front = self.process.pid
        self.agent = self.guard = None
        self.output = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in [self.front, self.agent, self.guard, *tagged(self.tag)]:
            if pid and self.process.returncode is None or pid in tagged(self.tag):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        self.errors.close()
        self.lifeline.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def find_processes(self):
        """Learn agent's and guard's pids; call when a worker is ready."""
        self.agent = next(p for p in children_of(self.front) if comm_of(p) == "dtrain-agent")
        self.guard = next(p for p in children_of(self.agent) if comm_of(p) == "dt-guard")
        return self

    def workers(self):
        return children_of(self.guard)

    def expect(self, text, count=1, timeout=DEADLINE):
        """Read stdout until `text` (a regular expression) has come `count` times in all."""
        end = time.monotonic() + timeout
        fd = self.process.stdout.fileno()
        while len(re.findall(text, self.output)) < count:
            left = end - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise AssertionError(f"{count} × {text!r} did not come; stdout {self.output[-2000:]!r}, "
                                     f"{self.stderr()}")
            chunk = os.read(fd, 1 << 16)
            if not chunk:
                raise AssertionError(f"{count} × {text!r} did not come; stdout ended {self.output[-2000:]!r}, "
                                     f"{self.stderr()}")
            self.output += chunk
        return self

    def ready(self, count):
        return self.expect(rb"ready\n", count).find_processes()

    def wait(self, timeout=DEADLINE):
        """Exit code of dtrain, as a shell would say it; reads what is left of stdout."""
        if self.process.stdout:
            end = time.monotonic() + timeout
            fd = self.process.stdout.fileno()
            while select.select([fd], [], [], max(0, end - time.monotonic()))[0]:
                chunk = os.read(fd, 1 << 20)
                if not chunk:
                    break
                self.output += chunk
        code = self.process.wait(timeout)
        return code if code >= 0 else 128 - code

    def stderr(self):
        self.errors.flush()
        return contents(self.errors.name).decode(errors="replace")

    def signal(self, number, *who):
        for pid in who or [self.front]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                if len(who) < 2:  # of several, one may already have died of another's death
                    raise

    def stop(self, pid):
        """SIGSTOP, and wait until it has taken hold."""
        self.signal(signal.SIGSTOP, pid)
        until(lambda: stat_of(pid)[0] == "T", DEADLINE)
        return self

    # Empty folders of logs in TMPDIR: with front, agent and guard all killed nobody is left to remove them.
    folders_may_stay = False

    def traces(self):
        """Everything that is still there of the job, in words."""
        found = [f"process {pid} ({comm_of(pid)})" for pid in tagged(self.tag)]
        for pid in (self.front, self.agent, self.guard):
            stat = pid and stat_of(pid)
            if stat and stat[0] not in "ZX" and comm_of(pid).startswith(("dtrain", "dt-guard")):
                found.append(f"process {pid} ({comm_of(pid)})")
        folder = cgroup2_folder()
        if folder:
            found += glob.glob(glob.escape(folder) + f"/**/dtrain-{self.tag}*", recursive=True)
        found += [name for name in os.listdir("/dev/shm") if self.tag in name]
        found += [os.path.join(folder, name) for folder, folders, names in os.walk(self.tmp)
                  for name in names + ([] if self.folders_may_stay else folders)]
        return found

    def own_processes(self):
        """What front, agent and guard are at, for the message of a test that fails."""
        looks = []
        for name in ("front", "agent", "guard"):
            try:
                where = f"/proc/{getattr(self, name)}"
                with open(where + "/status") as status, open(where + "/wchan") as wchan, open(where + "/stat") as stat:
                    said = dict(line.split(":\t", 1) for line in status.read().splitlines() if ":\t" in line)
                    used = stat.read().rpartition(")")[2].split()[11:13]
                    looks.append(f"{name} {said['State']} in {wchan.read() or '?'}, {' + '.join(used)} ticks of CPU, "
                                 f"switched {said['voluntary_ctxt_switches']} + "
                                 f"{said['nonvoluntary_ctxt_switches']} times")
            except (OSError, KeyError):
                looks.append(f"{name} gone")
        return "; ".join(looks)

    def time_to_nothing(self, limit=WITHIN):
        """Seconds from now until no descendant is left; raises when one is left after `limit`."""
        start = time.monotonic()
        if self.lifeline.wait_broken(limit) is None:
            traces = self.traces()
            raise AssertionError(f"still reading the lifeline after {limit:g} s: {len(traces)} traces, {traces[:8]}; "
                                 f"{self.own_processes()}; {self.stderr()}")
        until(lambda: not tagged(self.tag), max(0.0, limit - (time.monotonic() - start)), "the end of the last worker")
        return time.monotonic() - start


def run(*args, timeout=DEADLINE, **kwargs):
    """Run a job to its end; returns the Job, with its exit code in .code."""
    with Job(*args, **kwargs) as job:
        job.code = job.wait(timeout)
        job.said = job.stderr()
        job.left = job.traces()
    return job


class ProcessTest(unittest.TestCase):
    """Checks that hold at the end of every job."""

    maxDiff = 2000

    def assert_gone(self, job, limit=WITHIN):
        job.time_to_nothing(limit)
        until(lambda: not job.traces(), limit, "the last trace of the job") if job.traces() else None
        self.assertEqual(job.traces(), [])

    def assert_run(self, code, *args, **kwargs):
        job = run(*args, **kwargs)
        self.assertEqual(job.code, code, job.said + repr(job.output[-1000:]))
        self.assertEqual(job.left, [])
        return job


def limit_descriptors(count):
    """For Popen(preexec_fn=...): no more than `count` descriptors, not even by raising the limit."""
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
