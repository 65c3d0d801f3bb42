#!/usr/bin/env python3
"""The processors with a script: real clusters on the ranks of a job, and jobs that `dtrain preprocess` starts.
.venv-spark has dask and modin, and the pandas with which .venv-ray has Ray Data (scripts/setup.sh test)."""
import json
import os
import pathlib
import select
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock
from concurrent.futures import ThreadPoolExecutor

import pyarrow
import pyarrow.parquet as parquet

from dtrain_data.hosted import check_columns, work
from dtrain_data.parts import Refused
from dtrain_data import stores
from dtrain_data.stores import together

from s3_server import S3Server

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
ROOT = pathlib.Path(__file__).resolve().parents[3]
PYTHON = str(ROOT / ".venv-spark/bin/python")
RAY_PYTHON = str(ROOT / ".venv-ray/bin/python")
PANDAS = str(next((ROOT / ".venv-spark/lib").iterdir()) / "site-packages")
MODULES = os.environ["PYTHONPATH"].split(":")[0]
DEADLINE = 120
EVEN = """
def process(table):
    return table.filter(pyarrow.compute.equal(pyarrow.compute.bit_wise_and(table["id"], 1), 0))
"""
HALVES = """
def process(frame):
    import os
    assert os.environ["DASK_SCHEDULER_ADDRESS"].startswith("tls://")
    assert type(frame).__module__.startswith({library!r}), type(frame)
    frame = frame[frame["id"] % 2 == 0]
    frame["half"] = frame["id"] / 2
    return frame
"""


# Asks this node what it would ask another.
RAY_HALVES = """
from dtrain_data.parts import Refused
from dtrain_data.ray_data import check_nodes

def half(batch):
    batch["half"] = batch["id"] / 2
    return batch

def process(dataset):
    check_nodes(os.getcwd(), set())
    try:
        check_nodes("/none/rows", set())
        raise AssertionError("a node sees what is not there")
    except Refused as refused:
        assert "does not see /none/rows, so its rows would be missing" in str(refused), refused
    return dataset.filter(lambda row: row["id"] % 2 == 0).map_batches(half)
"""


class WithInput(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {**os.environ, "PYTHON_EXEC": PYTHON, "DTRAIN_PARALLELISM": "3", "PYTHONPATH": MODULES}
        (self.folder / "in").mkdir()
        for number in range(2):
            ids = list(range(number * 100, number * 100 + 100))
            parquet.write_table(pyarrow.table({"id": ids, "name": [str(i) for i in ids]}),
                                self.folder / f"in/{number}.parquet", row_group_size=40)


class Hosted(WithInput):
    def run_script(self, kind, text, code=0):
        script = self.folder / "script.py"
        script.write_text(text)
        done = subprocess.run([DTRAIN, "run", "--nproc=2", "-m", "dtrain_data", kind, script, self.folder / "in",
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

    def test_modin_on_two_ranks(self):
        said = self.run_script("modin", HALVES.format(library="modin."))
        self.check_result()
        self.assertNotIn("Traceback", said)
        self.assertIn("has files already", self.run_script("modin", "", code=1))

    def test_a_function_that_fails_leaves_no_result(self):
        said = self.run_script("dask", "def process(frame): raise ValueError('no such column')\n", code=1)
        self.assertIn("ValueError: no such column", said)
        self.assertNotIn("did not end in time", said)
        self.assertEqual([path.name for path in (self.folder / "out").iterdir()], [".dtrain"])


class Columns(WithInput):
    def test_partitions_that_differ_in_their_columns_are_no_result(self):
        files = [self.folder / f"{number}.parquet" for number in range(3)]
        for file, column in zip(files, ([1], [2], ["x"])):
            parquet.write_table(pyarrow.table({"a": column}), file)
        check_columns(files[:2])
        with self.assertRaisesRegex(Refused, "partition 2 of its result has other columns than the first: a string, "
                                             "not a int64"):
            check_columns(files)


class Ranks(WithInput):
    def test_of_ray_only_rank_0_has_work_however_late_the_others_come(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/part-00000.parquet").touch()  # which rank 0 has written
        with unittest.mock.patch.dict(os.environ, {"RANK": "1", "WORLD_SIZE": "2"}):
            self.assertIsNone(work("ray", None, str(self.folder / "in"), str(self.folder / "out")))


class Preprocess(WithInput):
    """`backend.processor` of a config."""

    def setUp(self):
        super().setUp()
        self.environment.update(DTRAIN_NPROC="7", DTRAIN_CONFIG="none.yaml", PYTHONDONTWRITEBYTECODE="1")
        self.cache = self.folder / "cache"

    def write(self, kind, script, dataset="", processor="num_workers: 2"):
        (self.folder / "script.py").write_text(f"import pyarrow, pyarrow.compute, os, sys\n{script}\n")
        (self.folder / "job.yaml").write_text(f"dataset:\n  input: in\n{dataset}"
                                              f"backend:\n  cache_dir: cache\n  processor:\n    type: {kind}\n"
                                              f"    script: script.py\n    {processor}\n")

    def start(self, *words):
        command, *rest = words
        return subprocess.Popen([DTRAIN, command, "--config=job.yaml", *rest], cwd=self.folder, env=self.environment,
                                text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def preprocess(self, code=0):
        process = self.start("preprocess", "--json")
        out, err = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, code, err)
        return json.loads(out) if code == 0 else err

    def ids(self, got, split):
        return parquet.read_table(pathlib.Path(got["folder"]) / split)["id"].to_pylist()

    def check_nothing_is_left(self):
        self.assertEqual([path.name for path in self.cache.iterdir()], [".lock"])

    def test_python_then_steps_shuffle_and_split(self):
        self.write("python", EVEN, "  split: {train: 0.5, test: 0.5}\n  steps:\n    - rename: {name: text}\n")
        got = self.preprocess()
        train, test = self.ids(got, "train"), self.ids(got, "test")
        self.assertEqual(sorted(train + test), list(range(0, 200, 2)))
        self.assertNotEqual(train, sorted(train))
        self.assertEqual(got["rows"], {"train": len(train), "test": len(test)})
        folder = pathlib.Path(got["folder"])
        self.assertEqual(sorted(path.name for path in folder.iterdir()),
                         ["meta.json", "recipe.json", "test", "train", "used"])
        recipe = json.loads((folder / "recipe.json").read_text())["recipe"]
        self.assertEqual(recipe["processor"]["type"], "python")
        self.assertEqual(recipe["input"], [str(self.folder / f"in/{i}.parquet") for i in range(2)])
        self.assertFalse(self.preprocess()["built"])
        self.write("python", EVEN + "  # changed", "  split: {train: 0.5, test: 0.5}\n")
        self.assertTrue(self.preprocess()["built"])

    def test_dask_and_the_job_that_reads_it(self):
        self.write("dask", HALVES.format(library="dask."), processor="num_workers: 2\n    parallelism: 2")
        job = self.start("run", "--nproc=1", "--no-python", "sh", "-c", "echo $DTRAIN_DATASET")
        out, err = job.communicate(timeout=DEADLINE)
        self.assertEqual(job.returncode, 0, err)
        self.assertIn("data set built (train 100 rows)", err)
        entry = [each for each in self.cache.iterdir() if len(each.name) == 64][0]
        self.assertIn(str(entry / "train"), out)
        self.assertEqual(sorted(parquet.read_table(entry / "train")["half"].to_pylist()), list(range(100)))

    def with_input_in_a_store(self, in_a_file=False):
        """In place of that here, in a bucket of moto's; its credentials are in the environment, or in a file alone."""
        server = S3Server("bucket")
        self.addCleanup(server.close)
        server.put_folder(self.folder / "in", "in")
        given = {"DTRAIN_STORE_CREDENTIALS": self.file_of(server.env)} if in_a_file else server.env
        self.environment.pop("DTRAIN_STORE_CREDENTIALS", None)  # of an earlier store
        self.environment.update(given)
        job = self.folder / "job.yaml"
        job.write_text(job.read_text().replace("input: in", "input: s3://bucket/in/*.parquet"))
        return server

    def file_of(self, values):
        keys = self.folder / "keys.json"
        keys.write_text(json.dumps(values, indent=1))
        keys.chmod(0o600)
        return str(keys)

    def test_workers_on_ray_get_the_credentials_themselves(self):
        """By a launcher that shows what it would take out of its environment."""
        self.write("python", EVEN)
        fake = self.folder / "dtrain"
        fake.write_text("#!/bin/sh\necho \"$DTRAIN_STORE_CREDENTIALS $DTRAIN_STORE_TIMEOUT_S\" >&2\nexit 3\n")
        fake.chmod(0o755)
        request = json.dumps({"dtrain": str(fake), "cache_dir": str(self.cache), "engine": "ray", "dataset": {
            "input": [str(self.folder / "in")], "processor": "python", "script": str(self.folder / "script.py")}})

        def ask():
            done = subprocess.run([DTRAIN + "-data", "preprocess"], input=request, env=self.environment, text=True,
                                  capture_output=True, timeout=DEADLINE)
            return done.returncode, done.stderr
        keys = self.file_of({"AWS_ENDPOINT_URL": "http://store"})
        self.environment.update(DTRAIN_STORE_CREDENTIALS=keys, DTRAIN_STORE_TIMEOUT_S="7")
        code, said = ask()
        self.assertEqual((code, said.splitlines()[0]), (3, '{"AWS_ENDPOINT_URL":"http://store"} 7'))
        os.chmod(keys, 0o644)
        code, said = ask()
        self.assertEqual(code, 2, said)
        self.assertIn(f"DTRAIN_STORE_CREDENTIALS: {keys}: others can read", said)
        os.unlink(keys)
        self.assertIn("No such file", ask()[1])

    def test_stores_that_do_not_answer(self):
        closed = dict.fromkeys(("AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST"), "http://127.0.0.1:1")
        begun = time.monotonic()
        closed["DTRAIN_STORE_TIMEOUT_S"] = "1"
        with unittest.mock.patch.dict(os.environ, closed), ThreadPoolExecutor() as pool:
            for asked in [pool.submit(stores.facts_of, f"{scheme}://not-there/a") for scheme in ("s3", "gs")]:
                self.assertIsInstance(asked.exception(), OSError)
        self.assertLess(time.monotonic() - begun, 60)
        with unittest.mock.patch.dict(os.environ, {"DTRAIN_STORE_TIMEOUT_S": "1s"}):
            with self.assertRaisesRegex(ValueError, "DTRAIN_STORE_TIMEOUT_S: it must be a whole number of seconds"):
                stores.timeout()

    def test_the_region_of_a_profile(self):
        config = self.folder / "config"
        config.write_text("[default]\nregion = eu-north-1\n[profile ours]\nregion=ap-east-1\n")
        with unittest.mock.patch.dict(os.environ, AWS_CONFIG_FILE=str(config), HOME=str(self.folder), AWS_PROFILE=""):
            self.assertEqual(stores.region_of_profile(), "eu-north-1")
            os.environ["AWS_PROFILE"] = "ours"
            self.assertEqual(stores.region_of_profile(), "ap-east-1")
            os.environ["AWS_PROFILE"] = "none"
            self.assertIsNone(stores.region_of_profile())

    def test_input_in_a_store(self):
        for kind, script in (("python", EVEN), ("dask", HALVES.format(library="dask.")),
                             ("modin", HALVES.format(library="modin."))):
            with self.subTest(kind=kind):
                self.write(kind, script)
                server = self.with_input_in_a_store(in_a_file=kind == "python")
                got = self.preprocess()
                table = parquet.read_table(pathlib.Path(got["folder"]) / "train").sort_by("id")
                self.assertEqual(table["id"].to_pylist(), list(range(0, 200, 2)))
                self.assertEqual(table["name"].to_pylist(), [str(i) for i in range(0, 200, 2)])
                self.assertFalse(self.preprocess()["built"])
                if kind == "dask":
                    server.put("in/0.parquet", (self.folder / "in/1.parquet").read_bytes())
                    server.put("other/1.csv", b"id\n1\n")
                    text = (self.folder / "job.yaml").read_text()
                    for there, words in (("bucket/other/*", "the processor dask reads Parquet alone"),
                                         ("bucket/none/*", "no file matches this pattern")):
                        (self.folder / "job.yaml").write_text(text.replace("bucket/in/*.parquet", there))
                        self.assertIn(words, self.preprocess(code=2 if "other" in there else 1))

    def test_input_in_several_places(self):
        with self.assertRaisesRegex(ValueError, r"lies in several places \(files of this machine, s3://bucket\)"):
            together(["s3://bucket/a.parquet", "/b.parquet"])
        with self.assertRaisesRegex(ValueError, r"\(gs://bucket, s3://bucket\)"):
            together(["s3://bucket/a.parquet", "gs://bucket/b.parquet"])
        self.assertEqual(together(["/b.parquet"]), (["/b.parquet"], {}))

    def test_ray_begins_here_and_ends(self):
        self.environment.update(PYTHON_EXEC=RAY_PYTHON, PYTHONPATH=f"{MODULES}:{PANDAS}", TMPDIR=str(self.folder),
                                RAY_ADDRESS="local")  # other tests may have a cluster here
        self.write("ray", RAY_HALVES, processor="parallelism: 2")
        self.with_input_in_a_store()
        table = parquet.read_table(pathlib.Path(self.preprocess()["folder"]) / "train").sort_by("id")
        self.assertEqual(table["half"].to_pylist(), list(range(100)))
        self.assertEqual(table["name"].to_pylist(), [str(i) for i in range(0, 200, 2)])
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["cache", "in", "job.yaml", "script.py"])

    def test_what_a_script_does_wrong(self):
        for script, words in [
                ("", "script.py has no function process(table)"),
                ("def process(table): return 1 // table['id'][0].as_py()", "process() failed on row group 0 of "),
                ("def process(table): return {'a': [1 if table['id'][0].as_py() else 'x']}", "has other columns"),
                ("def process(table): return table.slice(0, 0)",
                 "script.py: part-00000.parquet: no file of the input has a row")]:
            self.write("python", script, processor="num_workers: 1")
            err = self.preprocess(code=1)
            self.assertIn(words, err)
            self.assertIn("job.yaml:7: backend.processor.script: ", err)
            self.assertEqual(err.count("ZeroDivisionError: "), 3 * ("//" in script), err)
            self.check_nothing_is_left()

    def test_what_cannot_be_is_refused_before_anything_starts(self):
        self.write("dask", "")
        (self.folder / "script.py").unlink()
        self.assertEqual(self.preprocess(code=2), "dtrain: job.yaml:7: backend.processor.script: script.py: No such "
                                                  "file or directory\n")
        self.write("dask", "")
        (self.folder / "in/2.csv").write_text("id\n1\n")
        for path in (self.folder / "in").glob("*.parquet"):
            path.unlink()
        self.assertIn("job.yaml:2: dataset.input: ", err := self.preprocess(code=2))
        self.assertIn("the processor dask reads Parquet alone", err)

    def test_ray_and_a_cache_in_a_store(self):
        """Which other nodes would not write into."""
        for kind, engine in ("ray", "auto"), ("python", "ray"):
            self.write(kind, EVEN, processor="parallelism: 2")
            job = self.folder / "job.yaml"
            there = f"cache_dir: s3://bucket/cache\n  type: {engine}"
            job.write_text(job.read_text().replace("cache_dir: cache", there))
            err = self.preprocess(code=2)
            self.assertIn("job.yaml:4: backend.cache_dir: the nodes of Ray's cluster write into it", err)
            self.assertEqual(err.count("\n"), 1, err)

    def test_a_launcher_that_cannot_start(self):
        self.write("python", EVEN)
        request = {"dtrain": "/none/dtrain", "cache_dir": str(self.cache), "dataset": {
            "input": [str(self.folder / "in")], "processor": "python", "script": str(self.folder / "script.py")}}
        done = subprocess.run([DTRAIN + "-data", "preprocess"], input=json.dumps(request), env=self.environment,
                              text=True, capture_output=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 126, done.stderr)
        self.assertIn("dtrain: /none/dtrain: No such file or directory\n", done.stderr)
        self.check_nothing_is_left()

    def test_a_package_that_is_missing(self):
        self.environment["PYTHON_EXEC"] = RAY_PYTHON
        self.write("python", EVEN)
        self.assertIn("pip install pyarrow", self.preprocess(code=1))
        self.check_nothing_is_left()

    def test_a_signal_or_a_kill_leaves_nothing(self):
        standing = "def process(table):\n  open('begun', 'w').write('x')\n  open('hold').read()\n"
        self.write("python", standing)
        for name in ("begun", "hold"):
            os.mkfifo(self.folder / name)
        begun = os.open(self.folder / "begun", os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, begun)
        for number in (signal.SIGTERM, signal.SIGKILL):
            process = self.start("preprocess")
            self.assertTrue(select.select([begun], [], [], DEADLINE)[0])
            job = self.processes_in(self.folder)
            self.assertGreater(len(job), 2)
            process.send_signal(number)
            process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, -number)
            if number == signal.SIGTERM:
                self.assertEqual(self.processes_in(self.folder), [])
                self.check_nothing_is_left()
            for pid in job:
                self.await_end(pid)
            os.read(begun, 100)

    def processes_in(self, folder):
        found = []
        for each in pathlib.Path("/proc").iterdir():
            try:
                if each.name.isdigit() and os.readlink(each / "cwd") == str(folder):
                    found.append(int(each.name))
            except OSError:
                pass  # it has ended, or is not ours
        return found

    def await_end(self, pid):
        try:
            with open(os.pidfd_open(pid)) as one:
                self.assertTrue(select.select([one], [], [], DEADLINE)[0], f"{pid} is left")
        except ProcessLookupError:
            pass


if __name__ == "__main__":
    unittest.main()
