#!/usr/bin/env python3
"""The native processor as several processes that share a folder: the same bytes, what becomes of a process that dies,
of an error, and of a build that is killed; and the same as jobs that `dtrain preprocess` starts."""
import ctypes
import fcntl
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import time
import unittest

import numpy
import pyarrow
import pyarrow.csv
import pyarrow.parquet as parquet

from nodes_case import (DEADLINE, PROGRAM, WithInput, WithJobs, bytes_in, has_lock, is_gone, raw, until)


def cpu_of(pid):
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def threads_of(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def files_of(pid):
    names = []
    for path in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
        try:
            names.append(os.readlink(path))
        except OSError:
            pass
    return names


def fail_build(work):
    """As a worker that has failed does it."""
    why = b"dtrain: no such luck"
    (work / "draft").write_bytes(struct.pack("=QQ", 0, len(why)) + why)
    os.rename(work / "draft", work / "failed")


CLOSE_WRITE, MOVED_FROM, DELETE = 0x8, 0x40, 0x200


class Seen:
    """The names in some folders that events are of, in their order (inotify)."""

    def __init__(self, folders):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        for folder, events in folders.items():
            if libc.inotify_add_watch(self.fd, os.fsencode(folder), events) < 0:
                raise OSError(ctypes.get_errno(), str(folder))

    def all(self):
        return [name for name, _ in self.events()]

    def events(self):
        """Each a name, and what became of it."""
        events = []
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return events
            while data:
                event, _, size = struct.unpack_from("=III", data, 4)
                events.append((data[16:16 + size].rstrip(b"\0").decode(), event & 0xfff))
                data = data[16 + size:]

    def close(self):
        os.close(self.fd)


class SameBytes(WithInput):
    def same(self, recipe):
        alone, report = self.make(recipe, 0)
        self.assertTrue(any(name.endswith(".parquet") for name in alone))
        for processes in (2, 3):
            with self.subTest(processes=processes):
                shared, said = self.make(recipe, processes)
                self.assertEqual(shared.keys(), alone.keys())
                self.assertEqual(shared, alone)
                for fact in ("rows_read", "parts", "partitions", "passes"):
                    self.assertEqual(said[fact], report[fact])

    def test_shuffled(self):
        self.same(self.recipe(split={"train": 0.8, "test": 0.2}))

    def test_in_order_with_a_split_by_a_column_and_without_persist(self):
        self.same(self.recipe(shuffle=False, persist=False, split={"by": "word", "train": 0.7, "validation": 0.3}))

    def test_without_statistics_in_one_pass_of_many_partitions(self):
        self.same(self.recipe(steps=[{"filter": {"column": "n", "op": "<", "value": 50}}], parallelism=20))

    def test_text_and_a_part_without_rows(self):
        pyarrow.csv.write_csv(raw(self.rows), self.folder / "rows.csv")
        self.same(self.recipe(input=[str(self.folder / "rows.csv")], parallelism=None,
                              split={"train": 0.9999, "rest": 0.0001}))


class Loss(WithInput):
    """The work of processes that die, or end with an error."""

    def slow(self):
        """A recipe of many parts, so that there is time to look."""
        return self.recipe(parallelism=27, threads=1)

    def begun(self, recipe, processes, phase):
        """A build that has come to this phase; its folder, and its workers."""
        process, folder = self.start(recipe, processes)
        until(lambda: process.poll() is not None or list((folder / ".work").glob(f"{phase}/*.done")), phase)
        self.assertIsNone(process.poll(), process.stderr.read() if process.poll() is not None else "")
        return process, folder

    def test_a_process_that_is_killed_leaves_its_parts_to_the_others(self):
        alone, _ = self.make(self.slow(), 0)
        for phase in ("pass-0", "pass-1", "write"):
            with self.subTest(phase):
                process, folder = self.begun(self.slow(), 3, phase)
                victims = self.workers_of(process)[:2]
                for pid in victims:
                    os.kill(pid, signal.SIGKILL)
                if phase == "pass-0":
                    self.assertTrue(victims)
                _, error = process.communicate(timeout=DEADLINE)
                self.assertEqual((process.returncode, error), (0, ""))
                self.assertEqual(bytes_in(folder), alone)

    def test_a_killed_build_goes_on_with_the_parts_that_are_there(self):
        alone, _ = self.make(self.slow(), 0)
        for phase in ("pass-0", "write"):
            with self.subTest(phase):
                process, folder = self.begun(self.slow(), 2, phase)
                self.kill_build(process)
                if phase == "write":  # nobody reads the input again, but for the footers
                    for file in (self.folder / "in").iterdir():
                        facts = file.stat()
                        with open(file, "r+b") as damaged:
                            damaged.seek(4)
                            damaged.write(bytes(facts.st_size // 2))
                        os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
                again, _ = self.start(self.slow(), 2, folder)
                self.assertEqual((again.communicate(timeout=DEADLINE)[1], again.returncode), ("", 0))
                self.assertEqual(bytes_in(folder), alone)

    def test_what_is_left_of_other_work_is_not_taken(self):
        alone, _ = self.make(self.recipe(seed=2), 0)
        process, folder = self.begun(self.slow(), 2, "pass-0")
        self.kill_build(process)
        again, _ = self.start(self.recipe(seed=2), 2, folder)
        self.assertEqual(again.communicate(timeout=DEADLINE)[1], "")
        self.assertEqual(bytes_in(folder), alone)

    def resumed(self, recipe, phase, damage, processes=2):
        """What a build makes of one that was killed in this phase, and then damaged. And its report."""
        process, folder = self.begun(recipe, 2, phase)
        self.kill_build(process)
        damage(folder)
        again, _ = self.start(recipe, processes, folder)
        out, error = again.communicate(timeout=DEADLINE)
        self.assertEqual((error, again.returncode), ("", 0))
        return bytes_in(folder), json.loads(out)

    def test_files_without_their_results_are_made_again(self):
        for more, phase in (({}, "write"), ({"shuffle": False}, "pass-3")):
            with self.subTest(phase):
                recipe = {**self.slow(), **more}

                def lose(folder, phase=phase):
                    self.assertTrue(list(folder.glob("train/*.parquet")))
                    for done in (folder / ".work" / phase).glob("*.done"):
                        done.unlink()
                self.assertEqual(self.resumed(recipe, phase, lose)[0], self.make(recipe, 0)[0])

    def test_what_is_divided_otherwise_is_built_anew(self):
        def change(folder):
            path = folder / ".work/plan.json"
            plan = json.loads(path.read_text())
            path.write_text(json.dumps({**plan, "digest": 1}))
            for done in (folder / ".work/pass-0").glob("*.done"):
                done.write_bytes(b"nothing of use")
        self.assertEqual(self.resumed(self.slow(), "pass-0", change)[0], self.make(self.slow(), 0)[0])

    def test_what_is_not_of_the_build_is_not_in_its_result(self):
        def put(folder):
            (folder / "train/old.parquet").touch()
            (folder / "train/old").mkdir()
            (folder / ".rows-x").touch()
            (folder / "old/more").mkdir(parents=True)
        made = self.resumed(self.slow(), "pass-0", put)[0]
        self.assertEqual(made, self.make(self.slow(), 0)[0])
        self.assertEqual(os.listdir(self.folder / "made-1"), os.listdir(self.folder / "made-3"))

    def test_memory_that_nobody_has_named_is_divided(self):
        free = self.recipe(parallelism=27, threads=1, memory_limit_bytes=None)
        alone = self.make(free, 0)[1]["memory_limit_bytes"]
        self.assertLess(self.make(free, 4)[1]["memory_limit_bytes"], alone / 2)
        plans = []

        def keep(folder):
            plans.append(json.loads((folder / ".work/plan.json").read_text()))
        self.assertEqual(self.resumed(free, "pass-0", keep, 2)[1]["memory_limit_bytes"], plans[0]["memory_limit_bytes"])
        self.assertLess(self.resumed(free, "pass-0", keep, 8)[1]["memory_limit_bytes"],
                        plans[1]["memory_limit_bytes"] / 2)

    def test_the_folder_of_somebody_else_is_left_alone(self):
        for processes in (0, 2):
            with self.subTest(processes=processes):
                missing = self.folder / "missing"
                path = self.folder / "recipe.json"
                path.write_text(json.dumps(self.recipe()))
                words = [PROGRAM, "process", path, missing, *([str(processes)] if processes else [])]
                done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE)
                self.assertEqual((done.returncode, done.stderr), (1, f"dtrain: {missing}: there is no such folder\n"))
                for name in ("own", ".work/own", "train/own"):
                    folder = self.folder / f"{processes}-{name.replace('/', '-')}"
                    (folder / name).parent.mkdir(parents=True)
                    (folder / name).write_text("of worth")
                    process, _ = self.start(self.recipe(), processes, folder)
                    error = process.communicate(timeout=DEADLINE)[1]
                    self.assertEqual((process.returncode, error), (1, f"dtrain: {folder}: the folder is not empty; "
                                                                   "remove what is in it, or name an empty folder\n"))
                    self.assertEqual(bytes_in(folder), {name: b"of worth"})

    def test_a_folder_with_a_plan_of_somebody_else_or_a_link_is_left_alone(self):
        own = self.folder / "own"
        own.mkdir()
        plan = {"format": 1, "version": "0.1", "digest": 1}
        for number, text in enumerate(({"mine": 1}, [], {**plan, "version": 1}, {**plan, "digest": "1"},
                                       "link", "file")):
            with self.subTest(text):
                folder = self.folder / f"left-{number}"
                (folder / ".work").mkdir(parents=True)
                if text in ("link", "file"):
                    (own / "plan.json").write_text(json.dumps(plan))
                    if text == "link":
                        (folder / ".work").rmdir()
                        (folder / ".work").symlink_to(own)
                    else:
                        (folder / ".work/plan.json").symlink_to(own / "plan.json")
                else:
                    (folder / ".work/plan.json").write_text(json.dumps(text))
                (folder / "notes.txt").write_text("of worth")
                before = bytes_in(folder), bytes_in(own)
                process, _ = self.start(self.recipe(), 2, folder)
                self.assertIn("the folder is not empty", process.communicate(timeout=DEADLINE)[1])
                self.assertEqual((process.returncode, bytes_in(folder), bytes_in(own)), (1, *before))

    def test_what_a_build_of_another_version_has_left_is_in_nobody_s_way(self):
        folder = self.folder / "left"
        (folder / ".work").mkdir(parents=True)
        (folder / ".work/plan.json").write_text(json.dumps({"format": 1, "version": "0.1", "digest": 1}))
        (folder / ".work/rows.0").touch()
        process, _ = self.start(self.recipe(), 2, folder)
        self.assertEqual((process.communicate(timeout=DEADLINE)[1], process.returncode), ("", 0))
        self.assertEqual(bytes_in(folder), self.make(self.recipe(), 0)[0])

    def test_what_a_build_has_left_before_its_plan_is_in_nobody_s_way(self):
        folder = self.folder / "left"
        (folder / ".work").mkdir(parents=True)
        (folder / "train").mkdir()
        (folder / ".work/plan.json.0123456789abcdef.tmp").write_text("{")
        process, _ = self.start(self.recipe(), 2, folder)
        self.assertEqual((process.communicate(timeout=DEADLINE)[1], process.returncode), ("", 0))
        self.assertEqual(bytes_in(folder), self.make(self.recipe(), 0)[0])

    def test_rows_that_wait_are_in_the_folder_of_the_work(self):
        rows = 25_000  # more than a store holds in memory, for two of them, too
        table = pyarrow.table({"x": numpy.arange(rows) * 0.5, "text": [f"{row:01000}" for row in range(rows)]})
        parquet.write_table(table, self.folder / "rows.parquet", row_group_size=200)
        recipe = self.recipe(input=[str(self.folder / "rows.parquet")], steps=[{"normalize": {"x": "zscore"}}],
                             memory_limit_bytes=64 << 20, threads=1, parallelism=None)
        process, folder = self.begun(recipe, 2, "pass-0")
        self.kill_build(process)
        for done in (folder / ".work").rglob("*.done"):
            done.unlink()
        (folder / ".work/write").mkdir(exist_ok=True)
        with open(folder / ".work/write/00000.lock", "w") as held:  # who waits for it has its rows in a file
            until(lambda: has_lock(held), "the lock")
            process, _ = self.start(recipe, 2, folder)
            without_name = []

            def look():
                for pid in self.workers_of(process):
                    without_name.extend(name for name in files_of(pid)
                                        if re.match(f"{folder}/.* \\(deleted\\)$", name))
                return without_name
            until(lambda: look() or process.poll() is not None, "rows that wait in a file")
        self.assertEqual({os.path.dirname(name) for name in without_name}, {str(folder / ".work")})
        self.assertEqual((process.communicate(timeout=DEADLINE)[1], process.returncode), ("", 0))

    def test_processes_that_are_killed_leave_all_to_the_one_that_began(self):
        process, folder = self.begun(self.slow(), 2, "pass-0")
        for pid in self.workers_of(process):
            os.kill(pid, signal.SIGKILL)
        error = process.communicate(timeout=DEADLINE)[1]
        self.assertEqual(process.returncode, 0, error)
        self.assertRegex(error, "^dtrain: the processes have ended before all was done; .*\n$")
        self.assertEqual(bytes_in(folder), self.make(self.slow(), 0)[0])

    def test_one_error_and_an_empty_folder(self):
        for steps, code, words in (
                ([{"cast": {"word": "int32"}}], 1, "steps[0].cast.word"),
                ([{"filter": {"column": "id", "op": "<", "value": 0}}], 1, "none is left"),
                ([{"fill": {"nothing": 1}}], 2, "nothing")):
            with self.subTest(words):
                left, error = self.make(self.recipe(steps=steps), 3, code)
                self.assertEqual((left, error.count("\n")), ({}, 1), error)
                self.assertIn(words, error)

    def test_a_worker_that_does_not_see_the_folder_or_sees_another_input_says_so(self):
        process, folder = self.begun(self.slow(), 2, "pass-0")
        plan = json.loads((folder / ".work/plan.json").read_text())
        other = self.folder / "other"
        (other / ".work").mkdir(parents=True)
        (other / ".work/plan.json").write_text(json.dumps({**plan, "digest": 1}))
        subprocess.run([PROGRAM, "work", other], check=True, timeout=DEADLINE)
        self.assertIn(b"sees other rows", (other / ".work/failed").read_bytes())
        files = plan["files"]
        older = [files[0][0], files[0][1], 1]
        for wrong, words in (([older, files[1]], "another size or time of change"),
                             (files[:1], "sees 2 files")):
            (other / ".work/failed").unlink()
            (other / ".work/plan.json").write_text(json.dumps({**plan, "files": wrong}))
            subprocess.run([PROGRAM, "work", other], check=True, timeout=DEADLINE)
            self.assertIn(words, (other / ".work/failed").read_text(errors="replace"))
        (other / ".work/failed").unlink()
        missing = {**plan, "recipe": {**plan["recipe"], "input": ["/none/in"]}}
        (other / ".work/plan.json").write_text(json.dumps(missing))
        subprocess.run([PROGRAM, "work", other], check=True, timeout=DEADLINE)
        failed = (other / ".work/failed").read_text(errors="replace")
        self.assertRegex(failed, r"/none/in.*on the node .*num_workers: 1")
        # An error that cannot be left there is not lost.
        (other / ".work/failed").unlink()
        (other / ".work/failed").symlink_to("/none/failed")
        done = subprocess.run([PROGRAM, "work", other], stderr=subprocess.PIPE, text=True, timeout=DEADLINE,
                              env={**os.environ, "TORCHELASTIC_RESTART_COUNT": "1"})
        self.assertEqual(done.returncode, 125)
        self.assertIn("/none/in", done.stderr)
        without_arrow = plan["version"].partition(" with Arrow")[0]
        of_another = r"plan.json is of dtrain .* and the node .* has dtrain .* with Arrow .* same"
        for wrong, words in (({"version": "0.0"}, of_another), ({"version": without_arrow}, of_another),
                             ({"format": 0}, "plan.json is damaged"), ({"digest": "1"}, "plan.json is damaged")):
            (other / ".work/plan.json").write_text(json.dumps({**plan, **wrong}))
            done = subprocess.run([PROGRAM, "work", other], stderr=subprocess.PIPE, text=True, timeout=DEADLINE)
            self.assertEqual(done.returncode, 125)
            self.assertRegex(done.stderr, words)
        done = subprocess.run([PROGRAM, "work", "/none/rows"], stderr=subprocess.PIPE, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 125)
        self.assertIn("does not see /none/rows", done.stderr)
        process.communicate(timeout=DEADLINE)

    def test_what_is_wrong_with_the_words_is_said(self):
        path = self.folder / "recipe.json"
        path.write_text(json.dumps(self.recipe()))
        for words in ("abc", "2x", "0"):
            done = subprocess.run([PROGRAM, "process", path, self.folder / "in", words], stderr=subprocess.PIPE,
                                  text=True, timeout=DEADLINE)
            self.assertEqual((done.returncode, done.stderr[:6]), (2, "usage:"))
        os.rename(self.folder / "in/0.parquet", os.fsencode(self.folder) + b"/in/0\xff.parquet")
        left, error = self.make(self.recipe(), 2, 1)
        self.assertEqual(left, {})
        self.assertRegex(error, r"in/0.+\.parquet.* is no text in UTF-8.*num_workers: 1")

    def test_the_plan_goes_before_files_get_their_numbers(self):
        recipe = self.recipe(shuffle=False, parallelism=27, threads=1,
                             steps=[{"fill": {"x": "mean"}}, {"filter": {"column": "id", "op": ">=", "value": 500}}])
        process, folder = self.begun(recipe, 2, "pass-0")
        part, = (each for each in folder.iterdir() if each.name != ".work")
        seen = Seen({folder / ".work": DELETE, part: MOVED_FROM})
        self.addCleanup(seen.close)
        self.assertEqual((process.communicate(timeout=DEADLINE)[1], process.returncode), ("", 0))
        events = seen.all()
        self.assertTrue(any(name.startswith("part-") for name in events), events)
        self.assertLess(events.index("plan.json"), next(at for at, name in enumerate(events)
                                                        if name.startswith("part-")))

    def test_files_of_the_work_are_closed_before_they_go_and_what_is_not_of_the_result_goes_after_them(self):
        process, folder = self.begun(self.slow(), 2, "pass-0")
        (folder / "train/old.parquet").touch()
        seen = Seen({folder / ".work": CLOSE_WRITE | DELETE, folder: MOVED_FROM | DELETE,
                     folder / "train": DELETE})
        self.addCleanup(seen.close)
        for pid in self.workers_of(process):  # the building process has the last rows
            os.kill(pid, signal.SIGKILL)
        error = process.communicate(timeout=DEADLINE)[1]
        self.assertEqual(process.returncode, 0, error)
        events = seen.events()
        names = [name for name, _ in events]
        self.assertLess(events.index((".work", MOVED_FROM)), names.index("old.parquet"))
        last = {name: event for name, event in events if name.startswith("rows.")}
        self.assertTrue(last)
        self.assertEqual(set(last.values()), {DELETE})  # NFS keeps what is open, and its folder

    def test_the_plan_goes_before_what_a_failed_build_has_left(self):
        process, folder = self.begun(self.slow(), 2, "pass-0")
        for number in range(50):
            (folder / f".work/{number}").touch()
        seen = Seen({folder / ".work": DELETE})
        self.addCleanup(seen.close)
        fail_build(folder / ".work")
        self.assertIn("no such luck", process.communicate(timeout=DEADLINE)[1])
        events = [name for name in seen.all() if not name.endswith(".tmp")]
        self.assertEqual(events[0], "plan.json")

    def test_who_waits_for_a_part_does_little(self):
        process, folder = self.begun(self.slow(), 2, "pass-0")
        process.kill()
        process.wait()
        for done in (folder / ".work/pass-0").glob("*.done"):
            done.unlink()
        held = [open(folder / f".work/pass-0/{part:05}.lock", "w") for part in range(27)]
        for file in held:
            self.addCleanup(file.close)
            until(lambda file=file: has_lock(file), "a lock")
        plan = json.loads((folder / ".work/plan.json").read_text())
        plan["recipe"]["threads"] = 4
        (folder / ".work/plan.json").write_text(json.dumps(plan))
        worker = subprocess.Popen([PROGRAM, "work", folder], stderr=subprocess.DEVNULL)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        until(lambda: threads_of(worker.pid) > 4, "its threads")
        before, began = cpu_of(worker.pid), time.monotonic()
        until(lambda: time.monotonic() - began > 1, "a second")
        self.assertLess(cpu_of(worker.pid) - before, 0.3)


class Preprocess(WithJobs):
    """Jobs that `dtrain preprocess` starts, on this host."""

    def test_workers_of_a_job_make_the_same_entry_and_one_is_found_again(self):
        alone = self.build("alone", 1)
        self.assertEqual(self.build("cache", 3), alone)
        self.assertEqual(len(self.left("cache")), 1)
        process = self.begin("cache", 1)
        self.assertFalse(json.loads(process.communicate(timeout=DEADLINE)[0])["built"])

    def test_a_worker_that_is_killed_is_started_again(self):
        process = self.working("cache")
        workers = self.workers_at(next((self.folder / "cache").glob("*/.work")).parent)
        self.assertEqual(len(workers), 2)
        os.kill(workers[0], signal.SIGKILL)
        out, error = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 0, error)
        entry = pathlib.Path(json.loads(out)["folder"])
        self.assertEqual({name: data for name, data in bytes_in(entry).items() if name != "meta.json"},
                         self.build("alone", 1))

    def test_a_worker_that_stands_still_holds_up_nobody_once_the_work_has_failed(self):
        process = self.working("cache")
        work = next((self.folder / "cache").glob("*/.work"))
        victim = self.workers_at(work.parent)[0]
        os.kill(victim, signal.SIGSTOP)
        fail_build(work)
        error = process.communicate(timeout=DEADLINE)[1]
        self.assertEqual(process.returncode, 1, error)
        self.assertIn("no such luck", error)
        self.assertTrue(is_gone(victim))
        self.assertEqual(self.left("cache"), [])

    def test_an_error_is_said_once_with_its_line_and_nothing_is_left(self):
        process = self.begin("cache", 2, steps=[{"cast": {"word": "int32"}}])
        error = process.communicate(timeout=DEADLINE)[1]
        self.assertEqual((process.returncode, error.count("\n")), (1, 1), error)
        self.assertRegex(error, r"cache-2.json:\d+: dataset.steps\[0\].cast.word: .*word")
        self.assertEqual(self.left("cache"), [])

    def test_a_killed_build_is_gone_on_with_and_one_that_is_asked_to_end_leaves_nothing(self):
        process = self.working("cache")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual(self.left("cache"), [])
        process = self.working("cache")
        plan, = (self.folder / "cache").glob("*/.work/plan.json")
        kept = self.folder / "plan"
        os.link(plan, kept)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=DEADLINE)
        second = self.begin("cache", 2)
        until(lambda: not plan.exists(), "the second build")
        found = [path for path in (self.folder / "cache").glob("*/.work/plan.json")]
        self.assertTrue(second.poll() is not None or all(path.samefile(kept) for path in found), found)
        out, error = second.communicate(timeout=DEADLINE)
        self.assertEqual(second.returncode, 0, error)
        entry = pathlib.Path(json.loads(out)["folder"])
        self.assertEqual({name: data for name, data in bytes_in(entry).items() if name != "meta.json"},
                         self.build("alone", 1))
        self.assertEqual(len(self.left("cache")), 1)


if __name__ == "__main__":
    unittest.main()
