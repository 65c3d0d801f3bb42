"""How long a job of workers that do nothing takes."""
import shutil

from bench import Bar, Section, median, ms, times, wall

COUNTS = (2, 8, 64, 512)


def repeats(context, launcher, workers):
    if launcher == "torchrun":
        return context.times({2: 7, 8: 3}.get(workers, 0), 1 if workers == 2 else 0)
    return context.times({2: 41, 8: 41, 64: 15, 512: 5}[workers], 3)


def commands(context, workers):
    true = shutil.which("true")
    found = {"dtrain": context.dtrain_run(workers, true), "fork+exec": [context.fork_exec, str(workers), true]}
    if context.mpirun:
        found["mpirun"] = context.mpirun_run(workers, true)
    if context.torchrun:
        found["torchrun"] = context.torchrun_run(workers, true)
    return found


def measure_count(context, workers):
    """({launcher: [seconds]}, {launcher: runs that failed or hung})"""
    taken, failed = {}, {}
    plan = {name: (command, repeats(context, name, workers)) for name, command in commands(context, workers).items()}
    for turn in range(max(count for _, count in plan.values())):
        for name, (command, count) in plan.items():
            if turn >= count or failed.get(name, 0) >= 2:
                continue
            seconds = wall(command, timeout=30)
            if seconds is None:
                failed[name] = failed.get(name, 0) + 1
            else:
                taken.setdefault(name, []).append(seconds)
    return taken, failed


def measure(context):
    section = Section("Start and end", [
        "Wall time of a job whose workers are `true`: median of alternating runs. `fork+exec` is the floor: a C++",
        "program that forks, executes and waits, and does nothing else."],
        ["workers", "dtrain", "worst run", "a worker", "fork+exec", "mpirun", "torchrun", "torchrun / dtrain"])
    medians = {}
    for workers in COUNTS:
        taken, failed = measure_count(context, workers)
        medians[workers] = {name: median(values) for name, values in taken.items()}
        ours = medians[workers]["dtrain"]

        def cell(name):
            text = ms(medians[workers].get(name))
            return text + (f" ({failed[name]} hung or failed)" if name in failed else "")
        section.rows.append([str(workers), cell("dtrain"), ms(max(taken["dtrain"])), ms(ours / workers),
                             cell("fork+exec"), cell("mpirun"), cell("torchrun"),
                             times(medians[workers].get("torchrun"), ours)])
    two = medians[2]
    slope = (medians[512]["dtrain"] - medians[64]["dtrain"]) / (512 - 64)
    section.says.append(f"From 64 to 512 workers, one more costs {ms(slope)}.")
    section.bars = [
        Bar("2 workers of `true`", ms(two["dtrain"]), "<= 20 ms", two["dtrain"] <= 0.020),
        Bar("... compared with torchrun", times(two.get("torchrun"), two["dtrain"]), ">= 100x",
            two["torchrun"] / two["dtrain"] >= 100 if "torchrun" in two else None),
        Bar("... compared with mpirun", times(two.get("mpirun"), two["dtrain"]), "> 1x",
            two["mpirun"] > two["dtrain"] if "mpirun" in two else None),
        Bar("a worker at 64 and at 512", f"{ms(medians[64]['dtrain'] / 64)}, {ms(medians[512]['dtrain'] / 512)}",
            "<= 1 ms", max(medians[n]["dtrain"] / n for n in (64, 512)) <= 0.001),
    ]
    return section
