"""What the benchmarks that write docs/benchmarks.md share: bars, facts of the machine, a section's place in it."""
import datetime
import math
import os
import platform
import re
import subprocess
from dataclasses import dataclass
from typing import Optional

PAGE = """# Benchmarks

Written by `make bench-launch`, `make bench-rendezvous`, `make bench-collectives` and `make bench-resnet`, a section at
a time; `test/bench/launch/run.py --only NAME --write docs/benchmarks.md`, or run.py in test/bench/rendezvous or
test/bench/collectives in the same way, does one anew. A bar that is not met says so.

"""


@dataclass
class Bar:
    """One promise: what, the figure it is judged by as text, the promise as text, and whether it is kept."""
    what: str
    figure: str
    promise: str
    met: Optional[bool]  # None: not measured


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


def write_section(path, owner, name, text):
    """Replace the part of the page that this section owns; the others' parts stay."""
    begin, end = f"<!-- {owner} {name}: begin -->", f"<!-- {owner} {name}: end -->"
    part = f"{begin}\n{text}\n{end}\n"
    page = PAGE
    if os.path.exists(path):
        with open(path) as f:
            page = f.read()
    if begin in page:
        page = re.sub(re.escape(begin) + ".*?" + re.escape(end) + "\n?", lambda _: part, page, flags=re.DOTALL)
    else:
        page = page.rstrip("\n") + "\n\n" + part
    with open(path, "w") as f:
        f.write(page)
