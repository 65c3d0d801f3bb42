#!/usr/bin/env python3
"""Who is at fault is the headline: jobs in which one rank fails, in each way, while others are in a collective.

    .venv/bin/python test/process/torch/headline_soak.py --trials 200 [--seed 1] [--ways python-dtrain-raise,...]
        [--hosts 3]

In each trial a rank is drawn that fails; the report must name it, with what it died of and its last words, and nobody
else. Busy loops keep the machine's cores from being free. With --hosts the ranks are on hosts of a lab, one on each.
Prints how many trials of each way were right. Ends with 1 if one was not, 77 where there can be no lab.
"""
import argparse
import contextlib
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "support")]

import netlab  # noqa: E402
from lab_case import new_token  # noqa: E402

BIN = pathlib.Path(os.environ.get("DTRAIN_BIN_DIR", "build/bin")).resolve()
BUILD = pathlib.Path(os.environ.get("DTRAIN_BUILD_DIR", BIN.parent)).resolve()
DTRAIN = BIN / "dtrain"
PATIENCE = 300  # seconds for a job: the machine is busy on purpose

GONE = "ended with code 0 while others were in a collective"
SHARD = "cannot read shard {rank}"
# What the headline says, and what has to be in the report besides.
PYTHON = {"raise": ("RuntimeError: " + SHARD, SHARD), "model": (r".*DDP expects same model|.*params\[", "Error"),
          "exit3": ("exit code 3", ""), "exit0": (GONE, ""), "kill": (r"signal 9 \(SIGKILL\)", ""),
          "segv": (r"signal 11 \(SIGSEGV\)", "")}
CPP = {"throw": ("std::runtime_error: " + SHARD, "signal 6"), "torch": ("c10::Error: " + SHARD, "signal 6"),
       "caught": ("exit code 1", "train: " + SHARD), "return1": ("exit code 1", ""), "return0": (GONE, ""),
       "model": (r".*Error: ", ""), "kill": (r"signal 9 \(SIGKILL\)", ""), "segv": (r"signal 11 \(SIGSEGV\)", "")}
WAYS = {**{f"python-{backend}-{way}": says for backend in ("dtrain", "gloo") for way, says in PYTHON.items()},
        **{f"cpp-{way}": says for way, says in CPP.items()}}
# Where Python takes a process down that has gloo's threads, it dies of them now and then: see docs/troubleshooting.md.
TAKEN_DOWN = r"|signal 6 \(SIGABRT\)"
WAYS |= {way: (WAYS[way][0] + TAKEN_DOWN, "") for way in ("python-gloo-exit0", "python-gloo-exit3")}


def environment():
    return {**os.environ, "PYTHON_EXEC": sys.executable, "PYTHONPATH": str(BUILD / "python"),
            "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}


def command(way, culprit):
    language, *rest = way.split("-")
    if language == "cpp":
        return [BUILD / "test" / "bin" / "headline_worker", rest[0], culprit]
    return [HERE / "headline" / "worker.py", *rest, culprit]


def on_one_host(way, culprit, ranks):
    done = subprocess.run([str(word) for word in [DTRAIN, "run", "--nproc", ranks, *command(way, culprit)]],
                          env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", timeout=PATIENCE)
    return [done.stderr]


def on_hosts(lab, token, way, culprit):
    words = [DTRAIN, "run", "--token-file", token, "--nnodes", len(lab.hosts), "--master-addr", lab.host(0).ipv4,
             "--master-port", 29400, "--rdzv-id", "headline"]
    agents = [host.popen([str(word) for word in [*words, "--node-rank", rank, *command(way, culprit)]],
                         env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, text=True, errors="replace") for rank, host in enumerate(lab.hosts)]
    try:
        return [agent.communicate(timeout=PATIENCE)[1] for agent in agents]
    finally:
        for agent in agents:
            agent.kill()


def fault_of(said, way, culprit):
    """What is wrong with what the agents have said; empty: nothing."""
    headline, besides = (text.format(rank=culprit) for text in WAYS[way])
    own = said[culprit] if len(said) > 1 else said[0]
    report = own[own.rfind("\ndtrain: job "):]
    found = re.search(r"(?m)^first failure: rank (\d+): (.*)$", report)
    if not found:
        return "no headline"
    if int(found[1]) != culprit:
        return f"rank {found[1]} is the headline, and not rank {culprit}"
    if not re.match(headline, found[2]):
        return f"the headline says {found[2]!r}"
    if not re.search(besides, report):
        return f"the report lacks {besides!r}"
    for text in said:
        if text is not own and not re.search(rf"(?m)^first failure: node \d+ .*: rank {culprit}\b", text):
            return "another node names somebody else"
    return ""


@contextlib.contextmanager
def busy(loops):
    """So many loops of which each would take a core."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for loop in spinning:
            loop.kill()
            loop.wait()


def trials(ways, count, chance, run, show=print):
    """By way, how many trials were right; and what went wrong."""
    right, wrong = dict.fromkeys(ways, 0), []
    for trial in range(count):
        for way in ways:
            culprit, said = run(way, chance)
            fault = fault_of(said, way, culprit)
            if fault:
                wrong.append((way, fault, "\n---\n".join(said)))
                show(f"{way}, trial {trial}: {fault}")
            else:
                right[way] += 1
            show(f"trial {trial}, {way}: {'wrong' if fault else 'right'}")
    return right, wrong


def local_run(way, chance):
    ranks = chance.choice([2, 3])
    # With two ranks nobody can say which of two models is the other one; of three, it is torch's rank 0 that counts.
    culprit = chance.randrange(1 if way.endswith("model") else 0, ranks)
    return culprit, on_one_host(way, culprit, ranks)


def lab_run(lab, token):
    def run(way, chance):
        culprit = chance.randrange(1 if way.endswith("model") else 0, len(lab.hosts))
        return culprit, on_hosts(lab, token, way, culprit)
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ways", default=",".join(WAYS), help="some of: " + ", ".join(WAYS))
    parser.add_argument("--hosts", type=int, default=0, help="ranks on so many hosts of a lab")
    parser.add_argument("--busy", type=int, default=2, help="loops that take a core each")
    parser.add_argument("--story", help="a file for what the wrong ones said")
    args = parser.parse_args()
    ways, chance = args.ways.split(","), random.Random(args.seed)
    with contextlib.ExitStack() as stack:
        stack.enter_context(busy(args.busy))
        run = local_run
        if args.hosts:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            try:
                lab = stack.enter_context(netlab.Lab(args.hosts))
            except netlab.Unavailable as error:
                print(error)
                return 77
            run = lab_run(lab, new_token(DTRAIN, folder))
        right, wrong = trials(ways, args.trials, chance, run, lambda line: print(line, flush=True))
    story = "\n=====\n".join(f"{way}: {fault}\n{said}" for way, fault, said in wrong)
    if args.story:
        pathlib.Path(args.story).write_text(story)
    elif wrong:
        print(story)
    for way, count in right.items():
        print(f"{way:24} {count} of {args.trials}")
    return 1 if wrong else 0


if __name__ == "__main__":
    netlab.become_able()
    sys.exit(main())
