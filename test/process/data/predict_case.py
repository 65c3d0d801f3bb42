"""What the tests of `dtrain predict` have in common: an input of numbered rows, and what must be in its results."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import pyarrow
import pyarrow.parquet as parquet

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
DEADLINE = 120
ROWS, GROUP = (700, 0, 500, 100), 100
ALL = sum(ROWS)
PARTS = ALL // GROUP


class PredictCase(unittest.TestCase):
    """`table_of(first, rows)` makes the rows of a file, and `places` says in which folder each of the files is."""
    table_of = None
    places = ("", "", "", "")

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-predict-")
        cls.addClassCleanup(folder.cleanup)
        cls.input = pathlib.Path(folder.name, "in")
        first = 0
        for number, (rows, place) in enumerate(zip(ROWS, cls.places)):
            (cls.input / place).mkdir(parents=True, exist_ok=True)
            parquet.write_table(cls.table_of(first, rows), cls.input / place / f"{number}.parquet",
                                row_group_size=GROUP)
            first += rows
        (cls.input / "_other.parquet").touch()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-predict-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.output = self.folder / "out"
        self.notes = self.folder / "notes"

    def says(self, words, code):
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def calls(self):
        """The first row of each row group that was worked on."""
        return sorted(map(int, self.notes.read_text().split())) if self.notes.exists() else []

    def results(self):
        names = sorted(path.name for path in self.output.iterdir())
        self.assertEqual(names, ["_SUCCESS", *(f"part-{i:05d}.parquet" for i in range(PARTS))])
        return pyarrow.concat_tables(parquet.read_table(self.output / name) for name in names[1:])

    def check_damage(self, refused):
        """All results are there. What the work needs is damaged then, or of other work. `refused` starts a worker
        alone and gives what it says."""
        work, success = self.output / ".dtrain", self.output / "_SUCCESS"
        last = self.output / f"part-{PARTS - 1:05d}.parquet"
        plan, schema = success.read_text(), parquet.read_schema(last).remove_metadata().serialize().to_pybytes()
        last.unlink()
        self.assertIn(f"{last} is gone since the job was done; remove the folder", refused())
        success.unlink()
        work.mkdir()
        other = pyarrow.schema([("id", pyarrow.string()), ("twice", pyarrow.int64())]).serialize().to_pybytes()
        for name, damage, words in (
                ("plan.json", plan[:len(plan) // 2].encode(), "is not what dtrain writes; choose another folder"),
                ("plan.json", b"[]", "is not what dtrain writes; choose another folder"),
                ("plan.json", json.dumps({**json.loads(plan), "format": 2}).encode(),
                 "what is there was written by another version of dtrain"),
                ("plan.json", json.dumps({**json.loads(plan), "kind": "process"}).encode(),
                 "what is there is not of predict()"),
                ("schema", b"", "is damaged; remove"), ("schema", schema[:len(schema) // 2], "is damaged; remove"),
                ("schema", other, "its result has other columns than the results before it: id int64")):
            with self.subTest(name=name, damage=damage[-20:]):
                (work / "plan.json").write_text(plan)
                (work / name).write_bytes(damage)
                said = refused()
                self.assertIn(words, said)
                self.assertNotIn("Traceback", said)
                self.assertFalse(success.exists() or last.exists())
        (work / "schema").unlink()

    def check_results(self):
        results = self.results()
        self.assertEqual(results["id"].to_pylist(), list(range(ALL)))
        self.assertEqual(results["twice"].to_pylist(), list(range(0, 2 * ALL, 2)))
