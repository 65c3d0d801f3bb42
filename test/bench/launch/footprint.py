"""Memory of a job at rest, context switches in a quiet minute, size of the binary."""
import glob
import os
import shutil
import subprocess
import time

from bench import Bar, Section, children, processes_of, start, stop, until


def memory(pid):
    """(resident, proportional) bytes."""
    values = {}
    with open(f"/proc/{pid}/smaps_rollup") as f:
        for line in f:
            name, _, rest = line.partition(":")
            if name in ("Rss", "Pss"):
                values[name] = int(rest.split()[0]) * 1024
    return values["Rss"], values["Pss"]


def switches(pid):
    """Context switches of all threads of a process so far."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/status"):
        with open(path) as f:
            total += sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
    return total


def stripped_size(context):
    with context.folder() as folder:
        copy = os.path.join(folder, "dtrain")
        shutil.copy(context.dtrain, copy)
        subprocess.run(["strip", copy], check=True)
        return os.path.getsize(copy)


def mib(size):
    return f"{size / 2**20:.1f} MiB"


def measure(context):
    seconds = context.times(60, 3)
    section = Section("Memory, size, rest", [
        "A job of 2 workers that wait. Resident memory counts pages shared with others in full, proportional memory by",
        f"their share. Context switches of all threads in {seconds} s, from 2 s after the workers are up."],
        ["process", "resident", "proportional", "context switches"])
    jobs = [start(context.dtrain_run(2, context.worker, "wait"))]
    if context.torchrun:
        jobs.append(start(context.torchrun_run(2, context.worker, "wait")))
    try:
        watched = {f"dtrain {name}": pid for name, pid in processes_of(jobs[0].pid).items()}
        if context.torchrun:
            watched["torchrun"] = jobs[1].pid
        for parent in (watched["dtrain guard"], jobs[-1].pid):
            until(lambda: children(parent), 60, "the workers")
        time.sleep(2)  # tidy: allow sleep, because rest is what is measured
        before = {name: switches(pid) for name, pid in watched.items()}
        time.sleep(seconds)  # tidy: allow sleep, because rest is what is measured
        figures = {name: (*memory(pid), switches(pid) - before[name]) for name, pid in watched.items()}
    finally:
        for job in jobs:
            stop(job)
    for name, (resident, proportional, switched) in figures.items():
        section.rows.append([name, mib(resident), mib(proportional), str(switched)])
    size = stripped_size(context)
    section.says.append(f"The stripped binary has {mib(size)}.")
    quiet = sum(figures[name][2] for name in figures if name.startswith("dtrain"))
    agent, guard = figures["dtrain agent"][0], figures["dtrain guard"][0]
    section.bars = [
        Bar("agent, resident", mib(agent), "<= 10 MB", agent <= 10e6),
        Bar("guard, resident", mib(guard), "<= 2 MB", guard <= 2e6),
        Bar("stripped binary", mib(size), "<= 10 MB", size <= 10e6),
        Bar(f"context switches in {seconds} quiet seconds", str(quiet), "0", quiet == 0),
    ]
    return section
