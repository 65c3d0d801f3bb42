"""Faults in a lab of three hosts, two of which are enough: how soon the others know, and how soon they run again.
dtrain and torchrun in the same lab, with their defaults."""
import contextlib
import math
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import threading
import time

import netlab

NODES = 3
PORT = 29400
# Says that it runs, and when it is told to stop; waits without a process of its own.
WORKER = r"""
trap 'echo "told"; exit 3' TERM
echo "up $WORLD_SIZE"
exec 4<> <(:)
while :; do read -r -t 60 -u 4; done
"""


class Node:
    """One node's command, and when it said what."""

    def __init__(self, process):
        self.process = process
        self.lines = []  # (when, text)
        self.said = threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        with self.process.stdout as out:
            for line in out:
                with self.said:
                    self.lines.append((time.monotonic(), line.decode(errors="replace")))
                    self.said.notify_all()

    def when(self, pattern, after, until):
        """The moment of the first such line after that moment; None: it did not come until then."""
        def found():
            return next((t for t, text in list(self.lines) if t >= after and re.search(pattern, text)), None)
        with self.said:
            self.said.wait_for(lambda: found() is not None, max(0, until - time.monotonic()))
        return found()


def last(times):
    times = list(times)
    return None if None in times else max(times)


def agents_of(host):
    """dtrain's agent, or torchrun itself, which newer versions name after themselves."""
    found = []
    for pid in host.pids():
        try:
            name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue
        if name in ("dtrain-agent", "torchrun", "pt_elastic"):
            found.append(pid)
    return found


def kill_agent(lab, host):
    agents = agents_of(host)
    if not agents:
        raise SystemExit("there is no agent to kill")
    for pid in agents:
        os.kill(pid, signal.SIGKILL)


def cut(lab, host):
    lab.cut(host.name)


# What happens, and to which host; the job meets at the first.
FAULTS = {"agent killed": (kill_agent, 2), "host silent": (cut, 2), "the job's host silent": (cut, 0)}


def one_fault(command, fault, limit):
    """Seconds until the workers of both survivors were told to stop, and until both run again; None: not in `limit`."""
    with netlab.Lab(NODES) as lab:
        hosts = [lab.host(i) for i in range(NODES)]
        nodes = [Node(host.popen(command(i), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 stdin=subprocess.DEVNULL)) for i, host in enumerate(hosts)]
        try:
            if last(node.when(f"up {NODES}", 0, time.monotonic() + 120) for node in nodes) is None:
                raise SystemExit("the nodes did not come together: " + repr([node.lines for node in nodes]))
            break_it, victim = FAULTS[fault]
            others = nodes[:victim] + nodes[victim + 1:]
            # At any moment between two pings.
            threading.Event().wait(random.uniform(0, 1))
            begin = time.monotonic()
            break_it(lab, hosts[victim])
            broken = time.monotonic()
            told = last(node.when("told", begin, begin + limit) for node in others)
            again = last(node.when(f"up {NODES - 1}", begin, begin + limit) for node in others)
            return [None if moment is None else moment - broken for moment in (told, again)]
        finally:
            for host in hosts:
                for pid in host.pids():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            for node in nodes:
                node.process.wait(60)


def summary(values, limit):
    seen = sorted(v for v in values if v is not None)
    if len(seen) < len(values):
        return f"not in {limit} s" + (f" ({len(values) - len(seen)} of {len(values)})" if seen else "")
    rare = f", p99 {seen[math.ceil(0.99 * len(seen)) - 1]:.3f} s" if len(seen) >= 100 else ""
    return f"{statistics.median(seen):.3f} s{rare}" + (f", at most {seen[-1]:.3f} s" if len(seen) > 1 else "")


def measure(dtrain, torchrun, token, runs, say):
    commands = {"dtrain": lambda i: [
        dtrain, "run", "--nnodes", f"{NODES - 1}:{NODES}", "--rdzv-backend", "c10d", "--rdzv-endpoint",
        f"host1:{PORT}", "--token-file", token, "--nproc", "1", "bash", "-c", WORKER]}
    if torchrun:
        commands["torchrun"] = lambda i: [
            torchrun, "--nnodes", f"{NODES - 1}:{NODES}", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"host1:{PORT}",
            "--rdzv-conf", f"is_host={int(i == 0)}", "--rdzv-id", "bench", "--nproc-per-node", "1", "--max-restarts",
            "3", "--no-python", "bash", "-c", WORKER]
    figures = {}
    for fault in FAULTS:
        for name, command in commands.items():
            count, limit = (runs, 30) if name == "dtrain" else (1, 60)
            pairs = [one_fault(command, fault, limit) for _ in range(count)]
            told, again = zip(*pairs)
            figures[f"{fault}, {name}"] = {"told_s": told, "again_s": again}
            say(f"{fault}, {name} ({count} runs): the others are told after {summary(told, limit)}; both run again "
                f"after {summary(again, limit)}")
    return figures
