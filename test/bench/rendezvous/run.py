#!/usr/bin/env python3
"""Jobs of several nodes: their links, how many nodes a job can have, the store across nodes, the start of a job.

    run.py --build build [--only rounds,tls,agents,store,edges,barrier,start,faults] [--runs 3] [--agents 10000]
           [--alone] [--json out.json] [--write docs/benchmarks]

rounds  the machine that decides who is in a round, alone (rounds_bench)
tls     handshakes and bytes of encrypted links, in one thread and without sockets (tls_bench)
agents  a job of --agents nodes whose agents are links in two processes, over loopback (agents_bench)
store   one store, and edges of it over a link in clear and an encrypted one, each a process, on loopback, and beside
        them what a bare round trip between two processes takes. Runs alternate between them; printed are medians: the
        time of one ADD, wherever the kernel runs the processes and with all of them on one CPU (where none has to wake
        another CPU), ADDs per second of 16 clients, the bytes of large replies and requests per second, and how many an
        edge forwards in a second of its CPU time
edges   64 edges over encrypted links, with a client each; torch's TCPStore and Redis where they are there. The clock
        starts when each client has had an answer
barrier a barrier of --workers workers behind 64 edges, and a value of 4 KiB that all of them get; played by one
        process over real links
start   a job of eight nodes, each on a host of its own in a lab of network namespaces, from the first command to the
        last worker's first word; the same with torchrun where there is one, on one host
faults  a worker killed, an agent killed and a host cut off, in a lab of three hosts, two of which are enough; dtrain
        and torchrun. With --runs 100 it says 99th percentiles, else the worst

A figure with a bar says whether it is met (bars.py); one that falls short does not make the benchmark fail.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCE / "test" / "support"), str(SOURCE / "test" / "bench")]

import bars  # noqa: E402
import faults as lab_faults  # noqa: E402
import lab_case  # noqa: E402
import netlab  # noqa: E402
import page  # noqa: E402
from ports import free_port  # noqa: E402
from server import Server  # noqa: E402

NODES = 8
EDGES = 64
WORKER = "echo user code"
BARE = "bare round trip"


said = []  # of the present part


def say(text):
    print(text, flush=True)
    said.append(text)


def run(*command, limit):
    say(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=limit).stdout.rstrip("\n"))


def serve(args, *words):
    """A store_node; its ports: of its workers, and at a host that of other nodes."""
    return Server([os.path.join(args.build, "bin", "store_node"), *words])


def new_token(args, folder):
    return lab_case.new_token(os.path.join(args.build, "bin", "dtrain"), folder)


def store(args):
    with tempfile.TemporaryDirectory() as folder:
        links = {"edge, clear": "-", "edge, TLS": new_token(args, folder)}
        hosts = {name: serve(args, "host", token) for name, token in links.items()}
        hosts[BARE] = serve(args, "echo")
        edges = {name: serve(args, "edge", token, hosts[name].ports[1]) for name, token in links.items()}
    try:
        figures = measure_store(args, hosts, edges)
        hosts["of keys"] = serve(args, "host", "-")  # one that has held nothing yet
        say(f"a key of 20 bytes with a value of 8: {memory_of_keys(hosts['of keys']):.0f} bytes of memory")
        return figures
    finally:
        for server in [*edges.values(), *hosts.values()]:
            server.stop()


def memory_of_keys(host, count=100000):
    """Bytes of the host's memory for each key of 20 bytes with a value of 8."""
    def text(data):
        return struct.pack("<Q", len(data)) + data
    before = host.resident_mib()
    with socket.create_connection(("127.0.0.1", int(host.ports[0])), timeout=60) as client:
        client.sendall(b"\x00" + struct.pack("<I", 0x3C85F7CE))
        client.sendall(b"".join(b"\x01" + text(b"key%017d" % i) + text(b"value---") for i in range(count)))
        client.sendall(b"\x0d" + struct.pack("<I", 7))  # a ping: all of them are there
        if client.recv(4, socket.MSG_WAITALL) != struct.pack("<I", 7):
            raise SystemExit("the store does not answer")
    return (host.resident_mib() - before) * 2**20 / count


@contextlib.contextmanager
def on_one_cpu(servers):
    """All threads of these, and what is started meanwhile."""
    usual = os.sched_getaffinity(0)

    def move(cpus):
        for pid in [os.getpid(), *(server.process.pid for server in servers)]:
            for task in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(task), cpus)
    move({min(usual)})
    try:
        yield
    finally:
        move(usual)


def measure_store(args, hosts, edges):
    client = os.path.join(args.build, "bin", "store_client")
    ports = {BARE: hosts[BARE].ports[0], "direct": hosts["edge, clear"].ports[0],
             **{name: edge.ports[0] for name, edge in edges.items()}}

    def measure(name, mode, *words):
        before = edges[name].cpu_seconds() if name in edges else 0
        out = subprocess.run([client, mode, *map(str, words)], check=True, capture_output=True, text=True,
                             timeout=300).stdout
        return [float(word) for word in out.split()], edges[name].cpu_seconds() - before if name in edges else 0

    def measure_one(name, port):
        latency = ["latency", port, args.operations, *(["bare"] if name == BARE else [])]
        (median, p99), _ = measure(name, *latency)
        with on_one_cpu([*hosts.values(), *edges.values()]):
            (alone, _), _ = measure(name, *latency)
        figures = {"add_us_median": median, "add_us_p99": p99, "add_us_median_on_one_cpu": alone}
        if name == BARE:
            return figures
        figures["adds_per_s_16_clients"] = measure(name, "load", ",".join([port] * 16), args.seconds)[0][0]
        for mode in ("get", "set"):
            (rate,), cpu = measure(name, mode, port, 16, args.seconds)
            figures[f"{mode}_gb_per_s"] = rate
            if name in edges:
                figures[f"{mode}_gb_per_cpu_s_of_edge"] = rate * args.seconds / cpu
        return figures

    rows = {name: {} for name in ports}
    for _ in range(args.runs):
        for name, row in rows.items():
            for key, value in measure_one(name, ports[name]).items():
                row.setdefault(key, []).append(value)
    return say_store({name: {key: statistics.median(values) for key, values in row.items()}
                      for name, row in rows.items()}, edges)


def say_store(medians, edges):
    say(" " * 28 + "".join(f"{name:>17}" for name in medians))
    for key in medians["edge, TLS"]:
        say(f"{key:<28}" + "".join(f"{row[key]:>17.2f}" if key in row else f"{'':>17}" for row in medians.values()))
    figures = {}
    for name in edges:
        row = medians[name]
        for key, where in (("add_us_median", ""), ("add_us_median_on_one_cpu", ", all on one CPU")):
            added = row[key] - medians["direct"][key]
            say(f"{name}: adds {added:.1f} us to an operation{where}, {added / medians[BARE][key]:.2f} times a bare "
                "round trip")
            figures[f"{name}: added to an operation{where}"] = added
        figures[f"{name}: replies forwarded"] = row["get_gb_per_cpu_s_of_edge"]
        figures[f"{name}: requests forwarded"] = row["set_gb_per_cpu_s_of_edge"]
    return figures


TORCH_STORE = """
import sys
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""
REDIS = "redis-check-rdb"  # Debian's redis-tools has the server under this name, without a service that starts


def start_peer(name):
    """A server that the edges are compared with: its process and its port; None: it is not here."""
    python = os.path.join(SOURCE, ".venv", "bin", "python")
    if name == "torch":
        if not os.path.exists(python):
            return None
        process = subprocess.Popen([python, "-W", "ignore", "-c", TORCH_STORE], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        return process, process.stdout.readline().strip()
    if not shutil.which(REDIS):
        return None
    port = str(free_port())
    flags = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(["redis-server", *flags], executable=shutil.which(REDIS), stdout=subprocess.PIPE,
                               text=True)
    while "Ready to accept" not in process.stdout.readline():
        pass
    return process, port


def edges(args):
    client = os.path.join(args.build, "bin", "store_client")
    figures, servers, peers = {}, [], []
    with tempfile.TemporaryDirectory() as folder:
        token = new_token(args, folder)
        try:
            host = serve(args, "host", token)
            servers.append(host)
            for _ in range(EDGES):
                servers.append(serve(args, "edge", token, host.ports[1]))
            ports = {"dtrain, 64 agents, TLS": [server.ports[0] for server in servers[1:]],
                     "dtrain, one store": [host.ports[0]] * EDGES}
            for name in ("torch", "redis"):
                if peer := start_peer(name):
                    peers.append(peer[0])
                    ports[f"{name}, one server"] = [peer[1]] * EDGES
            rows = {name: [] for name in ports}
            for _ in range(args.runs):
                for name, each in ports.items():
                    flags = ["redis"] if name.startswith("redis") else []
                    out = subprocess.run([client, "load", ",".join(each), str(args.seconds), *flags], check=True,
                                         capture_output=True, text=True, timeout=120).stdout
                    rows[name].append([float(word) for word in out.split()])
        finally:
            for process in peers:
                process.kill()
                process.wait()
            for server in reversed(servers):
                server.stop()
    say(f"{EDGES} clients, each adds to a counter of its own again and again")
    say(f"{'':<26}{'ADDs/s':>10}{'median us':>12}{'p99 us':>12}")
    for name, runs in rows.items():
        figures[name] = [statistics.median(column) for column in zip(*runs)]
        rate, median, p99 = figures[name]
        say(f"{name:<26}{rate:>10.0f}{median:>12.1f}{p99:>12.1f}")
    return figures


def barrier(args):
    program = os.path.join(args.build, "bin", "edges_bench")
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        token = new_token(args, folder)
        for name, flags in {"as it is": [], "at most": ["--merged"]}.items():
            host = serve(args, "host", token)
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
    say(f"{args.workers} workers behind 64 edges; \"at most\": if edges put all equal requests into one")
    for key in figures["as it is"]:
        say(f"{key:<28}" + "".join(f"{name:>13} {row[key]:.3f}" for name, row in figures.items()))
    return figures


def rounds(args):
    run(os.path.join(args.build, "bin", "rounds_bench"), limit=600)

def tls(args):
    run(os.path.join(args.build, "bin", "tls_bench"), limit=300)

def agents(args):
    for flags in ([], ["--plain"]):
        program = os.path.join(args.build, "bin", "agents_bench")
        run(program, "--agents", str(args.agents), *flags, limit=400)

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
    say(f"{NODES} hosts, from command to user code: dtrain {figures['dtrain']:.3f} s")
    torchrun = os.path.join(SOURCE, ".venv", "bin", "torchrun")
    if not os.path.exists(torchrun):
        say("  no torchrun to compare with")
        return figures
    port = free_port()

    def peer(number):
        return subprocess.Popen(
            [torchrun, "--nnodes", str(NODES), "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}",
             "--rdzv-id", "bench", "--nproc-per-node", "1", "--no-python", "sh", "-c", WORKER],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    figures["torchrun"] = first_words(peer, NODES)
    say(f"{NODES} nodes on one host, from command to user code: torchrun {figures['torchrun']:.1f} s (one run)")
    return figures


def faults(args):
    torchrun = os.path.join(SOURCE, ".venv", "bin", "torchrun")
    with tempfile.TemporaryDirectory() as folder:
        return lab_faults.measure(os.path.join(args.build, "bin", "dtrain"),
                                  torchrun if os.path.exists(torchrun) else None, new_token(args, folder), args.runs,
                                  say)


PARTS = {"rounds": rounds, "tls": tls, "agents": agents, "store": store, "edges": edges, "barrier": barrier,
         "start": start, "faults": faults}
TITLES = {"rounds": "Rounds of many nodes, decided", "tls": "Encrypted links", "agents": "10,000 nodes",
          "store": "The store across nodes", "edges": "The store over 64 nodes",
          "barrier": "A barrier of all workers", "start": "Start over several hosts",
          "faults": "A node is lost"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="a build folder with -DDTRAIN_BENCH=ON")
    parser.add_argument("--only", default=",".join(PARTS), help="some of the parts, separated by commas")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--agents", type=int, default=10000)
    parser.add_argument("--workers", type=int, default=100000)
    parser.add_argument("--operations", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--write", metavar="FOLDER", help="replace the measured sections on their pages in it")
    page.add_alone(parser)
    parser.add_argument("--json", help="also write the figures to this file")
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    page.go_alone(args)
    figures = {}
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}", flush=True)
    for name in args.only.split(","):
        print(f"== {name}", flush=True)
        said.clear()
        facts = page.machine(args.alone)
        figures[name] = PARTS[name](args)
        text = ["```\n" + "\n".join(said) + "\n```"]
        if judged := bars.judge(name, figures[name], "\n".join(said)):
            text.insert(0, page.bars_table(judged))
            print(text[0], flush=True)
        if args.write:
            page.write_section(args.write, "bench-rendezvous", name,
                               "\n\n".join([f"## {TITLES[name]}", *text, " ".join(facts)]))
    if args.json:
        with open(args.json, "w") as out:
            json.dump(figures, out, indent=2)


if __name__ == "__main__":
    main()
