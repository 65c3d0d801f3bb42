#!/usr/bin/env python3
"""Measure how a training program scales: images per second on 1, 2, ... processes of one machine, as CSV and as SVG.
Needs nothing but Python.

usage: scaling.py [--nproc 1,2,4] [--runs 3] [-o scaling.csv] [--plot scaling.svg] -- ./resnet [FLAG...]

weak     every process has its --batch, so that an update has more images on more processes
strong   --strong: an update has the same images on any number of processes

Efficiency is images per second, divided by those of one process (or the least --nproc) and by how many times as many
processes there are. Each process gets --threads 1, if the program's flags do not say otherwise: else one process would
have all cores to itself, and could only lose by company. Runs take turns, and medians count.
"""
import argparse
import csv
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
from xml.sax.saxutils import escape

KINDS = {"weak": [], "strong": ["--strong"]}
HEADER = ["program", "scaling", "ranks", "images_per_second", "efficiency"]

WIDTH, HEIGHT = 860, 360
TOP, BOTTOM, LEFT, GAP, RIGHT = 40, 48, 64, 84, 20
COLOURS = ["#0b6e99", "#d9730d", "#448361", "#9065b0"]
DASHES = {"weak": "", "strong": ' stroke-dasharray="6 4"'}


class Failed(Exception):
    pass


def images_per_second(launch, ranks, command, limit=1200):
    """One run, by what the program writes to --json."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "result.json")
        threads = [] if "--threads" in command else ["--threads", "1"]
        full = [*launch, str(ranks), *command, *threads, "--json", str(file)]
        done = subprocess.run(full, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit)
        if done.returncode != 0:
            raise Failed(f"{' '.join(full)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return json.loads(file.read_text())["images_per_second"]


def measure(launch, programs, ranks, runs, say=lambda line: None):
    """programs: {name: command}. Rows by HEADER."""
    taken = {}
    for run in range(runs):
        for kind, flags in KINDS.items():
            for count in ranks:
                for name, command in programs.items():
                    rate = images_per_second(launch, count, [*command, *flags])
                    taken.setdefault((name, kind, count), []).append(rate)
                    say(f"run {run + 1} of {runs}: {name}, {kind}, {count}: {rate:.1f} images/s")
    rates = {key: statistics.median(values) for key, values in taken.items()}
    least = min(ranks)
    return [[name, kind, count, rate, rate * least / (count * rates[name, kind, least])]
            for (name, kind, count), rate in sorted(rates.items())]


def write_csv(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        writer.writerows([*row[:3], f"{row[3]:.2f}", f"{row[4]:.4f}"] for row in rows)


def ticks(highest, about=5):
    """Round numbers (1, 2 or 5 times a power of ten apart) from 0 to `highest`, about five."""
    power = 10.0 ** math.floor(math.log10(highest / about))
    step = min((power * factor for factor in (1, 2, 5, 10)), key=lambda s: abs(highest / s - about))
    return [i * step for i in range(int(highest / step) + 1)]


def panel(left, width, title, lines, ranks, format_tick):
    """lines: [(colour, dash, [(ranks, value)])]; SVG elements."""
    height = HEIGHT - TOP - BOTTOM
    most = 1.1 * max(value for _, _, points in lines for _, value in points)

    def x(count):
        return left + width * ((ranks.index(count) + 0.5) / len(ranks))

    def y(value):
        return TOP + height * (1 - value / most)

    svg = [f'<text x="{left}" y="{TOP - 14}" font-weight="bold">{escape(title)}</text>']
    for value in ticks(most):
        svg.append(f'<line x1="{left}" y1="{y(value):.1f}" x2="{left + width}" y2="{y(value):.1f}" stroke="#e3e2e0"/>')
        svg.append(f'<text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{format_tick(value)}</text>')
    for count in ranks:
        svg.append(f'<text x="{x(count):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{count}</text>')
    svg.append(f'<text x="{left + width / 2}" y="{HEIGHT - 10}" text-anchor="middle">processes</text>')
    for colour, dash, points in lines:
        places = " ".join(f"{x(count):.1f},{y(value):.1f}" for count, value in points)
        svg.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>')
        svg += [f'<circle cx="{x(count):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>' for count, value in points]
    return svg


def draw(rows):
    ranks = sorted({row[2] for row in rows})
    names = sorted({row[0] for row in rows})
    width = (WIDTH - LEFT - GAP - RIGHT) / 2

    def lines(column):
        return [(COLOURS[i % len(COLOURS)], DASHES[kind], [(row[2], row[column]) for row in rows
                                                           if row[:2] == [name, kind]])
                for i, name in enumerate(names) for kind in KINDS]

    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#37352f">',
        '<rect width="100%" height="100%" fill="white"/>',
        *panel(LEFT, width, "images per second", lines(3), ranks, lambda value: f"{value:g}"),
        *panel(LEFT + width + GAP, width, "efficiency", lines(4), ranks, lambda value: f"{100 * value:g} %"),
    ]
    for i, (name, kind) in enumerate((name, kind) for name in names for kind in KINDS):
        at, colour = HEIGHT - BOTTOM - 12 - 18 * i, COLOURS[names.index(name) % len(COLOURS)]
        left = LEFT + width + GAP + 8
        svg.append(f'<line x1="{left}" y1="{at - 4}" x2="{left + 32}" y2="{at - 4}" stroke="{colour}" '
                   f'stroke-width="1.5"{DASHES[kind]}/>')
        svg.append(f'<text x="{left + 38}" y="{at}" fill="{colour}">{escape(name)}, {kind}</text>')
    return "\n".join([*svg, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description="Measure how a training program scales, and draw it.",
                                     usage="%(prog)s [FLAG...] -- ./resnet [FLAG...]")
    parser.add_argument("--nproc", default="1,2", help="numbers of processes, separated by commas")
    parser.add_argument("--runs", type=int, default=3, help="of which the median counts")
    parser.add_argument("--dtrain", default="./dtrain", help="the launcher")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("scaling.csv"))
    parser.add_argument("--plot", type=pathlib.Path, default=pathlib.Path("scaling.svg"))
    parser.add_argument("command", nargs="+", help="the program, with its flags after a --")
    arguments = parser.parse_args()
    try:
        ranks = sorted({int(count) for count in arguments.nproc.split(",")})
        if ranks[0] < 1 or arguments.runs < 1:
            raise Failed("--nproc wants whole numbers from 1 on, and so does --runs")
        name = pathlib.Path(arguments.command[0]).name
        rows = measure([arguments.dtrain, "run", "--nproc"], {name: arguments.command}, ranks, arguments.runs,
                       lambda line: print(line, flush=True))
        write_csv(arguments.output, rows)
        arguments.plot.write_text(draw(rows))
    except (Failed, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        sys.exit(f"scaling.py: {error}")
    for _, kind, count, rate, efficiency in rows:
        print(f"{kind:6} {count} processes: {rate:8.1f} images/s, efficiency {100 * efficiency:.0f} %")
    print(f"wrote {arguments.output} and {arguments.plot}")


if __name__ == "__main__":
    main()
