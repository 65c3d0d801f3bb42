#!/usr/bin/env python3
"""`dtrain predict` with a program in C++: its workers die, fail and run twice, and workers of Python go on with what
they have left. pyarrow says what is in the results."""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

import numpy
import pyarrow
import pyarrow.parquet as parquet
from predict_case import ALL, DEADLINE, DTRAIN, GROUP, PARTS, PredictCase

WORKER = os.path.join(os.environ["DTRAIN_TEST_BIN_DIR"], "predict_worker")
DOUBLE = """
def predict(table):
    return {"id": table["id"], "twice": table["id"].to_numpy() * 2}
"""


def tags_of(number):
    return ["", str(number), "tag"][:number % 4]


def table_of(first, rows):
    numbers = numpy.arange(first, first + rows)
    return pyarrow.table({"id": numbers, "a": numbers + 0.5, "b": -numbers.astype("f8"),
                          "name": [f"{number}" for number in numbers],
                          "tags": pyarrow.array([tags_of(number) for number in range(first, first + rows)],
                                                pyarrow.list_(pyarrow.string())),
                          "when": pyarrow.array(numbers, pyarrow.timestamp("s"))})


class PredictProgram(PredictCase):
    table_of = staticmethod(table_of)
    places = ("", "", "", "below")

    def words(self, *arguments, flags=()):
        return [DTRAIN, "predict", "--nproc", "2", *flags, WORKER, str(self.input), str(self.output), str(self.notes),
                *map(str, arguments)]

    def predict(self, *arguments, flags=(), code=0):
        return self.says(self.words(*arguments, flags=flags), code)

    def refused(self, *arguments, source=None):
        """What a worker says that is alone."""
        return self.says([WORKER, str(source or self.input), str(self.output), str(self.notes), *arguments], 1)

    def stop_in_the_middle(self, arguments, by):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        job = subprocess.Popen(self.words("pause", *arguments, fifo), stderr=subprocess.DEVNULL, start_new_session=True)
        with open(fifo, "rb", buffering=0) as told:
            self.assertEqual(len(told.read(1)), 1)
            os.killpg(job.pid, by)
            job.wait(DEADLINE)
            while told.read(100):  # until no worker is left that has it open
                pass
        fifo.unlink()
        return {int(path.name[5:10]) * GROUP for path in self.output.glob("part-*")}

    def test_each_part_has_its_result_once_and_in_order(self):
        said = self.predict()
        self.check_results()
        self.assertEqual(self.calls(), list(range(0, ALL, GROUP)))
        self.assertIn(f"of {PARTS} row groups", said)
        left = self.output / ".dtrain"  # by somebody who was killed when all was done
        left.mkdir()
        shutil.copy(self.output / "_SUCCESS", left / "plan.json")
        self.assertIn("have their results", self.predict(flags=["--nproc=1"]))
        self.assertEqual(len(self.calls()), PARTS)
        self.assertFalse(left.exists())
        self.assertIn("was made with other arguments", self.refused("throw", "0"))
        self.assertIn("was made of other input files", self.refused(source=self.input / "[02].parquet"))

    def test_what_is_damaged_is_refused(self):
        self.says([WORKER, str(self.input), str(self.output), str(self.notes)], 0)
        self.check_damage(self.refused)
        self.says([WORKER, str(self.input), str(self.output), str(self.notes)], 0)
        self.check_results()

    def test_columns_of_all_kinds(self):
        self.says([WORKER, str(self.input), str(self.output), str(self.notes), "text"], 0)
        results = self.results()
        self.assertEqual(results.schema.names, ["when", "text", "pair", "odd", "letters", "tags", "tag_letters"])
        results = results.set_column(0, "when", results["when"].cast(pyarrow.timestamp("s")).cast(pyarrow.int64()))
        rows = results.to_pylist()
        for i in (0, 7, 650, 653, 700, ALL - 1):
            with self.subTest(i):
                self.assertEqual(list(rows[i].values()),
                                 [i, f"row {i}", [i + 0.5, -i], i % 2 == 1, len(str(i)), len(tags_of(i)),
                                  sum("".join(tags_of(i)).encode())])

    def test_a_worker_that_is_killed_costs_no_row(self):
        self.predict("once", 300, self.folder / "once", flags=["--nproc=1", "--max-restarts=1"])
        self.check_results()
        self.assertGreaterEqual(self.calls().count(300), 2)

    def test_a_job_that_is_killed_goes_on(self):
        there = self.stop_in_the_middle([400], signal.SIGKILL)
        before = self.calls()
        self.predict("pause", 400, self.folder / "fifo")
        self.check_results()
        for first in there:
            self.assertEqual(self.calls().count(first), before.count(first), f"{first} was done, and done again")

    def test_python_goes_on_with_what_a_program_has_left(self):
        self.check_that_python_goes_on(signal.SIGTERM)

    def test_python_goes_on_after_control_c(self):
        self.check_that_python_goes_on(signal.SIGINT)

    def check_that_python_goes_on(self, by):
        # The same files mean the same to both. Only another program may not go on, so the plan is told of another one.
        there = self.stop_in_the_middle([400], by)
        tries = [path.read_bytes() for path in (self.output / ".dtrain").glob("*.tries")]
        self.assertEqual([text for text in tries if text], [], "a worker that was asked to end has not tried in vain")
        script = self.folder / "script.py"
        script.write_text(DOUBLE)
        words = [sys.executable, "-m", "dtrain_data", "predict", script, self.input, self.output, self.notes]
        self.assertIn("was made with another", self.says(words, 1))
        path = self.output / ".dtrain/plan.json"
        plan = json.loads(path.read_text())
        plan.update(script=hashlib.sha256(script.read_bytes()).hexdigest(), arguments=[str(self.notes)])
        path.write_text(json.dumps(plan))
        self.assertIn(f"{PARTS - len(there)} of {PARTS} row groups", self.says(words, 0))
        self.check_results()
        # And the other way round: what Python has done is done.
        self.assertIn("was made with another", self.refused())

    def test_a_part_that_fails_is_named_and_the_others_have_results(self):
        said = self.predict("throw", 800, flags=["--nproc=1", "--max-restarts=3"], code=1)
        name = f"row group 1 of {self.input}/2.parquet (rows 100 to 199)"
        self.assertIn(f"predict() failed on {name}", said)
        self.assertIn("no such class", said)
        self.assertIn(f"{name} has ended 3 workers", said)
        self.assertIn(f"1 of {PARTS} row groups have no result", said)
        self.assertEqual(self.calls().count(800), 3)
        self.assertEqual(len(list(self.output.glob("part-*"))), PARTS - 1)

    def test_a_program_alone_tries_again_at_each_start(self):
        for _ in range(4):
            self.assertIn("predict() failed on row group 1", self.refused("throw", "800"))
        self.assertEqual(self.calls().count(800), 4)

    def test_what_is_wrong_is_one_line(self):
        for source, why in ((self.folder, "no file in this folder ends with .parquet"), (__file__, "Parquet"),
                            (self.folder / "none", "No such file")):
            self.assertIn(why, self.refused(source=source))
        other = self.folder / "other"
        other.mkdir()
        parquet.write_table(pyarrow.table({"key": [1]}), other / "0.parquet")
        self.assertIn("0.parquet: it has no column 'id'", self.refused(source=other))
        for what, why in (("name", "dtrain: InputRows: no tensor is called 'name'; there are: id\n"),
                          ("twice", "dtrain: Predictor: column 'id' is asked for twice; name it once\n")):
            self.output = self.folder / what
            self.assertIn(why, self.refused(what))
        self.output = self.folder
        self.assertIn("has other files than results", self.refused())
        self.assertIn("usage: ", self.says([WORKER, "in"], 2))


if __name__ == "__main__":
    unittest.main()
