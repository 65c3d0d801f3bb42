#!/usr/bin/env python3
"""Measure ParquetLoader beside loaders of others, all on one core.

    run.py --build build --python PYTHON --peers PYTHON [--rows 4000000] [--runs 5] [--write FOLDER]

The table has 40 columns of float32 in 4 uncompressed files with row groups of 65,536 rows, and lies in the page
cache. The first PYTHON has pyarrow, numpy and torch, the second one Ray Data, Grain and Lance. Ways take turns, and the
figures are medians over the runs.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import node  # noqa: E402
import page  # noqa: E402

COLUMNS, FILES, GROUP, BATCH = 40, 4, 65536, 1024
WINDOW, NODE_WINDOW = 20_000_000, 100_000_000
MAKE = """
import sys, numpy, pyarrow, pyarrow.parquet
folder, rows, columns, files, group = sys.argv[1], *map(int, sys.argv[2:])
draw = numpy.random.default_rng(0)
for file in range(files):
    table = pyarrow.table({f"f{c}": draw.random(rows // files, dtype=numpy.float32) for c in range(columns)})
    pyarrow.parquet.write_table(table, f"{folder}/{file}.parquet", row_group_size=group, compression="none",
                                use_dictionary=False)
"""
# name: what loader_bench gets as window and shuffle, or what readers.py gets
OURS = {"20 MB window": (WINDOW, 1), "100 MB window": (100_000_000, 1), "all rows at once": (0, 1),
        "in the order of the files": (WINDOW, 0)}
OTHERS = {"ParquetLoader from Python, 20 MB window": ("dtrain",),
          "pyarrow's scanner and numpy.stack, not shuffled": ("scanner",),
          "DataLoader, row by row, not shuffled": ("rows", "400000")}
# name: what peers.py gets
PEERS = {"Ray Data, buffer of 20 MB": ("ray", "1000000"), "Grain, not shuffled": ("grain", "100000"),
         "Lance's scanner and numpy.stack, not shuffled": ("lance",)}


def one_core():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def figures(package, *command):
    out = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, timeout=900,
                         env={**os.environ, "PYTHONPATH": package}, preexec_fn=one_core).stdout
    return [float(word) for word in out.split()]


def measure(args, folder):
    runs, package = {name: [] for name in [*OURS, *OTHERS, *PEERS]}, os.path.join(os.path.abspath(args.build), "python")
    for _ in range(args.runs):
        for name, (window, shuffle) in OURS.items():
            program = os.path.join(args.build, "bin/loader_bench")
            runs[name].append(figures(package, program, folder, COLUMNS, window, BATCH, shuffle))
        for name, (how, *limit) in OTHERS.items():
            readers = [args.python, "-W", "ignore", HERE / "readers.py"]
            runs[name].append(figures(package, *readers, how, folder, BATCH, *limit))
        for name, (how, *limit) in PEERS.items():
            runs[name].append(figures("", args.peers, "-W", "ignore", HERE / "peers.py", how, folder, BATCH, *limit))
    return {name: [statistics.median(column) for column in zip(*lines)] for name, lines in runs.items()}


def measure_node(args, folder):
    """The median over the runs: for each number of ranks its seconds, bytes of memory and bytes read."""
    program, package = os.path.join(args.build, "bin/node_bench"), os.path.join(os.path.abspath(args.build), "python")
    runs = [node.measured(program, package, one_core, folder, COLUMNS, NODE_WINDOW, BATCH) for _ in range(args.runs)]
    return {ranks: [statistics.median(column) for column in zip(*(run[ranks] for run in runs))] for ranks in runs[0]}


def node_report(args, found):
    (seconds, memory, read), (all_seconds, all_memory, all_read) = found[1], found[node.RANKS]
    bars = [page.judged("memory of 8 ranks beside that of 1", all_memory / memory, "<=", 1.2, "times"),
            page.judged("bytes that 8 ranks read beside those of 1", all_read / read, "<=", 1.1, "times"),
            page.judged("processor time of 8 ranks beside that of 1", all_seconds / seconds, "<=", 1, "times")]
    lines = ["| ranks | M rows/s of processor time | memory, MB | read, MB |", "|---:|---:|---:|---:|"]
    for ranks, (seconds, memory, read) in found.items():
        lines.append(f"| {ranks} | {args.rows / seconds / 1e6:.2f} | {memory / 1e6:.0f} | {read / 1e6:.0f} |")
    about = (f"The same table with a window of {NODE_WINDOW // 10**6} MB: all ranks of a node together, beside one. "
             "Memory is proportional: what processes share counts once. The batches of each rank, and what Arrow takes "
             "in each process, are in it:")
    return "\n\n".join([page.bars_table(bars), about, "\n".join(lines)])


def report(args, found):
    rate, first, resumed, memory = found["20 MB window"]
    row_wise = found["DataLoader, row by row, not shuffled"][0]
    bars = [page.judged("20 MB window, shuffled: rows a second on a core", rate / 1e6, ">=", 4, "M"),
            page.judged("20 MB window: first batch after", first * 1000, "<=", 50, "ms"),
            page.judged("20 MB window: a batch in the middle of the epoch after", resumed * 1000, "<=", 50, "ms"),
            page.judged("as fast as a row-wise DataLoader", rate / row_wise, ">=", 20, "times"),
            *(page.judged(f"as fast as {peer}", rate / found[name][0], ">=", bar, "times")
              for name, peer, bar in zip(PEERS, ("Ray Data", "Grain", "Lance's scanner"), (10, 50, 1.5)))]
    lines = ["| reader | M rows/s | MB/s | first batch, ms | resumed in the middle, ms | memory, MB |",
             "|---|---:|---:|---:|---:|---:|"]
    for name, (rate, first, *rest) in found.items():
        resumed, memory = (f"{rest[0] * 1000:.0f}", f"{rest[1] / 1e6:.0f}") if rest else ("-", "-")
        called = f"ParquetLoader, {name}" if name in OURS else name
        lines.append(f"| {called} | {rate / 1e6:.2f} | {rate * COLUMNS * 4 / 1e6:.0f} | {first * 1000:.0f} | {resumed} "
                     f"| {memory} |")
    about = (f"{args.rows:,} rows of {COLUMNS} float32 in {FILES} files, row groups of {GROUP:,} rows, uncompressed, "
             f"in the page cache; batches of {BATCH}; one core for all threads of a reader; median of {args.runs} "
             "runs. Memory is what is resident and no file's, beyond what the process had before the loader was made. "
             "Footers, and what torch and Arrow take once, are in it:")
    return "\n\n".join([page.bars_table(bars), about, "\n".join(lines)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=5)
    page.add_alone(parser)
    page.add_outputs(parser)
    args = parser.parse_args()
    facts = page.machine(args.alone)
    page.go_alone(args)
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-data-") as root:
        folder = os.path.join(root, "table")
        os.mkdir(folder)
        subprocess.run([args.python, "-c", MAKE, folder, *map(str, [args.rows, COLUMNS, FILES, GROUP])], check=True)
        subprocess.run([args.peers, "-W", "ignore", HERE / "peers.py", "write-lance", folder], check=True,
                       stderr=subprocess.DEVNULL)
        found, on_node = measure(args, folder), measure_node(args, folder)
    parts = ["## Parquet to batches", report(args, found), "### One reader a node", node_report(args, on_node)]
    text = "\n\n".join([*parts, " ".join(facts)])
    found = {**found, **{f"{ranks} ranks of a node": figures for ranks, figures in on_node.items()}}
    page.put_out(args, "bench-data", "loader", text, found)


if __name__ == "__main__":
    main()
