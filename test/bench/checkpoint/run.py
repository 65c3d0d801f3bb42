#!/usr/bin/env python3
"""Checkpoints of two ranks against raw writes and reads of as many bytes, and against torch.distributed.checkpoint.

    run.py --build build [--folder DIR] [--mib 1024] [--runs 5] [--json out.json] [--write docs/benchmarks]

Each run has all kinds, one after the other; printed are medians, and the ratios that the bars judge.
"""
import argparse
import glob
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]

import page  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
OWNER = "bench-checkpoint"
ROWS = {
    "raw_write": "write and fsync, a file for each rank", "save": "`save()`",
    "async_stall": "`save_async()`, until it returns", "async_rest": "`wait()` after it",
    "dcp_save": "DCP, its own format", "dcp_hf_save": "DCP, safetensors with consolidation",
    "raw_read": "read, a file for each rank", "load": "`load()` without `verify`", "load_verify": "`load()`",
    "dcp_load": "DCP, its own format, load", "dcp_hf_load": "DCP, safetensors, load",
}


def call(args, program, folder, environment):
    words = [os.path.join(args.bin, "dtrain"), "run", "--nproc", "2", *program, folder, str(args.mib), "2"]
    out = subprocess.run(words, env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **environment}, check=True,
                         capture_output=True, text=True, timeout=900).stdout
    figures = {}
    for line in out.splitlines():
        words = line.split()[-2:]
        if len(words) == 2 and words[0] in ROWS:
            figures[words[0]] = float(words[1])
    return figures


def measure(args):
    runs = []
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-checkpoint-", dir=args.folder) as folder:
        for _ in range(args.runs):
            # load() takes the newest step: that of an earlier run is no longer in memory.
            shutil.rmtree(os.path.join(folder, "steps"), ignore_errors=True)
            figures = call(args, [os.path.join(args.bin, "checkpoint_bench")], folder, {})
            figures.update(call(args, [str(HERE / "dcp_worker.py")], folder,
                                {"PYTHON_EXEC": args.python, "PYTHONPATH": args.packages, "PYTHONWARNINGS": "ignore"}))
            runs.append(figures)
    return runs


def bars_of(runs):
    def ratio(above, below):
        return statistics.median(run[above] / run[below] for run in runs)

    return [
        page.judged("save() against write and fsync", ratio("save", "raw_write"), "<=", 1.2, "times"),
        page.judged("DCP with consolidation against save()", ratio("dcp_hf_save", "save"), ">=", 10, "times"),
        page.judged("save_async() against write and fsync", ratio("async_stall", "raw_write"), "<=", 0.5, "times"),
        page.judged("load(), which verifies, against read", ratio("load_verify", "raw_read"), "<=", 1.11, "times"),
        page.judged("load() without verify against read", ratio("load", "raw_read"), "<=", 1.11, "times"),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--python", default=".venv/bin/python", help="one with torch")
    parser.add_argument("--folder", help="on the disk to measure; default the folder for temporary files")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    page.add_outputs(parser)
    args = parser.parse_args()
    args.bin, args.python = os.path.join(args.build, "bin"), os.path.abspath(args.python)
    args.packages = ":".join(glob.glob(str(HERE.parents[2] / ".venv-test/lib/python3*/site-packages")))
    facts = page.machine()
    runs = measure(args)
    consolidated = statistics.median(run["dcp_hf_save"] / run["raw_write"] for run in runs)
    medians = {name: statistics.median(run[name] for run in runs) for name in ROWS}
    rows = "\n".join(f"| {what} | {medians[name]:.2f} s | {args.mib / 1024 / medians[name]:.2f} GiB/s |"
                     for name, what in ROWS.items())
    text = "\n\n".join(["## Saving and loading", "\n".join(facts),
                        f"Two ranks, {args.mib} MiB in tensors of 16 MiB, each rank has half of each tensor. Medians "
                        f"of {args.runs} runs. Ratios are of figures of the same run. Each is the second time of its "
                        "process, when memory for copies is there. Reads find the files in the page cache.",
                        "| | time | |\n|---|---|---|\n" + rows, page.bars_table(bars_of(runs)),
                        f"DCP with consolidation takes {consolidated:.1f} times as long as write and fsync in the same "
                        "runs. A save that syncs cannot do much better than that number: it must bring the same bytes "
                        "to the disk."])
    page.put_out(args, OWNER, "saving", text, runs)


if __name__ == "__main__":
    main()
