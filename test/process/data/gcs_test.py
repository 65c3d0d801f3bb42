#!/usr/bin/env python3
"""Google's store: a data set, the input of preprocessing, and a cache in gs://, with a server that speaks its
protocol."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

import pyarrow.parquet as parquet

from gcs_server import GcsServer
from tables import ROWS, table, write_set

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
DEADLINE_S = 60


class Gcs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="dtrain-gcs-")))
        cls.server = GcsServer("clicks")
        cls.addClassCleanup(cls.server.close)
        cls.set = write_set(cls.folder / "set")
        cls.server.put_folder(cls.set, "day/set")
        (cls.folder / "tmp").mkdir()
        # Nothing of the machine's user counts.
        cls.env = {"PATH": os.environ["PATH"], "HOME": str(cls.folder), "TMPDIR": str(cls.folder / "tmp"),
                   "PYTHONPATH": os.environ["PYTHONPATH"], "PYTHON_EXEC": sys.executable, "DTRAIN_STORE_TIMEOUT_S": "2"}

        # A store that does not answer, which takes some seconds: the last test looks what became of it.
        cls.write_config(cls.server.uri("cache"), cls.set, "unanswered.yaml", "http://127.0.0.1:1")
        cls.unanswered = cls.start(DTRAIN, "preprocess", "--config=unanswered.yaml", DTRAIN_STORE_TIMEOUT_S="1")
        cls.addClassCleanup(cls.unanswered.communicate)
        cls.addClassCleanup(cls.unanswered.kill)

    @classmethod
    def start(cls, *words, **env):
        return subprocess.Popen(words, cwd=cls.folder, env={**cls.env, **env}, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def end(self, process, code=0):
        out, err = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, code, out + err)
        return out if code == 0 else err

    @classmethod
    def write_config(cls, cache, input, name="job.yaml", url=None):
        credentials = f"{{gs: {{endpoint_url: '{url or cls.server.url}'}}}}"
        (cls.folder / name).write_text(f"backend:\n  cache_dir: {cache}\n  cache_credentials: {credentials}\n"
                                     f"dataset:\n  input: {input}\n  split: {{train: 0.9, test: 0.1}}\n")
        (cls.folder / name).chmod(0o600)

    def test_a_loader(self):
        program = textwrap.dedent("""
            import json, sys, dtrain
            for uri in sys.argv[1:]:
                try:
                    loader = dtrain.ParquetLoader(uri, batch_size=100, columns=["id"], window_size_bytes=100_000)
                    print(json.dumps([each for batch in loader for each in batch["id"].tolist()]))
                except dtrain.DataError as error:
                    print(json.dumps(str(error)))
        """)
        uri = self.server.uri
        said = self.end(self.start(sys.executable, "-W", "ignore", "-c", program, self.set, uri("day/set"),
                                   uri("*/set/*.parquet"), uri("day/none"), "gs://nobody/day", **self.server.env))
        here, folder, pattern, no_folder, no_bucket = map(json.loads, said.splitlines())
        self.assertEqual(sorted(here), list(range(sum(ROWS))))
        self.assertEqual([folder, pattern], [here, here])
        self.assertIn(uri("day/none") + ": there is no such object, and no folder", no_folder)
        self.assertIn("gs://nobody/day: there is no bucket 'nobody'", no_bucket)

    def test_input_there_is_as_input_here(self):
        raw = table(0, 3000).select(["id", "a", "int"])
        parquet.write_table(raw, self.folder / "raw.parquet", row_group_size=1000)
        self.server.put("raw/raw.parquet", (self.folder / "raw.parquet").read_bytes())
        made = []
        for input in "raw.parquet", self.server.uri("raw/*.parquet"):
            self.write_config("cache", input)
            got = json.loads(self.end(self.start(DTRAIN, "preprocess", "--config=job.yaml", "--json",
                                                 **self.server.env)))
            made.append(parquet.read_table(got["folder"] + "/train"))
        self.assertTrue(made[0].equals(made[1]))

    def test_a_cache_there(self):
        cache = self.server.uri("cache")
        self.write_config(cache, self.set)
        command = [DTRAIN, "preprocess", "--config=job.yaml", "--json"]
        first, second = (json.loads(self.end(each)) for each in [self.start(*command) for _ in range(2)])
        self.assertEqual(sorted([first["built"], second["built"]]), [False, True])
        self.assertEqual((first["folder"], sum(first["rows"].values())), (second["folder"], sum(ROWS)))
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        rows = parquet.read_table(first["folder"].removeprefix("gs://") + "/train", filesystem=self.server.files)
        # A job reads it, with the credentials of the config.
        (self.folder / "train.py").write_text(
            "import dtrain\nprint(sum(len(batch['id']) for batch in dtrain.ParquetLoader(batch_size=64, "
            "columns=['id'], drop_last=False)))\n")
        said = self.end(self.start(DTRAIN, "run", "--config=job.yaml", "--nproc=1", "train.py"))
        self.assertIn(str(rows.num_rows), said)
        self.assertIn("  fine\n", self.end(self.start(DTRAIN, "cache", "verify", "--config=job.yaml")))
        part = next(name for name in self.server.names("cache") if name.endswith(".parquet"))
        self.server.put(f"cache/{part}", b"no rows")
        said = self.end(self.start(DTRAIN, "cache", "verify", "--config=job.yaml"), code=1)
        self.assertIn("has 7 bytes, and should have", said)
        again = json.loads(self.end(self.start(*command)))
        self.assertTrue(again["built"])
        self.end(self.start(DTRAIN, "cache", "rm", again["key"][:8], "--config=job.yaml"))
        self.assertEqual(self.server.names("cache"), [])

    def test_a_cache_that_is_not_there(self):
        self.write_config("gs://nobody/cache", self.set)
        said = self.end(self.start(DTRAIN, "preprocess", "--config=job.yaml"), code=125)
        self.assertEqual(said, "dtrain: gs://nobody/cache: there is no such bucket\n")

    def test_what_does_not_answer(self):
        said = self.end(self.unanswered, code=125)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn("the store does not answer", said)


if __name__ == "__main__":
    unittest.main()
