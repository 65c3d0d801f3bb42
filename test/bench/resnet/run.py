#!/usr/bin/env python3
"""Measure how the ResNet example scales on this machine, beside the same network in Python's DDP on gloo and on dtrain.

    run.py --build build [--quick] [--ranks 1,2] [--runs 3] [--depth 50] [--alone] [--write FOLDER] [--plot FILE.svg]

weak     32 images per update of each process
strong   32 images per update, whatever the processes

Training on synthetic images of 32 x 32 pixels, 10 classes, Adam; a core for each process. Runs of all take turns; the
figure of a run is its median epoch after the first, that of a row the median of --runs. --quick: ResNet-18, one run.
Needs a build and a Python with torch.
"""
import argparse
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[2] / "examples/resnet")]

import page  # noqa: E402
import scaling  # noqa: E402

BATCH = 32
OURS, GLOO, DTRAIN = "dtrain, C++", "gloo, Python", "dtrain, Python"


def table(rows, kind, ranks, names):
    """Images per second and efficiency of each program, and how many times as fast the example is."""
    found = {(row[0], row[2]): row[3:] for row in rows if row[1] == kind}
    lines = [["processes", *(f"{name}, images/s | efficiency" for name in names),
              *(f"{OURS} / {name}" for name in names[1:])]]
    lines.append(["---"] + ["---: | ---:"] * len(names) + ["---:"] * (len(names) - 1))
    for count in ranks:
        cells = [f"{found[name, count][0]:.1f} | {100 * found[name, count][1]:.0f} %" for name in names]
        ratios = [f"{found[OURS, count][0] / found[name, count][0]:.2f}x" for name in names[1:]]
        lines.append([str(count), *cells, *ratios])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--depth", type=int, default=50)
    parser.add_argument("--quick", action="store_true")
    page.add_alone(parser)
    parser.add_argument("--python", default=".venv/bin/python", help="one with torch")
    parser.add_argument("--write", metavar="FOLDER", help="replace this section on its page in it")
    parser.add_argument("--plot", type=pathlib.Path, help="draw it")
    args = parser.parse_args()
    if args.quick:
        args.depth, args.runs = 18, 1
    build, ranks = os.path.abspath(args.build), [int(count) for count in args.ranks.split(",")]
    os.environ.update(PYTHON_EXEC=os.path.abspath(args.python), PYTHONWARNINGS="ignore",
                      PYTHONPATH=os.path.join(build, "python"))
    flags = ["--depth", str(args.depth), "--batch", str(BATCH), "--synthetic", str(2 * BATCH * max(ranks)),
             "--epochs", "3"]
    peer = [str(HERE / "resnet_peer.py"), *flags, "--backend"]
    programs = {OURS: [os.path.join(build, "bin/resnet"), *flags], GLOO: [*peer, "gloo"]}
    if list(pathlib.Path(build, "python/dtrain").glob("_C*")):
        programs[DTRAIN] = [*peer, "dtrain"]
    page.go_alone(args)
    *facts, load = page.machine(args.alone)
    facts += [f"torch {page.first_line(args.python, '-c', 'import torch; print(torch.__version__)')}.", load]
    try:
        rows = scaling.measure([os.path.join(build, "bin/dtrain"), "run", "--nproc"], programs, ranks, args.runs,
                               lambda line: print(line, flush=True))
    except scaling.Failed as failed:
        sys.exit(f"run.py: {failed}")
    runs = "one run" if args.runs == 1 else f"median of {args.runs} runs"
    parts = [f"ResNet-{args.depth} of examples/resnet, synthetic images of 32 x 32 pixels, a core for each process, "
             f"{runs}. Efficiency: images per second, divided by "
             "those of one process of the same program and by the number of processes.",
             f"Weak scaling, {BATCH} images per update of each process:", table(rows, "weak", ranks, list(programs)),
             f"Strong scaling, {BATCH} images per update of all together:",
             table(rows, "strong", ranks, list(programs))]
    if args.plot:
        args.plot.write_text(scaling.draw(rows))
        if args.write:
            place = os.path.relpath(args.plot, args.write)
            parts.append(f"![images per second and efficiency by processes]({place})")
    text = "\n\n".join(parts)
    print(text, flush=True)
    if args.write:
        page.write_section(args.write, "bench-resnet", "scaling", f"## ResNet\n\n{text}\n\n{' '.join(facts)}")


if __name__ == "__main__":
    main()
