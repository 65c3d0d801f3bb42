"""Run jobs on this machine's GPUs, within a deadline, and show that nothing is left of them.

DTRAIN_BIN_DIR holds dtrain, train and resnet; DTRAIN_TEST_BIN_DIR (../test/bin beside it) three_ways, every_call,
ddp_steps and gpu_worker; DTRAIN_PACKAGE_DIR (../python beside it) the Python package. DTRAIN_GPU_TEST_DEVICE=cpu hides
the GPUs, and the same programs run on CPUs. DTRAIN_GPU_TEST_BESIDE=1: several of these run at once, so that nobody can
say whose the GPU's memory and what is in /dev/shm are.
"""
import contextlib
import dataclasses
import importlib.util
import os
import pathlib
import re
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(os.environ.get("DTRAIN_BIN_DIR", "build/cuda/bin")).absolute()
TEST_BIN = pathlib.Path(os.environ.get("DTRAIN_TEST_BIN_DIR", BIN / "../test/bin"))
PACKAGE = pathlib.Path(os.environ.get("DTRAIN_PACKAGE_DIR", BIN / "../python"))
DTRAIN = BIN / "dtrain"
WORKER = TEST_BIN / "gpu_worker"
KIND = os.environ.get("DTRAIN_GPU_TEST_DEVICE", "cuda")
ALONE = not os.environ.get("DTRAIN_GPU_TEST_BESIDE")  # set: other runs of these tests use the GPU too
WITHIN = 10  # seconds, until the kernel and the driver have taken a killed process away
# NCCL takes several ranks on one GPU where it believes them to be on several hosts; then they use its sockets.
ON_ONE_GPU = ["sh", "-c", 'NCCL_HOSTID=rank$RANK exec "$@"', "sh"]


def gpus():
    """What the driver says of each GPU: (UUID, MiB in use)."""
    if KIND != "cuda":
        return []
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60).stdout
    except OSError:
        return []
    return [(line.split(", ")[0], int(line.split(", ")[1])) for line in said.splitlines() if ", " in line]


GPUS = len(gpus())


def environment(**more):
    """Of a job. The first GPU alone is seen where there are more ranks than GPUs."""
    base = {**os.environ, "PYTHON_EXEC": sys.executable, "PYTHONPATH": str(PACKAGE), "PYTHONWARNINGS": "ignore",
            "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
            "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1",
            # torch waits four times this long before it ends a process whose collective has failed.
            "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "250", "TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}
    if KIND == "cpu":
        base["CUDA_VISIBLE_DEVICES"] = ""
    return base | more


@dataclasses.dataclass
class Done:
    code: int
    out: str
    err: str
    seconds: float

    def __str__(self):
        return f"ended with {self.code} after {self.seconds:.1f} s\n{self.out}\n---\n{self.err}"


def tagged(tag):
    """Processes that have this in their environment, but for those that are dead."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if tag.encode() in pathlib.Path("/proc", name, "environ").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


def shared_segments():
    return {name for name in os.listdir("/dev/shm") if re.match(r"nccl|torch|dtrain|psm_", name)}


def ended(process, limit):
    """Its output; it is killed if it takes longer."""
    try:
        return (*process.communicate(timeout=limit), False)
    except subprocess.TimeoutExpired:
        process.kill()
        return (*process.communicate(timeout=WITHIN), True)


def kill_tagged(tag):
    for pid in tagged(tag):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


class GpuCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.segments = shared_segments()
        self.tag = f"DTRAIN_GPU_TEST_TAG={secrets.token_hex(8)}"
        self.addCleanup(self.nothing_is_left)

    def nothing_is_left(self):
        until = time.monotonic() + WITHIN
        while left := tagged(self.tag):
            if time.monotonic() > until:
                kill_tagged(self.tag)
                self.fail(f"processes were left: {left}")
            select.select([], [], [], 0.05)  # /proc sends no events; the deadline is above
        if ALONE:
            self.assertEqual(shared_segments() - self.segments, set(), "left in /dev/shm")

    def start(self, *command, **more):
        key, value = self.tag.split("=")
        return subprocess.Popen([str(word) for word in command], env=environment(**{key: value}, **more),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                errors="replace")

    def run_command(self, *command, limit=60, **more):
        begin = time.monotonic()
        process = self.start(*command, **more)
        out, err, late = ended(process, limit)
        if late:
            kill_tagged(self.tag)
        done = Done(process.returncode, out, err, time.monotonic() - begin)
        self.assertFalse(late, f"did not end within {limit} s: {command}\n{done}")
        return done

    def job(self, ranks, *command, limit=60, flags=(), **more):
        """`dtrain run` of so many ranks on this machine's GPUs, on one GPU where there are fewer of them."""
        if KIND == "cuda" and isinstance(ranks, int) and ranks > GPUS:
            more.setdefault("CUDA_VISIBLE_DEVICES", "0")
            python = [sys.executable] if str(command[0]).endswith(".py") else []
            command = [*ON_ONE_GPU, *python, *command]
        return self.run_command(DTRAIN, "run", "--nproc", ranks, *flags, *command, limit=limit, **more)

    def ok(self, done, pattern=""):
        self.assertEqual(done.code, 0, str(done))
        if pattern:
            self.assertRegex(done.out, pattern, str(done))
        return done

    def headline(self, done, rank, pattern):
        """The report's first failure is this rank's."""
        found = re.search(r"(?m)^first failure: (?:\S+ )?rank (\d+): (.*)$", done.err)
        self.assertTrue(found, f"no headline: {done}")
        self.assertEqual(int(found[1]), rank, str(done))
        self.assertRegex(found[2], pattern, str(done))

    def checks(self, part, ranks, limit):
        """A part of gpu_worker: a line for each of its cases."""
        done = self.job(ranks, WORKER, part, limit=limit)
        # Without a prefix where there is one rank.
        said = re.findall(r"(?m)^(?:\[\d+\] )?(ok|failed) (\w+)(.*)$", done.out)
        names = dict.fromkeys(name for _, name, _ in said)
        wrong = []
        for name in names:
            right = sum(one == "ok" and other == name for one, other, _ in said)
            whys = [why for one, other, why in said if one == "failed" and other == name]
            print(f"  {part} on {ranks}: {name}: {'ok' if right == ranks else 'FAILED'}", flush=True)
            if right != ranks:
                wrong.append(f"{name}: {right} of {ranks} ranks{''.join(whys)}")
        self.assertEqual(wrong, [], str(done))
        self.ok(done, f"on {KIND}")
        self.assertGreater(len(names), 2, str(done))


@contextlib.contextmanager
def numbered_rows():
    """A Parquet file with the column `id`, which has the numbers from 0 on."""
    import pyarrow
    import pyarrow.parquet
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "rows.parquet")
        pyarrow.parquet.write_table(pyarrow.table({"id": range(200_000)}), file, row_group_size=20_000)
        yield file


def needs(module):
    return unittest.skipUnless(importlib.util.find_spec(module), f"{module} is not installed")


needs_gpu = unittest.skipUnless(GPUS, "no GPU here")
needs_to_be_alone = unittest.skipUnless(ALONE, "others use the GPU too")
needs_two_gpus = unittest.skipUnless(GPUS > 1, "needs two GPUs")
