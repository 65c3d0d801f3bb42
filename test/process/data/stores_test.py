#!/usr/bin/env python3
"""Data sets in a store, moto's S3 server: the loader in C++ and Python, preprocessing, and a store that fails."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import pyarrow
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as parquet

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from loader_case import LoaderCase  # noqa: E402
from ports import free_port  # noqa: E402
from s3_server import KEYS, Certificate, Relay, S3Server  # noqa: E402
from tables import GROUP, ROWS, table, write_set  # noqa: E402

PREDICT = os.path.join(os.environ["DTRAIN_TEST_BIN_DIR"], "predict_worker")
DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
DEADLINE_S = 60
GROUPS = sum(-(-rows // GROUP) for rows in ROWS)


class Stores(LoaderCase):
    secret = KEYS["AWS_SECRET_ACCESS_KEY"]

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-stores-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.set = write_set(cls.folder / "set")
        cls.server = S3Server("clicks")
        cls.addClassCleanup(cls.server.close)
        cls.server.put_folder(cls.set, "day/set")
        cls.uri = cls.server.uri("day/set")
        # Nothing of the machine's user counts.
        cls.env = {"PATH": os.environ["PATH"], "HOME": str(cls.folder), "TMPDIR": str(cls.folder),
                   "PYTHONPATH": os.environ["PYTHONPATH"], **cls.server.env}
        cls.worker = cls.start_worker()
        cls.addClassCleanup(cls.end_worker, cls.worker)
        cls.start_waits()

    @classmethod
    def start_waits(cls):
        """Stores that do not answer: silent; closed; and Google's, closed. The last test looks what became of them."""
        relay = Relay(cls.server.port)
        cls.addClassCleanup(relay.close)
        relay.hold()
        closed = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "STORAGE_EMULATOR_HOST": "http://127.0.0.1:1"}
        cls.waits = []
        for uri, env, name in ((cls.uri, {"AWS_ENDPOINT_URL": relay.url}, "AWS_ENDPOINT_URL"),
                               (cls.uri, closed, "AWS_ENDPOINT_URL"),
                               ("gs://clicks/day", closed, "STORAGE_EMULATOR_HOST")):
            worker = cls.start_worker()
            cls.addClassCleanup(cls.end_worker, worker)
            cls.tell(uri, env={"DTRAIN_STORE_TIMEOUT_S": "1", **env}, worker=worker)
            cls.waits.append((worker, uri, name))

    def relay(self, **env):
        relay = Relay(self.server.port)
        self.addCleanup(relay.close)
        return relay, {"AWS_ENDPOINT_URL": relay.url, **env}

    def test_an_epoch_is_that_of_the_local_files(self):
        options = {"batch_size": 100, "window": 40 * 2500, "matrices": {"x": ["b", "a"]},
                   "columns": ["id", "odd", "pair"]}
        there = self.loader(str(self.set), job={"values": True}, **options)
        self.assertEqual(len(there["epochs"][0]), -(-sum(ROWS) // 100))
        for paths in (self.uri, self.uri + "/",
                      self.server.uri("day/set/*.parquet"), self.server.uri("*/set/?.parquet"),
                      [f"{self.uri}/{number}.parquet" for number in range(len(ROWS))]):
            self.assertEqual(self.loader(paths, job={"values": True}, **options), there)
        # The state names no place, so a run goes on with files that have moved.
        half = there["epochs"][0][10]["state"]
        rest = self.loader(self.uri, job={"values": True, "state": half}, **options)
        self.assertEqual(rest["epochs"][0], there["epochs"][0][11:])
        # A local pattern is new, too.
        self.assertEqual(self.loader(str(self.set / "*.parquet"), job={"values": True}, **options), there)

    def test_requests(self):
        self.server.requests()
        self.loader(self.uri, columns=["id", "double", "pair"])
        asked = [request for request in self.server.requests() if ".parquet" in request]
        heads = sum(request.startswith("HEAD") for request in asked) - len(ROWS)
        gets = sum(request.startswith("GET") for request in asked) - len(ROWS)
        # Of each file its facts and its footer; of each row group one read and one look. The reader is a little ahead.
        self.assertGreaterEqual(heads, GROUPS)
        self.assertIn(gets - heads, (0, 1))

    def test_what_is_not_there(self):
        uri = self.server.uri
        self.error(uri("day/none"), f"{uri('day/none')}: there is no such object, and no folder")
        self.error(uri("day/set/*.csv"), "no file matches this pattern")
        self.error("s3://nobody/day", "s3://nobody/day: there is no bucket 'nobody'")
        self.error(uri("day"), "no file of this folder ends in .parquet")
        self.server.put("empty/a.parquet", b"")
        self.error(uri("empty"), "a.parquet: the file is empty")
        self.server.put("bad/a.parquet", b"PAR1 and what is none")
        self.error(uri("bad"), "a.parquet: ")
        self.error(self.uri, "it has no column 'z'", columns=["z"])

    def test_credentials(self):
        # A file counts before the environment.
        keys = self.folder / "keys.json"
        keys.write_text(json.dumps(self.server.env))
        keys.chmod(0o600)
        wrong = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
        self.assertIn("epochs", self.loader(self.uri, env={**wrong, "DTRAIN_STORE_CREDENTIALS": str(keys)}))
        keys.chmod(0o644)
        self.error(self.uri, str(keys), "chmod 600", env={"DTRAIN_STORE_CREDENTIALS": str(keys)})
        self.error(self.uri, "set both or neither", env={"AWS_SECRET_ACCESS_KEY": ""})
        self.error(self.uri, "AWS_ENDPOINT_URL: it must be http", env={"AWS_ENDPOINT_URL": "127.0.0.1:9000"})
        # A profile of the user's; without any, a request has no signature.
        (self.folder / ".aws").mkdir()
        (self.folder / ".aws/credentials").write_text(
            "[default]\naws_access_key_id = test\naws_secret_access_key = open sesame\n")
        none = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
                "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.server.url}
        fresh = self.start_worker()  # Amazon's library reads the profile once
        self.addCleanup(self.end_worker, fresh)
        self.server.requests()
        self.assertIn("epochs", self.loader(self.uri, env=none, worker=fresh))
        shutil.rmtree(self.folder / ".aws")
        fresh = self.start_worker()
        self.addCleanup(self.end_worker, fresh)
        self.assertIn("epochs", self.loader(self.uri, env=none, worker=fresh))  # moto lets everybody read
        # No machine of Amazon's was looked for, which a laptop would wait for.
        self.assertEqual([request for request in self.server.requests() if "/latest/" in request], [])
        self.addCleanup(self.refuse_strangers, False)
        self.refuse_strangers()
        self.error(self.uri, self.uri, "the store refuses this user", "AWS_ACCESS_KEY_ID")

    def test_tls(self):
        folders = [self.folder / name for name in ("right", "wrong")]
        for folder in folders:
            folder.mkdir()
        right, wrong = map(Certificate, folders)
        server = S3Server("clicks", tls=right)
        self.addCleanup(server.close)
        server.put_folder(self.set, "day/set")
        env = {"AWS_ENDPOINT_URL": server.url, "DTRAIN_STORE_TIMEOUT_S": "2"}
        here = self.loader(str(self.set))
        for name in "AWS_CA_BUNDLE", "SSL_CERT_FILE":
            fresh = self.start_worker()
            self.addCleanup(self.end_worker, fresh)
            self.assertEqual(self.loader(self.uri, env={**env, name: str(right.certificate)}, worker=fresh), here)
        self.error(self.uri, f"{self.uri}: the store's certificate is not accepted", "AWS_CA_BUNDLE", worker=fresh,
                   env={**env, "SSL_CERT_FILE": str(wrong.certificate)})
        # A cache there, and the job that reads it.
        job = {"backend": {"cache_dir": "s3://clicks/cache", "cache_credentials": {"s3": {"client_kwargs": {
            "aws_access_key_id": "ann", "aws_secret_access_key": KEYS["AWS_SECRET_ACCESS_KEY"],
            "endpoint_url": server.url}}}}, "dataset": {"input": str(self.set)}}
        config = self.folder / "tls.json"
        config.write_text(json.dumps(job))
        config.chmod(0o600)
        (self.folder / "read.py").write_text(textwrap.dedent("""
            import dtrain
            print(sum(len(each["id"]) for each in dtrain.ParquetLoader(batch_size=99, columns=["id"])))
        """))
        for authority, code in (right, 0), (wrong, 125):
            done = subprocess.run([DTRAIN, "run", "--config=tls.json", "--nproc=1", "read.py"], cwd=self.folder,
                                  env={**self.env, "AWS_CA_BUNDLE": str(authority.certificate), "PYTHON_EXEC":
                                       sys.executable, "DTRAIN_STORE_TIMEOUT_S": "2"},
                                  text=True, capture_output=True, timeout=DEADLINE_S)
            self.assertEqual(done.returncode, code, done.stderr)
            if code == 0:
                self.assertIn(str(sum(ROWS)), done.stdout)
            else:
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn("the store's certificate is not accepted", done.stderr)

    def test_options_that_are_wrong(self):
        """Nothing of S3 is begun, so nothing is left to end."""
        for env, words in (({"AWS_ENDPOINT_URL": f"{self.server.url}/path"}, "AWS_ENDPOINT_URL: it must be http"),
                           ({"DTRAIN_STORE_TIMEOUT_S": "10s"}, "DTRAIN_STORE_TIMEOUT_S: it must be a whole number")):
            fresh = self.start_worker()
            self.error(self.uri, words, env=env, worker=fresh)
            self.end_worker(fresh)

    def refuse_strangers(self, refuse=True):
        """moto knows no user, so it then refuses all."""
        self.server.reset_auth(0 if refuse else 1 << 60)

    def test_a_connection_that_breaks(self):
        relay, env = self.relay(DTRAIN_STORE_TIMEOUT_S="1")
        whole = self.loader(self.uri, env=env)
        relay.break_after(2000, answers=2)
        self.assertEqual(self.loader(self.uri, env=env), whole)
        self.assertEqual(relay.cut, 0)
        self.server.requests()
        relay.break_after(2000)
        self.error(self.uri, "/0.parquet: the store does not answer, or breaks off", "AWS_ENDPOINT_URL", env=env)
        asked = [request for request in self.server.requests() if request.startswith("GET") and ".parquet" in request]
        self.assertEqual(len(asked), 4)

    def test_an_object_that_changes(self):
        """Between the footer and a row group: with the same size, so that the bytes may even be read."""
        self.server.put_folder(self.set, "changing")
        uri = self.server.uri("changing")
        self.tell(uri, shuffle=False, prefetch=1, job={"wait": True})
        self.assertEqual(self.answer(), {"ready": True})
        other = bytearray((self.set / "0.parquet").read_bytes())
        other[len(other) // 2] ^= 1
        self.server.put("changing/0.parquet", bytes(other))
        self.say("go")
        self.refused(self.answer(), "data_error", "changing/0.parquet: it has changed while it was read")

    def test_what_a_loader_cannot_do_there(self):
        self.error(self.uri, "fully_executed is for files of this machine", kind="config_error", fully_executed=True,
                   window=1 << 20)

    def test_python(self):
        """Beside pyarrow, which has S3 open in the same process, and with a thread that reads when the program ends."""
        program = textwrap.dedent("""
            import sys
            import pyarrow.fs
            import dtrain
            here, there = (dtrain.ParquetLoader(paths, batch_size=64, columns=["id"]) for paths in sys.argv[1:])
            pyarrow.fs.S3FileSystem(endpoint_override="127.0.0.1:1")
            assert all((a["id"] == b["id"]).all() for a, b in zip(here, there, strict=True))
            try:
                dtrain.ParquetLoader("s3://nobody/x", batch_size=1)
            except dtrain.DataError as error:
                print(error)
            next(iter(there))
        """)
        ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program, self.set, self.uri], env=self.env,
                               text=True, capture_output=True, timeout=DEADLINE_S)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertIn("there is no bucket 'nobody'", ended.stdout)

    def test_a_node_that_does_not_reach_the_store_is_named_and_ends_the_job(self):
        """Nobody asks the nodes before. Two agents, of which one looks for the store where none is."""
        (self.folder / "reads.py").write_text(
            "import dtrain\nloader = dtrain.ParquetLoader(batch_size=9, columns=['id'])\n"
            "print('batches', sum(1 for each in loader))\nimport signal\nsignal.pause()\n")  # until the other fails
        words = [DTRAIN, "run", "--nnodes=2", "--nproc=1", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "reads.py"]
        env = {**self.env, "PYTHON_EXEC": sys.executable, "DTRAIN_DATASET": self.uri, "DTRAIN_STORE_TIMEOUT_S": "1"}
        agents = [subprocess.Popen([*words[:2], f"--node-rank={rank}", *words[2:]], cwd=self.folder, text=True,
                                   env={**env, **more}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL)
                  for rank, more in enumerate(({}, {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}))]
        for agent in agents:
            self.addCleanup(agent.wait)
            self.addCleanup(agent.kill)
        fine, lost = (agent.communicate(timeout=DEADLINE_S)[0] for agent in agents)
        self.assertEqual([agent.returncode for agent in agents], [1, 1], fine + lost)
        self.assertIn("batches", fine)
        self.assertIn(f"dtrain: {self.uri}: the store does not answer, or breaks off", lost)
        self.assertIn("rank 1", fine)  # the other node says who it was
        self.assertNotIn(self.secret, fine + lost)

    def preprocess(self, input, *words, **keys):
        config = {"backend": {"cache_dir": str(self.folder / "cache")}, "dataset": {"input": input, **keys}}
        (self.folder / "job.json").write_text(json.dumps(config))
        ended = subprocess.run([DTRAIN, "preprocess", "--config=job.json", "--json", *words], cwd=self.folder,
                               env=self.env, text=True, capture_output=True, timeout=DEADLINE_S)
        return ended.returncode, (json.loads(ended.stdout) if ended.returncode == 0 else ended.stderr)

    def test_preprocessing(self):
        whole = table(0, 3000).select(["id", "a", "int"])
        local = self.folder / "raw"
        local.mkdir()
        steps = [{"normalize": {"a": "zscore"}}]
        for ending, write in (("parquet", lambda path: parquet.write_table(whole, path, row_group_size=1000)),
                              ("csv", lambda path: pyarrow.csv.write_csv(whole, path)),
                              ("arrow", lambda path: pyarrow.feather.write_feather(whole, path, chunksize=1000))):
            write(local / f"a.{ending}")
            self.server.put(f"raw/a.{ending}", (local / f"a.{ending}").read_bytes())
            made = {}
            for input in (str(local / f"*.{ending}"), self.server.uri(f"raw/*.{ending}")):
                code, answer = self.preprocess(input, steps=steps)
                self.assertEqual(code, 0, answer)
                self.assertTrue(answer["built"])
                made[input] = [path.read_bytes() for path in sorted(pathlib.Path(answer["folder"]).rglob("*.parquet"))]
            first, second = made.values()
            self.assertTrue(first)
            self.assertEqual(first, second)
        # The recipe of it makes the same of raw rows that are here and there.
        applied = []
        for input in local / "a.csv", self.server.uri("raw/a.csv"):
            request = {"recipe": answer["folder"] + "/recipe.json", "input": [str(input)], "json": True,
                       "cache_dir": str(self.folder / "cache")}
            ended = subprocess.run([DTRAIN + "-data", "apply"], input=json.dumps(request), capture_output=True,
                                   text=True, env=self.env, timeout=DEADLINE_S)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            applied.append(parquet.read_table(json.loads(ended.stdout)["folder"] + "/rows"))
        self.assertEqual(applied[0].num_rows, 3000)
        self.assertTrue(applied[0].equals(applied[1]))
        # It is found again, until the object changes.
        self.assertFalse(self.preprocess(self.server.uri("raw/*.arrow"), steps=steps)[1]["built"])
        self.server.put("raw/a.csv", b"id,a,int\n1,2,3\n")
        self.assertTrue(self.preprocess(self.server.uri("raw/*.csv"), steps=steps)[1]["built"])

    def predict(self, program, uri, output, code=0, **env):
        notes = self.folder / "notes"
        notes.unlink(missing_ok=True)
        ended = subprocess.run([DTRAIN, "predict", "--nproc=2", program, uri, output, notes], text=True,
                               env={**self.env, "PYTHON_EXEC": sys.executable, **env}, capture_output=True,
                               timeout=DEADLINE_S, cwd=self.folder)
        self.assertEqual(ended.returncode, code, ended.stderr)
        return ended.stderr, len(notes.read_text().split()) if notes.exists() else 0

    def check_predictions(self, program, place):
        self.server.put_folder(self.set, place)
        uri, output = self.server.uri(place), self.folder / place
        self.assertEqual(self.predict(program, uri, output)[1], GROUPS)
        results = parquet.read_table(output)
        self.assertEqual(results["id"].to_pylist(), list(range(sum(ROWS))))
        self.assertEqual(results["twice"].to_pylist(), list(range(0, 2 * sum(ROWS), 2)))
        self.assertEqual(self.predict(program, self.server.uri(f"{place}/*.parquet"), output)[1], 0)  # all is there
        self.server.put(f"{place}/4.parquet", (self.set / "3.parquet").read_bytes())
        self.assertIn("what is there was made of other input files", self.predict(program, uri, output, 1)[0])
        for source, output, words in ((self.server.uri("none"), "none", "there is no such object, and no folder"),
                                      (uri, "s3://clicks/out", "s3://clicks/out: results are written into a folder")):
            said, called = self.predict(program, source, output, 1)
            self.assertIn(words, said)
            self.assertEqual(called, 0)
        self.assertFalse((self.folder / "s3:").exists())

    def test_predictions_of_a_program(self):
        self.check_predictions(PREDICT, "program")

    def test_predictions_of_a_script(self):
        script = self.folder / "predict.py"
        script.write_text(textwrap.dedent("""
            import os, sys
            import pyarrow.compute as compute
            def predict(table):
                with open(sys.argv[1], "a") as notes:
                    notes.write(f"{table['id'][0]}\\n")
                return {"id": table["id"], "twice": compute.multiply(table["id"], 2)}
        """))
        self.check_predictions(script, "script")
        # The job's own credentials count before those of the environment.
        keys = self.folder / "own.json"
        keys.write_text(json.dumps(self.server.env))
        keys.chmod(0o600)
        wrong = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_SECRET_ACCESS_KEY": "no"}
        own = {"DTRAIN_STORE_CREDENTIALS": str(keys)}
        self.assertEqual(self.predict(script, self.uri, self.folder / "own", **wrong, **own)[1], GROUPS)
        keys.chmod(0o644)
        self.assertIn("chmod 600", self.predict(script, self.uri, self.folder / "more", 1, **own)[0])

    def test_preprocessing_that_fails(self):
        code, said = self.preprocess(self.server.uri("none/*.csv"))
        self.assertEqual(code, 1, said)
        self.assertIn("s3://clicks/none/*.csv: no file matches this pattern", said)
        code, said = self.preprocess(self.uri, inputs_by="content")
        self.assertEqual(code, 2, said)
        self.assertIn("size and time of change stand for the content", said)
        left = os.listdir(self.folder / "cache") if (self.folder / "cache").exists() else []
        self.assertEqual([name for name in left if "building" in name], [])

    def test_what_does_not_answer(self):
        for worker, uri, name in self.waits:
            self.refused(self.answer(worker), "data_error", f"{uri}: the store does not answer", name)


if __name__ == "__main__":
    unittest.main()
