#!/usr/bin/env python3
"""Train a model whose optimizer state is three times the memory limit, with the state on disk.

    state.py --build build [--folder build] [--layers 24] [--width 4096] [--steps 5] [--alone] [--write FOLDER]

A chain of layers in bfloat16 with AdamW's state in float32 trains in a memory cgroup (v2 or v1) whose limit is a third
of the state; without the right to make a cgroup, under a limit of its data (RLIMIT_DATA). In the same run, and under
the same limit, the disk reads and writes as many bytes by itself. The same training without a limit, with its state in
memory, has to give the same bits; with the limit, it has to fail.
"""
import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "support")]

import page  # noqa: E402
from limits import limited  # noqa: E402

SECTIONS = {"state": "Optimizer state on disk"}
OF_DISK = 0.6
TIMES = 3  # the state is so many times the limit
LIMIT_S = 900


def train(words, before=None):
    """The lines of a training as numbers, or why there are none."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, preexec_fn=before)
    if done.returncode == 0:
        return [line.split() for line in done.stdout.splitlines()]
    if done.returncode == -signal.SIGKILL:
        return "killed"
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--folder", help="on the disk that is measured; the build folder by default")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    page.add_alone(parser)
    parser.add_argument("--write", metavar="FOLDER", help="replace this section on its page in it")
    args = parser.parse_args()
    facts = page.machine(args.alone)
    page.go_alone(args)
    program = [os.path.join(args.build, "bin/state_bench"),
               *map(str, (args.layers, args.width, args.steps, args.threads))]
    parameters = args.layers * args.width**2
    state = 8 * parameters
    limit = state // TIMES
    with limited(limit) as (before, of_what):
        on_disk = train([*program, os.path.abspath(args.folder or args.build)], before)
        in_memory = train(program, before)
    if isinstance(on_disk, str):
        sys.exit(f"state.py: with the state on disk, the training failed: {on_disk}")
    free = train(program)
    if isinstance(free, str):
        sys.exit(f"state.py: without a limit, the training failed: {free}")
    *steps, (bytes_of_state, bits) = on_disk
    if int(bytes_of_state) != state:
        sys.exit(f"state.py: the state has {bytes_of_state} bytes, and {state} were expected")
    same = bits == free[-1][1] and [row[0] for row in steps] == [row[0] for row in free[:-1]]
    rates = [[2 * state / float(seconds) / 1e9 for seconds in row[1:]] for row in steps]
    step, one_by_one, at_once = (statistics.median(column) for column in zip(*rates))
    ratio = statistics.median(of_step / max(raw) for of_step, *raw in rates)
    losses = [float(row[0]) for row in steps]
    bars = [page.judged("a step's reads and writes, of the disk's rate, at least", ratio, ">=", OF_DISK, ""),
            page.judged("state, of the memory limit, at least", state / limit, ">=", TIMES, "times"),
            page.Bar("parameters and losses to the bit those of a training without a limit", "yes" if same else "no",
                     "yes", same),
            page.Bar("the same training with its state in memory, under the limit",
                     "trains" if isinstance(in_memory, list) else in_memory, "ends", isinstance(in_memory, str))]
    text = "\n\n".join([
        page.bars_table(bars),
        f"{parameters / 1e6:,.0f} million parameters in bfloat16, {state / 1e9:.2f} GB of AdamW's state in float32, "
        f"{limit / 1e9:.2f} GB as the limit {of_what}, torch's threads: {args.threads}, medians of {args.steps} steps. "
        f"A step reads and writes {step:.2f} GB/s. By itself, in requests of 8 MiB past the page cache, the disk reads "
        f"and then writes {one_by_one:.2f} GB/s, and reads while it writes {at_once:.2f} GB/s; the bar is against the "
        f"faster of the two in each step. The loss goes from {losses[0]:.4f} to {losses[-1]:.4f}."])
    print(text)
    if args.write:
        page.write_section(args.write, "bench-optim", "state",
                           f"## {SECTIONS['state']}\n\n{text}\n\n{' '.join(facts)}")


if __name__ == "__main__":
    main()
