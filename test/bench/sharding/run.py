#!/usr/bin/env python3
"""Measure steps of examples/gpt under each strategy beside the same model in Python, under DDP and FSDP2 on gloo.

    run.py --build build --python PYTHON [--ranks 2] [--steps 40] [--rounds 3] [--models small,wide] [--write FOLDER]

The programs take turns, `rounds` times, with one thread for each rank. A figure is the median over the steps after the
first ten of all rounds.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import page  # noqa: E402

SECTIONS = {"steps": "A step of a GPT"}
SIZES = {"small": {"context": 64, "width": 96, "depth": 4, "heads": 4, "global-batch": 16},
         "wide": {"context": 64, "width": 384, "depth": 8, "heads": 6, "global-batch": 8}}
OURS = {"ddp": "ddp", "zero1": "zero1", "zero2": "zero2", "fsdp": "fsdp",
        "fsdp, copies": json.dumps({"type": "fsdp", "one_copy": False})}
THEIRS = {"Python DDP": "ddp", "Python FSDP2": "fsdp2"}
CHARACTERS, SKIPPED, LIMIT = 109, 10, 1800
BAR = 2


def flags(size):
    return [str(word) for key, value in size.items() for word in (f"--{key}", value)]


def our_steps(args, strategy, size):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "losses")
        subprocess.run([f"{args.build}/bin/dtrain", "run", "--quiet", "--nproc", str(args.ranks),
                        "--strategy", strategy, f"{args.build}/bin/gpt", *flags(size), "--steps", str(args.steps),
                        "--generate", "0", "--loss-file", path], check=True, capture_output=True, timeout=LIMIT)
        return [float(line.split()[1]) for line in path.read_text().splitlines()]


def their_steps(args, way, size):
    done = subprocess.run([args.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                           str(args.ranks), HERE / "gpt_reference.py", *flags(size), "--characters", str(CHARACTERS),
                           "--steps", str(args.steps), "--way", way], capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 0:
        sys.exit(f"{way} in Python failed:\n{done.stderr}")
    out = done.stdout
    return [float(line) for line in out.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--python", required=True, help="a Python with torch")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", default=",".join(SIZES), help="of " + ", ".join(SIZES))
    parser.add_argument("--write", metavar="FOLDER", help="replace this section on its page in it")
    args = parser.parse_args()
    facts = page.machine(False)
    os.environ["OMP_NUM_THREADS"] = "1"
    bars, tables = [], []
    for name, size in [(name, SIZES[name]) for name in args.models.split(",")]:
        seconds = {way: [] for way in [*OURS, *THEIRS]}
        for _ in range(args.rounds):
            for way, strategy in OURS.items():
                seconds[way] += our_steps(args, strategy, size)[SKIPPED:]
            for way, theirs in THEIRS.items():
                seconds[way] += their_steps(args, theirs, size)[SKIPPED:]
        step = {way: statistics.median(each) for way, each in seconds.items()}
        rows = ["| | a step | Python DDP / this | Python FSDP2 / this |", "|---|---:|---:|---:|"]
        rows += [f"| {way} | {1000 * step[way]:.1f} ms | {step['Python DDP'] / step[way]:.2f}x | "
                 f"{step['Python FSDP2'] / step[way]:.2f}x |" for way in step]
        told = ", ".join(f"{key} {value}" for key, value in size.items())
        tables.append(f"Model \"{name}\" ({told}):\n\n" + "\n".join(rows))
        for ours, theirs, bar in (("fsdp", "Python FSDP2", BAR), ("ddp", "Python DDP", 1)):
            faster = step[theirs] / step[ours]
            bars.append(page.judged(f"{name}: {ours} as fast as {theirs}, at least", faster, ">=", bar, "times"))
    about = (f"{args.ranks} ranks, a thread each, float32, AdamW, clipping. Python's are on gloo; their DDP has the "
             f"fused AdamW. Medians of the steps after the first {SKIPPED} of {args.rounds} runs of {args.steps} "
             "steps; the programs took turns.")
    text = "\n\n".join([page.bars_table(bars), about, *tables])
    print(text)
    if args.write:
        page.write_section(args.write, "bench-sharding", "steps",
                           f"## {SECTIONS['steps']}\n\n{text}\n\n{' '.join(facts)}")


if __name__ == "__main__":
    main()
