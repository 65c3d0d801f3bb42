#!/usr/bin/env python3
"""Jobs by the thousand, ended in every way there is: nothing may be left of any of them.

    test/process/netlab/cycles_soak.py --cycles 2000 [--seed 1]

Each cycle is a job of one host or of two hosts of a lab, and an ending: success, a worker's failure, Ctrl-C, SIGTERM,
SIGKILL of a front, an agent, a guard or a worker. After each, both hosts must be empty within seconds: no process, no
listening port, nothing in /dev/shm, no cgroup; and this program has as many descriptors as before. Temporary files are
what --log-dir has been told to keep: none. Prints a line for each kind of cycle; ends with 1 if anything was left.
"""
import argparse
import collections
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from lab import netlab, new_token
from hosts_test import Node
from support import DTRAIN, comm_of, until

PORT = 29400
GONE = 15  # seconds; a guard that loses its agent has eight for processes that do not die
SCRIPTS = {"success": "echo ready; exit 0", "failure": "echo ready; [ $RANK = 0 ] && exit 7; exec sleep 60"}
WAITS = "echo ready; exec sleep 60"
# With the exit codes of the fronts: of two, one may hear of the other's end, or be killed itself.
ENDINGS = {"success": {0}, "failure": {7}, "INT": {130, -signal.SIGINT}, "TERM": {143, -signal.SIGTERM},
           "front": {125, -signal.SIGKILL}, "agent": {125}, "guard": {125}, "worker": {137}}
COMMANDS = {"agent": "dtrain-agent", "guard": "dt-guard", "worker": "sleep"}
CGROUPS = "/sys/fs/cgroup"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def named(host, name):
    """The processes of a host that are called so."""
    return [pid for pid in host.pids() if comm_of(pid) == name]


def cgroups():
    return {os.path.join(folder, name) for folder, names, _ in os.walk(CGROUPS) for name in names
            if name.startswith("dtrain-soak")}


def listening(host):
    ports = []
    for file in ("tcp", "tcp6"):
        # A thread's network is its own: /proc/thread-self, not /proc/self.
        with host.network(), open(f"/proc/thread-self/net/{file}") as f:
            ports += [line.split()[1] for line in f.readlines()[1:] if line.split()[3] == "0A"]
    return ports


def left(hosts, before):
    found = []
    for host in hosts:
        found += [f"{host.name}: process {pid}" for pid in host.pids()]
        found += [f"{host.name}: port {port}" for port in listening(host)]
        for folder in ("/dev/shm", "/run/tmp"):
            found += [f"{host.name}: {folder}/{name}" for name in os.listdir(host.path(folder))]
    return found + sorted(cgroups() - before)


def end(ending, nodes, chance):
    node = chance.choice(nodes)
    if ending in ("INT", "TERM"):
        for each in nodes:
            each.process.send_signal(getattr(signal, f"SIG{ending}"))
    elif ending == "front":
        node.process.kill()
    elif ending in COMMANDS:
        # A worker has said that it is ready before it is what it will be.
        os.kill(until(lambda: named(node.host, COMMANDS[ending]), GONE, COMMANDS[ending])[0], signal.SIGKILL)


def cycle(hosts, several, ending, token, chance):
    """The exit codes."""
    script = SCRIPTS.get(ending, WAITS)
    flags = ["--log-dir", "/dev/null", "--rdzv-id", "soak", "--nproc", "2"]
    if several:
        flags += ["--token-file", token, "--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"host1:{PORT}",
                  "--rdzv-conf", "rejoin=0"]  # nobody is waited for
    nodes = [Node(host, ["run", *flags, "sh", "-c", script]) for host in (hosts if several else hosts[:1])]
    try:
        for node in nodes:
            if ending == "failure":
                until(lambda n=node: "ready" in n.text or n.process.poll() is not None, 60, "ready")
            else:
                node.expect(r"ready\n(.*\n)*.*ready")
        end(ending, nodes, chance)
        return [node.wait() for node in nodes]
    finally:
        for node in nodes:
            if node.process.poll() is None:
                node.process.kill()
                node.process.wait()


def main():
    args = arguments()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would ours
    try:
        lab = netlab.Lab(2)
    except netlab.Unavailable as error:
        print(error)
        return 77
    chance, failures = random.Random(args.seed), []
    times, codes = collections.defaultdict(list), collections.defaultdict(collections.Counter)
    with lab, tempfile.TemporaryDirectory() as folder:
        token, hosts = new_token(DTRAIN, folder), lab.hosts
        descriptors, before = None, cgroups()
        for number in range(args.cycles):
            kind = (number % 2 == 1, list(ENDINGS)[number // 2 % len(ENDINGS)])
            begin = time.monotonic()
            try:
                ended = cycle(hosts, *kind, token, chance)
                codes[kind].update(ended)
                if not set(ended) <= ENDINGS[kind[1]]:
                    raise AssertionError(f"exit codes {ended}")
                until(lambda: not left(hosts, before), GONE, "the end")
            except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
                failures.append(f"cycle {number}, {kind}: {error!r}: {left(hosts, before)}")
                print(failures[-1], flush=True)
            times[kind].append(time.monotonic() - begin)
            have = len(os.listdir("/proc/self/fd"))
            descriptors = descriptors or have
            if number >= 32 and have > descriptors + 4:
                failures.append(f"cycle {number}: {have} descriptors here, {descriptors} at first")
                print(failures[-1])
                break
            if number % 100 == 99:
                print(f"{number + 1} cycles, {len(failures)} with something left", flush=True)
    for (several, ending), took in sorted(times.items()):
        print(f"{'two hosts' if several else 'one host':10} {ending:8} {len(took):5} cycles, "
              f"{sorted(took)[len(took) // 2]:.2f} s, at most {max(took):.2f} s, exit codes "
              f"{dict(sorted(codes[several, ending].items()))}")
    print(f"{args.cycles} cycles: {len(failures)} with something left or a wrong exit code")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
