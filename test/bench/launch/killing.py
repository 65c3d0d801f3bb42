"""SIGKILL of the agent: the time until nothing of the job is left, by the trials of the process tests."""
import glob
import os
import signal
import sys
import time

from bench import Bar, Section, children, comm, median, ms, percentile, start, until

TRIALS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "process", "launcher")


def process_trials(context):
    """The modules `trials` and `support` of the process tests, which read where the programs are when imported."""
    os.environ["DTRAIN_BIN_DIR"] = context.bin_dir
    os.environ["DTRAIN_TEST_BIN_DIR"] = os.path.join(context.bin_dir, "..", "test", "bin")
    sys.path.insert(0, TRIALS)
    import support
    import trials
    return trials, support


def trial(trials, level, kind):
    """Seconds, or what was wrong."""
    try:
        return trials.Trial(level, kind, "agent killed").run()
    except (AssertionError, StopIteration, OSError) as error:  # something is left, or the job never came up
        return repr(error)


def torchrun_leaves(context):
    """How many of 2 plain workers live 1 s after the SIGKILL of torchrun's agent."""
    job = start(context.torchrun_run(2, context.worker, "wait"))
    until(lambda: len([p for p in children(job.pid) if comm(p) == "bench_worker"]) == 2, 60, "torchrun's workers")
    workers = children(job.pid)
    job.send_signal(signal.SIGKILL)
    job.wait()
    time.sleep(1)  # tidy: allow sleep, because a second later is what is asked
    left = [p for p in workers if os.path.exists(f"/proc/{p}") and comm(p) == "bench_worker"]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return len(left)


def measure(context):
    if not glob.glob(os.path.join(context.bin_dir, "..", "test", "bin", "hostile")):
        print("no test/bin/hostile: the SIGKILL of the agent is not measured (it is built with the tests)")
        return None
    trials, support = process_trials(context)
    count = context.times(1000, 14)
    section = Section("SIGKILL of the agent", [
        "Time from the kill until no process of the job is left, seen by a pipe that all of them hold as standard",
        f"input and by the process table; limit 1 s. {len(trials.KINDS)} kinds of workers in turn:",
        f"{', '.join(trials.KINDS)} (test/process/launcher/hostile.cc says what they do)."],
        ["containment", "trials", "nothing left within 1 s", "median", "p99", "worst"])
    for level in support.levels():
        took, wrong = [], {}
        for number in range(count):
            kind = trials.KINDS[number % len(trials.KINDS)]
            result = trial(trials, level, kind)
            if isinstance(result, float):
                took.append(result)
            else:
                wrong.setdefault(kind, []).append(result)
        for kind, texts in wrong.items():
            print(f"{level}, {kind}: {len(texts)} times: {texts[0][:500]}", flush=True)
        section.rows.append([level, str(count), str(len(took)), ms(median(took)), ms(percentile(took, 0.99)),
                             ms(max(took))])
        section.bars.append(Bar(f"0 processes after SIGKILL of the agent, {level}", f"{len(took)} of {count}",
                                "within 1 s, all", len(took) == count))
    if context.torchrun:
        section.says.append(f"With torchrun, {torchrun_leaves(context)} of 2 plain workers live on.")
    return section
