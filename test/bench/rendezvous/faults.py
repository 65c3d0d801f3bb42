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
from concurrent.futures import ThreadPoolExecutor

import netlab

NODES = 3
WORKERS = 2  # of each
PORT = 29400
AT_ONCE = 4  # labs: most of a fault is waiting
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

    def when(self, pattern, count, after, until):
        """The moment when so many such lines have come after that moment; infinity: they did not until then."""
        def found():
            times = [t for t, text in list(self.lines) if t >= after and re.search(pattern, text)]
            return times[count - 1] if len(times) >= count else math.inf
        with self.said:
            self.said.wait_for(lambda: found() < math.inf, max(0, until - time.monotonic()))
        return found()


def processes(host, *names):
    found = []
    for pid in host.pids():
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() in names:
                found.append(pid)
    if not found:
        raise SystemExit(f"there is no {names[0]} to kill")
    return found


def kill_worker(lab, host):
    os.kill(min(processes(host, "bash")), signal.SIGKILL)  # the oldest: it may have a child for a moment


def kill_agent(lab, host):
    """dtrain's agent, or torchrun itself, which newer versions name after themselves."""
    for pid in processes(host, "dtrain-agent", "torchrun", "pt_elastic"):
        os.kill(pid, signal.SIGKILL)


def cut(lab, host):
    lab.cut(host.name)


# What happens, to which host (the job meets at the first), and how many hosts go on.
FAULTS = {"worker killed": (kill_worker, 2, 3), "agent killed": (kill_agent, 2, 2), "host silent": (cut, 2, 2),
          "the job's host silent": (cut, 0, 2)}


def one_fault(command, fault, limit):
    """Seconds until the workers of all who go on were told to stop, until they run again, and until those of a host
    that was cut off were told to stop there; infinity: not in `limit`."""
    break_it, victim, stay = FAULTS[fault]
    with netlab.Lab(NODES) as lab:
        hosts = [lab.host(i) for i in range(NODES)]
        nodes = [Node(host.popen(command(i), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 stdin=subprocess.DEVNULL)) for i, host in enumerate(hosts)]

        def all_say(pattern, count_of, after, seconds):
            end = after + seconds
            return max(node.when(pattern, count_of(i), after, end) for i, node in enumerate(nodes)
                       if i != victim or stay == NODES)
        try:
            begin = time.monotonic()
            if max(node.when(f"up {NODES * WORKERS}", WORKERS, begin, begin + 120) for node in nodes) == math.inf:
                raise SystemExit("the nodes did not come together: " + repr([node.lines for node in nodes]))
            # Any moment between two pings; a first round cannot be followed in its first moment (ADR 0510).
            threading.Event().wait(random.uniform(0.2, 1.2))
            begin = time.monotonic()
            break_it(lab, hosts[victim])
            broken = time.monotonic()
            told = all_say("told", lambda i: WORKERS - (i == victim), begin, limit)
            again = all_say(f"up {stay * WORKERS}", lambda i: WORKERS, begin, limit)
            there = nodes[victim].when("told", WORKERS, begin, begin + limit) if break_it is cut else broken
            return told - broken, again - broken, there - broken
        finally:
            for host in hosts:
                for pid in host.pids():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            for node in nodes:
                node.process.wait(60)


def p99(values):
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def summary(values, limit):
    late = sum(v == math.inf for v in values)
    if late:
        return f"not in {limit} s" + (f" ({late} of {len(values)})" if late < len(values) else "")
    rare = f", p99 {p99(values):.3f} s" if len(values) >= 100 else ""
    worst = f", at most {max(values):.3f} s" if len(values) > 1 else ""
    return f"after {statistics.median(values):.3f} s{rare}{worst}"


def commands_of(dtrain, torchrun, token):
    elastic = ["--nnodes", f"{NODES - 1}:{NODES}", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"host1:{PORT}",
               "--max-restarts", "3"]
    commands = {"dtrain": lambda i: [dtrain, "run", *elastic, "--token-file", token, "--nproc", str(WORKERS), "bash",
                                     "-c", WORKER]}
    if torchrun:
        commands["torchrun"] = lambda i: [
            torchrun, *elastic, "--rdzv-conf", f"is_host={int(i == 0)}", "--rdzv-id", "bench", "--nproc-per-node",
            str(WORKERS), "--no-python", "bash", "-c", WORKER]
    return commands


def measure(dtrain, torchrun, token, runs, say):
    """Seconds of dtrain's: the 99th percentile where there are enough runs for one, else the worst."""
    judge = p99 if runs >= 100 else max
    say(f"{NODES} hosts of {WORKERS} workers, {NODES - 1} are enough; {AT_ONCE} such labs at a time. A fault comes at "
        "any moment between two pings,\nbut not in a round's first 0.2 s. Bars are judged by "
        + ("the 99th percentile" if judge is p99 else "the worst run: a 99th percentile needs 100"))
    figures = {}
    for name, command in commands_of(dtrain, torchrun, token).items():
        count, limit = (runs, 30) if name == "dtrain" else (1, 60)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            tries = {fault: [pool.submit(one_fault, command, fault, limit) for _ in range(count)] for fault in FAULTS}
        for fault, done in tries.items():
            told, again, there = zip(*(one.result() for one in done))
            own = f"; its own workers told to stop {summary(there, limit)}" if FAULTS[fault][0] is cut else ""
            say(f"{fault}, {name} ({count} runs): known to all {summary(told, limit)};\n"
                f"  all run again {summary(again, limit)}{own}")
            if name == "dtrain":
                figures.update({f"{fault}: known to all": judge(told), f"{fault}: all run again": judge(again),
                                f"{fault}: its own workers told to stop": judge(there)})
    return figures
