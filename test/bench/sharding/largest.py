"""The largest model that trains inside a limit of memory, by strategy, beside Python's DDP and FSDP2."""
import json
import os
import subprocess
import sys

import jobs
import limits
import page
from memory import TO_THE_KERNEL, WAYS, WIDTH

RANKS, GIB, MIB = 4, 2**30, 2**20
NEAR = 1.04  # how near the search comes
NO_LIMIT = 2**40
BEST, FSDP2, BARE = "fsdp, one copy, float32", "Python FSDP2, float32", ", malloc keeps nothing"
# Bytes of a parameter in all ranks with which the search begins: what it found before. So it is short.
OURS = {"ddp, float32": 67, "zero1, bfloat16": 34, "zero2, bfloat16": 33, "fsdp, copies, bfloat16": 20.5,
        "fsdp, copies, float32": 32, "fsdp, one copy, bfloat16": 20.5, BEST: 17.5, BEST + BARE: 17}
# The same, after the words for fsdp2_reference.py.
THEIRS = {"Python DDP, float32": ("ddp", 70), FSDP2: ("float32", 63), "Python FSDP2, bfloat16": ("bfloat16", 29),
          FSDP2 + BARE: ("float32", 17.2)}
PAIRS = {f"{BEST}: parameters, of Python DDP's, at least": (BEST, "Python DDP, float32"),
         f"{BEST}: parameters, of Python FSDP2's, at least": (BEST, FSDP2),
         "the same, malloc keeps nothing in FSDP2 alone": (BEST, FSDP2 + BARE),
         "the same, malloc keeps nothing in either": (BEST + BARE, FSDP2 + BARE)}
TITLES = ["strategy", "parameters", "of ddp's", "bytes of a parameter, all ranks", "too many", "own memory"]
ABOUT = ("The most parameters of a model that trains for three steps with AdamW in {ranks} ranks on one host, where "
         "the memory of all processes together, with the launcher's, has a limit (a memory cgroup without swap): "
         "{limit:g} GiB, and besides what the program takes for a model of next to nothing (\"own memory\"), so that "
         "this does not count. "
         f"The model has blocks with a linear layer of {WIDTH} x {WIDTH} each. With the parameters of column \"too "
         "many\" the kernel ended a process for want of memory; they are one block, or no more than "
         f"{100 * (NEAR - 1):.0f} %, above those that train. So ratios from {1 / NEAR:.2f} to {NEAR:.2f} tell no "
         "difference. What malloc keeps differs from run to run, for FSDP2 by more than that. "
         "Python's DDP has gradients that are views of its buckets. \"Malloc keeps nothing\" is with "
         "`MALLOC_MMAP_THRESHOLD_=262144`; elsewhere malloc is as `dtrain::init()` sets it, and as Python has it.")


def taken(words, environment, limit):
    """The most bytes that a job took, or None if that limit ended it; ends the program if something else did."""
    group = limits.make_group(limit)
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=jobs.LIMIT,
                              env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **environment},
                              preexec_fn=lambda: limits.enter(group))
        if done.returncode == 0:
            return limits.peak_of(group)
        if limits.ended_of(group) == 0:
            sys.exit(f"{words} failed, and not for want of memory:\n{done.stderr}{done.stdout}")
        return None
    finally:
        limits.remove(group)


def largest_of(take, guess, room):
    """The most blocks for which take(blocks) gives the bytes they took of the room, and a few more, for which it
    gives None."""
    fits, fails, far = 0, None, NEAR
    while fails is None or fails > max(fits + 1, fits * NEAR):
        took = take(guess)
        if took is None:
            fails = guess
        else:
            fits = guess
        if fits and fails:
            guess = (fits + fails) // 2
        elif fails:
            guess, far = min(fails - 1, int(fails / far)), far**2
        else:
            guess, far = max(fits + 1, int(fits * max(far, room / took))), far**2
        if guess == 0:
            sys.exit("not even one block trains in this limit; raise --limit")
    return fits, fails


def ways(args):
    """Of dtrain and of Python, by name: the command for a width and a number of blocks, the bytes to begin with."""
    def ours(strategy):
        return lambda *size: jobs.launched(args, ["--failure-grace", 1], RANKS, json.dumps(strategy), "memory_bench",
                                           *size)

    def theirs(kind):
        return lambda *size: jobs.by_torchrun(args, RANKS, "fsdp2_reference.py", "memory", *size, kind)
    return ({name: (ours(WAYS[name.removesuffix(BARE)][0]), guess) for name, guess in OURS.items()},
            {name: (theirs(kind), guess) for name, (kind, guess) in THEIRS.items()})


def own_memory(command):
    """What a job takes for a model of next to nothing, once its files are in the page cache outside of the limit."""
    return [taken(command(16, 2), {}, NO_LIMIT) for _ in range(2)][-1]


def found_of(these, room):
    """By name: the most blocks that train, a few more that do not, and the memory that the limit has beside `room`."""
    own, found = own_memory(next(iter(these.values()))[0]), {}
    for name, (command, guess) in these.items():
        environment = TO_THE_KERNEL if name.endswith(BARE) else {}

        def take(blocks):
            took = taken(command(WIDTH, blocks), environment, own + room)
            print(f"{name}: {blocks} blocks {'take ' + str(took // MIB) + ' MiB' if took else 'are too many'}",
                  file=sys.stderr, flush=True)
            return took and max(1, took - own)
        found[name] = (*largest_of(take, max(1, int(room / (guess * WIDTH**2))), room), own)
    return found


def largest(args):
    probe = limits.make_group(NO_LIMIT)
    if probe is None:
        return ([page.judged(bar, None, ">=", 1, "times") for bar in PAIRS],
                ["This machine lets this user make no memory cgroup, so nothing was measured."])
    limits.remove(probe)
    room = int(args.limit * GIB)
    ours, theirs = (found_of(these, room) for these in ways(args))
    rows = [f"| {' | '.join(TITLES)} |", "|---|" + "---:|" * (len(TITLES) - 1)]
    for name, (fits, fails, own) in (ours | theirs).items():
        rows.append(f"| {name} | {fits * WIDTH**2 / 1e6:,.1f} million | {fits / ours['ddp, float32'][0]:.2f}x | "
                    f"{room / (fits * WIDTH**2):.1f} | {fails * WIDTH**2 / 1e6:,.1f} million | {own / MIB:.0f} MiB |")
    bars = [page.judged(bar, ours[one][0] / theirs[other][0], ">=", 1, "times") for bar, (one, other) in PAIRS.items()]
    return bars, [ABOUT.format(ranks=RANKS, limit=args.limit), "\n".join(rows)]
