#!/usr/bin/env python3
"""Measure dtrain-data process beside Polars and Dask on the same cores.

    preprocess.py --build build --python PYTHON --polars PYTHON --dask PYTHON [--rows 4000000] [--runs 5]
                  [--write FOLDER]

The table has 40 columns of float32 in 4 uncompressed Parquet files and lies in the page cache. All keep the rows in
which the first column is 0.1 or more (nine tenths), bring all columns to mean 0 and deviation 1, and write uncompressed
Parquet with row groups of 16,384 rows, to a folder in memory (/dev/shm), so that no disk is measured. The first PYTHON
has pyarrow and numpy, the second one Polars, the third one Dask's data frames. Ways take turns, and the figures are
medians over the runs. Dask has no full shuffle of single rows, so it is measured in order: with threads, and with a
cluster of a process for each core.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import page  # noqa: E402
from run import COLUMNS, FILES, GROUP, MAKE  # noqa: E402

ROWS_OF_GROUP = 16384
NAMES = [f"f{at}" for at in range(COLUMNS)]
STEPS = [{"filter": {"column": "f0", "op": ">=", "value": 0.1}}, {"normalize": {name: "zscore" for name in NAMES}}]
POLARS = """
import polars as pl, re, sys
how, folder, out, group = *sys.argv[1:4], int(sys.argv[4])
names = [f"f{at}" for at in range(%d)]
rows = pl.scan_parquet(folder + "/*.parquet").filter(pl.col("f0") >= 0.1).with_columns(
    (pl.col(name) - pl.col(name).mean()) / pl.col(name).std(ddof=0) for name in names)
options = dict(compression="uncompressed", statistics=False, row_group_size=group)
if how == "shuffled":
    rows.collect().sample(fraction=1, shuffle=True, seed=0).write_parquet(out + "/0.parquet", **options)
else:
    rows.sink_parquet(out + "/0.parquet", **options)
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
""" % COLUMNS
DASK = """
import dask, dask.dataframe, os, re, sys
how, folder, out, group = *sys.argv[1:4], int(sys.argv[4])
client = None
if how == "processes":
    import distributed
    client = distributed.Client(distributed.LocalCluster(n_workers=os.cpu_count(), threads_per_worker=1,
                                                         dashboard_address=None, silence_logs=50))

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])

rows = dask.dataframe.read_parquet(folder + "/*.parquet")
rows = rows[rows.f0 >= 0.1].persist()
mean, deviation = dask.compute(rows.mean(), rows.std(ddof=0))
rows.map_partitions(lambda part: (part - mean) / deviation, meta=rows._meta).to_parquet(
    out, compression=None, row_group_size=group, write_index=False)
print(peak() + (sum(client.run(peak).values()) if client else 0))
if client:
    client.shutdown()
"""
LIMIT = 256_000_000
# name: what of a recipe is not the default, and the number of processes
OURS = {"in order": {"shuffle": False}, "in order, persist: false": {"shuffle": False, "persist": False},
        "shuffled": {}, "shuffled, a limit of 256 MB": {"memory_limit_bytes": LIMIT},
        "shuffled, two processes of a thread each": {"processes": 2, "threads": 1}}


def timed(command):
    """Seconds from start to end, and what it printed."""
    begin = time.monotonic()
    done = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, timeout=900)
    return time.monotonic() - begin, done.stdout


def measure_ours(args, folder, made, options):
    recipe, processes = pathlib.Path(folder, "recipe.json"), options.get("processes", 1)
    options = {key: value for key, value in options.items() if key != "processes"}
    recipe.write_text(json.dumps({"input": [f"{folder}/*.parquet"], "steps": STEPS, "row_group_rows": ROWS_OF_GROUP,
                                  "threads": os.cpu_count(), **options}))
    seconds, out = timed([os.path.join(args.build, "bin/dtrain-data"), "process", recipe, made, processes])
    report = json.loads(out)
    return seconds, report["peak_memory_bytes"] / 1e6, report["spilled_bytes"] / 1e6


def measure_other(program, python, how, folder, made):
    seconds, out = timed([python, "-W", "ignore", "-c", program, how, folder, made, ROWS_OF_GROUP])
    return seconds, int(out) * 1024 / 1e6, 0


def measure_polars(args, folder, made, how):
    return measure_other(POLARS, args.polars, how, folder, made)


def measure_dask(args, folder, made, how):
    return measure_other(DASK, args.dask, how, folder, made)


def measure(args, folder):
    ways = {f"dtrain-data, {name}": (measure_ours, options) for name, options in OURS.items()}
    ways.update({f"Polars, {how}": (measure_polars, how) for how in ("in order", "shuffled")})
    ways.update({f"Dask, in order, {how}": (measure_dask, how) for how in ("threads", "processes")})
    runs = {name: [] for name in ways}
    for _ in range(args.runs):
        for name, (measure_one, how) in ways.items():
            made = tempfile.mkdtemp(prefix="dtrain-made-", dir="/dev/shm")
            try:
                runs[name].append(measure_one(args, folder, made, how))
            finally:
                shutil.rmtree(made)
    return {name: [statistics.median(column) for column in zip(*lines)] for name, lines in runs.items()}


def report(args, found):
    def ratio(name):
        return found[f"Polars, {name}"][0] / found[f"dtrain-data, {name}"][0]
    dask = min((figures for name, figures in found.items() if name.startswith("Dask")), key=lambda figures: figures[0])
    ours = found["dtrain-data, in order"]
    bars = [page.judged("in order: as fast as Polars", ratio("in order"), ">=", 1, "times"),
            page.judged("shuffled: as fast as Polars", ratio("shuffled"), ">=", 1, "times"),
            page.judged("in order: as fast as the faster one of Dask", dask[0] / ours[0], ">=", 5, "times"),
            page.judged("in order: memory beside that one's", ours[1] / dask[1], "<=", 1, "times"),
            page.judged("memory under a limit of 256 MB", found["dtrain-data, shuffled, a limit of 256 MB"][1], "<=",
                        LIMIT / 1e6, "MB")]
    lines = ["| way | s | M rows/s | memory, MB | rows that waited in a file, MB |", "|---|---:|---:|---:|---:|"]
    for name, (seconds, memory, spilled) in found.items():
        lines.append(f"| {name} | {seconds:.2f} | {args.rows / seconds / 1e6:.2f} | {memory:.0f} | {spilled:.0f} |")
    about = (f"{args.rows:,} rows of {COLUMNS} float32 in {FILES} files, row groups of {GROUP:,} rows, in the page "
             "cache. A filter keeps nine tenths, all columns are brought to mean 0 and deviation 1, and uncompressed "
             f"Parquet is written into memory, row groups of {ROWS_OF_GROUP:,} rows. All cores; median of {args.runs} "
             "runs, from start to end of the process. Memory is the most that was resident:")
    return "\n\n".join([page.bars_table(bars), about, "\n".join(lines)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--polars", required=True)
    parser.add_argument("--dask", required=True)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=5)
    page.add_alone(parser)
    page.add_outputs(parser)
    args = parser.parse_args()
    facts = page.machine(args.alone)
    page.go_alone(args)
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-data-") as folder:
        subprocess.run([args.python, "-c", MAKE, folder, *map(str, [args.rows, COLUMNS, FILES, GROUP])], check=True)
        found = measure(args, folder)
    text = f"## Preprocessing\n\n{report(args, found)}\n\n{' '.join(facts)}"
    page.put_out(args, "bench-data", "preprocess", text, found)


if __name__ == "__main__":
    main()
