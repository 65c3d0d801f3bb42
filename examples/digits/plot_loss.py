#!/usr/bin/env python3
"""Draw the loss of one or more runs as an SVG. Needs nothing but Python.

usage: plot_loss.py LOSS.csv... [-o loss.svg]      (LOSS.csv comes from train --loss-csv)
"""
import argparse
import csv
import math
import pathlib
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 24, 48
COLOURS = ["#0b6e99", "#d9730d", "#448361", "#9065b0", "#c14c8a", "#787774"]


def read(path):
    with open(path, newline="") as file:
        points = [(int(row["step"]), float(row["loss"])) for row in csv.DictReader(file)]
    if not points:
        raise ValueError("it has no rows")
    return points


def ticks(highest, about=5):
    """Round numbers (1, 2 or 5 times a power of ten apart) from 0 to `highest`, about five."""
    power = 10.0 ** math.floor(math.log10(highest / about))
    step = min((power * factor for factor in (1, 2, 5, 10)), key=lambda s: abs(highest / s - about))
    return [i * step for i in range(int(highest / step) + 1)]


def draw(runs):
    last_step = max(max(step for step, _ in points) for _, points in runs) or 1
    most_loss = max(max(loss for _, loss in points) for _, points in runs) or 1.0
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(step):
        return LEFT + width * step / last_step

    def y(loss):
        return TOP + height * (1 - loss / most_loss)

    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#37352f">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for loss in ticks(most_loss):
        svg.append(f'<line x1="{LEFT}" y1="{y(loss):.1f}" x2="{WIDTH - RIGHT}" y2="{y(loss):.1f}" stroke="#e3e2e0"/>')
        svg.append(f'<text x="{LEFT - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:g}</text>')
    for step in ticks(last_step):
        svg.append(f'<text x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step:g}</text>')
    svg.append(f'<text x="{LEFT + width / 2}" y="{HEIGHT - 10}" text-anchor="middle">step</text>')
    middle = TOP + height / 2
    svg.append(f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">loss</text>')
    for i, (name, points) in enumerate(runs):
        colour = COLOURS[i % len(COLOURS)]
        line = " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in points)
        svg.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        place = f'x="{WIDTH - RIGHT - 8}" y="{TOP + 16 + 18 * i}"'
        svg.append(f'<text {place} text-anchor="end" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*svg, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description="Draw the loss of one or more runs as an SVG.")
    parser.add_argument("csv", nargs="+", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("loss.svg"))
    arguments = parser.parse_args()
    runs = []
    for path in arguments.csv:
        try:
            runs.append((path.stem, read(path)))
        except (OSError, KeyError, ValueError) as error:
            sys.exit(f"plot_loss.py: {path} is not a loss CSV of train: {error}")
    arguments.output.write_text(draw(runs))
    print(f"wrote {arguments.output}")


if __name__ == "__main__":
    main()
