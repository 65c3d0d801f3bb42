#!/usr/bin/env python3
"""Print the sizes of what `make wheel` and `make deb` make, and how long dtrain from the wheel takes to start.

    sizes.py [--runs 9] [--torchrun .venv/bin/torchrun] [--write FOLDER]

Times are medians, beside those of torchrun. The runs take turns, so other work on the machine counts for all.
"""
import argparse
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "test/bench"))

import page  # noqa: E402

DEADLINE = 120


def only(pattern, made_by):
    found = list((ROOT / "build").glob(pattern))
    if len(found) != 1:
        sys.exit(f"sizes.py: {len(found)} files build/{pattern}; `make {made_by}` makes one")
    return found[0]


def size_rows(wheel):
    sizes = {"wheel": wheel.stat().st_size, "sdist": only("wheel/dist/*.tar.gz", "wheel").stat().st_size}
    with zipfile.ZipFile(wheel) as archive:
        program = next(entry for entry in archive.infolist() if entry.filename.endswith(".data/scripts/dtrain"))
        sizes["dtrain in the wheel, stripped"] = program.file_size
    for package in ("dtrain", "libdtrain-dev"):
        sizes[f"{package}.deb"] = only(f"package/{package}_*.deb", "deb").stat().st_size
    built = ROOT / "build/bin/dtrain"
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["strip", "-o", stripped.name, built], check=True, timeout=DEADLINE)
        sizes["build/bin/dtrain, stripped"] = pathlib.Path(stripped.name).stat().st_size
    return ["| file | bytes | MB |", "|---|---:|---:|", *(f"| {name} | {size:,} | {size / 1e6:.2f} |"
                                                         for name, size in sizes.items())]


def milliseconds(command):
    started = time.perf_counter()
    subprocess.run(command, check=True, timeout=DEADLINE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1e3


def time_rows(wheel, torchrun, runs):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["/usr/bin/python3", "-m", "venv", folder], check=True, timeout=DEADLINE)
        subprocess.run([f"{folder}/bin/pip", "install", "--quiet", "--no-index", wheel], check=True, timeout=DEADLINE)
        dtrain = f"{folder}/bin/dtrain"
        commands = {"dtrain --version": [dtrain, "--version"],
                    "torchrun --help": [torchrun, "--help"],
                    "dtrain run --nproc 2 true": [dtrain, "run", "--nproc", "2", "true"],
                    "torchrun --nproc-per-node 2 --no-python true":
                        [torchrun, "--nproc-per-node", "2", "--no-python", "true"]}
        if torchrun is None:
            commands = {name: command for name, command in commands.items() if command[0] == dtrain}
        took = {name: [] for name in commands}
        for run in range(runs + 1):  # the first brings the files into memory
            for name, command in commands.items():
                one = milliseconds(command)
                if run > 0:
                    took[name].append(one)
    return [f"| command, from the wheel | median of {runs} | shortest | longest |", "|---|---:|---:|---:|",
            *(f"| `{name}` | {statistics.median(times):,.1f} ms | {min(times):,.1f} ms | {max(times):,.1f} ms |"
              for name, times in took.items())]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    ours = ROOT / ".venv/bin/torchrun"
    parser.add_argument("--torchrun", default=ours if ours.exists() else shutil.which("torchrun"))
    parser.add_argument("--write", metavar="FOLDER", help="replace this section on its page in it")
    args = parser.parse_args()
    wheel = only("wheel/dist/*.whl", "wheel")
    text = "\n".join(["## Sizes and starts", "", *page.machine(), "`make bench-build`.", "", *size_rows(wheel), "",
                      *time_rows(wheel, args.torchrun, args.runs)])
    print(text)
    if args.write:
        page.write_section(args.write, "bench-build", "sizes", text)


if __name__ == "__main__":
    main()
