"""A cache in an object store: a real S3 server (moto's), the real dtrain-data, and pyarrow as a reader that knows
nothing of dtrain. In between, where a test wants it, a relay that cuts connections or lets them stand still."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

import numpy
import pyarrow
import pyarrow.fs
import pyarrow.parquet

from s3_server import Relay, S3Server

DTRAIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"]) / "dtrain"
DEADLINE_S = 60
BUCKET, SECRET = "bucket", "hunter2-of-the-cache"
ROWS = 150_000


class ObjectCache(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = S3Server(BUCKET)
        cls.addClassCleanup(cls.server.close)
        cls.inputs = cls.enterClassContext(tempfile.TemporaryDirectory())
        rng = numpy.random.default_rng(1)
        table = pyarrow.table({"x": rng.standard_normal(ROWS), "label": rng.integers(0, 9, ROWS)})
        pyarrow.parquet.write_table(table, f"{cls.inputs}/a.parquet")

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "tmp").mkdir()
        self.cache = f"s3://{BUCKET}/{self.id().rpartition('.')[2]}"
        self.write_config(self.server.url)

    def write_config(self, url, inputs=None, steps="[]"):
        config = self.folder / "job.yaml"
        config.write_text(f"""backend:
  cache_dir: {self.cache}
  cache_credentials:
    s3:
      client_kwargs:
        {{aws_access_key_id: ann, aws_secret_access_key: {SECRET}, endpoint_url: '{url}', region_name: us-east-1}}
dataset:
  input: {inputs or self.inputs}
  steps: {steps}
  split: {{train: 0.9, validation: 0.1}}
""")
        config.chmod(0o600)

    def start(self, *words, **env):
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TMPDIR": str(self.folder / "tmp"),
               "DTRAIN_STORE_TIMEOUT_S": "2", **env}
        return subprocess.Popen([DTRAIN, *words], cwd=self.folder, env=env, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def end(self, process):
        out, err = process.communicate(timeout=DEADLINE_S)
        self.assertNotIn(SECRET, out + err)
        return process.returncode, out, err

    def run_dtrain(self, *words, **env):
        return self.end(self.start(*words, **env))

    def preprocess(self, **env):
        code, out, err = self.run_dtrain("preprocess", "--config=job.yaml", "--json", **env)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def cache_command(self, *words):
        return self.run_dtrain("cache", *words, "--config=job.yaml")

    def names(self):
        """Of the objects, without the folders that Arrow makes."""
        base = self.cache.removeprefix("s3://")
        listed = self.server.files.get_file_info(pyarrow.fs.FileSelector(base, recursive=True, allow_not_found=True))
        return [each.path.removeprefix(base + "/") for each in listed if each.type == pyarrow.fs.FileType.File]

    def check_no_scratch(self):
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])

    def relay(self, most, cut):
        relay = Relay(self.server.port)
        self.addCleanup(relay.close)
        relay.stop_after(most, cut)
        return relay

    def test_two_at_once_build_once(self):
        ends = [self.end(each) for each in [self.start("preprocess", "--config=job.yaml", "--json") for _ in range(2)]]
        self.assertEqual([code for code, _, _ in ends], [0, 0], ends)
        first, second = (json.loads(out) for _, out, _ in ends)
        self.assertEqual(sorted([first["built"], second["built"]]), [False, True])
        self.assertEqual((first["folder"], first["rows"]), (second["folder"], second["rows"]))
        self.assertEqual(sum(first["rows"].values()), ROWS)
        self.assertEqual(sum(name.endswith("/meta.json") for name in self.names()), 1)
        self.check_no_scratch()

    def test_run_reads_the_entry(self):
        program = self.folder / "train.py"
        program.write_text(textwrap.dedent("""
            import json, os, dtrain
            x = [each for batch in dtrain.ParquetLoader(batch_size=4096, columns=["x"]) for each in batch["x"].tolist()]
            keys = open(os.environ["DTRAIN_STORE_CREDENTIALS"]).read()
            where = [os.environ[name] for name in ("DTRAIN_DATASET", "DTRAIN_DATASET_VALIDATION")]
            json.dump({"x": sorted(x), "keys": json.loads(keys), "where": where}, open("seen", "w"))
        """))
        code, _, err = self.run_dtrain("run", "--config=job.yaml", program, PYTHONPATH=os.environ["PYTHONPATH"],
                                       PYTHON_EXEC=sys.executable)
        self.assertEqual(code, 0, err)
        seen = json.loads((self.folder / "seen").read_text())
        self.assertEqual(seen["keys"]["AWS_SECRET_ACCESS_KEY"], SECRET)
        train, validation = seen["where"]
        self.assertTrue(train.startswith(f"{self.cache}/") and train.endswith("/train"), train)
        files = self.server.files
        there = [pyarrow.parquet.read_table(part.removeprefix("s3://"), filesystem=files)["x"].to_numpy()
                 for part in (train, validation)]
        self.assertEqual(seen["x"], sorted(there[0].tolist()))
        given = pyarrow.parquet.read_table(f"{self.inputs}/a.parquet")["x"].to_numpy()
        self.assertEqual(sorted(numpy.concatenate(there).tolist()), sorted(given.tolist()))
        self.check_no_scratch()

    def test_the_commands(self):
        got = self.preprocess()
        self.assertFalse(self.preprocess()["built"])
        self.assertEqual(self.cache_command("verify")[:2], (0, f"{got['key']}  fine\n"))
        listed = json.loads(self.cache_command("ls", "--json")[1])
        self.assertEqual([(each["key"], each["rows"]) for each in listed], [(got["key"], got["rows"])])
        self.assertIn("removed 0 entries and 0 leftovers", self.cache_command("gc")[1])
        part = next(name for name in self.names() if name.endswith(".parquet"))
        key = f"{self.cache}/{part}".removeprefix(f"s3://{BUCKET}/")
        with self.server.files.open_input_stream(f"{BUCKET}/{key}") as object_:
            body = object_.read()
        self.server.put(key, body[:-1] + bytes([body[-1] ^ 1]))
        code, _, err = self.cache_command("verify", got["key"][:8])
        self.assertEqual(code, 1)
        self.assertIn("is not what was written: its SHA-256 differs", err)
        self.server.put(key, body[:-1])
        code, out, err = self.run_dtrain("preprocess", "--config=job.yaml", "--json")
        self.assertEqual((code, json.loads(out)["built"]), (0, True), err)
        self.assertIn("is damaged", err)
        self.assertEqual(self.cache_command("rm", got["key"][:8]), (0, "", ""))
        self.assertEqual(self.names(), [])
        self.assertEqual(self.cache_command("ls")[1], "the cache is empty\n")

    def test_inputs_in_a_store_too(self):
        self.server.put_folder(self.inputs, "day")
        self.write_config(self.server.url, inputs=f"s3://{BUCKET}/day")
        process = self.start("preprocess", "--config=job.yaml", "--json", **self.server.env)
        code, out, err = self.end(process)
        self.assertEqual(code, 0, err)
        self.assertEqual(sum(json.loads(out)["rows"].values()), ROWS)
        self.assertFalse(self.preprocess(**self.server.env)["built"])
        self.check_no_scratch()
        self.write_config(self.server.url, inputs=f"s3://{BUCKET}/day", steps="[{cast: {none: int64}}]")
        code, out, err = self.run_dtrain("preprocess", "--config=job.yaml", **self.server.env)
        self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
        self.assertIn("job.yaml:9: dataset.steps[0].cast", err)
        self.check_no_scratch()

    def test_raw_rows_are_prepared_there_and_predicted(self):
        """The new rows are in the store as well, by the environment's keys; the cache is read by the config's."""
        self.write_config(self.server.url, steps="[{normalize: {x: zscore}}]")
        script = self.folder / "predict.py"
        script.write_text("import os\ndef predict(table):\n    return {'x': table['x'], 'id': table['id'], "
                          "'recipe': [os.environ['DTRAIN_RECIPE']] * len(table)}\n")
        new = pyarrow.table({"x": numpy.arange(100.0), "label": [1] * 100, "id": range(100)})
        with self.server.files.open_output_stream(f"{BUCKET}/new/a.parquet") as out:
            pyarrow.parquet.write_table(new, out, row_group_size=50)
        python = {"PYTHONPATH": os.environ["PYTHONPATH"], "PYTHON_EXEC": sys.executable}

        def predict(recipe, output):
            code, out, err = self.run_dtrain("predict", "--config=job.yaml", "--nproc=2", "--recipe", recipe,
                                             "--keep=id", script, f"s3://{BUCKET}/new", output, **python,
                                             AWS_ACCESS_KEY_ID="ann", AWS_SECRET_ACCESS_KEY="another",
                                             AWS_ENDPOINT_URL=self.server.url)
            self.assertEqual(code, 0, err)
            return pyarrow.parquet.read_table(self.folder / output)

        rows = predict("config", "out")
        recipe, = set(rows["recipe"].to_pylist())
        self.assertTrue(recipe.startswith(self.cache) and recipe.endswith("/recipe.json"), recipe)
        with self.server.files.open_input_stream(recipe.removeprefix("s3://")) as file:
            scale, = json.loads(file.read())["statistics"]
        numpy.testing.assert_allclose(rows["x"], (numpy.arange(100) - scale["mean"]) / scale["deviation"])
        self.assertEqual(rows["id"].to_pylist(), list(range(100)))
        entries = self.names()
        self.assertTrue(predict(recipe, "again").equals(rows))
        self.assertEqual([name for name in self.names() if name not in entries and not name.endswith("/used")], [])
        self.check_no_scratch()

    def test_wrong_credentials(self):
        self.server.reset_auth(0)
        self.addCleanup(self.server.reset_auth, "inf")
        for words in (["preprocess", "--config=job.yaml"], ["run", "--config=job.yaml", "true"]):
            code, out, err = self.run_dtrain(*words)
            self.assertEqual((code, out, err.count("\n")), (125, "", 1), err)
            self.assertIn(f"dtrain: {self.cache}", err)
            self.assertIn("cache_credentials", err)

    def test_a_bucket_that_is_not_there(self):
        self.cache = "s3://nobody/cache"
        self.write_config(self.server.url)
        for words in (["cache", "ls", "--config=job.yaml"], ["preprocess", "--config=job.yaml"]):
            self.assertEqual(self.run_dtrain(*words), (125, "", f"dtrain: {self.cache}: there is no such bucket\n"))

    def test_a_connection_that_is_cut(self):
        self.write_config(self.relay(800_000, cut=True).url)
        code, out, err = self.run_dtrain("preprocess", "--config=job.yaml")
        self.assertEqual((code, out, err.count("\n")), (125, "", 1), err)
        self.assertIn(f"dtrain: {self.cache}/", err)
        self.assertFalse(any(name.endswith("/meta.json") for name in self.names()))
        self.check_no_scratch()
        self.write_config(self.server.url)
        self.assertIn("removed 0 entries and 1 leftover of dead builds", self.cache_command("gc")[1])
        self.assertEqual(self.names(), [])

    def test_a_builder_that_is_killed_is_replaced(self):
        relay = self.relay(800_000, cut=False)
        self.write_config(relay.url)
        process = self.start("preprocess", "--config=job.yaml")
        self.assertTrue(relay.stands.wait(DEADLINE_S))
        process.send_signal(signal.SIGKILL)
        self.end(process)
        self.assertTrue(any(name.endswith("/claim") for name in self.names()))
        self.write_config(self.server.url)
        got = self.preprocess()
        self.assertTrue(got["built"])
        own = got["folder"].removeprefix(self.cache + "/")
        self.assertTrue(all(name.startswith(own) for name in self.names()), self.names())
        self.check_no_scratch()


if __name__ == "__main__":
    unittest.main()
