#!/usr/bin/env python3
"""Measure a step of AdamW beside LibTorch's own, and beside copying as much memory.

    run.py --build build [--parameters 32000000] [--runs 15] [--threads 1,2] [--alone] [--write FOLDER]

The programs take turns within one process; the figures are medians over the runs. A step with state in float32 reads
and writes 28 bytes for a parameter: values and two averages are read and written, the gradient is read.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import page  # noqa: E402

SECTIONS = {"adamw": "A step of AdamW"}
BYTES = 28
FASTER, OF_COPY = 5, 0.9


def measure(program, parameters, threads, runs):
    """Medians: ns for a parameter of LibTorch, of dtrain, of dtrain with bfloat16; ns for a byte copied, and scaled."""
    out = subprocess.run([program, str(parameters), str(threads), str(runs)], check=True, capture_output=True,
                         text=True, timeout=1200).stdout
    return [statistics.median(column) for column in zip(*[map(float, line.split()) for line in out.splitlines()])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--parameters", type=int, default=32_000_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--threads", default="1,2")
    page.add_alone(parser)
    parser.add_argument("--write", metavar="FOLDER", help="replace this section on its page in it")
    args = parser.parse_args()
    facts = page.machine(args.alone)
    page.go_alone(args)
    program = os.path.join(args.build, "bin/optim_bench")
    columns = ["threads", "torch::optim::AdamW", "dtrain", "dtrain, state in bfloat16", f"copying {BYTES} bytes",
               f"scaling {BYTES} bytes in place"]
    rows, bars = [f"| {' | '.join(columns)} |", "|---:" * len(columns) + "|"], []
    for threads in map(int, args.threads.split(",")):
        theirs, ours, narrow, byte, scaled = measure(program, args.parameters, threads, args.runs)
        rows.append(f"| {threads} | {theirs:.2f} | {ours:.2f} | {narrow:.2f} | {BYTES * byte:.2f} | "
                    f"{BYTES * scaled:.2f} |")
        name = f"{threads} thread{'s' if threads > 1 else ''}"
        of_copy = BYTES * byte / ours
        bars.append(page.judged(f"{name}: as fast as torch::optim::AdamW, at least", theirs / ours, ">=", FASTER,
                                "times"))
        bars.append(page.judged(f"{name}: of the bandwidth of copying, at least", of_copy, ">=", OF_COPY, ""))
    about = f"Nanoseconds for a parameter, {args.parameters:,} parameters in float32, median of {args.runs} runs:"
    text = "\n\n".join([page.bars_table(bars), about, "\n".join(rows)])
    print(text)
    if args.write:
        page.write_section(args.write, "bench-optim", "adamw", f"## {SECTIONS['adamw']}\n\n{text}\n\n{' '.join(facts)}")


if __name__ == "__main__":
    main()
