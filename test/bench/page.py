"""What the benchmarks that write docs/benchmarks/ share: bars, facts of the machine, a section's page and place."""
import datetime
import json
import math
import os
import platform
import re
import subprocess
from dataclasses import dataclass
from typing import Optional

# page: its title, what it is about, and its sections by who writes them
PAGES = {
    "launch": ("Launch", "Start, end, death and rest of a job on one node.",
               ["bench-launch start", "bench-launch footprint", "bench-launch death", "bench-launch kill"]),
    "output": ("Output", "What workers print.", ["bench-launch output", "bench-launch filters"]),
    "rendezvous": ("Rendezvous", "Nodes that come, go and are lost; links between them; thousands of nodes.",
                   ["bench-rendezvous faults", "bench-rendezvous tls", "bench-rendezvous rounds",
                    "bench-rendezvous start", "bench-rendezvous agents"]),
    "engines": ("Engines", "What dtrain adds to the engines that start its agents.", ["bench-engines start"]),
    "store": ("Store", "The workers' store, on one node and across nodes.",
              ["bench-launch store", "bench-rendezvous store", "bench-rendezvous edges", "bench-rendezvous barrier"]),
    "collectives": ("Collectives", "Collectives and messages between ranks, on one host and on two.",
                    ["bench-collectives allreduce", "bench-collectives others", "bench-collectives hosts"]),
    "checkpoint": ("Checkpoints", "Saving and loading the state of several ranks.",
                   ["bench-checkpoint saving", "bench-checkpoint kept", "bench-checkpoint async"]),
    "build": ("Build", "What a first hour waits for: builds from a bare clone.",
              ["bench-build bare", "bench-build sizes"]),
    "sharding": ("Sharding", "Steps and memory under DDP, ZeRO and FSDP beside Python's, and what features cost.",
                 ["bench-sharding steps", "bench-sharding deterministic", "bench-sharding memory",
                  "bench-sharding largest", "bench-sharding unshard"]),
    "training": ("Training", "Steps of DDP, Horovod's way of reducing, how ResNet scales, and steps of optimizers.",
                 ["bench-collectives ddp", "bench-collectives fusion", "bench-resnet scaling", "bench-optim adamw",
                  "bench-optim state"]),
    "data": ("Data", "Reading Parquet files as batches of tensors, how well rows are mixed, and preprocessing.",
             ["bench-data loader", "bench-data quality", "bench-data preprocess"]),
}

HEAD = """# Benchmarks: {title}

{about} [The other pages, and how they are written](README.md).

"""


@dataclass
class Bar:
    """One promise: what, the figure it is judged by as text, the promise as text, and whether it is kept."""
    what: str
    figure: str
    promise: str
    met: Optional[bool]  # None: not measured


def add_alone(parser):
    parser.add_argument("--alone", action="store_true", help="under a real-time priority (needs root)")


def go_alone(args):
    if args.alone:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))


def judged(what, value, direction, bar, unit):
    """The promise that `value` is "<=" or ">=" than `bar`; None: not measured, infinity: it did not come."""
    promise = f"{direction} {bar:,g} {unit}".rstrip()
    if value is None:
        return Bar(what, "-", promise, None)
    figure = f"{value:,.4g} {unit}".rstrip() if math.isfinite(value) else "not in time"
    return Bar(what, figure, promise, value <= bar if direction == "<=" else value >= bar)


def bars_table(bars):
    words = {True: "met", False: "**not met**", None: "not measured"}
    rows = [f"| {bar.what} | {bar.figure} | {bar.promise} | {words[bar.met]} |" for bar in bars]
    return "\n".join(["| figure | measured | bar | |", "|---|---|---|---|", *rows])


def version():
    """The commit; "-dirty" with changes that could change a figure: not those of the page itself."""
    changed = first_line("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs") != "?"
    return first_line("git", "describe", "--always") + ("-dirty" if changed else "")


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except OSError:
        return "?"
    return (done.stdout.strip().splitlines() or ["?"])[0]


def machine(alone=False):
    """The machine, the version and the load, one sentence each; no names, no paths."""
    with open("/proc/cpuinfo") as f:
        names = [line.partition(":")[2].strip() for line in f if line.startswith("model name")]
    with open("/proc/meminfo") as f:
        memory = int(f.readline().split()[1]) / 2**20
    cpu = names[0] if names else platform.machine()
    others = ", all under a real-time priority, so that other work counts less" if alone else ""
    return [f"Measured {datetime.date.today().isoformat()}: {os.cpu_count()} cores of {cpu}, {memory:.0f} GiB,",
            f"Linux {platform.release().split('-')[0]}.",
            f"dtrain {version()}.",
            f"Load average at the start {os.getloadavg()[0]:.1f}{others}."]


def page_of(owner, name):
    return next(page for page, (_, _, sections) in PAGES.items() if f"{owner} {name}" in sections)


def write_section(folder, owner, name, text):
    """Replace this section on its page in the folder; the other sections stay."""
    page = page_of(owner, name)
    title, about, _ = PAGES[page]
    replace_section(os.path.join(folder, page + ".md"), f"{owner} {name}", text, HEAD.format(title=title, about=about))


def replace_section(path, marks, text, whole=""):
    """Replace the section between these marks in a file; without a file, after `whole`."""
    begin, end = f"<!-- {marks}: begin -->", f"<!-- {marks}: end -->"
    part = f"{begin}\n{text}\n{end}\n"
    if os.path.exists(path):
        with open(path) as f:
            whole = f.read()
    if begin in whole:
        whole = re.sub(re.escape(begin) + ".*?" + re.escape(end) + "\n?", lambda _: part, whole, flags=re.DOTALL)
    else:
        whole = whole.rstrip("\n") + "\n\n" + part
    with open(path, "w") as f:
        f.write(whole)


def add_outputs(parser):
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--write", metavar="FOLDER", help="replace this section on its page in it")


def put_out(args, owner, name, text, figures):
    """Prints a section, and writes it and its figures to where add_outputs() says."""
    print(text)
    if args.json:
        with open(args.json, "w") as out:
            json.dump(figures, out, indent=2)
    if args.write:
        write_section(args.write, owner, name, text)
