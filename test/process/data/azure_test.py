#!/usr/bin/env python3
"""Azure's store: data sets and the input of preprocessing and prediction in abfs://, with the server of
azure_server.py, whose files Microsoft's own client has put there."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

import pyarrow.parquet as parquet

from azure_server import AzureServer
from loader_case import LoaderCase
from s3_server import Relay
from tables import GROUP, ROWS, table, write_set

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
DEADLINE_S = 60
GROUPS = sum(-(-rows // GROUP) for rows in ROWS)


class Azure(LoaderCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="dtrain-azure-")))
        cls.set = write_set(cls.folder / "set")
        cls.server = AzureServer("clicks", page=2)
        cls.addClassCleanup(cls.server.close)
        cls.server.put_folder(cls.set, "day/set")
        # What comes before "day/" in a list, and is no part of it.
        for name in "day-old/0.parquet", "day/set-2/0.parquet", "day/set.txt":
            cls.server.put(name, b"no data")
        cls.uri, cls.secret = cls.server.uri("day/set"), cls.server.key
        (cls.folder / "tmp").mkdir()
        # Nothing of the machine's user counts.
        cls.env = {"PATH": os.environ["PATH"], "HOME": str(cls.folder), "TMPDIR": str(cls.folder / "tmp"),
                   "PYTHONPATH": os.environ["PYTHONPATH"], "PYTHON_EXEC": sys.executable}
        cls.worker = cls.start_worker()
        cls.addClassCleanup(cls.end_worker, cls.worker)
        # A store that is not there, which takes some seconds: the last test looks what became of it.
        cls.waits = cls.start_worker()
        cls.addClassCleanup(cls.end_worker, cls.waits)
        cls.tell(cls.uri, env={"AZURE_STORAGE_SERVICE_ENDPOINT": "http://127.0.0.1:1"}, worker=cls.waits)

    def credentials_file(self):
        """The key is nowhere but there and in the memory of who needs it."""
        file = self.folder / "credentials.json"
        file.write_text(json.dumps(self.server.env))
        file.chmod(0o600)
        return {"DTRAIN_STORE_CREDENTIALS": str(file)}

    def run_here(self, *words, code=0, **env):
        done = subprocess.run(list(map(str, words)), cwd=self.folder, env={**self.env, **env}, text=True,
                              capture_output=True, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertNotIn(self.secret, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_an_epoch_is_that_of_the_local_files(self):
        options = {"batch_size": 100, "window": 40 * 2500, "columns": ["id", "odd", "pair"]}
        there = self.loader(str(self.set), job={"values": True}, **options)
        self.assertEqual(len(there["epochs"][0]), -(-sum(ROWS) // 100))
        for paths in (self.uri, self.uri + "/", self.uri.replace("abfs://", "abfss://"),
                      self.server.uri("day/set/*.parquet"), self.server.uri("*/set/?.parquet"),
                      [f"{self.uri}/{number}.parquet" for number in range(len(ROWS))]):
            self.assertEqual(self.loader(paths, job={"values": True}, **options), there)

    def test_an_account_with_real_folders(self):
        server = AzureServer("clicks", page=2, hierarchical=True)
        self.addCleanup(server.close)
        server.put_folder(self.set, "day/set")
        server.put("day/set-2/0.parquet", b"no data")
        here = self.loader(str(self.set))
        for key in "day/set", "day/set/*.parquet", "*/set/?.parquet":
            self.assertEqual(self.loader(server.uri(key), env=server.env), here)
        self.error(server.uri("day"), "no file of this folder ends in .parquet", env=server.env)
        self.error(server.uri("none"), "there is no such object, and no folder", env=server.env)

    def test_what_is_not_there(self):
        uri = self.server.uri
        self.error(uri("day/none"), f"{uri('day/none')}: there is no such object, and no folder")
        self.error(uri("da"), f"{uri('da')}: there is no such object, and no folder")
        self.error(uri("day/set/*.csv"), "no file matches this pattern")
        self.error(uri("day", "nobody"), f"{uri('day', 'nobody')}: there is no bucket 'nobody'")
        self.error(uri("day"), "no file of this folder ends in .parquet")
        self.server.put("empty/a.parquet", b"")
        self.error(uri("empty"), "a.parquet: the file is empty")
        self.error(uri("day-old"), "day-old/0.parquet: ")
        self.error("abfs://clicks/day", "name the account: abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY")

    def test_credentials(self):
        only = {"AZURE_STORAGE_KEY": "", "AZURE_STORAGE_SAS_TOKEN": ""}
        here = self.loader(str(self.set))
        self.assertEqual(self.loader(self.uri, env={**dict.fromkeys(self.server.env, ""), **self.credentials_file()}),
                         here)
        token, late = (self.server.sas(hours) for hours in (1, -1))
        self.assertEqual(self.loader(self.uri, env={**only, "AZURE_STORAGE_SAS_TOKEN": token}), here)
        wrong = AzureServer("clicks")
        wrong.close()
        for secret, env in ((wrong.key, {**only, "AZURE_STORAGE_KEY": wrong.key}),
                            (token[-20:], {**only, "AZURE_STORAGE_SAS_TOKEN": token[:-9] + "AAAAAA%3D"}),
                            (late[-20:], {**only, "AZURE_STORAGE_SAS_TOKEN": late}), ("none", only)):
            said = self.loader(self.uri, env=env)
            self.refused(said, "data_error", self.uri, "the store refuses this user", "AZURE_STORAGE_KEY")
            self.assertNotIn(secret, said["data_error"])
        said = self.loader(self.uri, env={**only, "AZURE_STORAGE_KEY": "hunter2"})
        self.refused(said, "data_error", "AZURE_STORAGE_KEY: ")
        self.assertNotIn("hunter2", said["data_error"])
        # A container that is open to all.
        self.server.is_public = True
        self.addCleanup(setattr, self.server, "is_public", False)
        self.assertEqual(self.loader(self.uri, env=only), here)
        self.error(self.uri, "AZURE_STORAGE_SERVICE_ENDPOINT: it must be http",
                   env={"AZURE_STORAGE_SERVICE_ENDPOINT": "127.0.0.1:9000"})

    def test_an_answer_of_somebody_else(self):
        own = self.start_worker()  # the library that reads XML says more on its standard error
        self.addCleanup(own.communicate, timeout=DEADLINE_S)
        self.server.is_garbled = True
        self.addCleanup(setattr, self.server, "is_garbled", False)
        self.error(self.uri, f"{self.uri}: ", "xml", worker=own)

    def relay(self):
        relay = Relay(self.server.port)
        self.addCleanup(relay.close)
        return relay, {"AZURE_STORAGE_SERVICE_ENDPOINT": relay.url}

    def test_a_connection_that_breaks(self):
        relay, env = self.relay()
        whole = self.loader(self.uri, env=env)
        relay.break_after(3000, answers=2)
        self.assertEqual(self.loader(self.uri, env=env), whole)
        self.assertEqual(relay.cut, 0)
        relay.break_after(100)
        self.error(self.uri, f"{self.uri}: the store does not answer, or breaks off", env=env)
        self.assertEqual(self.loader(self.uri), whole)  # the process lives

    def test_an_object_that_changes(self):
        for number, path in enumerate(sorted(self.set.glob("[0-9].parquet"))):
            self.server.put(f"changing/{number}.parquet", path.read_bytes())
        self.tell(self.server.uri("changing"), shuffle=False, prefetch=1, job={"wait": True})
        self.assertEqual(self.answer(), {"ready": True})
        other = bytearray((self.set / "0.parquet").read_bytes())
        other[len(other) // 2] ^= 1
        self.server.put("changing/0.parquet", bytes(other))
        self.say("go")
        self.refused(self.answer(), "data_error", "changing/0.parquet: it has changed while it was read")

    def test_input_there_is_as_input_here(self):
        raw = table(0, 3000).select(["id", "a", "int"])
        parquet.write_table(raw, self.folder / "raw.parquet", row_group_size=1000)
        self.server.put("raw/raw.parquet", (self.folder / "raw.parquet").read_bytes())
        self.server.put("raw/raw.csv", b"id,a\n" + b"".join(b"%d,%d\n" % (i, 2 * i) for i in range(500)))
        (self.folder / "raw.csv").write_bytes(self.server.containers["clicks"]["raw/raw.csv"].data)
        keys = self.credentials_file()
        for name in "raw.parquet", "raw.csv":
            made = []
            for input in name, self.server.uri(f"raw/{name[:3]}*{name[3:]}"):
                dataset = {"input": input, "split": {"train": 0.9, "test": 0.1}}
                (self.folder / "job.json").write_text(json.dumps({"backend": {"cache_dir": "cache"},
                                                                  "dataset": dataset}))
                got = json.loads(self.run_here(DTRAIN, "preprocess", "--config=job.json", "--json", **keys))
                made.append(parquet.read_table(got["folder"] + "/train"))
            self.assertTrue(made[0].equals(made[1]))
        for uri, code, words in ((self.server.uri("raw/none*"), 1, "no file matches this pattern"),
                                 (self.server.uri("raw", "nobody"), 1, "there is no bucket 'nobody'")):
            (self.folder / "job.json").write_text(json.dumps({"backend": {"cache_dir": "cache"},
                                                              "dataset": {"input": uri, "format": "csv"}}))
            said = self.run_here(DTRAIN, "preprocess", "--config=job.json", code=code, **keys)
            self.assertIn(words, said)
            self.assertEqual(said.count("\n"), 1, said)

    def test_predictions_of_a_script(self):
        """It is Python's pyarrow that reads. No process shows the key to whoever may look."""
        (self.folder / "predict.py").write_text(textwrap.dedent("""
            import pathlib, pyarrow.compute as compute
            SECRET = (REVERSED)[::-1].encode()
            def predict(table):
                for each in pathlib.Path("/proc").iterdir():
                    for name in ("cmdline", "environ") if each.name.isdigit() else ():
                        try:
                            shown = SECRET in (each / name).read_bytes()
                        except OSError:
                            continue
                        assert not shown, f"{each} {name}"
                return {"id": table["id"], "twice": compute.multiply(table["id"], 2)}
        """).replace("(REVERSED)", repr(self.secret[::-1])))
        keys = self.credentials_file()
        for number, source in enumerate((self.uri, self.server.uri("day/set/*.parquet"))):
            self.run_here(DTRAIN, "predict", "--nproc=2", "predict.py", source, f"out {number}", **keys)
            rows = parquet.read_table(self.folder / f"out {number}")
            self.assertEqual(rows["id"].to_pylist(), list(range(sum(ROWS))))
        self.assertIn("there is no such object, and no folder", self.run_here(
            DTRAIN, "predict", "--nproc=1", "predict.py", self.server.uri("none"), "none", code=1, **keys))
        late = self.server.sas(-1)
        for name, secret in ("AZURE_STORAGE_KEY", "d3Jvbmc="), ("AZURE_STORAGE_SAS_TOKEN", late):
            other = {"AZURE_STORAGE_SERVICE_ENDPOINT": self.server.url, name: secret}
            said = self.run_here(DTRAIN, "predict", "--nproc=1", "predict.py", self.uri, "none", code=1, **other)
            self.assertIn(f"{self.uri}: [AuthenticationFailed] 403 Forbidden", said)
            self.assertNotIn(secret[-20:], said)
            self.assertNotIn("Traceback", said)
        # A token that is good until the files are listed: the error is one of the row group.
        self.server.no_blobs = True
        self.addCleanup(setattr, self.server, "no_blobs", False)
        token = self.server.sas(1)
        said = self.run_here(DTRAIN, "predict", "--nproc=1", "predict.py", self.uri, "none", code=1,
                             AZURE_STORAGE_SERVICE_ENDPOINT=self.server.url, AZURE_STORAGE_SAS_TOKEN=token)
        self.assertIn("[AuthorizationPermissionMismatch]", said)
        self.assertNotIn(token[-20:], said)

    def test_what_does_not_answer(self):
        self.refused(self.answer(self.waits), "data_error", f"{self.uri}: the store does not answer",
                     "AZURE_STORAGE_SERVICE_ENDPOINT")


if __name__ == "__main__":
    unittest.main()
