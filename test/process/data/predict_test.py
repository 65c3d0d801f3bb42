#!/usr/bin/env python3
"""`dtrain predict` with real workers that die, fail and run twice: pyarrow says what is in the results."""
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

import numpy
import pyarrow
import pyarrow.parquet as parquet
from dtrain_data.parts import MOST_TRIES, Parts, input_files
from predict_case import ALL, DEADLINE, DTRAIN, GROUP, PARTS, ROWS, PredictCase

# Notes each call in a file: one write, so calls of several processes do not mix.
NOTED = """
import os, signal, sys
def note(table):
    with open(sys.argv[1], "ab", buffering=0) as file:
        file.write(b"%d\\n" % table["id"][0].as_py())
"""
DOUBLE = NOTED + """
def predict(table):
    note(table)
    return {"id": table["id"], "twice": table["id"].to_numpy() * 2}
"""


class Predict(PredictCase):
    @staticmethod
    def table_of(first, rows):
        return pyarrow.table({"id": numpy.arange(first, first + rows)})

    def script(self, text):
        path = self.folder / "script.py"
        path.write_text(text)
        return str(path)

    def words(self, script, *flags, source=None):
        return [DTRAIN, "predict", "--nproc", "3", *flags, script, str(source or self.input), str(self.output),
                str(self.notes)]

    def predict(self, script, *flags, code=0):
        return self.says(self.words(script, *flags), code)

    def refused(self, script, source=None):
        """What a worker says that is alone."""
        return self.says([sys.executable, "-m", "dtrain_data", *self.words(script, source=source)[1:2],
                          *self.words(script, source=source)[-4:]], 1)

    def test_each_part_has_its_result_once_and_in_order(self):
        said = self.predict(self.script(DOUBLE))
        self.check_results()
        self.assertEqual(self.calls(), list(range(0, ALL, GROUP)))
        self.assertIn(f"of {PARTS} row groups", said)
        before = {path: path.stat().st_mtime_ns for path in self.output.iterdir()}
        left = self.output / ".dtrain"  # by somebody who was killed when all was done
        left.mkdir()
        shutil.copy(self.output / "_SUCCESS", left / "plan.json")
        self.assertIn("have their results", self.predict(self.script(DOUBLE)))
        self.assertEqual({path: path.stat().st_mtime_ns for path in self.output.iterdir()}, before)
        self.assertEqual(len(self.calls()), PARTS)
        self.assertIn("was made with another", self.refused(self.script(DOUBLE + "\n")))
        self.assertIn("other input files", self.refused(self.script(DOUBLE), self.input / "[02].parquet"))

    def test_what_is_damaged_is_refused(self):
        script = self.script(DOUBLE)
        alone = [sys.executable, "-m", "dtrain_data", *self.words(script)[1:2], *self.words(script)[-4:]]
        self.says(alone, 0)
        self.check_damage(lambda: self.refused(script))
        self.says(alone, 0)
        self.check_results()

    def test_a_worker_that_is_killed_costs_no_row(self):
        script = self.script(DOUBLE.replace("    return", f"""
    if table["id"][0].as_py() == 300 and not os.path.exists({str(self.folder / "once")!r}):
        open({str(self.folder / "once")!r}, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return"""))
        self.predict(script, "--max-restarts", "1")
        self.check_results()
        self.assertGreaterEqual(self.calls().count(300), 2)  # another may begin with it before it is asked to end

    def test_a_job_that_is_killed_goes_on(self):
        fifo, wait = self.folder / "fifo", self.folder / "wait"
        os.mkfifo(fifo)
        wait.touch()
        script = self.script(DOUBLE.replace("    return", f"""
    if os.path.exists({str(wait)!r}) and table["id"][0].as_py() % 400 == 0:
        with open({str(fifo)!r}, "wb", buffering=0) as file:
            file.write(b"x")
            signal.pause()
    return"""))
        job = subprocess.Popen(self.words(script), stderr=subprocess.DEVNULL, start_new_session=True)
        with open(fifo, "rb", buffering=0) as told:
            self.assertEqual(len(told.read(1)), 1)
            os.killpg(job.pid, signal.SIGKILL)
            job.wait(DEADLINE)
            while told.read(100):  # until no worker is left that has it open
                pass
        wait.unlink()
        there = {int(path.name[5:10]) * GROUP for path in self.output.glob("part-*")}
        before = self.calls()
        self.predict(script)
        self.check_results()
        again = self.calls()
        for first in there:
            self.assertEqual(again.count(first), before.count(first), f"{first} was done, and done again")

    def test_a_function_that_processes_gives_as_many_rows_as_it_likes(self):
        script = self.script("""
import pyarrow
def process(table):
    table = table.filter(table["id"].to_numpy() % 200 < 100)
    return table.append_column("half", pyarrow.array(table["id"].to_numpy() / 2))
""")
        for _ in range(2):
            self.says([sys.executable, "-m", "dtrain_data", "process", script, self.input, self.output], 0)
            table = parquet.read_table(self.output)
            self.assertEqual(table["id"].to_pylist(), [i for i in range(ALL) if i % 200 < 100])
            self.assertEqual(table["half"].to_pylist(), [i / 2 for i in range(ALL) if i % 200 < 100])
        self.assertIn("is not of predict()", self.refused(self.script("def predict(table): return table\n")))

    def test_two_jobs_share_the_work(self):
        script = self.script(DOUBLE)
        jobs = [subprocess.Popen(self.words(script), stderr=subprocess.DEVNULL) for _ in range(2)]
        self.assertEqual([job.wait(DEADLINE) for job in jobs], [0, 0])
        self.check_results()
        self.assertEqual(self.calls(), list(range(0, ALL, GROUP)))

    def test_a_part_that_kills_its_workers_is_named(self):
        script = self.script(NOTED + """
def predict(table):
    note(table)
    if table["id"][0].as_py() == 800: raise ValueError("no such class")
    return {"id": table["id"], "twice": table["id"].to_numpy() * 2}
""")
        said = self.predict(script, "--max-restarts", "3", code=1)
        self.assertIn(f"predict() failed on row group 1 of {self.input}/2.parquet (rows 100 to 199)", said)
        self.assertIn("ValueError: no such class", said)
        self.assertIn(f"row group 1 of {self.input}/2.parquet (rows 100 to 199) has ended 3 workers", said)
        self.assertIn(f"1 of {PARTS} row groups have no result", said)
        self.assertEqual(self.calls().count(800), 3)
        self.assertEqual(len(list(self.output.glob("part-*"))), PARTS - 1)
        self.assertFalse((self.output / "_SUCCESS").exists())

    def test_whoever_is_at_the_last_try_is_not_given_up(self):
        parts = Parts("predict", str(self.input), str(self.output), self.script(DOUBLE), [])
        part = parts.parts[3]
        pathlib.Path(parts.beside(part, "tries")).write_bytes((parts.job + b"\n") * (MOST_TRIES - 1))
        with parts.claimed(part) as mine, parts.one_try(part):
            self.assertTrue(mine)
            self.assertEqual(parts.tries(part), MOST_TRIES)
            self.assertFalse(parts.has_failed(part))
        self.assertFalse(parts.has_failed(part))
        pathlib.Path(parts.beside(part, "tries")).write_bytes((parts.job + b"\n") * MOST_TRIES)
        with parts.locked(part, fcntl.LOCK_SH):  # by another worker that looks
            self.assertTrue(parts.has_failed(part))
        again = Parts("predict", str(self.input), str(self.output), self.script(DOUBLE), [])
        self.assertFalse(again.has_failed(part), "a worker that is started alone again tries it again")

    def test_who_is_late_does_not_take_the_results_of_others_for_foreign_files(self):
        words = ["predict", str(self.input), str(self.output), self.script(DOUBLE), []]

        class Late(Parts):
            def _refuse_foreign_results(self):
                others = Parts(*words)  # another process is faster between two looks of this one
                pathlib.Path(others.result(others.parts[0])).touch()
                super()._refuse_foreign_results()

        self.assertEqual(len(Late(*words).left()), PARTS - 1)

    def test_results_and_hidden_files_are_no_input(self):
        shutil.copytree(self.input, self.folder / "in")
        pattern = str(self.folder / "in" / "*.parquet")
        self.output = self.folder / "in" / "out"
        for source in (self.folder / "in", self.folder / "in", pattern):
            before = input_files(str(source), str(self.output))
            self.assertEqual(before, [str(self.folder / "in" / f"{i}.parquet") for i in range(len(ROWS))])
        words = self.words(self.script(DOUBLE), source=self.folder / "in")
        for _ in range(2):
            self.says([sys.executable, "-m", "dtrain_data", words[1], *words[-4:]], 0)
        self.check_results()
        odd = self.folder / "in" / "[0].parquet"
        shutil.copy(self.folder / "in" / "2.parquet", odd)
        self.assertEqual(input_files(str(odd), str(self.output)), [str(odd)])

    def test_what_cannot_be_a_result_is_refused(self):
        for body, why in (("return table.slice(1)", "predict() returned 99 rows for 100; return one for each"),
                          ("return 7", "predict() returned a int; return a pyarrow.Table"),
                          ("return {('a' if table['id'][0].as_py() else 'b'): table['id']}", "has other columns")):
            with self.subTest(body):
                self.output = self.folder / str(len(list(self.folder.iterdir())))
                self.assertIn(why, self.refused(self.script(f"def predict(table): {body}\n")))
                self.assertFalse((self.output / "_SUCCESS").exists())

    def test_a_script_that_cannot_be_loaded_is_not_tried_again(self):
        for body, why in (("def predict(table:\n", "SyntaxError: '(' was never closed"),
                          ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'")):
            with self.subTest(body):
                self.output = self.folder / str(len(list(self.folder.iterdir())))
                script = self.script(body)
                said = self.refused(script)
                self.assertTrue(said.startswith(f"dtrain: {script} cannot be loaded:\n"), said)
                self.assertTrue(said.endswith(why + "\n"), said)
                self.assertNotIn("runpy", said)
                self.assertIn(f'File "{script}", line 1', said)
                words = self.words(script)
                job = subprocess.run([*words[:2], "--max-restarts=2", *words[2:]], capture_output=True, text=True,
                                     timeout=DEADLINE)
                self.assertEqual(job.returncode, 1, job.stderr)
                told = [line for line in job.stderr.splitlines() if line.startswith("[") and why in line]
                self.assertLessEqual(len(told), 4, job.stderr)  # by the workers of the first round alone

    def test_what_is_wrong_is_said_before_anything_is_written(self):
        self.assertIn("no file in this folder ends with .parquet",
                      self.refused(self.script(DOUBLE), self.folder))
        self.assertIn("cannot be read as Parquet", self.refused(self.script(DOUBLE), __file__))
        self.assertIn("No such file", self.refused(self.script(DOUBLE), self.folder / "none"))
        self.assertIn("has no function predict(table)", self.refused(self.script("predict = 1\n")))
        missing = self.folder / "none.py"
        self.assertEqual(self.refused(missing), f"dtrain: {missing}: No such file or directory; name a Python file\n")
        file = self.folder / "file"
        file.write_text("")
        self.output = file / "results"
        self.assertEqual(self.refused(self.script(DOUBLE)),
                         f"dtrain: {self.output}: Not a directory; name a folder that you may write\n")
        self.output = self.folder
        self.assertIn("has other files than results", self.refused(self.script(DOUBLE)))
        self.assertIn("INPUT is missing", subprocess.run([DTRAIN, "predict", "x.py"], capture_output=True, text=True,
                                                         timeout=DEADLINE).stderr)


if __name__ == "__main__":
    os.environ["PYTHON_EXEC"] = sys.executable
    unittest.main()
