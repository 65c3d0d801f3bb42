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

from nodes_case import DEADLINE, PROGRAM, WithInput, WithJobs, bytes_in, content_of, has_lock, is_gone, until

USER = 54321  # who has no other process
PHASES = ["pass-0", "pass-1", "compare-6", "pass-2", "pass-3", "write"]


def is_stopped(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TtZ"


class Gates:
    """A part of each phase that no process can do before its gate is opened: no phase ends unseen."""

    def __init__(self, work):
        self.held = {}
        for phase in PHASES:
            (work / phase).mkdir()
            self.held[phase] = open(work / phase / "00001.lock", "w")
            if not has_lock(self.held[phase]):
                raise AssertionError(f"{phase} has begun")

    def open(self, phase):
        self.held.pop(phase).close()

    def close(self):
        for file in self.held.values():
            file.close()


class ManyBuckets(WithInput):
    rows, row_group = 60_000, 2000

    def many(self):
        return self.recipe(parallelism=None, threads=1, memory_limit_bytes=64 << 20, row_group_rows=1000,
                           split={"train": 0.7, "test": 0.3})

    def kill_build(self, process):
        os.kill(process.pid, signal.SIGSTOP)
        workers = self.workers_of(process)
        process.kill()
        process.wait()
        for pid in workers:
            until(lambda pid=pid: is_gone(pid), "the end of a worker")

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

    def lose_one(self, process, phase):
        """Kills a worker in the middle of a part. The others do it."""
        until(lambda: process.poll() is not None or len(list(phase.glob("*.done"))) > 1, phase.name)
        self.assertIsNone(process.poll(), process.stderr.read() if process.poll() is not None else "")
        workers = self.workers_of(process)
        self.assertGreater(len(workers), 1)
        for _ in range(50):
            for pid in workers:
                os.kill(pid, signal.SIGSTOP)
            for pid in workers:
                until(lambda pid=pid: is_stopped(pid), "a process that is stopped")
            found = self.in_work(phase, workers)
            if found:
                os.kill(found[0], signal.SIGKILL)
            finished = self.finished(phase)
            for pid in workers:
                if not found or pid != found[0]:
                    os.kill(pid, signal.SIGCONT)
            if found:
                until(found[1].exists, "the part of the process that was killed")
                return finished
        os.kill(workers[0], signal.SIGKILL)  # all of the phase but the part that is held is done
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
        gates = Gates(work)
        self.addCleanup(gates.close)
        process, _ = self.start(self.many(), 3, folder)
        finished = {}
        for name in PHASES:
            with self.subTest(name):
                finished.update(self.lose_one(process, work / name))
                self.kill_build(process)
                process, _ = self.start(self.many(), 3, folder)
                gates.open(name)
                self.check_finished(finished)
        _, error = process.communicate(timeout=DEADLINE)
        self.assertEqual((process.returncode, error), (0, ""))
        self.assertEqual(bytes_in(folder), alone)
        self.check_finished(finished)


class Jobs(WithJobs):
    def test_a_full_disk(self):
        """It is said once, with what to do, by the same code as that of one process. Nothing is left."""
        cache = self.folder / "cache"
        cache.mkdir()
        for kilobytes, workers in ((72, 1), (72, 3), (160, 3), (300, 3)):
            size = f"size={kilobytes}k,mode=700"
            made = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", cache], capture_output=True)
            if made.returncode != 0:
                self.skipTest("no right to mount a file system")
            try:
                with self.subTest(kilobytes=kilobytes, workers=workers):
                    process = self.begin("cache", workers)
                    error = process.communicate(timeout=DEADLINE)[1]
                    self.assertEqual((process.returncode, error.count("\n")), (125, 1), error)
                    self.assertRegex(error, f"^dtrain: {cache}: the disk is full; make room, .*No space left on device")
                    self.assertEqual(self.left("cache"), [])
            finally:
                subprocess.run(["umount", cache], check=True)

    def test_progress_on_a_terminal(self):
        reader, terminal = pty.openpty()
        self.addCleanup(os.close, reader)
        try:
            process = self.working("cache", stderr=terminal)
        finally:
            os.close(terminal)
        said = b""

        def read(until_said):
            nonlocal said
            end = time.monotonic() + DEADLINE
            while not until_said(said):
                left = end - time.monotonic()
                self.assertTrue(left > 0 and select.select([reader], [], [], left)[0], said)
                try:
                    said += os.read(reader, 65536)
                except OSError:  # nobody has the terminal any more
                    return

        work = next((self.folder / "cache").glob("*/.work"))
        workers = self.workers_at(work.parent)
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        (work / "pass-2").mkdir()
        with open(work / "pass-2/00001.lock", "w") as gate:
            self.assertTrue(has_lock(gate))
            for pid in workers:
                os.kill(pid, signal.SIGCONT)
            read(lambda said: re.search(rb"\r\x1b\[Kgathering \(pass 3 of 4\): \d+ % ", said))
        read(lambda said: False)
        self.assertEqual(process.communicate(timeout=DEADLINE)[1], None)
        self.assertEqual(process.returncode, 0, said)
        self.assertTrue(said.endswith(b"\r\x1b[K"), said)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_processes_that_cannot_be_started(self):
        """Whichever of them it is: the build ends with one error, and leaves nothing."""
        os.chmod(self.folder, 0o755)
        cache, made = self.folder / "cache", self.folder / "made"
        for folder in cache, made:
            folder.mkdir(mode=0o700)
            os.chown(folder, USER, USER)
        (self.folder / "recipe.json").write_text(json.dumps(self.recipe()))
        for limit in range(1, 40):
            def few(limit=limit):
                resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
            as_user = {"user": USER, "group": USER, "extra_groups": [], "preexec_fn": few}
            if limit < 4:
                words = [PROGRAM, "process", self.folder / "recipe.json", made, "3"]
                done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE, **as_user)
                self.assertEqual(done.returncode, 125, done.stderr)
                self.assertRegex(done.stderr, r"process \d of 3 cannot be started: fork: Resource temporarily")
                self.assertEqual(list(made.iterdir()), [])
            process = self.begin("cache", 3, **as_user)
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
