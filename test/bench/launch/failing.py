"""From the death of a worker to its siblings' SIGTERM, and to all workers in main() again."""
import os
import subprocess

from bench import Bar, Section, median, ms, percentile, times


def events(path):
    """{event: {round: {rank: seconds}}}"""
    found = {}
    with open(path) as f:
        for line in f:
            event, number, rank, at = line.split()
            found.setdefault(event, {}).setdefault(int(number), {})[int(rank)] = int(at) / 1e9
    return found


def crash(context, command, deaths, kind, timeout):
    """(seconds to a sibling's SIGTERM, seconds to all workers in main() again), one of each for every death."""
    with context.folder() as folder:
        log = os.path.join(folder, "events")
        os.mkfifo(log + ".ready")
        done = subprocess.run([*command, context.worker, kind, log, str(deaths)], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=timeout)
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
        found = events(log)
    seen, again = [], []
    for number in range(deaths):
        died = found["die"][number][0]
        seen.append(min(found["term"][number].values()) - died)
        again.append(max(found["main"][number + 1].values()) - died)
    return seen, again


def measure(context):
    section = Section("Death of a worker", [
        "Rank 0 of 2 stamps CLOCK_MONOTONIC and kills itself by SIGKILL, some 20 to 120 ms after all were ready.",
        "`seen` ends when the sibling has received its SIGTERM: that is the death seen, decided on and acted on.",
        "`again` ends when the last worker of the next round is in main(). `stubborn`: the sibling ignores",
        "SIGTERM; the graces are the defaults, 5 s of dtrain and 30 s of torchrun."],
        ["launcher", "deaths", "seen, median", "p99", "again, median", "p99", "worst"])
    plan = [("dtrain", "crash", context.times(10, 2), context.times(50, 10))]
    if context.torchrun:
        plan.append(("torchrun", "crash", context.times(2, 1), context.times(10, 2)))
    plan.append(("dtrain", "crash-stubborn", context.times(3, 1), 1))
    if context.torchrun and not context.quick:
        plan.append(("torchrun", "crash-stubborn", 1, 1))
    medians = {}
    for launcher, kind, jobs, deaths in plan:
        seen, again = [], []
        for _ in range(jobs):
            flags = ["--max-restarts", str(deaths)]
            command = context.dtrain_run(2, *flags) if launcher == "dtrain" else context.torchrun_run(2, *flags)
            one_seen, one_again = crash(context, command, deaths, kind, timeout=120 + 40 * deaths)
            seen += one_seen
            again += one_again
        name = launcher + (", stubborn" if kind == "crash-stubborn" else "")
        medians[name] = (median(seen), percentile(seen, 0.99), median(again), percentile(again, 0.99))
        section.rows.append([name, str(len(seen)), *map(ms, medians[name]), ms(max(again))])
    ours = medians["dtrain"]
    peer = medians.get("torchrun", (None,) * 4)
    section.bars = [
        Bar("death seen (as the sibling's SIGTERM), median", ms(ours[0]), "<= 1 ms", ours[0] <= 0.001),
        Bar("death seen, p99", ms(ours[1]), "<= 5 ms", ours[1] <= 0.005),
        Bar("death to every worker exec'd again, median", f"{ms(ours[2])} (torchrun {times(peer[2], ours[2])})",
            "<= 20 ms", ours[2] <= 0.020),
        Bar("death to every worker exec'd again, p99", ms(ours[3]), "<= 50 ms", ours[3] <= 0.050),
    ]
    return section
