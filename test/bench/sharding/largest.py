"""The largest model that trains inside a limit of memory, by strategy, beside Python's DDP and FSDP2."""
import json
import os
import subprocess

import jobs
import page
from limits import limited
from memory import WAYS

WIDTH, RANKS, GIB = 2048, 4, 2**30
MOST = 200  # blocks, more than any strategy has room for
NEAR = 1.03  # how near the search comes
ABOUT = ("The most parameters of a model that trains for three steps with AdamW in {} ranks, where all their memory "
         f"together has the limit of {{}} GiB {{}}: blocks with a linear layer of {WIDTH} x {WIDTH} each, found by "
         "halving, to {:.0f} %. With a few blocks more, a rank was ended for want of memory.")


def trains(words, before):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env=environment, preexec_fn=before, timeout=jobs.LIMIT).returncode == 0


def largest_of(command, before):
    """The most blocks with which command(blocks) trains, or a few of a hundred less."""
    fits, fails = 0, None
    guess = 8
    while fails is None or fails > max(fits + 1, fits * NEAR):
        if trains(command(guess), before):
            fits = guess
        else:
            fails = guess
        guess = min(2 * fits, MOST) if fails is None else (fits + fails) // 2
        if fits == MOST:
            break
    return fits


def largest(args):
    rows = ["| | parameters | of ddp's |", "|---|---:|---:|"]
    found = {}
    with limited(args.limit * GIB) as (before, of_what):
        for name, (strategy, *_) in WAYS.items():
            found[name] = largest_of(lambda depth, text=json.dumps(strategy): [
                f"{args.build}/bin/dtrain", "run", "--quiet", "--failure-grace", 1, "--nproc", RANKS, "--strategy",
                text, f"{args.build}/bin/memory_bench", WIDTH, depth], before)
        for precision in ("float32", "bfloat16"):
            found[f"Python FSDP2, {precision}"] = largest_of(lambda depth, precision=precision: [
                args.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS,
                jobs.HERE / "fsdp2_reference.py", "memory", WIDTH, depth, precision], before)
    ddp = found["ddp, float32"]
    for name, depth in found.items():
        rows.append(f"| {name} | {depth * WIDTH**2 / 1e6:,.0f} million | {depth / ddp:.2f}x |")
    ours, theirs = found["fsdp, one copy, float32"], found["Python FSDP2, float32"]
    bars = [page.judged("fsdp, one copy, float32: parameters, of FSDP2's, at least", ours / theirs, ">=", 1, "times")]
    return bars, [ABOUT.format(RANKS, args.limit, of_what, 100 * (NEAR - 1)), "\n".join(rows)]
