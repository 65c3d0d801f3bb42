"""What the figures must be."""
import re

import page

# For each part: what, the promise, and where the figure is: in a part's own figures under that name, or in what its
# program has said, where a pattern finds it (several groups: their sum).
BARS = {
    "rounds": [
        ("time of an agent, 100,000 of them beside 100: as log(n)", "<=", 2.5, "times",
         r"an agent takes ([\d.]+) times as long among 100000 as among 100\b")],
    "tls": [
        ("handshakes on one core, as server", ">=", 2500, "/s", r"handshakes: (\d+) /s as server"),
        ("handshakes on one core, as client", ">=", 2500, "/s", r"(\d+) /s as client")],
    "agents": [
        ("encrypted: all joined and in the round", "<=", 10, "s",
         r"10000 agents, encrypted.*?in the round after (\S+) s"),
        ("plain: all joined and in the round", "<=", 5, "s", r"10000 agents, plain.*?in the round after (\S+) s"),
        ("encrypted: the next round after one is lost", "<=", 2, "s",
         r"10000 agents, encrypted.*?open for all after (\S+) s"),
        ("messages an agent", "<=", 6, "", r"10000 agents, encrypted.*?an agent: (\S+) to it, (\S+) from it"),
        ("encrypted: memory of the host (200 MB)", "<=", 190.7, "MiB", r"10000 agents, encrypted.*?host: (\d+) MiB")],
    "store": [
        (f"edge, {link}: {what}", *promise) for link in ("clear", "TLS") for what, *promise in (
            ("added to an operation", "<=", 50, "us"),
            ("added to an operation, all on one CPU", "<=", 50, "us"),
            ("replies forwarded", ">=", 1, "GB per CPU second"),
            ("requests forwarded", ">=", 1, "GB per CPU second"))],
    "start": [("eight hosts, from command to user code", "<=", 0.3, "s", r"user code: dtrain (\S+) s")],
    "faults": [
        ("worker killed: known to all", "<=", 0.1, "s"),
        ("agent killed: known to all", "<=", 0.2, "s"),
        ("agent killed: all run again", "<=", 1, "s"),
        ("host silent: known to all", "<=", 3, "s"),
        ("host silent: its own workers told to stop", "<=", 3, "s"),
        ("host silent: all run again", "<=", 4, "s"),
        ("the job's host silent: known to all", "<=", 3, "s"),
        ("the job's host silent: its own workers told to stop", "<=", 3, "s"),
        ("the job's host silent: all run again", "<=", 5, "s")],
}


def found(pattern, text):
    match = re.search(pattern, text, re.DOTALL)
    return sum(map(float, match.groups())) if match else None


def judge(part, figures, text):
    """The part's bars; `text` is all it has said."""
    return [page.judged(what, found(pattern[0], text) if pattern else figures.get(what), direction, bar, unit)
            for what, direction, bar, unit, *pattern in BARS.get(part, [])]
