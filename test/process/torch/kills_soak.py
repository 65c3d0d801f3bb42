#!/usr/bin/env python3
"""Training goes on, whoever is killed: torch's DDP over four hosts of a lab, ROUNDS rounds of random kills.

    .venv/bin/python test/process/torch/kills_soak.py --rounds 50 [--seed 1] [--follows majority|etcd|nobody]

In each round, when all of its nodes make steps, something dies of SIGKILL: a worker, an agent, its guard or its front,
or all of a host at once; who is gone is started again. That may be the host of the job: another follows, by the choice
of a majority, or by an etcd on a fifth host; where `nobody` does it is spared. At the end the training has made every
step: in each round the steps follow each other from the last checkpoint on, all ranks agree, and no rank makes a step
in a round when another has begun a later one. Ends with 1 if not.
"""
import argparse
import collections
import contextlib
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "netlab"), str(HERE.parent / "launcher")]

from lab import netlab, new_token  # noqa: E402
from etcd_hosts import EtcdHosts  # noqa: E402
from hosts_test import Node  # noqa: E402
from cycles_soak import named  # noqa: E402
from steps import is_worker, judge, newest, notes  # noqa: E402
from support import DTRAIN, until  # noqa: E402

PORT = 29400
PATIENCE = 180  # seconds for a round to begin: importing torch takes its time
VICTIMS = {"agent": "dtrain-agent", "guard": "dt-guard", "front": "dtrain"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--follows", choices=["majority", "etcd", "nobody"], default="majority",
                        help="who hosts the job when its host is killed")
    parser.add_argument("--story", default="kills_soak.log", help="where to write what all agents and workers said")
    return parser.parse_args()


class Training:
    def __init__(self, lab, hosts, folder, follows):
        """On the first `hosts` of the lab's hosts; the next one is etcd's."""
        self.folder, self.follows = folder, follows
        self.token, self.endpoint = new_token(DTRAIN, folder), f"{lab.host(0).ipv4}:{PORT}"
        if follows == "etcd":
            self.endpoint = EtcdHosts(lab.hosts[hosts:], folder).endpoint
        self.all = []  # those that have ended, too
        self.nodes = [self.start(host, hosts) for host in lab.hosts[:hosts]]

    def start(self, host, most):
        backend = "etcd" if self.follows == "etcd" else "c10d"
        conf = "last_call_timeout=1" + (",succession=0" if self.follows == "nobody" else "")
        words = ["run", "--token-file", self.token, "--nnodes", f"1:{most}", "--rdzv-backend", backend,
                 "--rdzv-endpoint", self.endpoint, "--rdzv-id", "kills", "--rdzv-conf", conf, "--max-restarts",
                 "100000", "--log-dir", "/dev/null", HERE / "kills_worker.py", self.folder]
        node = Node(host, words, env={**os.environ, "PYTHON_EXEC": sys.executable, "PYTHONWARNINGS": "ignore"})
        self.all.append(node)
        return node

    def story(self, path):
        """What all agents and workers have said, in the order of time."""
        lines = sorted((when, node.process.pid, node.host.name, line)
                       for node in self.all for when, line in list(node.times))
        with open(path, "w") as f:
            f.writelines(f"{when:.3f} {host} {pid} {line}" for when, pid, host, line in lines)

    def hosting(self):
        """(since when, which node, where it meets the others): the last one that has said that it hosts the job."""
        said = [(when, node, found[1]) for node in self.all for when, line in list(node.times)
                if (found := re.search(r"hosts the job, at (\S+)", line))]
        return max(said, key=lambda one: one[0]) if said else (0.0, self.nodes[0], self.endpoint)

    def kill(self, chance):
        """Something of somebody; who is gone begins anew. What it was."""
        what = chance.choice(["worker", "agent", "guard", "front", "host"])
        since, host, _ = self.hosting()
        spared = self.follows == "nobody" and what != "worker"
        number = chance.choice([i for i, node in enumerate(self.nodes) if not (spared and node is host)])
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
            if node is host:
                until(lambda: self.hosting()[0] > since, PATIENCE, "another host of the job")
            if self.follows == "majority":  # who is started anew must be told where the job is now
                self.endpoint = self.hosting()[2]
            self.nodes[number] = self.start(node.host, len(self.nodes))
        return f"{what} of {node.host.name}" + (", the host of the job" if node is host else "")


def run(training, rounds, chance, kills):
    """Kill, and see it go on; what went wrong."""
    folder, seen = training.folder, -1
    # So that those who are left when one dies can choose.
    world = len(training.nodes) if training.follows == "majority" else None
    try:
        for _ in range(rounds):
            least = chance.randrange(1, 40)
            until(lambda: newest(folder, least, world) > seen, PATIENCE, f"a round after {seen}")
            seen = newest(folder)
            what = training.kill(chance)
            kills[what.split()[0]] += 1
            print(f"{time.monotonic():.1f} round {seen}: killed the {what}", flush=True)
        until(lambda: newest(folder, world=world) > seen, PATIENCE, "the last round")
        pathlib.Path(folder, "end").touch()
        codes = [node.process.wait(PATIENCE) for node in training.nodes]
        return [f"exit codes {codes}"] if any(codes) else []
    except (AssertionError, subprocess.TimeoutExpired) as error:
        return [str(error)]
    finally:
        for node in training.nodes:
            node.process.kill()
            node.process.wait(PATIENCE)


def main():
    args = arguments()
    chance = random.Random(args.seed)
    try:
        lab = netlab.Lab(args.hosts + (args.follows == "etcd"))
    except netlab.Unavailable as error:
        print(error)
        return 77
    kills = collections.Counter()
    with lab, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        training = Training(lab, args.hosts, folder, args.follows)
        wrong = run(training, args.rounds, chance, kills)
        made = notes(folder)
        wrong += judge(folder, max((step for _, step, *_ in made), default=0))
        training.story(args.story)
    print(f"{len({number for number, *_ in made})} rounds, {len(made)} steps of all ranks, killed {dict(kills)}: "
          + ("every step was made once a round, in order" if not wrong else "; ".join(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
