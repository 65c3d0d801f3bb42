#!/usr/bin/env python3
"""Several processes preprocess an input of many parts and buckets: one that is killed in each phase, a build that is
killed in each phase, a full disk, processes that cannot be started, and the line that shows how far they are."""
import json
import os
import pathlib
import pty
import re
import resource
import select
import shutil
import signal
import subprocess
import time
import unittest

import pyarrow
import pyarrow.parquet as parquet

from nodes_case import (DEADLINE, DTRAIN, PROGRAM, WithInput, WithJobs, bytes_in, content_of, has_lock, is_stopped,
                        until)

USER = 54321  # who has no other process
THIRD_PASS = re.compile(rb"\r\x1b\[Kgathering \(pass 3 of 4\): \d+ % ")
ENDED_EARLY = "dtrain: the processes have ended before all was done; this process does the rest alone\n"
PHASES = ["pass-0", "pass-1", "compare-6", "pass-2", "pass-3", "write"]


class Gates:
    """A part of each phase that no process can do before its gate is opened: no phase ends unseen. And most parts of
    each pass, whose gates are opened one by one: a process can be caught in one of them."""

    def __init__(self, work, partitions):
        self.held = {}
        for phase in PHASES:
            (work / phase).mkdir()
            parts = [1, *(range(3, partitions) if phase.startswith("pass-") else ())]
            self.held[phase] = {part: open(work / phase / f"{part:05}.lock", "w") for part in parts}
            for file in self.held[phase].values():
                if not has_lock(file):
                    raise AssertionError(f"{phase} has begun")

    def left(self, phase):
        """But for the one that keeps the phase from its end."""
        return sorted(self.held[phase].keys() - {1})

    def open(self, phase, part):
        self.held[phase].pop(part).close()

    def close(self):
        for files in self.held.values():
            for file in files.values():
                file.close()


class ManyBuckets(WithInput):
    rows, row_group = 60_000, 2000

    def many(self):
        return self.recipe(parallelism=None, threads=1, memory_limit_bytes=64 << 20, row_group_rows=1000,
                           split={"train": 0.7, "test": 0.3})

    def finished(self, phase):
        """The results that are there, each with its lock, into which a process that did the part again would write.
        They have other names here, too, as a build removes them at its end."""
        found = {}
        for done in phase.glob("*.done"):
            for path in (done, done.with_suffix(".lock")):
                kept = self.folder / f"kept-{phase.name}-{path.name}"
                if not kept.exists():
                    os.link(path, kept)
                found[kept] = path, kept.stat().st_mtime_ns, kept.read_bytes()
        return found

    def check_finished(self, finished):
        for kept, (path, changed, content) in finished.items():
            self.assertEqual((kept.stat().st_mtime_ns, kept.read_bytes()), (changed, content), path)
            if path.exists():
                self.assertTrue(path.samefile(kept), path)

    def in_work(self, phase, workers):
        """A worker that has a part in work, and that part."""
        for lock in phase.glob("*.lock"):
            pid = re.search(rb"\(process (\d+)\)", content_of(lock))
            if pid and int(pid[1]) in workers and not lock.with_suffix(".done").exists():
                with open(lock, "r+") as file:
                    if not has_lock(file):
                        return int(pid[1]), lock.with_suffix(".done")
        return None

    def stop(self, workers):
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        for pid in workers:
            until(lambda pid=pid: is_stopped(pid), "a process that is stopped")

    def catch(self, phase, workers, gates):
        """Stops all workers when one is in the middle of a part, and returns that one with the part's result."""
        end = time.monotonic() + DEADLINE
        self.stop(workers)
        for part in gates.left(phase.name):
            gates.open(phase.name, part)
            while not (phase / f"{part:05}.done").exists():
                self.assertLess(time.monotonic(), end, f"nobody has done part {part} of {phase.name}")
                for pid in workers:
                    os.kill(pid, signal.SIGCONT)
                time.sleep(0.001)  # tidy: allow sleep, because it is how long they go on; the deadline is above
                self.stop(workers)
                if found := self.in_work(phase, workers):
                    return found
        return None

    def lose_one(self, process, phase, gates):
        """Kills a worker, in a pass in the middle of a part. The others do it."""
        until(lambda: process.poll() is not None or len(list(phase.glob("*.done"))) > 1, phase.name)
        self.assertIsNone(process.poll(), process.stderr.read() if process.poll() is not None else "")
        workers = self.workers_of(process)
        self.assertGreater(len(workers), 1)
        found = self.catch(phase, workers, gates)
        if phase.name.startswith("pass-"):
            self.assertIsNotNone(found, f"no worker was seen in a part of {phase.name}")
        victim = found[0] if found else workers[0]
        os.kill(victim, signal.SIGKILL)
        finished = self.finished(phase)
        for part in gates.left(phase.name):
            gates.open(phase.name, part)
        for pid in workers:
            if pid != victim:
                os.kill(pid, signal.SIGCONT)
        if found:
            until(found[1].exists, "the part of the process that was killed")
        return finished

    def test_a_loss_in_each_phase(self):
        alone, report = self.make(self.many(), 0)
        for part in "train", "test":
            self.assertGreater(len([name for name in alone if name.startswith(f"{part}/")]), 3)
        self.assertLess(sum(part["rows"] for part in report["parts"].values()), 0.9 * self.rows)  # after dedup
        process, folder = self.start(self.many(), 3)
        work = folder / ".work"
        until(lambda: process.poll() is not None or (work / "plan.json").exists(), "the plan")
        self.kill_build(process)
        for phase in work.iterdir():
            if phase.is_dir():
                shutil.rmtree(phase)
        gates = Gates(work, report["partitions"])
        self.addCleanup(gates.close)
        process, _ = self.start(self.many(), 3, folder)
        finished = {}
        for name in PHASES:
            finished.update(self.lose_one(process, work / name, gates))
            self.kill_build(process)
            process, _ = self.start(self.many(), 3, folder)
            gates.open(name, 1)
            self.check_finished(finished)
        _, error = process.communicate(timeout=DEADLINE)
        self.assertEqual((process.returncode, error), (0, ""))
        self.assertEqual(bytes_in(folder), alone)
        self.check_finished(finished)


class Jobs(WithJobs):
    def test_a_full_disk(self):
        """It is said once, with what to do, by the same code as that of one process. Nothing is left. What
        finds no place is locks and results, rows that wait (500, of three), or files that Arrow writes (1250)."""
        cache = self.folder / "cache"
        cache.mkdir()
        for kilobytes, workers in ((72, 1), (72, 3), (160, 3), (300, 3), (500, 3), (1250, 3)):
            size = f"size={kilobytes}k,mode=700"
            made = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", cache], capture_output=True)
            if made.returncode != 0:
                self.skipTest("no right to mount a file system")
            process = None
            try:
                with self.subTest(kilobytes=kilobytes, workers=workers):
                    process = self.begin("cache", workers)
                    error = process.communicate(timeout=DEADLINE)[1]
                    if workers > 1:  # none of them can leave its error
                        error = error.removeprefix(ENDED_EARLY)
                    self.assertEqual((process.returncode, error.count("\n")), (125, 1), error)
                    self.assertRegex(error, f"^dtrain: {cache}: the disk is full; .*No space left on device")
                    if workers == 1:
                        self.assertIn("Error writing bytes to file", error)
                    self.assertEqual(self.left("cache"), [])
            finally:
                if process:
                    process.kill()
                    process.wait()
                    until(lambda: not self.processes(), "the end of all processes")
                subprocess.run(["umount", cache], check=True)

    def read(self, reader, said, until_said):
        """What comes from a terminal, until this is so, or nobody has the terminal any more."""
        end = time.monotonic() + DEADLINE
        while not until_said(said):
            left = end - time.monotonic()
            self.assertTrue(left > 0 and select.select([reader], [], [], left)[0], said)
            try:
                said += os.read(reader, 65536)
            except OSError:
                return said
        return said

    def on_terminal(self, **options):
        reader, terminal = pty.openpty()
        self.addCleanup(os.close, reader)
        try:
            return self.begin("cache", stderr=terminal, **options), reader
        finally:
            os.close(terminal)

    def gated(self, script):
        """A build on a terminal, whose workers run this script. It cannot end its third pass before the gate opens."""
        start = open(self.folder / "start", "w")
        gate = None
        try:
            self.assertTrue(has_lock(start))
            wait = f"flock -s {self.folder}/start true\n"
            process, reader = self.on_terminal(workers=2, dtrain=self.with_workers(wait + script))
            until(lambda: process.poll() is not None or list((self.folder / "cache").glob("*/.work/plan.json")),
                  "the plan")
            self.assertIsNone(process.poll())
            work = next((self.folder / "cache").glob("*/.work"))
            (work / "pass-2").mkdir()
            gate = open(work / "pass-2/00001.lock", "w")
            self.assertTrue(has_lock(gate))
            self.addCleanup(gate.close)
        finally:
            start.close()
        return process, reader, gate

    def test_progress_on_a_terminal(self):
        process, reader, gate = self.gated(f'exec {PROGRAM} "$@"')
        said = self.read(reader, b"", THIRD_PASS.search)
        gate.close()
        said = self.read(reader, said, lambda said: False)
        self.assertEqual(process.communicate(timeout=DEADLINE)[1], None)
        self.assertEqual(process.returncode, 0, said)
        self.assertTrue(said.endswith(b"\r\x1b[K"), said)
        self.assertNotIn(b"ended before", said)

    def test_what_workers_leave_undone_is_done_with_a_line_about_it_and_progress(self):
        process, reader, gate = self.gated("exit 0")
        said = self.read(reader, b"", THIRD_PASS.search)
        self.assertEqual(said.replace(b"\r\n", b"\n").count(ENDED_EARLY.encode()), 1, said)
        gate.close()
        said = self.read(reader, said, lambda said: False)
        out = process.communicate(timeout=DEADLINE)[0]
        self.assertEqual(process.returncode, 0, said)
        self.assertTrue(said.endswith(b"\r\x1b[K"), said)
        entry = pathlib.Path(json.loads(out)["folder"])
        self.assertEqual({name: data for name, data in bytes_in(entry).items() if name != "meta.json"},
                         self.build("alone", 1))

    def test_an_error_is_not_glued_to_the_progress(self):
        rows = pyarrow.table({"word": ["1"] * 999 + ["one"]})
        for path in (self.folder / "in").iterdir():
            path.unlink()
        parquet.write_table(rows, self.folder / "in/rows.parquet", row_group_size=100)
        process, reader = self.on_terminal(workers=1, steps=[{"cast": {"word": "int32"}}], parallelism=1)
        said = self.read(reader, b"", lambda said: False)
        process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 1, said)
        self.assertRegex(said, rb"90 % \r\x1b\[K[^\r]*dataset.steps\[0\].cast.word")

    def as_user(self, program):
        """A script that runs it as USER, who may go into folders as root may, as this tree may be in /root. Without
        that bit access() knows no capabilities."""
        script = self.folder / program.name
        script.write_text(f"#!/bin/sh\nexec setpriv --reuid={USER} --regid={USER} --clear-groups "
                          f'--inh-caps=+dac_override --ambient-caps=+dac_override '
                          f'--securebits=+no_setuid_fixup {program} "$@"\n')
        script.chmod(0o755)
        return script

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_processes_that_cannot_be_started(self):
        """Whichever of them it is: the build ends with one error, and leaves nothing."""
        os.chmod(self.folder, 0o755)
        cache, made = self.folder / "cache", self.folder / "made"
        for folder in cache, made:
            folder.mkdir(mode=0o700)
            os.chown(folder, USER, USER)
        (self.folder / "recipe.json").write_text(json.dumps(self.recipe()))
        program, dtrain = self.as_user(PROGRAM), self.as_user(DTRAIN)
        for limit in range(1, 40):
            def few(limit=limit):
                resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
            if limit < 4:
                words = [program, "process", self.folder / "recipe.json", made, "3"]
                done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE, preexec_fn=few)
                self.assertEqual(done.returncode, 125, done.stderr)
                self.assertRegex(done.stderr, r"process \d of 3 cannot be started: fork: Resource temporarily")
                self.assertEqual(list(made.iterdir()), [])
            process = self.begin("cache", 3, dtrain=dtrain, preexec_fn=few)
            error = process.communicate(timeout=DEADLINE)[1]
            if process.returncode == 0:
                break
            self.assertEqual(process.returncode, 125, error)
            self.assertIn("Resource temporarily unavailable", error)
            self.assertEqual(self.left("cache"), [])
        self.assertEqual(process.returncode, 0, error)
        self.assertGreater(limit, 5)  # each of a build's own processes has failed once


if __name__ == "__main__":
    unittest.main()
