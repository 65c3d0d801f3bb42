"""The failure matrix as data: what is done to a job of two ranks, what must hold then, and what some engines cannot
have. jobs.py runs a row under an engine of engines.py."""
import re
from dataclasses import dataclass

GONE_SECONDS = 3.0  # after the submitter's end nothing of the job may be left for longer


@dataclass(frozen=True)
class Row:
    name: str
    about: str
    code: int
    says: str = ""  # a regular expression; "": nobody is left who could say it
    script: str = "echo ready; exec sleep 300"  # what each rank runs; {go}: a FIFO that the event "go" opens
    event: str = ""  # go, agent, node, power, submitter: it comes when both ranks are ready; "": the job must not begin
    flags: tuple = ()
    within: float = 10.0  # seconds from the event to the submitter's end


FAILS = "echo ready; [ $RANK = 1 ] || exec sleep 300; read -r _ <{go}; "
ROWS = [
    Row("rank exits 7", "Rank 1 ends with exit code 7. Rank 0 sleeps.", 7, "first failure: rank 1: exit code 7",
        FAILS + "exit 7", "go"),
    Row("rank segfaults", "Rank 1 ends by SIGSEGV.", 139, r"first failure: rank 1: signal 11 \(SIGSEGV\)",
        "ulimit -c 0; " + FAILS + "read -r pid _ </proc/self/stat; kill -SEGV $pid", "go"),  # torchrun eats a $ of $$
    Row("rank ignores SIGTERM", "Rank 1 ends with exit code 7. Rank 0 ignores SIGTERM. The grace is 1 s "
        "(torchrun's is always 30 s).", 7,
        "first failure: rank 1: exit code 7", "[ $RANK = 1 ] || trap '' TERM; " + FAILS + "exit 7", "go",
        ("--failure-grace", "1")),
    Row("agent killed", "SIGKILL to dtrain's agent of one node.", 125,
        r"agent \(pid \d+\) was killed by SIGKILL", event="agent"),
    Row("node lost", "All processes of one node are gone at once.", 125, "lost", event="node", within=20),
    Row("node without power", "One node is silent: nobody says that its connections are gone.", 125, "lost",
        event="power", within=40),
    Row("submitter killed", "SIGKILL to the command that the user has typed.", 137, event="submitter"),
    Row("too few resources", "The job asks for more than the cluster has.", 75, "room", within=90),
    Row("script missing on one node", "The program is there, but not on the last node.", 127, "no such file",
        within=90),
    Row("wrong interpreter", "The program's first line is `#!/no/such/python`.", 126, "/no/such/python", within=90),
]
BY_NAME = {row.name: row for row in ROWS}

# Cells that cannot be, and why. The page shows the reasons.
DAEMONS = "Here its nodes are daemons of one machine, and none of them can lose its power alone."
ONE_HOST = "It starts the ranks of one host."
ABSENT = {
    ("local", "node lost"): "A local job has one node.",
    ("local", "too few resources"): "One host has as many places for ranks as you ask for.",
    ("local", "script missing on one node"): "A local job has one node.",
    ("local", "node without power"): "A local job has one node.",
    ("MPICH", "node without power"): "Its mpiexec waits for ever for a silent host. The agents of the other hosts "
                                     "notice it, and stop their workers.",
    ("MPICH", "too few resources"): "Its mpiexec starts several processes on a host instead.",
    ("SLURM", "node without power"): DAEMONS,
    ("Ray", "node without power"): DAEMONS,
    ("Spark", "node without power"): DAEMONS,
    ("torchrun", "node without power"): ONE_HOST,
    ("TorchDistributor", "node without power"): ONE_HOST,
    ("torchrun", "agent killed"): "The command is the agent: see \"submitter killed\".",
    ("torchrun", "node lost"): ONE_HOST,
    ("torchrun", "too few resources"): ONE_HOST,
    ("torchrun", "script missing on one node"): ONE_HOST,
    ("TorchDistributor", "node lost"): ONE_HOST,
    ("TorchDistributor", "too few resources"): ONE_HOST,
    ("TorchDistributor", "script missing on one node"): ONE_HOST,
    ("TorchDistributor", "wrong interpreter"): "It starts a Python file with the Python that runs Spark.",
}


# Cells in which the engine itself ends the command: its exit codes, its words, and why.
NODE_OF_MPI = "mpirun ends the job itself, with a code of its own: 137, 205 or 247."
OWN = {
    ("Open MPI", "node lost"): ((137, 205, 247), "lost|ORTE was unable", NODE_OF_MPI),
    ("Open MPI", "node without power"): ((205, 247), "ORTE (has lost|was unable)", NODE_OF_MPI),
    ("MPICH", "node lost"): ((9, 255), "lost|process manager error",
                             "mpiexec ends the job itself, with 255, or 9 if it sees the death of a process first."),
    ("ssh", "too few resources"): ((2,), "--nnodes is 3, and 2 hosts are named",
                                   "The list of hosts says what there is, so the command line is wrong."),
    ("Open MPI", "too few resources"): ((1,), "requested more processes than", "mpirun refuses."),
    ("SLURM", "too few resources"): ((1,), "Unable to allocate resources",
                                     "srun refuses (`--srun=--immediate=1`; without it SLURM queues the job)."),
}


# Cells that end as they should, or soon enough, only with a flag, and why.
HELPED = {
    ("SLURM", "node lost"): (("--srun=--wait=3",), "`--srun=--wait=3`. Without it srun waits a minute for the task of "
                             "a step daemon that is gone. srun waits 10 s longer than it says."),
    ("SLURM", "script missing on one node"): (("--rdzv-conf", "timeout=5"), "`--rdzv-conf timeout=5`. Without it the "
                                              "other node waits for the missing one for 900 s."),
}


# The headlines of torchrun, and so of TorchDistributor. Nothing more is demanded of them than to fail.
OF_PEERS = {
    "rank exits 7": r"rank +: 1 .*\n.*exitcode +: 7 ",
    "rank segfaults": r"rank +: 1 .*\n.*exitcode +: -11 ",
    "rank ignores SIGTERM": r"rank +: 1 .*\n.*exitcode +: 7 ",
}
PEERS = "torchrun", "TorchDistributor"
FAILURES = tuple(range(1, 256))


# What else the page says of a cell.
DROPPED = "Its wrapper around torchrun drops the exit code."
NOTES = {
    ("ssh", "node without power"): "The command waits until its ssh has noticed, which takes half a minute.",
    ("torchrun", "submitter killed"): "Its ranks go on without it.",
    ("torchrun", "wrong interpreter"): "It says that the program does not exist.",
    ("TorchDistributor", "rank exits 7"): DROPPED,
    ("TorchDistributor", "rank segfaults"): DROPPED,
    ("TorchDistributor", "rank ignores SIGTERM"): DROPPED,
    ("TorchDistributor", "agent killed"): "Its ranks go on, and it waits for the end of their output.",
}


def expected(engine, row):
    """(exit codes, headline) of this row under this engine."""
    if engine in PEERS:
        return FAILURES, OF_PEERS.get(row.name, row.says)
    return OWN.get((engine, row.name), ((row.code,), row.says))[:2]


def faults(engine, row, outcome):
    """What does not hold, in words, without what is known."""
    codes, says = expected(engine, row)
    found = []
    if outcome.code not in codes:
        found.append(f"exit code {outcome.code}, and {' or '.join(map(str, codes))} was due")
    if outcome.seconds > row.within:
        found.append(f"the end took {outcome.seconds:.1f} s, and {row.within:g} s are allowed")
    if outcome.left:
        found.append(f"{len(outcome.left)} processes left: {', '.join(outcome.left)}")
    if says and not re.search(says, outcome.said):
        found.append(f"no headline like {says!r}")
    return found
