#!/usr/bin/env python3
"""Training goes on, whoever is killed: torch's DDP over four hosts of a lab, ROUNDS rounds of random kills.

    .venv/bin/python test/process/torch/kills_soak.py --rounds 50 [--seed 1]

In each round, when all of its nodes make steps, something dies of SIGKILL: a worker, an agent, its guard or its front,
or all of a host at once (never that of the job); who is gone is started again. At the end the training has made every
step: in each round the steps follow each other from the last checkpoint on, all ranks agree, and no rank makes a step
in a round when another has begun a later one. Ends with 1 if not.
"""
import argparse
import collections
import contextlib
import glob
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "netlab"), str(HERE.parent / "launcher")]

from lab import netlab, new_token  # noqa: E402
from hosts_test import Node  # noqa: E402
from cycles_soak import named  # noqa: E402
from support import DTRAIN, until  # noqa: E402

PATIENCE = 180  # seconds for a round to begin: importing torch takes its time
VICTIMS = {"agent": "dtrain-agent", "guard": "dt-guard", "front": "dtrain"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--story", default="kills_soak.log", help="where to write what all agents and workers said")
    return parser.parse_args()


def notes(folder):
    """(round, step, rank, world, time) of each step of each rank."""
    found = []
    for name in glob.glob(os.path.join(folder, "steps-*")):
        with open(name) as f:
            found += [(int(r), int(s), int(k), int(w), float(t)) for r, s, k, w, t in
                      (line.split() for line in f if line.endswith("\n"))]
    return found


def newest(folder, least=1):
    """The newest round all of whose ranks have made so many steps, or -1."""
    ranks = collections.defaultdict(collections.Counter)
    for number, step, rank, world, _ in notes(folder):
        ranks[number, world][rank] += 1
    return max((number for (number, world), made in ranks.items()
                if len(made) == world and min(made.values()) >= least), default=-1)


def judge(folder, last):
    """What is wrong with the steps that were made; empty: nothing."""
    rounds = collections.defaultdict(list)
    for number, step, rank, world, when in notes(folder):
        rounds[number].append((step, rank, world, when))
    wrong, reached, end = [], 0, 0.0
    for number, made in sorted(rounds.items()):
        steps = sorted({step for step, *_ in made})
        if steps != list(range(steps[0], steps[-1] + 1)):
            wrong.append(f"round {number}: steps are missing among {steps[0]} to {steps[-1]}")
        if steps[0] > reached + 1 or steps[0] % 5 != 1:
            wrong.append(f"round {number} begins with step {steps[0]}, {reached} were made")
        if len({world for _, _, world, _ in made}) != 1:
            wrong.append(f"round {number}: ranks disagree about the world's size")
        if min(when for *_, when in made) <= end:
            wrong.append(f"round {number} began before the one before had ended")
        reached, end = max(reached, steps[-1]), max(when for *_, when in made)
    return wrong if reached == last else [*wrong, f"{reached} steps of {last}"]


class Training:
    def __init__(self, lab, folder, last):
        self.lab, self.folder, self.last = lab, folder, last
        self.token = new_token(DTRAIN, folder)
        self.all = []  # those that have ended, too
        self.nodes = [self.start(host) for host in lab.hosts]

    def start(self, host):
        words = ["run", "--token-file", self.token, "--nnodes", f"1:{len(self.lab.hosts)}", "--rdzv-backend", "c10d",
                 "--rdzv-endpoint", "host1:29400", "--rdzv-conf", "last_call_timeout=1", "--max-restarts", "100000",
                 "--log-dir", "/dev/null", HERE / "kills_worker.py", self.folder, self.last]
        node = Node(host, words, env={**os.environ, "PYTHON_EXEC": sys.executable, "PYTHONWARNINGS": "ignore"})
        self.all.append(node)
        return node

    def story(self, path):
        """What all agents and workers have said, in the order of time."""
        lines = sorted((when, node.process.pid, node.host.name, line)
                       for node in self.all for when, line in list(node.times))
        with open(path, "w") as f:
            f.writelines(f"{when:.3f} {host} {pid} {line}" for when, pid, host, line in lines)

    def kill(self, chance):
        """Something of somebody; who is gone begins anew. What it was."""
        what = chance.choice(["worker", "agent", "guard", "front", "host"])
        number = chance.randrange(0 if what == "worker" else 1, len(self.nodes))
        node = self.nodes[number]
        if what == "host":
            for pid in node.host.pids():
                with contextlib.suppress(ProcessLookupError):  # with the one before it
                    os.kill(pid, signal.SIGKILL)
        elif what == "worker":
            worker = until(lambda: [p for p in node.host.pids() if is_worker(p)], PATIENCE, "a worker")[0]
            os.kill(worker, signal.SIGKILL)
        else:
            os.kill(until(lambda: named(node.host, VICTIMS[what]), PATIENCE, what)[0], signal.SIGKILL)
        if what != "worker":
            node.wait()
            until(lambda: not node.host.pids(), PATIENCE, "the end of all on that host")
            self.nodes[number] = self.start(node.host)
        return f"{what} of host{number + 1}"


def is_worker(pid):
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"run" not in words and any(word.endswith(b"kills_worker.py") for word in words)


def run(training, rounds, chance, kills):
    """Kill, and see it go on; what went wrong."""
    folder, seen = training.folder, -1
    try:
        for _ in range(rounds):
            least = chance.randrange(1, 40)
            until(lambda: newest(folder, least) > seen, PATIENCE, f"a round after {seen}")
            seen = newest(folder)
            what = training.kill(chance)
            kills[what.split()[0]] += 1
            print(f"{time.monotonic():.1f} round {seen}: killed the {what}", flush=True)
        until(lambda: newest(folder) > seen, PATIENCE, "the last round")
    except AssertionError as error:
        return [str(error)]
    finally:
        for node in training.nodes:
            node.process.send_signal(signal.SIGTERM)
        for node in training.nodes:
            node.process.wait(PATIENCE)
    return []


def main():
    args = arguments()
    chance = random.Random(args.seed)
    try:
        lab = netlab.Lab(args.hosts)
    except netlab.Unavailable as error:
        print(error)
        return 77
    kills = collections.Counter()
    with lab, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        training = Training(lab, folder, last=1000000)
        wrong = run(training, args.rounds, chance, kills)
        made = notes(folder)
        wrong += judge(folder, max((step for _, step, *_ in made), default=0))
        training.story(args.story)
    print(f"{len({number for number, *_ in made})} rounds, {len(made)} steps of all ranks, killed {dict(kills)}: "
          + ("every step was made once a round, in order" if not wrong else "; ".join(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
