#!/usr/bin/env python3
"""Jobs of several nodes: their links, how many nodes a job can have, the store across nodes, the start of a job.

    run.py --build build [--only rounds,tls,agents,store,barrier,start] [--runs 3] [--agents 10000] [--json out.json]

rounds  the machine that decides who is in a round, alone (rounds_bench)
tls     handshakes and bytes of encrypted links, in one thread and without sockets (tls_bench)
agents  a job of --agents nodes whose agents are links in two processes, over loopback (agents_bench)
store   one store, and edges of it over a link in clear and an encrypted one, each a process, on loopback. Runs
        alternate between them; printed are medians: the time of one ADD, ADDs per second of 16 clients, the bytes of
        large replies and requests per second, and how many an edge forwards in a second of its CPU time
barrier a barrier of --workers workers behind 64 edges, and a value of 4 KiB that all of them get; played by one
        process over real links
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
    """A store_node; its ports: of its workers, and at a host that of other nodes."""

    def __init__(self, args, *words):
        program = os.path.join(args.build, "bin", "store_node")
        self.process = subprocess.Popen([program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ports = self.process.stdout.readline().split()

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self):
        with open(f"/proc/{self.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def new_token(args, folder):
    token = os.path.join(folder, "token")
    dtrain = os.path.join(args.build, "bin", "dtrain")
    subprocess.run([dtrain, "token", "--new", "--file", token], check=True, stdout=subprocess.DEVNULL)
    return token


def store(args):
    with tempfile.TemporaryDirectory() as folder:
        links = {"edge, clear": "-", "edge, TLS": new_token(args, folder)}
        hosts = {name: Serve(args, "host", token) for name, token in links.items()}
        edges = {name: Serve(args, "edge", token, hosts[name].ports[1]) for name, token in links.items()}
    try:
        return measure_store(args, hosts, edges)
    finally:
        for server in [*edges.values(), *hosts.values()]:
            server.stop()


def measure_store(args, hosts, edges):
    client = os.path.join(args.build, "bin", "store_client")
    ports = {"direct": hosts["edge, clear"].ports[0], **{name: edge.ports[0] for name, edge in edges.items()}}

    def measure(name, mode, *words):
        before = edges[name].cpu_seconds() if name in edges else 0
        out = subprocess.run([client, mode, ports[name], *map(str, words)], check=True, capture_output=True, text=True,
                             timeout=300).stdout
        return [float(word) for word in out.split()], edges[name].cpu_seconds() - before if name in edges else 0

    rows = {name: {} for name in ports}
    for _ in range(args.runs):
        for name, row in rows.items():
            (median, p99), _ = measure(name, "latency", args.operations)
            figures = {"add_us_median": median, "add_us_p99": p99,
                       "adds_per_s_16_clients": measure(name, "load", 16, args.seconds)[0][0]}
            for mode in ("get", "set"):
                (rate,), cpu = measure(name, mode, 16, args.seconds)
                figures[f"{mode}_gb_per_s"] = rate
                if name in edges:
                    figures[f"{mode}_gb_per_cpu_s_of_edge"] = rate * args.seconds / cpu
            for key, value in figures.items():
                row.setdefault(key, []).append(value)
    medians = {name: {key: statistics.median(values) for key, values in row.items()} for name, row in rows.items()}
    print(" " * 28 + "".join(f"{name:>13}" for name in medians))
    for key in medians["edge, TLS"]:
        print(f"{key:<28}" + "".join(f"{row[key]:>13.2f}" if key in row else f"{'':>13}" for row in medians.values()))
    for name in edges:
        added = medians[name]["add_us_median"] - medians["direct"]["add_us_median"]
        print(f"{name}: adds {added:.1f} us to an operation")
    return medians


def barrier(args):
    program = os.path.join(args.build, "bin", "edges_bench")
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        token = new_token(args, folder)
        for name, flags in {"as it is": [], "at most": ["--merged"]}.items():
            host = Serve(args, "host", token)
            before, memory = host.cpu_seconds(), host.resident_mib()
            out = subprocess.run([program, host.ports[1], token, "--workers", str(args.workers), *flags], check=True,
                                 capture_output=True, text=True, timeout=300).stdout.splitlines()
            figures[name] = {
                "barrier_s": statistics.median(float(line.split()[1]) for line in out[:-1]),
                "value_s": float(out[-1].split()[1]),
                "host_cpu_s": host.cpu_seconds() - before,
                "host_kib_a_worker": (host.resident_mib() - memory) * 1024 / args.workers,
            }
            host.stop()
    print(f"{args.workers} workers behind 64 edges; \"at most\": if edges put all equal requests into one")
    for key in figures["as it is"]:
        print(f"{key:<28}" + "".join(f"{name:>13} {row[key]:.3f}" for name, row in figures.items()))
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
        token = new_token(args, folder)

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


PARTS = {"rounds": rounds, "tls": tls, "agents": agents, "store": store, "barrier": barrier, "start": start}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="a build folder with -DDTRAIN_BENCH=ON")
    parser.add_argument("--only", default=",".join(PARTS), help="some of the parts, separated by commas")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--agents", type=int, default=10000)
    parser.add_argument("--workers", type=int, default=100000)
    parser.add_argument("--operations", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--json", help="also write the figures to this file")
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
