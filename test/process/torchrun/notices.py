"""What the launchers say on stderr besides workers' lines and reports, by what it means."""
import re

# (name, pattern); no name: not compared, because it repeats the report or comes and goes with timing.
MEANINGS = [
    ("the number of threads", r"OMP_NUM_THREADS"),
    ("the master address is not used", r"master_addr is only used for static"),
    ("the node rank is not used", r"node_rank is only used for static"),
    ("flags without effect", r"no effect"),
    ("an unknown signal", r"SIGNOPE"),
    ("the local rank's argument", r"passes --local-rank"),
    ("a start", r"^\d+ workers? of "),
    ("a good end", r"^done: \d+ workers?"),
    ("the report's file", r"^report in "),
    ("a restart", r"restart \d+ of \d+"),
    ("the parent's error file", r"no error file defined for parent"),
    (None, r"^\*+$|^$|failed \(exitcode|closing signal|^Signal \d+ received|^job \S+ (failed|stopped)"),
    (None, r"[Ss]hutting down|death signal|^stopped by SIG|did not end in time|Unable to shutdown|passing it to"),
    (None, r"left \d+ process(es)? behind"),
    ("where the nodes meet", r"^nodes meet at "),
    (None, r"^--\S.* goe?s? to \S+: put flags of dtrain before it"),
    (None, r"^waiting: |^(first failure: )?node \d+ \(host"),
    (None, r"local_rank: \d+ \(pid|hostname of the client socket|has failed to shutdown the rendezvous"),
]
# torchrun logs with a prefix; dtrain with its name. A Python traceback of torchrun itself belongs to its report.
LINE = re.compile(r"(?:[WE]\d{4} [\d:.]+ +\d+ \S+:\d+\]|dtrain:) ?(.*)")


def meanings(errors):
    found = {}
    for line in errors.splitlines():
        match = LINE.fullmatch(line)
        if not match or "torchelastic.worker.status" in line:
            continue
        for name, pattern in MEANINGS:
            if re.search(pattern, match[1]):
                break
        else:
            name = match[1]
        if name:
            found[f"says {name}"] = "yes"
    return found


def events(errors):
    """--event-log-handler console: who reported which state, how often."""
    seen = sorted(" ".join([re.search(r'"source": "(\w+)"', line)[1], re.search(r"status\.(\w+)", line)[1]])
                  for line in errors.splitlines() if '"torchelastic.worker.status' in line)
    return {"events": "\n".join(seen)} if seen else {}
