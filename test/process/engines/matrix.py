#!/usr/bin/env python3
"""The failure matrix: what is done to a job, under each engine, and how the job ends. Prints a table.

    matrix.py [--engines local,ssh,...] [--rows 'rank exits 7,...'] [--peers] [--write docs/engines.md] [--json FILE]

Ends with 1 if a cell of dtrain's engines is not as rows.py demands. --peers adds torchrun and TorchDistributor.
"""
import argparse
import json
import os
import pathlib
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "bench")]

from engines import ENGINES, ROOT, netlab  # noqa: E402
from jobs import ENDLESS, loss_of, run_row  # noqa: E402
from page import machine, replace_section  # noqa: E402
from peers import PEERS  # noqa: E402
from rows import (ABSENT, BY_NAME, GONE_SECONDS, HELPED, NOTES, OWN, ROWS, expected,  # noqa: E402
                  faults)

DATA = str(ROOT / ".cache/digits.csv.gz")
TRAIN = os.path.abspath(os.path.join(os.environ.get("DTRAIN_BIN_DIR", "build/bin"), "train"))
MARKS = "engines-matrix"


def run_engine(kind, rows, told=lambda *_: None):
    """{name of a row: Outcome} of this engine, and the losses of the example under it; None without the example."""
    with tempfile.TemporaryDirectory(prefix="dtm-") as folder, kind(folder) as engine:
        outcomes = {}
        for row in rows:
            if (engine.name, row.name) not in ABSENT:
                outcomes[row.name] = run_row(engine, row, folder)
                told(engine.name, row, outcomes[row.name])
        losses = loss_of(engine, TRAIN, DATA, folder) if kind in ENGINES and os.path.exists(TRAIN) else None
        return outcomes, losses


def cell(engine, row, outcome):
    if outcome is None:
        return "–" if (engine, row.name) in ABSENT else "not run"
    codes, says = expected(engine, row)
    code = "no end" if outcome.code == ENDLESS else str(outcome.code)
    code = code if outcome.code in codes else f"**{code}**"
    headline = "–" if not says else "yes" if re.search(says, outcome.said) else "**no**"
    left = f"**{len(outcome.left)}**" if outcome.left else "0"
    return f"{code}, {outcome.seconds:.1f} s, {left}, {headline}"


def table(rows, found):
    """`found`: {engine: {row: Outcome}}."""
    lines = ["| | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|"]
    for row in rows:
        cells = [cell(name, row, outcomes.get(row.name)) for name, outcomes in found.items()]
        lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def reasons(title, rows, found, whys):
    """A line for each reason of `whys`: {(engine, row): why}, below a title."""
    rows_of, engines_of = {}, {}
    for (engine, row), why in whys.items():
        if row in {each.name for each in rows} and engine in found:
            rows_of.setdefault((engine, why), []).append(row)
    for (engine, why), of in rows_of.items():
        engines_of.setdefault((tuple(of), why), []).append(engine)
    lines = [f"- {', '.join(engines)}; {', '.join(of)}: {why}" for (of, why), engines in engines_of.items()]
    return [f"{title}\n\n" + "\n".join(lines)] if lines else []


def page(rows, found, same, said):
    return "\n\n".join([
        "A cell shows the exit code, the seconds from the event to the end of the command, the processes that are left "
        f"{GONE_SECONDS:g} s later, and whether the output has the headline. After \"submitter killed\" the time is "
        "that until nothing is left, and nobody is there who could print a headline. What is not as it should be is "
        "bold. A dash means that the engine cannot have this case.",
        table(rows, found),
        "What is done to the job:\n\n" + "\n".join(f"- {row.name}: {row.about}" for row in rows),
        *reasons("Here the launcher of the engine ends the command, or the command line is refused:", rows, found,
                 {at: why for at, (_, _, why) in OWN.items()}),
        *reasons("Here the command has a flag that helps:", rows, found,
                 {at: why for at, (_, why) in HELPED.items()}),
        *reasons("What else is to be said of cells:", rows, found, NOTES),
        *reasons("Why cells have a dash:", rows, found, ABSENT),
        same, said])


def loss_line(losses):
    known = {name: each for name, each in losses.items() if each is not None}
    if not known:
        return "The example was not built, so no losses were compared."
    steps = len(next(iter(known.values())).splitlines()) - 1
    last = next(iter(known.values())).decode().split(",")[-1].strip()
    same = "the same bytes" if len(set(known.values())) == 1 else "**different bytes**"
    return (f"`examples/digits` with two ranks (two epochs, in double precision) wrote {same} under each of these "
            f"engines ({', '.join(known)}): the losses of all {steps} steps. The last loss is {last}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [kind.name for kind in ENGINES]
    parser.add_argument("--engines", default=",".join(names), help="some of " + ", ".join(names))
    parser.add_argument("--rows", default=",".join(BY_NAME), help="some of the rows' names")
    parser.add_argument("--peers", action="store_true", help="also torchrun and TorchDistributor")
    parser.add_argument("--write", metavar="PAGE", help="replace the table in this page")
    parser.add_argument("--json", metavar="FILE", help="also write what each job said to this file")
    args = parser.parse_args()
    said = machine()
    rows = [BY_NAME[name] for name in args.rows.split(",")]
    kinds = [kind for kind in ENGINES if kind.name in args.engines.split(",")] + (PEERS if args.peers else [])
    own = {kind.name for kind in ENGINES}
    found, losses, wrong = {}, {}, []

    def told(engine, row, outcome):
        why = faults(engine, row, outcome) if engine in own else []
        print(f"{engine}, {row.name}: {cell(engine, row, outcome)}", *why, sep="; ", file=sys.stderr, flush=True)
        wrong.extend(why)

    for kind in kinds:
        found[kind.name], losses[kind.name] = run_engine(kind, rows, told)
    text = page(rows, found, loss_line(losses), " ".join(said))
    print(text)
    if args.json:
        everything = {engine: {row: vars(outcome) for row, outcome in of.items()} for engine, of in found.items()}
        pathlib.Path(args.json).write_text(json.dumps(everything, indent=2))
    if args.write:
        replace_section(args.write, MARKS, text)
    return 1 if wrong or len({each for each in losses.values() if each is not None}) > 1 else 0


if __name__ == "__main__":
    netlab.become_able()
    sys.exit(main())
