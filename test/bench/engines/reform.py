"""How soon the ranks of a job train again when one of them dies: with `dtrain run --survivors` those that are left, in
C++ and in Python; and how soon torchrun has all of them train when the job is started again. Prints JSON: {who: [ms]}.

usage: reform.py BIN TEST_BIN KILLS, with a Python that has torch
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TORCH = HERE.parents[1] / "process/torch"
BIN, TEST_BIN, KILLS = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
os.environ["DTRAIN_BIN_DIR"] = str(BIN)
sys.path[:0] = [str(TORCH)]

from survivors_job import Job  # noqa: E402

RANKS = 4
DIED = 2  # not the one that has the store
STEPS = """
import sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} goes on at {time.monotonic_ns()}", flush=True)
while True:
    dist.all_reduce(one)
"""


def goes_on(job, ranks):
    """When each of them does, in ns."""
    return [int(job.expect(rf"of {ranks} goes on at (\d+)")[1]) for _ in range(ranks)]


def survivors(*program):
    """Milliseconds until those that are left have had a collective, by kill."""
    took = []
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-") as folder:
        words = [str(BIN / "dtrain"), "run", "--nproc", str(RANKS), "--survivors", "1", "--max-restarts", str(KILLS),
                 *program, folder]
        with Job([(subprocess.Popen, words)], PYTHONPATH=str(BIN.parent / "python")) as job:
            goes_on(job, RANKS)
            for kill in range(KILLS):
                killed = job.kill(f"DTRAIN_MEMBER={DIED}.{kill}")
                took.append((statistics.median(goes_on(job, RANKS - 1)) - killed) / 1e6)
                goes_on(job, RANKS)
            pathlib.Path(folder, "done").touch()
            if job.end() != [0]:
                raise RuntimeError(job.text[-4000:])
    return took


def torchrun():
    """The job is started again. A restart under one torchrun is no measure: gloo's processes may wait there for those
    that died."""
    took = []
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-") as folder:
        program = pathlib.Path(folder, "steps.py")
        program.write_text(STEPS)
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS),
                 str(program)]
        for _ in range(KILLS):
            began = time.monotonic_ns()
            with Job([(subprocess.Popen, words)]) as job:
                took.append((statistics.median(goes_on(job, RANKS)) - began) / 1e6)
                job.processes[0].terminate()
                job.end()
    return took


print(json.dumps({
    "C++": survivors(str(TEST_BIN / "survivors_worker")),
    "Python": survivors(sys.executable, str(TORCH / "backend/reform.py")),
    "torchrun": torchrun(),
}))
