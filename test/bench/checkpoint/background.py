#!/usr/bin/env python3
"""What a save in the background costs a training: the stall of save_async(), and the steps during the write.

    background.py --build build [--folder DIR] [--saves 5] [--runs 3] [--first] [--json out.json]
                  [--write docs/benchmarks]
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[0])]

import page  # noqa: E402

OWNER = "bench-checkpoint"
# strategy, width, depth, rows of a rank's batch
SHAPES = [("ddp", 512, 8, 1), ("fsdp", 512, 8, 1)]
WORDS = ("call", "waited", "stall", "written", "plain", "during", "steps")


def saves(args, folder, strategy, width, depth, rows):
    """A dictionary for each save but the first of the process, which makes the memory of the copy; and MiB of state."""
    words = [args.bin / "dtrain", "run", "--nproc", 2, "--strategy", strategy, args.bin / "async_bench",
             f"{folder}/{strategy}", width, depth, rows, args.saves + 1]
    out = subprocess.run([str(word) for word in words], env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=True,
                         capture_output=True, text=True, timeout=900).stdout
    pattern = "save " + " ".join(rf"{word} ([\d.]+)" for word in WORDS)
    found = [dict(zip(WORDS, map(float, figures))) for figures in re.findall(pattern, out)]
    return found[1:], float(re.search(r"state (\d+)", out)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--folder", help="on the disk to measure; default the folder for temporary files")
    parser.add_argument("--saves", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--first", action="store_true", help="the trainings at nice -15 (needs root)")
    page.add_outputs(parser)
    args = parser.parse_args()
    args.bin = args.build / "bin"
    facts = page.machine()
    if args.first:  # not a real-time priority, beside which the threads that write would get no core
        os.nice(-15)
        facts.append("The trainings ran at nice -15, so that other work counts less.")
    rows, bars, kept = [], [], []
    for shape in SHAPES:
        found = []
        for _ in range(args.runs):
            with tempfile.TemporaryDirectory(prefix="dtrain-bench-async-", dir=args.folder) as folder:
                of_run, state = saves(args, folder, *shape)
            found += of_run
        kept.append([*shape, found])
        middle = {word: statistics.median(save[word] for save in found) for word in WORDS}
        ratio = statistics.median(save["during"] / save["plain"] for save in found)
        strategy, width, depth, batch = shape
        rows.append(f"| {strategy}, {depth} layers of {width}, batch {batch} a rank | {state:.0f} MiB | "
                    f"{middle['plain']:.0f} ms | {middle['call']:.2f} ms | {middle['waited']:.2f} ms | "
                    f"{middle['written'] / 1000:.1f} s, {middle['steps']:.0f} steps | {ratio:.3f} |")
        bars += [page.judged(f"stall of save_async(), {strategy}", middle["stall"], "<=", 5, "ms"),
                 page.judged(f"a step during the write against one before it, {strategy}", ratio, "<=", 1.1, "times")]
    text = "\n\n".join(["## Saving while training goes on", "\n".join(facts),
                        "`Parallel::save_async()` in a training of the model of examples/gpt: two ranks of one thread, "
                        f"AdamW in float32, all cores busy. Medians of {args.runs} processes of {args.saves} saves; "
                        "the first save of a process, which makes the memory of the copy, is left out. The stall is "
                        "the call and what the next step waited for the copy, of the slower rank. The last column is "
                        "the median step during copy and write, `poll()` included, against the median step before the "
                        "save.",
                        "| | state | step | the call | the step waited | until the checkpoint is complete | ratio |\n"
                        "|---|---|---|---|---|---|---|\n" + "\n".join(rows), page.bars_table(bars)])
    page.put_out(args, OWNER, "async", text, kept)


if __name__ == "__main__":
    main()
