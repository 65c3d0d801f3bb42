"""What the workers of kills_worker.py have noted of their steps, and whether any is missing."""
import collections
import glob
import os

from support import proc_file

EVERY = 5  # steps, a checkpoint


def is_worker(pid):
    words = proc_file(pid, "cmdline").split(b"\0")
    return b"run" not in words and any(word.endswith(b"kills_worker.py") for word in words)


def notes(folder):
    """(round, step, rank, world, time) of each step of each rank."""
    found = []
    for name in glob.glob(os.path.join(folder, "steps-*")):
        with open(name) as f:
            found += [(int(r), int(s), int(k), int(w), float(t)) for r, s, k, w, t in
                      (line.split() for line in f if line.endswith("\n"))]
    return found


def newest(folder, least=1, world=None):
    """The newest round (of this many ranks) all of whose ranks have made so many steps, or -1."""
    ranks = collections.defaultdict(collections.Counter)
    for number, step, rank, size, _ in notes(folder):
        ranks[number, size][rank] += 1
    return max((number for (number, size), made in ranks.items()
                if len(made) == size == (world or size) and min(made.values()) >= least), default=-1)


def judge(folder, last):
    """What is wrong with the steps that were made; empty: nothing."""
    rounds = collections.defaultdict(list)
    for number, step, rank, world, when in notes(folder):
        rounds[number].append((step, rank, world, when))
    wrong, reached, end = [], 0, 0.0
    for number, made in sorted(rounds.items()):
        steps = sorted({step for step, *_ in made})
        if steps != list(range(steps[0], steps[-1] + 1)):
            wrong.append(f"round {number}: steps are missing among {steps[0]} to {steps[-1]}")
        if steps[0] > reached + 1 or steps[0] % EVERY != 1:
            wrong.append(f"round {number} begins with step {steps[0]}, {reached} were made")
        if len({(step, rank) for step, rank, *_ in made}) != len(made):
            wrong.append(f"round {number}: a rank made a step twice")
        if len({world for _, _, world, _ in made}) != 1:
            wrong.append(f"round {number}: ranks disagree about the world's size")
        if min(when for *_, when in made) <= end:
            wrong.append(f"round {number} began before the one before had ended")
        reached, end = max(reached, steps[-1]), max(when for *_, when in made)
    return wrong if reached == last else [*wrong, f"{reached} steps of {last}"]
