#!/usr/bin/env python3
"""The processors dask and modin: real clusters on the ranks of a job. .venv-spark has dask and modin (scripts/setup.sh
test)."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import pyarrow
import pyarrow.parquet as parquet

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
PYTHON = str(pathlib.Path(__file__).resolve().parents[3] / ".venv-spark/bin/python")
DEADLINE = 120
HALVES = """
def process(frame):
    import os
    assert os.environ["DASK_SCHEDULER_ADDRESS"].startswith("tls://")
    assert type(frame).__module__.startswith({library!r}), type(frame)
    frame = frame[frame["id"] % 2 == 0]
    frame["half"] = frame["id"] / 2
    return frame
"""


class Hosted(unittest.TestCase):
    def setUp(self):
        self.environment = {**os.environ, "PYTHON_EXEC": PYTHON, "DTRAIN_PARALLELISM": "3",
                            "PYTHONPATH": os.environ["PYTHONPATH"].split(":")[0]}
        folder = tempfile.TemporaryDirectory(prefix="dtrain-hosted-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "in").mkdir()
        for number in range(2):
            ids = list(range(number * 100, number * 100 + 100))
            parquet.write_table(pyarrow.table({"id": ids, "name": [str(i) for i in ids]}),
                                self.folder / f"in/{number}.parquet", row_group_size=40)

    def run_script(self, kind, text, code=0):
        script = self.folder / "script.py"
        script.write_text(text)
        done = subprocess.run([DTRAIN, "run", "--nproc", "2", "-m", "dtrain_data", kind, script, self.folder / "in",
                               self.folder / "out"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=DEADLINE, env=self.environment)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def check_result(self):
        written = sorted((self.folder / "out").iterdir())
        self.assertTrue(all(path.is_file() for path in written), written)
        self.assertEqual([path.name for path in written],
                         ["_SUCCESS", *(f"part-{i:05d}.parquet" for i in range(len(written) - 1))])
        table = parquet.read_table(self.folder / "out")
        self.assertEqual(table["id"].to_pylist(), list(range(0, 200, 2)))
        self.assertEqual(table["half"].to_pylist(), [i / 2 for i in range(0, 200, 2)])
        self.assertEqual(table["name"].to_pylist(), [str(i) for i in range(0, 200, 2)])

    def test_dask_on_two_ranks(self):
        said = self.run_script("dask", HALVES.format(library="dask."))
        self.check_result()
        self.assertNotIn("Traceback", said)
        self.assertIn("has files already", self.run_script("dask", "", code=1))

    def test_modin_on_two_ranks(self):
        self.run_script("modin", HALVES.format(library="modin."))
        self.check_result()

    def test_a_function_that_fails_leaves_no_result(self):
        said = self.run_script("dask", "def process(frame): raise ValueError('no such column')\n", code=1)
        self.assertIn("ValueError: no such column", said)
        self.assertNotIn("did not end in time", said)
        self.assertEqual([path.name for path in (self.folder / "out").iterdir()], [".dtrain"])


if __name__ == "__main__":
    unittest.main()
