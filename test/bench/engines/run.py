#!/usr/bin/env python3
"""What dtrain adds to the time in which an engine starts a process on each of two hosts, and how soon nothing
is left of a job whose submitter is killed: ssh, Open MPI, MPICH and SLURM, on hosts of a lab; Ray, on two
raylets; Spark, on a master with two workers. A function as a job, by dtrain's TorchDistributor beside Spark's. And how
soon the ranks of a job go on when one of them dies.

    run.py [--bin build/bin] [--runs 15] [--kills 7] [--functions 5] [--deaths 5]
           [--json out.json] [--write docs/benchmarks]

Each run has the engine alone and the engine with dtrain, one after the other. Printed are medians.
"""
import argparse
import contextlib
import itertools
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TESTS, ROOT = HERE.parents[1], HERE.parents[2]
sys.path[:0] = [str(HERE.parent), str(TESTS / "process/ssh"), str(TESTS / "process/mpi"),
                str(TESTS / "process/slurm"), str(TESTS / "process/clusters"), str(TESTS / "support")]

import netlab  # noqa: E402
from cluster import Cluster  # noqa: E402
from far_shell import FarShell  # noqa: E402
from page import add_outputs, bars_table, judged, machine, put_out  # noqa: E402
from ray_cluster import PYTHON, RayCluster  # noqa: E402
from spark_cluster import CHEAP, OPTIONS, SparkCluster  # noqa: E402
from spark_cluster import PYTHON as SPARK_PYTHON  # noqa: E402
from ssh_server import SshServers  # noqa: E402

OWN_SHARE, REFORM, DEADLINE, STEP = 50, 200, 60, 0.002
MARK = f"DTRAIN_TEST_CLUSTER=bench-{os.getpid()}"  # what all that a cluster starts has in its environment
GONE = {"Ray": 3000, "Spark": 3000}  # ms; of the others 1000
# What dtrain's shim does for a job, and no more: a process on each of two nodes.
RAY_ALONE = """
import subprocess, sys, ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as On
ray.init(log_to_driver=False, logging_level="error")
group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
ray.get(group.ready())
Node = ray.remote(type("Node", (), {"run": lambda self, words: subprocess.call(words)}))
nodes = [Node.options(num_cpus=1, scheduling_strategy=On(group, i)).remote() for i in range(2)]
ray.get([node.run.remote(sys.argv[1:]) for node in nodes])
"""
SPARK_ALONE = """
import subprocess, sys, time, pyspark
context = pyspark.SparkContext()
while len(context._jsc.sc().statusTracker().getExecutorInfos()) < 3:  # with the driver
    time.sleep(0.05)
words = sys.argv[1:]
context.parallelize(range(2), 2).barrier().mapPartitions(lambda _: [subprocess.call(words)]).collect()
context.stop()
"""


class Engine:
    """`words(command)` start it on two hosts from the first host of the lab."""

    def __init__(self, name, popen, words, left, dtrain):
        self.name, self.popen, self.words, self.left, self.dtrain = name, popen, words, left, dtrain

    def time(self, words):
        began = time.monotonic()
        done = self.popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        error = done.communicate(timeout=DEADLINE)[1]
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}: {words}: {done.returncode}\n{error}")
        return time.monotonic() - began

    def starts(self, runs):
        """Seconds alone, and with dtrain, of each run."""
        alone, both = self.words(["true"]), self.dtrain("true")
        self.time(alone), self.time(both)
        return [(self.time(alone), self.time(both)) for _ in range(runs)]

    def gone(self):
        """Seconds from the submitter's SIGKILL until no agent and no worker of the job is left, and until nothing is:
        an engine's own processes may need longer."""
        before = set(self.left())
        job = self.popen(self.dtrain("sh", "-c", "echo ready; exec sleep 100"), stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        ready = 0
        while ready < 2:
            line = job.stdout.readline()
            if not line:
                raise RuntimeError(f"{self.name}: the job has ended")
            ready += "ready" in line
        job.send_signal(signal.SIGKILL)
        began = time.monotonic()
        job.wait()
        ours = None
        while time.monotonic() < began + DEADLINE:
            left = set(self.left()) - before
            if ours is None and not any(map(is_ours, left)):
                ours = time.monotonic() - began
            if not left:
                break
            time.sleep(STEP)  # tidy: allow sleep, because the processes are on other hosts
        took = time.monotonic() - began
        job.stdout.close()
        return took if ours is None else ours, took


def is_ours(pid):
    """An agent, what an agent has of itself, or a worker."""
    with contextlib.suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) in ("dtrain", "sleep")
    return False


def engines(stack, dtrain):
    lab = stack.enter_context(netlab.Lab(3))
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dtrain-bench-"))
    ssh = stack.enter_context(SshServers(lab, folder))
    environment = {**os.environ, "HOME": folder, "DTRAIN_SSH": ssh.command}
    shell = stack.enter_context(FarShell(lab, os.path.join(folder, "far"))).command

    def popen(words, **options):
        return lab.host(0).popen(words, env=environment, cwd=folder, **options)

    def left():
        return [pid for host in lab.hosts for pid in host.pids() if pid not in ssh.pids()]

    run = [dtrain, "run", "--quiet", "--nproc", "1"]

    def by_ssh(command):
        both = " & ".join(f"{ssh.command} -o BatchMode=yes {host} {' '.join(command)}" for host in ("host2", "host3"))
        return ["sh", "-c", f"{both} & wait"]

    yield Engine("ssh", popen, by_ssh, left, lambda *command: [dtrain, "run", "--quiet", "-H", "host2:1,host3:1",
                                                               *command])
    launchers = {
        "mpirun (Open MPI)": ["mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent", shell, "-N", "1", "-H",
                              "host2,host3"],
        "mpiexec (MPICH)": ["mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", shell, "-hosts", "host2,host3",
                            "-ppn", "1", "-n", "2"],
    }
    for name, words in launchers.items():
        yield Engine(name, popen, lambda command, words=words: [*words, *command], left,
                     lambda *command, words=words: [*words, *run, *command])
    network = stack.enter_context(netlab.Lab(1))
    cluster = stack.enter_context(Cluster(nodes=2, network=network.host(0)))

    def left_by_slurm():
        return [pid for pid, _ in cluster.left()]

    step = ["srun", "-N2"]
    yield Engine("srun (SLURM)", lambda words, **options: cluster.start(*words, **options),
                 lambda command: [*step, *command], left_by_slurm, lambda *command: [*step, *run, *command])


def left_here():
    """Agents of the cluster and what they run, on this host."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if ((b"dtrain\0agent" in words or words.startswith(b"sleep\0"))
                    and MARK.encode() in (entry / "environ").read_bytes().split(b"\0")):
                found.append(entry.name)
    return found


def on_cluster(name, dtrain, python, alone, **variables):
    environment = {**os.environ, **variables, "PYTHON_EXEC": python}
    return Engine(name, lambda words, **options: subprocess.Popen(words, env=environment, **options),
                  lambda command: [python, "-c", alone, *command], left_here,
                  lambda *command: [dtrain, "run", "--quiet", "--engine", name.lower(), "--nnodes", "2", "--nproc", "1",
                                    *command])


def on_spark(stack):
    """A master of Spark with two workers, as the environment of its programs."""
    spark = SparkCluster(MARK)
    stack.callback(spark.close)
    for _ in range(2):
        spark.add_worker(1)
    return {"MASTER": spark.address, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": SPARK_PYTHON,
            "JDK_JAVA_OPTIONS": CHEAP, "PYSPARK_SUBMIT_ARGS": OPTIONS + " pyspark-shell"}


def distributors(dtrain, runs):
    """{mode: {who: seconds}} of distributors.py, on a master with two workers."""
    build = pathlib.Path(dtrain).parents[1]
    torch = next((ROOT / ".venv").glob("lib/python*/site-packages"))
    with contextlib.ExitStack() as stack:
        environment = {**os.environ, **on_spark(stack), "PYTHONWARNINGS": "ignore",
                       "PYTHONPATH": f"{build / 'python'}:{torch}"}
        done = subprocess.run([SPARK_PYTHON, str(HERE / "distributors.py"), str(runs)], env=environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60 * DEADLINE)
    if done.returncode != 0:
        raise RuntimeError(f"distributors.py: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return {mode: {who: statistics.median(took) for who, took in of.items()}
            for mode, of in json.loads(done.stdout.splitlines()[-1]).items()}


def reform(dtrain, deaths):
    """{who: ms} of reform.py."""
    build = pathlib.Path(dtrain).parents[1]
    done = subprocess.run([ROOT / ".venv/bin/python", "-W", "ignore", HERE / "reform.py", build / "bin",
                           build / "test/bin", str(deaths)], text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=30 * DEADLINE)
    if done.returncode != 0:
        raise RuntimeError(f"reform.py: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return {who: statistics.median(took) for who, took in json.loads(done.stdout.splitlines()[-1]).items()}


def clusters(stack, dtrain):
    """One after the other, so that none is there when another one is measured."""
    with contextlib.ExitStack() as of_ray:
        cluster = RayCluster(MARK)
        of_ray.callback(cluster.close)
        for _ in range(2):
            cluster.add(num_cpus=2)
        yield on_cluster("Ray", dtrain, PYTHON, RAY_ALONE, RAY_ADDRESS=cluster.address)
    yield on_cluster("Spark", dtrain, SPARK_PYTHON, SPARK_ALONE, DTRAIN_SPARK=OPTIONS, **on_spark(stack))


def milliseconds(values):
    return 1000 * statistics.median(values)


def measure(args):
    figures = {}
    dtrain = os.path.abspath(os.path.join(args.bin, "dtrain"))
    with contextlib.ExitStack() as stack:
        for engine in itertools.chain(engines(stack, dtrain), clusters(stack, dtrain)):
            starts = engine.starts(args.runs)
            ends = [engine.gone() for _ in range(args.kills)]
            figures[engine.name] = {
                "alone_ms": milliseconds([alone for alone, _ in starts]),
                "with_dtrain_ms": milliseconds([both for _, both in starts]),
                "own_share_ms": milliseconds([both - alone for alone, both in starts]),
                "gone_ms": milliseconds([ours for ours, _ in ends]),
                "all_gone_ms": milliseconds([all_of_it for _, all_of_it in ends]),
            }
            print(engine.name, figures[engine.name], file=sys.stderr)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--kills", type=int, default=7)
    parser.add_argument("--functions", type=int, default=5)
    parser.add_argument("--deaths", type=int, default=5)
    add_outputs(parser)
    args = parser.parse_args()
    said = machine()
    figures = measure(args)
    dtrain = os.path.abspath(os.path.join(args.bin, "dtrain"))
    functions = distributors(dtrain, args.functions)
    again = reform(dtrain, args.deaths)
    bars = []
    rows = ["| engine | alone | with dtrain | dtrain's own share | agents and workers gone | all gone |",
            "|---|---|---|---|---|---|"]
    for name, of in figures.items():
        bars.append(judged(f"{name}: dtrain's own share", of["own_share_ms"], "<=", OWN_SHARE, "ms"))
        bars.append(judged(f"{name}: agents and workers gone after the submitter is killed", of["gone_ms"], "<=",
                           GONE.get(name, 1000), "ms"))
        rows.append("| {} | {alone_ms:.0f} ms | {with_dtrain_ms:.0f} ms | {own_share_ms:.0f} ms | {gone_ms:.0f} ms | "
                    "{all_gone_ms:.0f} ms |".format(name, **of))
    table = ["| a function as a job of two ranks | Spark's TorchDistributor | dtrain's | ratio |", "|---|---|---|---|"]
    for mode, took in functions.items():
        figures[f"distributor, {mode}"] = took
        ratio = took["TorchDistributor"] / took["dtrain"]
        bars.append(judged(f"TorchDistributor, {mode}: Spark's time over dtrain's", ratio, ">=", 1, ""))
        table.append(f"| {mode} | {took['TorchDistributor']:.1f} s | {took['dtrain']:.1f} s | {ratio:.1f} |")
    figures["reform"] = again
    ends = ["| a rank of four dies | until the first collective | beside torchrun |", "|---|---|---|"]
    for who in "C++", "Python":
        bars.append(judged(f"reform, {who}: from the death of a rank", again[who], "<=", REFORM, "ms"))
        ends.append(f"| the others go on, {who} | {again[who]:.0f} ms | {again['torchrun'] / again[who]:.0f}x |")
    ends.append(f"| torchrun is started again | {again['torchrun']:.0f} ms | 1x |")
    text = "\n\n".join([
        "## Start and end under engines",
        "`true` on two hosts, started by the engine alone, and as a worker of an agent that the engine starts. Medians "
        f"of {args.runs} pairs of runs; the share is the median of the differences. Then the submitter of a job that "
        f"sleeps gets SIGKILL: medians of {args.kills} jobs, until dtrain's processes and the workers are gone, and "
        "until the engine's own are too. The hosts are network namespaces of this machine, and ssh is a real one for "
        "dtrain; MPI's launchers reach their hosts by a program that takes the place of ssh. Ray's two nodes are "
        "raylets on this host, and Ray alone is a driver in Python that starts an actor on each. Spark's two workers "
        "are on this host too, and Spark alone is a driver with a barrier stage of two tasks.",
        bars_table(bars), "\n".join(rows),
        f"A function that returns at once, by `TorchDistributor(num_processes=2).run()` of each, in one session and by "
        f"turns: medians of {args.functions} pairs. Local is the driver's host; in the other mode Spark has two "
        "executors.", "\n".join(table),
        f"A rank of a job of four gets SIGKILL: medians of {args.deaths} deaths. With `dtrain run --survivors` the "
        "three others go on in the same processes. Beside that, torchrun is started again: its script only imports "
        "torch and reduces one number with gloo.", "\n".join(ends), " ".join(said)])
    put_out(args, "bench-engines", "start", text, figures)


if __name__ == "__main__":
    netlab.become_able()
    main()
