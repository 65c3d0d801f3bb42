#!/usr/bin/env python3
"""Run a command on a terminal of its own and draw what it shows at the end as an SVG picture.

usage: record_terminal.py PICTURE.svg [--cwd FOLDER] [--title TEXT] [--columns N] -- COMMAND...

Understands what a line-oriented program writes: text, newline, carriage return, backspace, tab, colours (SGR), erase to
end of line. Fails if the command fails.
"""
import argparse
import fcntl
import html
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios

PALETTE = ["#1d1f21", "#cc6666", "#b5bd68", "#de935f", "#81a2be", "#b294bb", "#8abeb7", "#c5c8c6",
           "#767876", "#d54e53", "#b9ca4a", "#e7c547", "#7aa6da", "#c397d8", "#70c0b1", "#eaeaea"]
FOREGROUND, BACKGROUND = "#c5c8c6", "#1d1f21"
CELL_WIDTH, LINE_HEIGHT, MARGIN, BAR = 8.4, 19, 16, 30


def run_on_a_terminal(command, cwd, columns):
    """What `command` wrote to its terminal, and its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    child = subprocess.Popen(command, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                             env={**os.environ, "TERM": "xterm-256color"})
    os.close(theirs)
    written = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # EIO: every process has closed the terminal
            break
        if not data:
            break
        written += data
    return written.decode("utf-8", "replace"), child.wait()


class Screen:
    """Lines of (character, style); a style is (colour or None, bold, dim)."""

    def __init__(self):
        self.lines, self.column, self.style = [[]], 0, (None, False, False)

    def put(self, character):
        line = self.lines[-1]
        line.extend([(" ", (None, False, False))] * (self.column - len(line)))
        line[self.column:self.column + 1] = [(character, self.style)]
        self.column += 1

    def select(self, parameters):
        codes = [int(code or 0) for code in parameters.split(";")]
        colour, bold, dim = self.style
        while codes:
            code = codes.pop(0)
            if code == 0:
                colour, bold, dim = None, False, False
            elif code == 1:
                bold = True
            elif code == 2:
                dim = True
            elif code == 22:
                bold = dim = False
            elif code == 39:
                colour = None
            elif 30 <= code <= 37 or 90 <= code <= 97:
                colour = PALETTE[code - 30 if code < 40 else code - 82]
            elif code == 38 and codes[:1] == [5]:
                colour, codes = indexed_colour(codes[1]), codes[2:]
        self.style = (colour, bold, dim)

    def write(self, text):
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[\s\S]", text):
            if part.startswith("\x1b["):
                if part.endswith("m"):
                    self.select(part[2:-1])
                elif part.endswith("K"):
                    del self.lines[-1][self.column if part[2:-1] in ("", "0") else 0:]
            elif part == "\n":
                self.lines.append([])
                self.column = 0
            elif part == "\r":
                self.column = 0
            elif part == "\b":
                self.column = max(0, self.column - 1)
            elif part == "\t":
                self.column += 8 - self.column % 8
            elif part >= " ":
                self.put(part)


def indexed_colour(index):
    if index < 16:
        return PALETTE[index]
    if index >= 232:
        return "#" + 3 * f"{8 + 10 * (index - 232):02x}"
    steps = [0, 95, 135, 175, 215, 255]
    index -= 16
    return "#%02x%02x%02x" % (steps[index // 36], steps[index // 6 % 6], steps[index % 6])


def draw_line(line, y):
    """One <text> with a <tspan> for every run of one style."""
    spans, start = [], 0
    while start < len(line):
        end = start
        while end < len(line) and line[end][1] == line[start][1]:
            end += 1
        (colour, bold, dim), text = line[start][1], "".join(character for character, _ in line[start:end])
        style = (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if bold else "") + \
                (' opacity="0.6"' if dim else "")
        spans.append(f'<tspan x="{MARGIN + start * CELL_WIDTH:.1f}"{style}>{html.escape(text)}</tspan>')
        start = end
    return f'<text y="{y}">{"".join(spans)}</text>' if spans else ""


def draw(lines, columns, title):
    columns = max(columns, *map(len, lines))
    width, height = 2 * MARGIN + columns * CELL_WIDTH, BAR + LINE_HEIGHT * len(lines) + MARGIN
    dots = "".join(f'<circle cx="{MARGIN + 16 * i + 4}" cy="15" r="5" fill="{colour}"/>'
                   for i, colour in enumerate(["#cc6666", "#de935f", "#b5bd68"]))
    body = "\n".join(filter(None, (draw_line(line, BAR + LINE_HEIGHT * (i + 1) - 5) for i, line in enumerate(lines))))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" \
role="img" aria-label="{html.escape(title)}">
<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>
{dots}
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14" fill="{FOREGROUND}" \
xml:space="preserve">
{body}
</g>
</svg>
"""


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("picture")
    parser.add_argument("--cwd")
    parser.add_argument("--title", default="a recorded terminal")
    parser.add_argument("--columns", type=int, default=92)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    text, code = run_on_a_terminal(options.command, options.cwd, options.columns)
    if code != 0:
        sys.exit(f"record_terminal.py: the command ended with {code}:\n{text}")
    screen = Screen()
    screen.write(f"\x1b[32m$\x1b[0m \x1b[1m{shlex.join(options.command)}\x1b[0m\n{text.rstrip()}")
    with open(options.picture, "w", encoding="utf-8") as picture:
        picture.write(draw(screen.lines, options.columns, options.title))


if __name__ == "__main__":
    main()
