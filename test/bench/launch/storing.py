"""The store beside torch's, by test/bench/store/run.py."""
import json
import os
import subprocess
import sys

from bench import Bar, Section

STORE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "store", "run.py")


def measure(context):
    bench = os.path.join(context.bin_dir, "store_bench")
    serve = os.path.join(context.bin_dir, "..", "test", "bin", "store_serve")
    if not (os.path.exists(bench) and os.path.exists(serve)):
        print("no store_bench or no store_serve: the store is not measured (they need LibTorch and the tests)")
        return None
    with context.folder() as folder:
        out = os.path.join(folder, "store.json")
        subprocess.run([sys.executable, STORE, "--bench", bench, "--serve", serve, "--json", out,
                        "--runs", str(context.times(5, 1)), "--seconds", str(context.times(3, 1))], check=True,
                       stdout=subprocess.DEVNULL)
        with open(out) as f:
            figures = json.load(f)
    section = Section("Store", [
        "Operations per second of torch's own C++ client with torch's server and with ours, medians of alternating",
        "runs, and the server's CPU time for one operation. An operation is one request and one reply over loopback:",
        "client and kernel set the pace, whatever the server; with many keys in one request the server does."],
        ["clients", "torch ops/s", "dtrain ops/s", "ratio", "torch CPU an operation", "dtrain CPU an operation"])
    for figure in figures:
        if "clients" in figure:
            rate, cpu = figure["operations_per_s"], figure["server_cpu_us_per_operation"]
            ratio = rate["dtrain"] / rate["torch"]
            section.rows.append([str(figure["clients"]), f"{rate['torch']:,.0f}", f"{rate['dtrain']:,.0f}",
                                 f"{ratio:.1f}x", f"{cpu['torch']:.1f} us", f"{cpu['dtrain']:.1f} us"])
            section.bars.append(Bar(f"operations, clients: {figure['clients']}", f"{ratio:.1f}x", ">= 5x", ratio >= 5))
        elif "keys_in_one_request" in figure:
            torch, ours = (["{:.1f} ms".format(t) for t in figure["multi_set_and_multi_get_ms"][name]]
                           for name in ("torch", "dtrain"))
            section.says.append(f"{figure['keys_in_one_request']:,} keys set in one request, and got in one: torch "
                                f"{' and '.join(torch)}, dtrain {' and '.join(ours)}.")
        elif "waiting_keys" in figure:
            extra = figure["server_cpu_s_in_10_s"] - figure["server_cpu_s_in_1_s"]
            section.bars.append(Bar("CPU of 9 s with 10,000 waiting keys", f"{extra:.2f} s", "0 s", extra < 0.05))
    return section
