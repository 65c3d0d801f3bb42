#!/usr/bin/env python3
"""What the state that the launcher keeps costs in a step, and how soon training goes on after a kill.

    kept.py --build build [--steps 20] [--kills 20] [--runs 3] [--alone] [--json out.json] [--write docs/benchmarks]
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[0])]

import page  # noqa: E402

OWNER = "bench-checkpoint"
# strategy, width, layers, rows of a rank's batch
COPIED = [("ddp", 1024, 8, 512), ("fsdp", 1024, 8, 512)]
SHAPES = [("ddp", 512, 8, 512), ("ddp", 1024, 8, 512), ("fsdp", 1024, 8, 512), ("ddp", 256, 8, 4096)]


def tests(args):
    """The module of the tests of kept states."""
    os.environ.update(DTRAIN_BIN_DIR=str(args.bin), DTRAIN_TEST_BIN_DIR=str(args.build / "test/bin"))
    sys.path[:0] = [str(HERE.parents[1] / "process/torch")]
    import kept_state_test
    return kept_state_test


def steps(args, nodes, strategy, width, layers, batch):
    """Of two ranks. With two nodes, two launchers on this host, each keeps a copy of the other's state too."""
    how = ["--nproc", 2, "--keep-state"] if nodes == 1 else [
        "--nproc", 1, "--copy-state", "--nnodes", nodes, "--rdzv-backend", "c10d", "--rdzv-endpoint",
        f"localhost:{tests(args).free_port()}", "--rdzv-id", "kept", "--log-line-prefix-template", " "]
    words = [args.bin / "dtrain", "run", *how, "--strategy", strategy, "--max-restarts", 1, args.bin / "kept_bench",
             width, layers, batch, args.steps]
    jobs = [subprocess.Popen([str(word) for word in words], env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
                             stdout=subprocess.PIPE, text=True) for _ in range(nodes)]
    try:
        out = "".join(job.communicate(timeout=900)[0] for job in jobs)
    finally:
        for job in jobs:
            job.terminate()
    if any(job.returncode for job in jobs):
        sys.exit(f"{words} failed:\n{out}")
    return {name: float(value) for name, value in re.findall(r"(\w+) ([\d.]+)\n", out)}


def recoveries(args):
    """Seconds from a kill to the end of the next step."""
    kept, seconds = tests(args), []
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-kept-") as folder:
        words = kept.dtrain("--keep-state", "--max-restarts", args.kills + 1, kept.WORKER, folder, 10**9, 24)
        with kept.Job(words) as job:
            for number in range(args.kills):
                job.until(lambda: job.made[number] >= 5)
                killed = time.monotonic_ns()
                os.kill(job.pids[number, number % 2], 9)
                job.until(lambda: number + 1 in job.first)
                seconds.append((job.first[number + 1] - killed) / 1e9)
            job.process.terminate()
            job.end()
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    page.add_alone(parser)
    page.add_outputs(parser)
    args = parser.parse_args()
    args.bin = args.build / "bin"
    facts = page.machine(args.alone)
    page.go_alone(args)
    found = {(nodes, *shape): [steps(args, nodes, *shape) for _ in range(args.runs)]
             for nodes, shapes in ((1, SHAPES), (2, COPIED)) for shape in shapes}
    seconds = recoveries(args)
    rows, bars = [], []
    for (nodes, strategy, width, layers, batch), runs in found.items():
        plain, keep, state = (statistics.median(run[name] for run in runs) for name in ("plain", "keep", "state"))
        ratio = statistics.median(run["with"] / run["plain"] for run in runs)
        copied = ", and a copy" if nodes > 1 else ""
        rows.append(f"| {strategy}, {layers} layers of {width}, batch {batch} a rank{copied} | {state:.0f} MiB | "
                    f"{plain:.1f} ms | {keep:.2f} ms | {100 * keep / plain:.1f} % | {ratio:.3f} |")
        if plain >= 100 and nodes == 1:
            what = f"a step of {plain:.0f} ms with keep() against one without ({strategy}, {state:.0f} MiB)"
            bars.append(page.judged(what, ratio, "<=", 1.03, "times"))
    soon = statistics.median(seconds)
    bars.append(page.judged("from a kill to the end of the next step, median", soon, "<=", 0.5, "s"))
    text = "\n\n".join(["## State that the launcher keeps", "\n".join(facts),
                        f"Two ranks, AdamW in float32. Steps with and without `keep()` take turns in one process, "
                        f"{args.steps} of each; medians of {args.runs} runs, of the slower rank. The last column is "
                        "the step with `keep()` against the step without. \"And a copy\": with `--copy-state`, each "
                        "rank under a launcher of its own, as on a node of its own; what each sends to the other goes "
                        "over loopback, and the two cores do the work of both ends.",
                        "| | state of the model | step | `keep()` | of the step | ratio |\n"
                        "|---|---|---|---|---|---|\n" + "\n".join(rows),
                        f"{args.kills} kills of a rank, two ranks, a model whose step takes a few ms: the next step "
                        f"ended {min(seconds):.2f} to {max(seconds):.2f} s after the kill. That is the end of the "
                        "other worker, the start of two processes with LibTorch, and their meeting.",
                        page.bars_table(bars)])
    steps_of = [[*shape, runs] for shape, runs in found.items()]
    page.put_out(args, OWNER, "kept", text, {"steps": steps_of, "recoveries": seconds})


if __name__ == "__main__":
    main()
