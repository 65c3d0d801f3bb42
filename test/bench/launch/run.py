#!/usr/bin/env python3
"""Measure dtrain's launcher beside torchrun, mpirun and plain fork+exec, in one run.

    run.py [--bin build/bin] [--torchrun PATH] [--only SECTION...] [--quick] [--write docs/benchmarks]

Prints every figure, and each bar as met or not met: a figure that falls short does not make the benchmark fail. With
--write each section is replaced on its page. `--alone` runs all but the kills under a real-time priority (needs
root), so that other work on the machine counts less.
"""
import argparse
import os
import pathlib
import shutil
import sys

import failing
import filtering
import footprint
import killing
import printing
import starting
import storing
from bench import Context, first_existing, torchs_torchrun

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from page import bars_table, first_line, machine, write_section  # noqa: E402

SECTIONS = {"start": starting, "footprint": footprint, "death": failing, "kill": killing, "output": printing,
            "filters": filtering, "store": storing}


def facts(context, alone):
    """The machine and the versions, one sentence each; no names, no paths."""
    *said, load = machine(alone)
    if context.torchrun:
        python = os.path.join(os.path.dirname(context.torchrun), "python")
        said.append(f"torch {first_line(python, '-c', 'import torch; print(torch.__version__)')}.")
    if context.mpirun:
        said.append(f"{first_line(context.mpirun, '--version')}.")
    return [*said, load]


def render(section, said):
    lines = [f"## {section.title}", " ".join(section.says), bars_table(section.bars)]
    if section.rows:
        rows = [section.header, ["---"] * len(section.header), *section.rows]
        lines.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    return "\n\n".join([*lines, " ".join(said)])


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin", help="folder of dtrain, bench_worker and bench_fork_exec")
    parser.add_argument("--torchrun", help="torch's own (default: of .venv, else on the PATH)")
    parser.add_argument("--scratch", help="folder for events, consoles and logs (default: /dev/shm, else $TMPDIR)")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="a few repeats: does it work, not how fast is it")
    parser.add_argument("--alone", action="store_true", help="under a real-time priority (needs root)")
    parser.add_argument("--write", metavar="FOLDER", help="replace the measured sections on their pages in it")
    return parser.parse_args()


def main():
    args = parse()
    context = Context(os.path.abspath(args.bin), torchs_torchrun(args.torchrun), shutil.which("mpirun"),
                      args.scratch or first_existing("/dev/shm"), args.quick)
    if not os.path.exists(context.dtrain) or not os.path.exists(context.worker):
        sys.exit(f"run.py: no dtrain or bench_worker in {args.bin}; `make bench-launch` builds them")
    for name in ("torchrun", "mpirun"):
        if getattr(context, name) is None:
            print(f"no {name}: its columns stay empty", flush=True)
    for name in args.only:
        print(f"measuring: {name}", flush=True)
        alone = args.alone and name != "kill"  # a fork bomb with a real-time priority would leave nothing to others
        said = facts(context, alone)
        os.sched_setscheduler(0, os.SCHED_RR if alone else os.SCHED_OTHER, os.sched_param(5 if alone else 0))
        section = SECTIONS[name].measure(context)
        if section is None:
            continue
        text = render(section, said)
        print(text + "\n", flush=True)
        if args.write:
            write_section(args.write, "bench-launch", name, text)


if __name__ == "__main__":
    main()
