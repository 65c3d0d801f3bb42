"""8 workers print lines of 100 bytes, prefixed on the console and teed to files."""
import glob
import hashlib
import os
import subprocess
import time

from bench import Bar, Section, median, ms, times

WORKERS = 8
LINE = 100


def expected(context, lines):
    """sha256 of what each rank prints, by the worker without a launcher."""
    sums = {}
    for rank in range(WORKERS):
        worker = subprocess.Popen([context.worker, "lines", str(lines)], stdout=subprocess.PIPE,
                                  env={**os.environ, "RANK": str(rank)})
        digest = hashlib.sha256()
        while chunk := worker.stdout.read(1 << 20):
            digest.update(chunk)
        worker.wait()
        sums[rank] = digest.hexdigest()
    return sums


def console_sums(path, head):
    """sha256 of each rank's lines without their prefix; `head` is the prefix with {} for the rank."""
    before, _, after = head.partition("{}")
    at, size = len(before), len(before) + 1 + len(after)
    digests = {str(rank).encode(): hashlib.sha256() for rank in range(WORKERS)}
    strangers = 0
    with open(path, "rb", buffering=1 << 22) as f:
        for line in f:
            digest = digests.get(line[at:at + 1])
            if digest is None or line[:size] != head.format(chr(line[at])).encode():
                strangers += 1
                continue
            digest.update(line[size:])
    return {int(rank): digest.hexdigest() for rank, digest in digests.items()}, strangers


def file_sums(folder):
    sums = {}
    for path in glob.glob(os.path.join(folder, "**", "stdout.log"), recursive=True):
        with open(path, "rb") as f:
            sums[int(os.path.basename(os.path.dirname(path)))] = hashlib.sha256(f.read()).hexdigest()
    return sums


def one_run(context, launcher, lines, sums):
    """(seconds, whether both ends are equal)"""
    with context.folder() as folder:
        console, logs = os.path.join(folder, "console"), os.path.join(folder, "logs")
        flags = ["--tee", "3", "--log-dir", logs]
        command = (context.dtrain_run if launcher == "dtrain" else context.torchrun_run)(WORKERS, *flags)
        with open(console, "wb") as out, open(console + ".err", "wb") as err:
            before = time.perf_counter()
            done = subprocess.run([*command, context.worker, "lines", str(lines)],
                                  stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=1800)
            took = time.perf_counter() - before
        on_console, strangers = console_sums(console, "[{}] " if launcher == "dtrain" else "[default{}]:")
        equal = done.returncode == 0 and strangers == 0 and on_console == sums and file_sums(logs) == sums
    return took, equal


def measure(context):
    volumes = {"dtrain": context.times(1 << 30, 1 << 26), "torchrun": context.times(1 << 27, 1 << 24)}
    section = Section("Output", [
        f"{WORKERS} workers print lines of {LINE} bytes as fast as they can; every line goes prefixed to the console,",
        "which is a file, and unchanged to a log file of its worker (`--tee 3`). `equal`: sha256 of each worker's log",
        "file, and of its lines on the console without their prefix, are those of what the worker prints.",
        "Wall time of the whole job, start included; torchrun prints less and is compared by the megabyte."],
        ["launcher", "printed", "time", "MB/s", "equal"])
    rates, equal = {}, {}
    for launcher in ("dtrain", "torchrun"):
        if launcher == "torchrun" and not context.torchrun:
            continue
        lines = volumes[launcher] // LINE // WORKERS
        sums = expected(context, lines)
        repeats = context.times(3, 1) if launcher == "dtrain" else 1
        runs = [one_run(context, launcher, lines, sums) for _ in range(repeats)]
        size, took = lines * LINE * WORKERS, median([seconds for seconds, _ in runs])
        equal[launcher] = all(same for _, same in runs)
        rates[launcher] = size / took / 1e6
        section.rows.append([launcher, f"{size / 2**20:,.0f} MiB", ms(took), f"{rates[launcher]:,.1f}",
                             "yes" if equal[launcher] else "no"])
    section.bars = [
        Bar("throughput compared with torchrun", times(rates["dtrain"], rates.get("torchrun")), ">= 10x",
            rates["dtrain"] >= 10 * rates["torchrun"] if "torchrun" in rates else None),
        Bar("nothing lost or torn (sha256 of both ends)", "equal" if equal["dtrain"] else "not equal", "equal",
            equal["dtrain"]),
    ]
    return section
