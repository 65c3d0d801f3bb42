#!/usr/bin/env python3
"""The worker store through the link of another node, beside a direct connection.

    run.py --build build/bench [--runs 3] [--json out.json]

One store, and one edge of it, each a process, on loopback. Runs alternate between the two; printed are medians: the
time of one ADD, ADDs per second of 16 clients, and the bytes of large replies and requests per second. The CPU time of
store and edge together says what a gigabyte costs.
"""

import argparse
import json
import os
import statistics
import subprocess


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="a build folder with -DDTRAIN_BENCH=ON")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--operations", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--json", help="also write the figures to this file")
    args = parser.parse_args()
    subprocess.run([os.path.join(args.build, "bin", "rounds_bench")], check=True)
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
    if args.json:
        with open(args.json, "w") as out:
            json.dump(figures, out, indent=2)


if __name__ == "__main__":
    main()
