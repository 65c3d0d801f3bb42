"""Runs of examples/gpt and of gpt_reference.py with the same first weights and the same batches."""
import contextlib
import pathlib
import sys
import tempfile

import jobs

SMALLEST_RATE = 1e-300  # of which nothing is left in float32: a step with it leaves all weights as they are
# How far apart losses may be, of the loss: of the first steps, and of all. With sums in another order they are within
# 5e-6 of each other at first. Then a training makes what is small large: 1e-3 was found with the model "wide".
NEAR, FIRST, FAR = 2e-5, 10, 1e-2


@contextlib.contextmanager
def first_weights(args, size):
    """The file of the weights with which gpt begins: saved after a step whose learning rate is nothing in float32."""
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-") as folder:
        jobs.ours(args, 1, "ddp", "gpt", *jobs.flags(size), "--data", args.corpus, "--steps", 1, "--lr", SMALLEST_RATE,
                  "--generate", 0, "--save", folder)
        yield pathlib.Path(folder, "step-00000001", "model.safetensors")


def read(text):
    """The seconds and the loss of each step, of the lines of a loss file."""
    rows = [line.split() for line in text.splitlines()]
    return [float(row[1]) for row in rows], [float(row[2]) for row in rows]


def ours(args, strategy, size, environment=None):
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-") as folder:
        path = pathlib.Path(folder, "losses")
        jobs.ours(args, args.ranks, strategy, "gpt", *jobs.flags(size), "--data", args.corpus, "--steps", args.steps,
                  "--generate", 0, "--loss-file", path, environment=environment)
        return read(path.read_text())


def theirs(args, way, size, weights, environment=None):
    return read(jobs.theirs(args, args.ranks, "gpt_reference.py", *jobs.flags(size), "--data", args.corpus, "--weights",
                            weights, "--steps", args.steps, "--way", way, environment=environment))


def distance(model, losses):
    """The most by which the losses of a step are apart, of the smallest of them: of the first steps, and of all. Ends
    the program where that is too far, because what does not train the same is not to be compared."""
    apart = []
    for step, row in enumerate(zip(*losses.values(), strict=True)):
        (low, one), *_, (high, other) = sorted(zip(row, losses))
        apart.append((high - low) / low)
        bound = NEAR if step < FIRST else FAR
        if not apart[-1] <= bound:  # nor if one is not a number
            sys.exit(f"model \"{model}\": in step {step} the loss is {low:.7f} under {one} and {high:.7f} under "
                     f"{other}, further apart than {bound:g} of it. The programs do not train the same, so there are "
                     "no figures; compare gpt_reference.py and gpt_data.py with examples/gpt")
    return max(apart[:FIRST]), max(apart)
