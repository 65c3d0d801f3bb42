"""A recipe and its input for tests of several processes that share the work, and what such tests ask of processes."""
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import numpy
import pyarrow
import pyarrow.parquet as parquet

BIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"])
PROGRAM, DTRAIN = BIN / "dtrain-data", BIN / "dtrain"
DEADLINE = 60
MEMORY = 128 << 20
STEPS = [
    {"cast": {"n": "int64"}},
    {"filter": {"column": "n", "op": ">", "value": -80}},
    {"fill": {"x": "mean", "city": "mode"}},
    {"normalize": {"x": "zscore", "n": "minmax"}},
    {"dedup": ["key", "city"]},
    {"vocabulary": {"city": {"size": 4, "output": "one_hot"}, "word": {"size": 100}}},
]


def raw(rows):
    draw = numpy.random.default_rng(3)
    holes = draw.random(rows) < 0.1
    return pyarrow.table({
        "id": numpy.arange(rows),
        "x": pyarrow.array(draw.normal(5, 3, rows), mask=holes),
        "n": draw.integers(-100, 100, rows).astype(numpy.int32),
        "key": draw.integers(0, rows // 2, rows),
        "city": pyarrow.array([f"city {min(number, 9)}" for number in draw.geometric(0.3, rows)], mask=holes),
        "word": [f"word {number}" for number in draw.integers(0, 300, rows)],
    })


def bytes_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def until(ready, what):
    end = time.monotonic() + DEADLINE
    while not ready():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come within {DEADLINE} s")
        time.sleep(0.005)  # tidy: allow sleep, because files and /proc send no events; the deadline is above


def children_of(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_stopped(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TtZ"


def content_of(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def is_gone(pid):
    """It has ended, whether or not somebody has waited for it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def has_lock(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


class WithInput(unittest.TestCase):
    """A recipe, and builds of it by `dtrain-data process`."""
    rows, row_group = 4000, 150

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-nodes-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.number = 0
        (self.folder / "in").mkdir()
        table = raw(self.rows)
        half = self.rows // 2
        for number in range(2):
            parquet.write_table(table.slice(number * half, half), self.folder / f"in/{number}.parquet",
                                row_group_size=self.row_group)

    def recipe(self, **more):
        return {"input": [str(self.folder / "in")], "steps": STEPS, "parallelism": 7, "row_group_rows": 100,
                "memory_limit_bytes": MEMORY, "threads": 2, **more}

    def start(self, recipe, processes, folder=None):
        self.number += 1
        folder = folder or self.folder / f"made-{self.number}"
        folder.mkdir(exist_ok=True)
        path = self.folder / f"{self.number}.json"
        path.write_text(json.dumps(recipe))
        process = subprocess.Popen([PROGRAM, "process", path, folder, *([str(processes)] if processes else [])],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, folder

    def make(self, recipe, processes, code=0):
        process, folder = self.start(recipe, processes)
        out, error = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, code, error)
        return (bytes_in(folder), json.loads(out)) if code == 0 else (bytes_in(folder), error)

    def kill_build(self, process):
        """It, and its workers."""
        os.kill(process.pid, signal.SIGSTOP)
        workers = self.workers_of(process)
        process.kill()
        process.wait()
        for pid in workers:
            until(lambda pid=pid: is_gone(pid), "the end of a worker")

    def workers_of(self, process):
        """Those that have begun."""
        found = []
        for pid in children_of(process.pid):
            if b"work" in content_of(pathlib.Path(f"/proc/{pid}/cmdline")).split(b"\0"):
                found.append(pid)
        return found


class WithJobs(WithInput):
    """Jobs that `dtrain preprocess` starts, on this host."""

    def with_workers(self, script):
        """A dtrain whose workers are this shell script."""
        folder = self.folder / "programs"
        folder.mkdir()
        (folder / "dtrain-data").write_text(
            f'#!/bin/sh\n[ "$1" = work ] || exec {PROGRAM} "$@"\n{script}\n')
        (folder / "dtrain-data").chmod(0o755)
        return shutil.copy(DTRAIN, folder)

    def begin(self, cache, workers, steps=None, parallelism=27, dtrain=DTRAIN, **popen):
        config = {"dataset": {"input": str(self.folder / "in"), "steps": steps or STEPS, "row_group_rows": 100},
                  "backend": {"cache_dir": str(self.folder / cache),
                              "processor": {"num_workers": workers, "parallelism": parallelism,
                                            "memory_limit_bytes": MEMORY}}}
        path = self.folder / f"{cache}-{workers}.json"
        path.write_text(json.dumps(config))
        process = subprocess.Popen([dtrain, "preprocess", "--json", "--threads=1", "--config", path], text=True,
                                   cwd=self.folder,
                                   **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen})
        for pipe in process.stdout, process.stderr:
            if pipe:
                self.addCleanup(pipe.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def build(self, cache, workers, **options):
        process = self.begin(cache, workers, **options)
        out, error = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 0, error)
        return {name: data for name, data in bytes_in(pathlib.Path(json.loads(out)["folder"])).items()
                if name != "meta.json"}

    def left(self, cache):
        return [path.name for path in (self.folder / cache).iterdir() if path.name != ".lock"]

    def working(self, cache, **popen):
        """A build whose workers have finished a part."""
        process = self.begin(cache, 2, **popen)
        until(lambda: process.poll() is not None or list((self.folder / cache).glob("*/.work/pass-0/*.done")), "a part")
        self.assertIsNone(process.poll())
        return process

    def processes(self):
        """Those of the jobs: they work in this test's folder."""
        found = []
        for place in pathlib.Path("/proc").glob("[0-9]*/cwd"):
            try:
                if os.readlink(place) == str(self.folder):
                    found.append(int(place.parent.name))
            except OSError:
                pass
        return found

    def workers_at(self, place):
        return [int(path.parent.name) for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                if re.fullmatch(rb"[^\0]*dtrain-data\0work\0" + re.escape(os.fsencode(place)) + rb"\0",
                                content_of(path))]
