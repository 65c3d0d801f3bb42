#!/usr/bin/env python3
"""Measure sharded training: steps of examples/gpt beside Python's, the price of the same bits, the memory of a rank,
the largest model inside a limit, and what it costs to make a group of parameters whole.

    run.py --build build --python PYTHON [--only steps,deterministic,memory,largest,unshard] [--ranks 2]
           [--steps 40] [--rounds 3] [--limit 1] [--models small,wide] [--corpus FILE] [--write FOLDER]

Programs that are compared take turns, with one thread for each rank.
"""
import argparse
import os
import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "support")]

import page  # noqa: E402
from largest import largest  # noqa: E402
from memory import memory  # noqa: E402
from steps import SIZES, deterministic, steps_of  # noqa: E402
from unshard import unshard  # noqa: E402

SECTIONS = {"steps": ("A step of a GPT", steps_of),
            "deterministic": ("The same bits on any number of ranks", deterministic),
            "memory": ("Memory of a rank", memory),
            "largest": ("The largest model inside a limit of memory", largest),
            "unshard": ("Making groups whole", unshard)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--python", required=True, help="a Python with torch")
    parser.add_argument("--only", default=",".join(SECTIONS), help="some of the sections, separated by commas")
    parser.add_argument("--ranks", type=int, default=2, help="of sections about steps")
    parser.add_argument("--steps", type=int, default=40, help="of each run, the first ten of which do not count")
    parser.add_argument("--rounds", type=int, default=3, help="how often each program has its turn")
    parser.add_argument("--limit", type=float, default=1, help="of section largest: GiB for the model, in all ranks")
    parser.add_argument("--models", default=",".join(SIZES), help="of section steps: of " + ", ".join(SIZES))
    parser.add_argument("--corpus", default=HERE.parents[2] / ".cache/corpus.txt",
                        help="of section steps: a text (scripts/setup.sh bench puts one into .cache)")
    parser.add_argument("--write", metavar="FOLDER", help="replace these sections on their page in it")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # nothing is left behind then
    args.build = os.path.abspath(args.build)
    for name in args.only.split(","):
        title, measure = SECTIONS[name]
        print(f"== {name}", flush=True)
        facts = page.machine(False)
        bars, parts = measure(args)
        text = "\n\n".join([page.bars_table(bars), *parts])
        print(text, flush=True)
        if args.write:
            page.write_section(args.write, "bench-sharding", name, f"## {title}\n\n{text}\n\n{' '.join(facts)}")


if __name__ == "__main__":
    main()
