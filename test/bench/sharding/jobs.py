"""Starts what the sections of run.py measure: programs under `dtrain run`, and Python's under torchrun."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 1800  # seconds


def flags(size):
    return [str(word) for key, value in size.items() for word in (f"--{key}", value)]


def launched(args, flags, ranks, strategy, program, *words):
    """The command line of a program in build/bin under `dtrain run`."""
    return [f"{args.build}/bin/dtrain", "run", "--quiet", *flags, "--nproc", ranks, "--strategy", strategy,
            f"{args.build}/bin/{program}", *words]


def by_torchrun(args, ranks, program, *words):
    """The command line of a program of this folder under torchrun."""
    return [args.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, HERE / program,
            *words]


def ours(args, ranks, strategy, program, *words, environment=None):
    """What rank 0 prints of a program in build/bin."""
    return said_by(strategy, launched(args, ["--log-line-prefix-template", " "], ranks, strategy, program, *words),
                   environment)


def theirs(args, ranks, program, *words, environment=None):
    """What rank 0 prints of a program of this folder."""
    return said_by(program, by_torchrun(args, ranks, program, *words), environment)


def alone(args, program, *words):
    """What a program of this folder prints that makes its own ranks."""
    return said_by(program, [args.python, HERE / program, *words], None)


def said_by(name, line, environment):
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, timeout=LIMIT,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})})
    if done.returncode != 0:
        sys.exit(f"{name} failed:\n{done.stderr}{done.stdout}")
    return done.stdout
