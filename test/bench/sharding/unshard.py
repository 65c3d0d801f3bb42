"""What it costs to make a group of parameters whole, and what a group costs a step, beside Python's FSDP2."""
import json

import jobs
import page

WAYS = {"fsdp, one copy": {"type": "fsdp"}, "fsdp, copies": {"type": "fsdp", "one_copy": False}}
SIZES = (1, 64, 256)  # MB
GATHERS, GROUPS = 20, 32
BAR, HOST = 30, 50  # microseconds
GATHER = ("A group of four float32 parameters is gathered on {} ranks of one host, until it may be read: the slowest "
          "rank's time, median of {} times. With one copy the parameters are whole all the time. The ranks meet "
          "before and after the optimizer's step instead, whatever the sizes are: two barriers for a step, of {} µs "
          "each here (medians).")
HOST_TIME = ("Host time: {} units, each with two linear layers of 8 x 8, in a forward and a backward on {} ranks, less "
             "the time of the same module without sharding; microseconds for each unit, medians of {} steps. \"On the "
             "core\" is the time that the program's thread ran, and does not count how long the ranks wait for each "
             "other. FSDP2 runs with torch's fake process group, whose collectives do nothing. Its time on the "
             "core is {:.1f} times that of one copy.")


def best(runs):
    """Of each figure the least of all runs: what other programs take of the cores comes on top."""
    return {name: min(run[name] for run in runs) for name in runs[0]}


def unshard(args):
    bars, gathers, hosts, barriers = [], [], [], []
    for size in SIZES:
        found = {}
        for way, strategy in WAYS.items():
            said = json.loads(jobs.ours(args, args.ranks, json.dumps(strategy), "unshard_bench", "gather", size,
                                        GATHERS))
            found[way] = said["gather"]
            barriers.append(said["barrier"])
        found["Python FSDP2"] = json.loads(jobs.theirs(args, args.ranks, "fsdp2_reference.py", "gather", size,
                                                       GATHERS))["gather"]
        gathers.append(f"| {size} MB | " + " | ".join(f"{each:,.1f} µs" for each in found.values()) + " |")
        bars.append(page.judged(f"{size} MB, one copy: a gather", found["fsdp, one copy"], "<=", BAR, "µs"))
    runs = {way: [] for way in [*WAYS, "Python FSDP2"]}
    for _ in range(args.rounds):
        for way, strategy in WAYS.items():
            runs[way].append(json.loads(jobs.ours(args, args.ranks, json.dumps(strategy), "unshard_bench", "groups",
                                                  GROUPS, 5 * args.steps)))
        runs["Python FSDP2"].append(json.loads(jobs.alone(args, "fsdp2_reference.py", "groups", GROUPS, args.steps)))
    least = {way: best(each) for way, each in runs.items()}
    for way, found in least.items():
        hosts.append(f"| {way} | {found['thread']:,.1f} | {found['wall']:,.1f} | {found['process']:,.1f} |")
    mine, theirs = least["fsdp, one copy"], least["Python FSDP2"]
    for way in WAYS:
        for clock, words in ("thread", "on the core"), ("wall", "by the clock"):
            bars.append(page.judged(f"{way}: host time for a group of a step, {words}", least[way][clock], "<=", HOST,
                                    "µs"))
    heads = ["| group | fsdp, one copy | fsdp, copies | Python FSDP2 |\n|---:|---:|---:|---:|",
             "| | on the core | by the clock | all threads, on cores |\n|---|---:|---:|---:|"]
    barrier = f"{min(barriers):.1f} to {max(barriers):.1f}"
    return bars, [GATHER.format(args.ranks, GATHERS, barrier), "\n".join([heads[0], *gathers]),
                  HOST_TIME.format(GROUPS, args.ranks, f"{5 * args.steps} (FSDP2: {args.steps})",
                                   theirs["thread"] / mine["thread"]),
                  "\n".join([heads[1], *hosts])]
