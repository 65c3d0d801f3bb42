#!/usr/bin/env python3
"""Jobs of several nodes: their links, how many nodes a job can have, the store across nodes, the start of a job.

    run.py --build build [--only rounds,tls,agents,store,start] [--runs 3] [--agents 10000] [--json out.json]

rounds  the machine that decides who is in a round, alone (rounds_bench)
tls     handshakes and bytes of encrypted links, in one thread and without sockets (tls_bench)
agents  a job of --agents nodes whose agents are links in two processes, over loopback (agents_bench)
store   one store, and one edge of it, each a process, on loopback. Runs alternate between the two; printed are
        medians: the time of one ADD, ADDs per second of 16 clients, and the bytes of large replies and requests per
        second. The CPU time of store and edge together says what a gigabyte costs.
start   a job of eight nodes, each on a host of its own in a lab of network namespaces, from the first command to the
        last worker's first word; the same with torchrun where there is one, on one host
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCE / "test" / "support")]

import netlab  # noqa: E402

NODES = 8
WORKER = "echo user code"


class Serve:
    def __init__(self, program, *flags):
        self.process = subprocess.Popen([program, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = self.process.stdout.readline().strip()

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def store(args):
    client = os.path.join(args.build, "bin", "store_client")
    serve = os.path.join(args.build, "test", "bin", "store_serve")
    host = Serve(serve, "--links", "1")
    edge = Serve(serve, "--relay", host.port)
    ports = {"direct": host.port, "one edge": edge.port}

    def measure(port, mode, *words):
        before = host.cpu_seconds() + edge.cpu_seconds()
        out = subprocess.run([client, mode, port, *map(str, words)], check=True, capture_output=True, text=True,
                             timeout=300).stdout
        return [float(word) for word in out.split()], host.cpu_seconds() + edge.cpu_seconds() - before

    figures = {name: {} for name in ports}
    rows = {name: {"latency": [], "load": [], "get": [], "set": [], "cpu": []} for name in ports}
    for _ in range(args.runs):
        for name, port in ports.items():
            row = rows[name]
            row["latency"].append(measure(port, "latency", args.operations)[0])
            row["load"].append(measure(port, "load", 16, args.seconds)[0][0])
            (rate,), cpu = measure(port, "get", 16, args.seconds)
            row["get"].append(rate)
            row["cpu"].append(cpu / (rate * args.seconds))
            row["set"].append(measure(port, "set", 16, args.seconds)[0][0])
    for name, row in rows.items():
        figures[name] = {
            "add_us_median": statistics.median(pair[0] for pair in row["latency"]),
            "add_us_p99": statistics.median(pair[1] for pair in row["latency"]),
            "adds_per_s_16_clients": statistics.median(row["load"]),
            "get_gb_per_s": statistics.median(row["get"]),
            "set_gb_per_s": statistics.median(row["set"]),
            "servers_cpu_s_per_gb_got": statistics.median(row["cpu"]),
        }
    edge.stop()
    host.stop()
    print(f"{'':<28}{'direct':>12}{'one edge':>12}")
    for key in figures["direct"]:
        print(f"{key:<28}{figures['direct'][key]:>12.2f}{figures['one edge'][key]:>12.2f}")
    added = figures["one edge"]["add_us_median"] - figures["direct"]["add_us_median"]
    print(f"the edge adds {added:.1f} us to an operation")
    return figures


def rounds(args):
    subprocess.run([os.path.join(args.build, "bin", "rounds_bench")], check=True, timeout=600)


def tls(args):
    subprocess.run([os.path.join(args.build, "bin", "tls_bench")], check=True, timeout=300)


def agents(args):
    for flags in ([], ["--plain"]):
        program = os.path.join(args.build, "bin", "agents_bench")
        subprocess.run([program, "--agents", str(args.agents), *flags], check=True, timeout=400)


def first_words(start_one, nodes):
    """Seconds from the start of the first node's command to the moment when workers of all nodes have spoken."""
    begin = time.monotonic()
    processes = [start_one(node) for node in range(nodes)]
    try:
        for process in processes:
            while line := process.stdout.readline():
                if b"user code" in line:
                    break
            else:
                raise SystemExit(f"a node ended with {process.wait()} before its worker spoke")
        took = time.monotonic() - begin
        for process in processes:
            process.communicate(timeout=120)
        return took
    finally:
        for process in processes:
            if process.poll() is None:
                process.terminate()
                process.wait(60)


def start(args):
    figures = {}
    dtrain = os.path.join(args.build, "bin", "dtrain")
    with tempfile.TemporaryDirectory() as folder, netlab.Lab(NODES) as lab:
        token = os.path.join(folder, "token")
        subprocess.run([dtrain, "token", "--new", "--file", token], check=True, stdout=subprocess.DEVNULL)

        def node(number):
            return lab.host(number).popen(
                [dtrain, "run", "--nnodes", str(NODES), "--rdzv-backend", "c10d", "--rdzv-endpoint", "host1:29400",
                 "--token-file", token, "--nproc", "1", "sh", "-c", WORKER], stdout=subprocess.PIPE)
        figures["dtrain"] = statistics.median(first_words(node, NODES) for _ in range(args.runs))
    print(f"{NODES} hosts, from command to user code: dtrain {figures['dtrain']:.3f} s", flush=True)
    torchrun = os.path.join(SOURCE, ".venv", "bin", "torchrun")
    if not os.path.exists(torchrun):
        print("  no torchrun to compare with")
        return figures
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    def peer(number):
        return subprocess.Popen(
            [torchrun, "--nnodes", str(NODES), "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}",
             "--rdzv-id", "bench", "--nproc-per-node", "1", "--no-python", "sh", "-c", WORKER],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    figures["torchrun"] = first_words(peer, NODES)
    print(f"{NODES} nodes on one host, from command to user code: torchrun {figures['torchrun']:.1f} s (one run)")
    return figures


PARTS = {"rounds": rounds, "tls": tls, "agents": agents, "store": store, "start": start}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="a build folder with -DDTRAIN_BENCH=ON")
    parser.add_argument("--only", default=",".join(PARTS), help="some of the parts, separated by commas")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--agents", type=int, default=10000)
    parser.add_argument("--operations", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--json", help="also write the figures of the store and the start to this file")
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    figures = {}
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}", flush=True)
    for name in args.only.split(","):
        print(f"== {name}", flush=True)
        figures[name] = PARTS[name](args)
    if args.json:
        with open(args.json, "w") as out:
            json.dump(figures, out, indent=2)


if __name__ == "__main__":
    main()
