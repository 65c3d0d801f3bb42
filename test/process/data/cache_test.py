"""`dtrain preprocess`, `dtrain cache` and the data set of `dtrain run --config`, with a dtrain-data whose builder
copies its inputs (cache_data.cc). usage: cache_test.py path/to/dtrain path/to/cache_data"""
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

CACHE_DATA = pathlib.Path(sys.argv.pop(2)).resolve()
DTRAIN = pathlib.Path(sys.argv.pop(1)).resolve()
DEADLINE_S = 30


class Cache(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # dtrain starts the dtrain-data that is beside it.
        cls.programs = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        shutil.copy(DTRAIN, cls.programs / "dtrain")
        shutil.copy(CACHE_DATA, cls.programs / "dtrain-data")

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "in").mkdir()
        (self.folder / "in/a.csv").write_text("abc")
        self.cache = self.folder / "cache"
        self.write_config("dataset:\n  input: in\n")

    def write_config(self, text):
        (self.folder / "job.yaml").write_text(f"backend:\n  cache_dir: file://{self.cache}\n{text}")

    def start(self, *words, dtrain=None, cwd=None, **how):
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "TMPDIR": str(self.folder)}
        return subprocess.Popen([str(dtrain or self.programs / "dtrain"), *words], cwd=cwd or self.folder, env=env,
                                text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                **how)

    def end(self, process):
        out, err = process.communicate(timeout=DEADLINE_S)
        return process.returncode, out, err

    def run_dtrain(self, *words, **how):
        return self.end(self.start(*words, **how))

    def preprocess(self, *words):
        code, out, err = self.run_dtrain("preprocess", "--config=job.yaml", "--json", *words)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def cache_command(self, *words):
        return self.run_dtrain("cache", *words, "--cache-dir", str(self.cache))

    def builds(self):
        return len((self.folder / "in/builds").read_text())

    def names(self):
        return sorted(each.name for each in self.cache.iterdir())

    def hold(self):
        """A build that stands still in the middle."""
        os.mkfifo(self.folder / "in/hold")
        process = self.start("preprocess", "--config=job.yaml")
        self.await_word("in/hold")
        (self.folder / "in/hold").unlink()
        return process

    def open_fifo(self, name):
        """Does not wait for the other end."""
        fifo = os.open(self.folder / name, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, fifo)
        return fifo

    def await_word(self, name):
        fifo = self.open_fifo(name)
        self.assertTrue(select.select([fifo], [], [], DEADLINE_S)[0], f"nothing came through {name}")
        self.assertEqual(os.read(fifo, 1), b"x")

    def test_two_at_once_build_once(self):
        both = [self.start("preprocess", "--config=job.yaml", "--json") for _ in range(2)]
        ends = [self.end(each) for each in both]
        self.assertEqual([code for code, _, _ in ends], [0, 0], ends)
        first, second = (json.loads(out) for _, out, _ in ends)
        self.assertEqual(sorted([first["built"], second["built"]]), [False, True])
        self.assertEqual((first["folder"], first["rows"]), (second["folder"], {"test": 1, "train": 3}))
        self.assertEqual(self.builds(), 1)
        self.assertEqual((pathlib.Path(first["folder"]) / "train/a.csv").read_text(), "abc")
        self.assertEqual(self.names(), [".lock", first["key"]])

    def test_what_is_another_entry(self):
        key = self.preprocess()["key"]
        self.assertFalse(self.preprocess("--threads=2")["built"])
        self.write_config("dataset:\n  input: in\n  seed: 1\n")
        self.assertNotEqual(self.preprocess()["key"], key)
        self.write_config("dataset:\n  input: in\n")
        (self.folder / "in/b.csv").write_text("x")
        self.assertEqual(self.preprocess()["rows"], {"test": 2, "train": 4})

    def test_a_folder_that_no_worker_could_be_told(self):
        folder = self.folder / os.fsdecode(b"\xff")
        shutil.copytree(self.folder / "in", folder / "in")
        (folder / "job.yaml").write_text("dataset:\n  input: in\n")
        code, out, err = self.run_dtrain("preprocess", "--config=job.yaml", cwd=folder)
        self.assertEqual((code, out), (2, ""), err)
        self.assertRegex(err, r'^dtrain: backend.cache_dir: the cache would be "\S+", which is not UTF-8; name another '
                              r"folder\n$")
        code, _, err = self.run_dtrain("preprocess", "--config=job.yaml", "--cache-dir", str(self.cache), cwd=folder)
        self.assertEqual(code, 0, err)

    def test_a_killed_build(self):
        process = self.hold()
        process.kill()
        self.end(process)
        self.assertEqual(len(self.names()), 3)
        got = self.preprocess()
        self.assertTrue(got["built"])
        self.assertEqual(self.names(), [".lock", got["key"]])

    def test_gc_after_a_kill(self):
        process = self.hold()
        self.assertIn("0 leftovers", self.cache_command("gc")[1])
        process.kill()
        self.end(process)
        self.assertIn("removed 0 entries and 2 leftovers", self.cache_command("gc")[1])
        self.assertEqual(self.names(), [".lock"])

    def test_a_signal_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.hold()
            process.send_signal(number)
            self.assertEqual(self.end(process)[0], -number)
            self.assertEqual(self.names(), [".lock"])
        os.mkfifo(self.folder / "in/list")
        process = self.start("preprocess", "--config=job.yaml")
        self.await_word("in/list")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(process)[0], -signal.SIGTERM)

    def test_verify_ls_and_rm(self):
        got = self.preprocess()
        code, out, err = self.cache_command("verify")
        self.assertEqual((code, out, err), (0, f"{got['key']}  fine\n", ""))
        listed = json.loads(self.cache_command("ls", "--json")[1])
        self.assertEqual([(each["key"], each["bytes"], each["inputs"]) for each in listed],
                         [(got["key"], 4, [str(self.folder / "in/a.csv")])])
        self.assertIn("1 entry, 4 B", self.cache_command("ls")[1])
        (pathlib.Path(got["folder"]) / "train/a.csv").write_text("abd")
        code, out, err = self.cache_command("verify", got["key"][:8])
        self.assertEqual((code, out), (1, ""))
        self.assertIn("train/a.csv is not what was written: its SHA-256 differs; remove it: dtrain cache rm", err)
        self.assertEqual(self.cache_command("rm", got["key"][:8]), (0, "", ""))
        self.assertEqual(self.cache_command("ls")[1], "the cache is empty\n")
        self.assertEqual(self.cache_command("rm", "ab")[0], 2)

    def test_run_has_the_data_set_and_holds_it(self):
        for name in ("begun", "go"):
            os.mkfifo(self.folder / name)
        go = self.open_fifo("go")
        show = "echo $DTRAIN_DATASET; echo $DTRAIN_DATASET_TEST; printf x > begun; read line < go"
        job = self.start("run", "--config=job.yaml", "sh", "-c", show)
        self.await_word("begun")
        entry = [each for each in self.cache.iterdir() if len(each.name) == 64][0]
        self.assertTrue(json.loads(self.cache_command("ls", "--json")[1])[0]["in_use"])
        self.assertIn("a job reads it", self.cache_command("rm", entry.name)[2])
        os.write(go, b"on\n")
        code, out, err = self.end(job)
        self.assertEqual(code, 0, err)
        self.assertEqual(err.count("data set built (test 1, train 3 rows)"), 1, err)
        self.assertIn(f"{entry}/train", out)
        self.assertIn(f"{entry}/test", out)
        self.assertFalse(json.loads(self.cache_command("ls", "--json")[1])[0]["in_use"])

    def test_run_waits_for_who_looks_at_its_entry(self):
        used = pathlib.Path(self.preprocess()["folder"]) / "used"
        with used.open() as looked_at:
            fcntl.flock(looked_at, fcntl.LOCK_EX)
            job = self.start("run", "--config=job.yaml", "true")
            while job.poll() is None and not self.has_open(job.pid, used):
                os.sched_yield()
        code, _, err = self.end(job)
        self.assertEqual(code, 0, err)

    def has_open(self, pid, file):
        try:
            return any(os.readlink(each) == str(file) for each in pathlib.Path(f"/proc/{pid}/fd").iterdir())
        except OSError:  # it closes one
            return False

    def test_credentials_are_for_a_cache_in_a_store(self):
        keys = "{s3: {client_kwargs: {aws_access_key_id: k, aws_secret_access_key: s}}}"
        self.write_config(f"  cache_credentials: {keys}\ndataset:\n  input: in\n")
        code, out, err = self.run_dtrain("run", "--config=job.yaml", "sh", "-c", "echo [$DTRAIN_STORE_CREDENTIALS]")
        self.assertEqual(code, 0, err)
        self.assertIn("[]", out)
        self.assertIn("no effect: job.yaml:3: backend.cache_credentials", err)

    def test_standard_descriptors_that_are_closed(self):
        """What is opened next would get their numbers, and the request or the answer would be lost."""
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            for words in ("preprocess --config=job.yaml", "run --config=job.yaml sh -c 'echo $DTRAIN_DATASET >told'",
                          "cache ls --config=job.yaml"):
                done = subprocess.run(["sh", "-c", f"{self.programs}/dtrain {words} {closed}"], cwd=self.folder,
                                      capture_output=True, text=True, timeout=DEADLINE_S)
                self.assertEqual(done.returncode, 0, (closed, words, done.stderr))
            told = self.folder / "told"
            self.assertTrue(pathlib.Path(told.read_text().strip(), "a.csv").exists(), closed)
            shutil.rmtree(self.cache)
            told.unlink()

    @unittest.skipUnless(os.getuid() == 0, "needs another user")
    def test_an_entry_that_its_builder_kept_from_others(self):
        other = 65534
        for each in (self.folder, self.programs):
            each.chmod(0o755)
        first = pathlib.Path(self.preprocess()["folder"])
        self.write_config("dataset:\n  input: in\n  seed: 2\n")
        code, _, err = self.run_dtrain("preprocess", "--config=job.yaml", umask=0o077)
        self.assertEqual(code, 0, err)
        [second] = [self.cache / name for name in self.names() if len(name) == 64 and name != first.name]
        code, out, err = self.run_dtrain("preprocess", "--config=job.yaml", user=other, group=other)
        self.assertEqual((code, out), (125, ""), err)
        self.assertEqual(err, f"dtrain: {second}: Permission denied: the umask of its builder kept it from others; its "
                              "owner can change that (chmod -R go+rX), or choose another cache_dir\n")
        code, out, err = self.run_dtrain("cache", "ls", "--config=job.yaml", user=other, group=other)
        self.assertEqual((code, err), (0, ""))
        self.assertIn(first.name[:12], out)
        self.assertRegex(out, f"{second.name[:12]}.*damaged: {second}: Permission denied")

    def test_run_that_cannot_be_builds_nothing(self):
        code, _, err = self.run_dtrain("run", "--config=job.yaml", "./none")
        self.assertEqual(code, 127, err)
        self.assertEqual(self.run_dtrain("run", "--config=job.yaml", "--dry-run", "true")[0], 0)
        self.assertFalse(self.cache.exists())

    def test_a_signal_ends_run_and_its_build(self):
        os.mkfifo(self.folder / "in/hold")
        job = self.start("run", "--config=job.yaml", "true")
        self.await_word("in/hold")
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(job)[0], -signal.SIGTERM)
        self.assertEqual(self.names(), [".lock"])

    def test_a_signal_or_a_kill_ends_the_question_to_other_nodes(self):
        """By an ssh that stands still once it was started."""
        ssh = self.folder / "ssh"
        ssh.write_text(f"#!/bin/sh\ntrap '' TERM\necho $$ > {self.folder}/asked\nexec sleep 600\n")
        ssh.chmod(0o755)
        os.mkfifo(self.folder / "asked")
        asked = self.open_fifo("asked")
        for number in signal.SIGTERM, signal.SIGINT, signal.SIGKILL:
            job = self.start("run", "--config=job.yaml", "--hosts=elsewhere:1", f"--ssh={ssh}", "true")
            self.assertTrue(select.select([asked], [], [], DEADLINE_S)[0])
            end = os.pidfd_open(int(os.read(asked, 100)))
            self.addCleanup(os.close, end)
            job.send_signal(number)
            code, _, err = self.end(job)
            self.assertEqual(code, -number, err)
            self.assertTrue(select.select([end], [], [], DEADLINE_S)[0], "ssh lives on")
        self.assertFalse((self.folder / "in/builds").exists())
        until = time.monotonic() + DEADLINE_S
        while self.processes_here():  # those of the kill
            self.assertLess(time.monotonic(), until, "processes live on")
            os.sched_yield()
        self.assertEqual(self.names(), [".lock"])

    def test_a_question_that_cannot_be_asked_or_dies_has_an_answer(self):
        """With a dtrain-data that takes away from dtrain what it needs for that."""
        programs = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        shutil.copy(DTRAIN, programs / "dtrain")
        ssh = self.folder / "ssh"
        ssh.write_text(f"#!/bin/sh\nkill -9 $PPID\n")
        ssh.chmod(0o755)
        fake = programs / "dtrain-data"
        for before, why in (("resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3))",
                             "dtrain: the other nodes cannot be asked: pidfd_open: "),
                            ("", "dtrain: the process that asks the other nodes was killed by signal 9")):
            fake.write_text(f"#!{sys.executable}\nimport json, os, resource, sys\n{before}\n"
                            f"os.write(1, b'{{\"asks\": \"{self.folder}\"}}\\n')\n"
                            "sys.exit(json.loads(os.read(1, 1000))['code'])\n")
            fake.chmod(0o755)
            code, _, err = self.run_dtrain("run", "--config=job.yaml", "--hosts=elsewhere:1", f"--ssh={ssh}", "true",
                                           dtrain=programs / "dtrain")
            self.assertIn(code, (125, 137), err)
            self.assertIn(why, err)

    def processes_here(self):
        found = []
        for each in pathlib.Path("/proc").iterdir():
            try:
                if each.name.isdigit() and os.readlink(each / "cwd") == str(self.folder):
                    found.append(each.name)
            except OSError:
                continue
        return found

    def test_errors_have_the_line_of_their_key(self):
        self.write_config("dataset:\n  input: in\n  steps:\n    - fail: no such column\n")
        for words in (["preprocess", "--config=job.yaml"], ["run", "--config=job.yaml", "true"]):
            code, out, err = self.run_dtrain(*words)
            self.assertEqual((code, out, err), (2, "", "dtrain: job.yaml:6: dataset.steps[0].fail: no such column\n"))
        self.write_config("dataset:\n  input: none.csv\n")
        code, _, err = self.run_dtrain("preprocess", "--config=job.yaml")
        self.assertEqual((code, err.count("\n")), (2, 1), err)
        self.assertIn(f"dtrain: job.yaml:4: dataset.input: {self.folder}/none.csv: No such file", err)

    def test_caches_that_cannot_be(self):
        self.cache.mkdir()
        self.cache.chmod(0o777)
        code, _, err = self.run_dtrain("preprocess", "--config=job.yaml")
        self.assertEqual((code, err.count("\n")), (2, 1), err)
        self.assertIn("everybody may write here", err)
        code, _, err = self.run_dtrain("preprocess", "--config=job.yaml", "--cache-dir=/proc/none")
        self.assertEqual((code, err.count("\n")), (125, 1), err)
        code, _, err = self.run_dtrain("preprocess", "--config=job.yaml", "--cache-dir=/sys/none")  # not even root's
        self.assertEqual((code, err.count("\n")), (125, 1), err)
        self.assertIn(f"choose a cache_dir that you may write on {socket.gethostname()} (--cache-dir)", err)
        self.assertFalse((self.folder / "in/builds").exists())
        code, _, err = self.run_dtrain("cache", "ls", "--cache-dir=none")
        self.assertEqual(code, 2, err)

    def test_without_dtrain_data(self):
        alone = self.folder / "alone"
        alone.mkdir()
        shutil.copy(DTRAIN, alone / "dtrain")
        for words in (["preprocess", "--config=job.yaml"], ["run", "--config=job.yaml", "true"],
                      ["cache", "ls", "--cache-dir=cache"]):
            code, out, err = self.run_dtrain(*words, dtrain=alone / "dtrain")
            self.assertEqual((code, out, err.count("\n")), (127, "", 1), err)
            self.assertIn(f"there is no dtrain-data in {alone}", err)


if __name__ == "__main__":
    unittest.main()
