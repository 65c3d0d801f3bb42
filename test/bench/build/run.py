#!/usr/bin/env python3
"""Measure what a first hour waits for: `make demo`, `launcher` and `wheel` on bare clones, and where the time goes.

    run.py [--only demo,launcher,wheel] [--write FOLDER]

Each is made on a fresh clone of this commit, without ccache, with all downloads but Debian's packages: those are
installed before. `again` is the same command once more. The parts are setup's own figures, the commands of the build by
their start and end (.ninja_log), and the rest.
"""
import argparse
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))

import page  # noqa: E402

DEADLINE = 3600
PROMISES = {"demo": 240, "launcher": 60, "wheel": None}
# A command's time counts for the first of these that its output's name contains.
PARTS = [("rendezvous/", "rendezvous"), ("launcher/", "launcher"), ("cli/", "cli"), ("bin/dtrain", "cli"),
         ("strategies/", "training layer"), ("examples/", "example"), ("bin/train", "example")]


@contextlib.contextmanager
def bare_clone():
    with tempfile.TemporaryDirectory(prefix="dtrain-bare-") as folder:
        clone = pathlib.Path(folder, "dtrain")
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True, timeout=DEADLINE)
        yield clone


def make(clone, target):
    """Its seconds, and what it printed."""
    started = time.monotonic()
    done = subprocess.run(["make", "--no-print-directory", target], cwd=clone, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE,
                          env={**os.environ, "CCACHE_DISABLE": "1"})
    if done.returncode != 0:
        sys.exit(f"make {target} failed:\n{done.stdout[-4000:]}")
    return time.monotonic() - started, done.stdout


def commands(log):
    """What ninja ran: (seconds, output), the longest first; and when the last of it ended."""
    found, over = {}, 0
    for line in log.read_text().splitlines()[1:]:
        start, end, _, output, key = line.split("\t")
        found[start, end, key] = ((int(end) - int(start)) / 1000, output)
        over = max(over, int(end) / 1000)
    return sorted(found.values(), reverse=True), over


def by_part(ran):
    """Seconds of commands by part; two that ran at once count twice."""
    sums = {}
    for seconds, output in ran:
        part = next((name for text, name in PARTS if text in output), "other")
        sums[part] = sums.get(part, 0) + seconds
    return sorted(sums.items(), key=lambda item: -item[1])


def measure(target):
    with bare_clone() as clone:
        whole, said = make(clone, target)
        again, _ = make(clone, target)
        setup = sum(int(seconds) for seconds in re.findall(r"^setup: .* installed in (\d+) s$", said, re.MULTILINE))
        ran, over = commands(clone / ("build/wheel/build" if target == "wheel" else "build") / ".ninja_log")
        return {"target": target, "whole": whole, "again": again, "setup": setup, "build": over, "ran": ran}


def report(rows):
    bars = [page.judged(f"`make {row['target']}` on a bare clone", row["whole"], "<=", PROMISES[row["target"]], "s")
            for row in rows if PROMISES[row["target"]]]
    lines = ["## From a bare clone", "", *page.machine(), "`make bench-build`. Debian packages were there.",
             "Downloads of torch and of tools count. ccache was off.", "", page.bars_table(bars), "",
             "| command | first | again | setup | build |", "|---|---:|---:|---:|---:|"]
    for row in rows:
        lines.append(f"| `make {row['target']}` | {row['whole']:.0f} s | {row['again']:.1f} s | {row['setup']} s | "
                     f"{row['build']:.0f} s |")
    for row in rows:
        parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in by_part(row["ran"]))
        longest = ", ".join(f"{pathlib.Path(output).name} {seconds:.0f} s" for seconds, output in row["ran"][:3])
        lines += ["", f"Commands of the build in `make {row['target']}`, {len(row['ran'])} of them; two that ran",
                  f"at once count twice: {parts}. The longest: {longest}."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PROMISES), help="of demo, launcher, wheel")
    parser.add_argument("--write", metavar="FOLDER", help="replace this section on its page in it")
    options = parser.parse_args()
    targets = options.only.split(",")
    if unknown := set(targets) - set(PROMISES):
        parser.error(f"no target {sorted(unknown)[0]}; there are {', '.join(PROMISES)}")
    text = report([measure(target) for target in targets])
    print(text, end="")
    if options.write:
        page.write_section(options.write, "bench-build", "bare", text)


if __name__ == "__main__":
    main()
