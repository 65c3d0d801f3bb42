#!/usr/bin/env python3
"""Measure dtrain's launcher beside torchrun, mpirun and plain fork+exec, in one run.

    run.py [--bin build/bin] [--torchrun PATH] [--only SECTION...] [--quick] [--write docs/benchmarks.md]

Prints every figure, and each bar as met or not met: a figure that falls short does not make the benchmark fail. With
--write the figures replace this benchmark's part of the page. `--alone` runs all under a real-time priority (needs
root), so that other work on the machine counts less.
"""
import argparse
import datetime
import os
import platform
import re
import shutil
import subprocess
import sys

import failing
import footprint
import killing
import printing
import starting
import storing
from bench import Context, first_existing, markdown, torchs_torchrun

SECTIONS = {"start": starting, "footprint": footprint, "death": failing, "kill": killing, "output": printing,
            "store": storing}
BEGIN, END = "<!-- bench-launch: begin -->", "<!-- bench-launch: end -->"
PAGE = """# Benchmarks

Every part of this page is written by the command it names.

"""


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except OSError:
        return "?"
    return (done.stdout.strip().splitlines() or ["?"])[0]


def facts(context, alone):
    """The machine and the versions, one sentence each; no names, no paths."""
    with open("/proc/cpuinfo") as f:
        cpu = next((line.partition(":")[2].strip() for line in f if line.startswith("model name")), platform.machine())
    with open("/proc/meminfo") as f:
        memory = int(f.readline().split()[1]) / 2**20
    said = [f"{os.cpu_count()} cores of {cpu}, {memory:.0f} GiB, Linux {platform.release().split('-')[0]}.",
            f"dtrain {first_line('git', 'describe', '--always', '--dirty')}."]
    if context.torchrun:
        python = os.path.join(os.path.dirname(context.torchrun), "python")
        said.append(f"torch {first_line(python, '-c', 'import torch; print(torch.__version__)')}.")
    if context.mpirun:
        said.append(f"{first_line(context.mpirun, '--version')}.")
    load = os.getloadavg()[0]
    said.append(f"Load average at the start {load:.1f}" +
                (", all but the kills under a real-time priority, so that other work counts less." if alone else "."))
    return said


def bars_table(bars):
    words = {True: "met", False: "**not met**", None: "not measured"}
    rows = [f"| {bar.what} | {bar.figure} | {bar.promise} | {words[bar.met]} |" for bar in bars]
    return "\n".join(["| figure | measured | bar | |", "|---|---|---|---|", *rows])


def render(sections, said):
    bars = [bar for section in sections for bar in section.bars]
    when = datetime.date.today().isoformat()
    return "\n\n".join(["## The launcher", f"`make bench-launch`, {when}. " + " ".join(said), bars_table(bars),
                        *[markdown(section).strip() for section in sections]])


def write_page(path, text):
    part = f"{BEGIN}\n{text}\n{END}\n"
    page = PAGE
    if os.path.exists(path):
        with open(path) as f:
            page = f.read()
    if BEGIN in page:
        page = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END) + "\n?", lambda _: part, page, flags=re.DOTALL)
    else:
        page = page.rstrip("\n") + "\n\n" + part
    with open(path, "w") as f:
        f.write(page)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin", help="folder of dtrain, bench_worker and bench_fork_exec")
    parser.add_argument("--torchrun", help="torch's own (default: of .venv, else on the PATH)")
    parser.add_argument("--scratch", help="folder for events, consoles and logs (default: /dev/shm, else $TMPDIR)")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="a few repeats: does it work, not how fast is it")
    parser.add_argument("--alone", action="store_true", help="under a real-time priority (needs root)")
    parser.add_argument("--write", metavar="PAGE", help="replace this benchmark's part of the page")
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
    said = facts(context, args.alone)
    sections = []
    for name in args.only:
        print(f"measuring: {name}", flush=True)
        if args.alone and name != "kill":  # a fork bomb with a real-time priority would leave nothing to others
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))
        else:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        section = SECTIONS[name].measure(context)
        if section:
            sections.append(section)
            print(markdown(section) + bars_table(section.bars) + "\n", flush=True)
    text = render(sections, said)
    print(text)
    if args.write:
        write_page(args.write, text)


if __name__ == "__main__":
    main()
