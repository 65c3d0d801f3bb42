#!/usr/bin/env python3
"""Compare the worker store with torch's TCPStore server, both driven by torch's own C++ client.

    run.py --bench build/bin/store_bench --serve build/bin/store_serve [--seconds 3] [--runs 5] [--json out.json]

Runs alternate between the two servers. Printed: medians of operations per second, the server's CPU time for one
operation, and the ratios; then the time to set and get many keys in one request; then the CPU time our server uses in
ten seconds while 10,000 keys are waited for.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]

from server import Server  # noqa: E402


def load(bench, command, clients, seconds):
    """Operations per second, and microseconds of the server's CPU for one."""
    server = Server(command)
    before = server.cpu_seconds()
    out = subprocess.run([bench, "load", server.ports[0], str(clients), str(seconds)], check=True, capture_output=True,
                         text=True, timeout=seconds + 120).stdout
    rate = float(out)
    cpu = 1e6 * (server.cpu_seconds() - before) / (rate * seconds)
    server.stop()
    return rate, cpu


def bulk(bench, command, keys):
    """Milliseconds of one multi_set and one multi_get of `keys` keys."""
    server = Server(command)
    out = subprocess.run([bench, "bulk", server.ports[0], str(keys)], check=True, capture_output=True, text=True,
                         timeout=300).stdout
    server.stop()
    return [float(word) for word in out.split()]


def waiting(bench, command, clients, keys, seconds):
    """The server's CPU seconds while `keys` missing keys are waited for, and those the requests alone take."""

    def run(duration):
        server = Server(command)
        before = server.cpu_seconds()
        subprocess.run([bench, "waiters", server.ports[0], str(clients), str(keys), str(duration)], check=True,
                       capture_output=True, timeout=duration + 120)
        used = server.cpu_seconds() - before
        server.stop()
        return used

    return run(seconds), run(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="the store_bench program")
    parser.add_argument("--serve", required=True, help="the store_serve program (our server)")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 64])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", help="also write the figures to this file")
    args = parser.parse_args()

    commands = {"torch": [args.bench, "serve"], "dtrain": [args.serve]}
    figures = []
    print(f"{'clients':>7} {'torch ops/s':>12} {'dtrain ops/s':>13} {'ratio':>6}"
          f" {'torch CPU us/op':>16} {'dtrain CPU us/op':>17} {'ratio':>6}")
    for clients in args.clients:
        runs = {name: [] for name in commands}
        for _ in range(args.runs):
            for name, command in commands.items():
                runs[name].append(load(args.bench, command, clients, args.seconds))
        rate, cpu = ({name: statistics.median(run[i] for run in runs[name]) for name in commands} for i in (0, 1))
        figures.append({"clients": clients, "operations_per_s": rate, "server_cpu_us_per_operation": cpu})
        print(f"{clients:>7} {rate['torch']:>12.0f} {rate['dtrain']:>13.0f} {rate['dtrain'] / rate['torch']:>6.2f}"
              f" {cpu['torch']:>16.2f} {cpu['dtrain']:>17.2f} {cpu['torch'] / cpu['dtrain']:>6.2f}")
    for keys in (1000, 10000, 60000):
        times = {name: [bulk(args.bench, command, keys) for _ in range(min(args.runs, 3))]
                 for name, command in commands.items()}
        ms = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in times.items()}
        figures.append({"keys_in_one_request": keys, "multi_set_and_multi_get_ms": ms})
        for i, operation in enumerate(("multi_set", "multi_get")):
            print(f"{operation} of {keys} keys: torch {ms['torch'][i]:.1f} ms, dtrain {ms['dtrain'][i]:.1f} ms,"
                  f" ratio {ms['torch'][i] / ms['dtrain'][i]:.1f}")
    ten, one = waiting(args.bench, commands["dtrain"], clients=100, keys=10000, seconds=10)
    print(f"10,000 waiting keys of 100 clients: {ten:.2f} CPU seconds of the server in 10 s ({one:.2f} s in 1 s)")
    figures.append({"waiting_keys": 10000, "server_cpu_s_in_10_s": ten, "server_cpu_s_in_1_s": one})
    if args.json:
        with open(args.json, "w") as out:
            json.dump(figures, out, indent=2)


if __name__ == "__main__":
    main()
