"""Credentials of an object store: workers find a file that nobody else can read, here and where an agent was told of
the job; the secret is nowhere else, and the file ends with the job. usage: credentials_test.py path/to/dtrain"""
import contextlib
import json
import os
import pathlib
import select
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

DTRAIN = pathlib.Path(sys.argv.pop(1)).resolve()
DEADLINE_S = 30
SECRET = "hunter2-of-the-store"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": SECRET}


class Credentials(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("begun", "go"):
            os.mkfifo(self.folder / name)
        self.begun = self.open_fifo("begun")
        self.go = self.open_fifo("go")

    def open_fifo(self, name):
        fifo = os.open(self.folder / name, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, fifo)
        return fifo

    def start(self, *words, **env):
        """A job whose worker says where the credentials are, and waits."""
        show = 'echo "$DTRAIN_STORE_CREDENTIALS" > begun; read line < go; echo over'
        job = subprocess.Popen([DTRAIN, "run", *words, "sh", "-c", show], cwd=self.folder, text=True,
                               env={"PATH": os.environ["PATH"], "TMPDIR": str(self.folder), **env},
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        self.assertTrue(select.select([self.begun], [], [], DEADLINE_S)[0], "no worker has begun")
        return job, pathlib.Path(os.read(self.begun, 4096).decode().strip())

    def own_processes(self):
        """Of this user: {pid: what /proc shows of it to all}."""
        shown = {}
        for each in pathlib.Path("/proc").iterdir():
            if not each.name.isdigit() or int(each.name) == os.getpid():
                continue
            shown[int(each.name)] = b""
            for name in ("cmdline", "environ"):
                try:
                    shown[int(each.name)] += (each / name).read_bytes()
                except OSError:  # it has ended, or is another user's
                    continue
        return shown

    def check_secret(self, file):
        self.assertEqual(json.loads(file.read_text()), CREDENTIALS)
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(file.parent.stat().st_mode), 0o700)
        for pid, shown in self.own_processes().items():
            self.assertNotIn(SECRET.encode(), shown, f"process {pid} shows it")

    def end(self, job):
        os.write(self.go, b"on\n")
        out, _ = job.communicate(timeout=DEADLINE_S)
        self.assertEqual(job.returncode, 0, out)
        self.assertIn("over", out)
        self.assertNotIn(SECRET, out)

    def check_nothing_left(self):
        left = [str(each) for each in self.folder.rglob("*") if each.is_file() and SECRET in each.read_text("latin-1")]
        self.assertEqual(left, [])
        self.assertEqual(list(self.folder.glob("dtrain-store-*")), [])

    def test_a_job_here(self):
        job, file = self.start("--log-dir=logs", "--redirects=3", "--tee=3",
                               DTRAIN_STORE_CREDENTIALS=json.dumps(CREDENTIALS))
        self.check_secret(file)
        self.end(job)
        self.check_nothing_left()

    def test_an_agent_that_was_told(self):
        job, file = self.start("--hosts=localhost:1", DTRAIN_STORE_CREDENTIALS=json.dumps(CREDENTIALS))
        self.check_secret(file)
        self.end(job)
        self.check_nothing_left()

    def test_all_processes_are_killed(self):
        job, file = self.start(DTRAIN_STORE_CREDENTIALS=json.dumps(CREDENTIALS))
        keeper = self.keeper_of(file.parent)
        end = os.pidfd_open(keeper)
        self.addCleanup(os.close, end)
        for pid in self.family(job.pid):
            with contextlib.suppress(ProcessLookupError):  # it has died with its parent
                os.kill(pid, signal.SIGKILL)
        job.wait(DEADLINE_S)
        self.assertTrue(select.select([end], [], [], DEADLINE_S)[0], "the keeper lives on")
        self.check_nothing_left()

    def keeper_of(self, folder):
        for each in pathlib.Path("/proc").iterdir():
            try:
                if (each / "comm").read_text() == "dt-keeper\n" and \
                        any(os.readlink(fd) == str(folder) for fd in (each / "fd").iterdir()):
                    return int(each.name)
            except OSError:
                continue
        self.fail("nobody keeps the folder")

    def family(self, pid):
        """The process and all below it, the youngest last."""
        below = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid] + [each for child in below for each in self.family(int(child))]

    def test_nothing_shows_them(self):
        config = self.folder / "job.yaml"
        config.write_text("backend:\n  cache_dir: s3://bucket/cache\n  cache_credentials: {s3: {client_kwargs: "
                          f"{{aws_access_key_id: k, aws_secret_access_key: {SECRET}}}}}}}\ndataset: {{input: a.csv}}\n")
        config.chmod(0o640)
        for words in (["run", "--print-config"], ["run", "--print-config=all"], ["run", "--print-config=json"],
                      ["run", "--dry-run"], ["plan"], ["run", "--hosts=localhost:1", "--dry-run"]):
            done = subprocess.run([DTRAIN, words[0], "--config=job.yaml", *words[1:], "true"], cwd=self.folder,
                                  env={"PATH": os.environ["PATH"]}, text=True, capture_output=True, timeout=DEADLINE_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn(SECRET, done.stdout + done.stderr)
            self.assertIn("dtrain: job.yaml has credentials and the mode 0640, so others may read them: chmod 600 "
                          "job.yaml\n", done.stderr)

    def test_a_path_stays_as_it_is(self):
        job, file = self.start(DTRAIN_STORE_CREDENTIALS="/of/the/user.json")
        self.assertEqual(str(file), "/of/the/user.json")
        self.end(job)


if __name__ == "__main__":
    unittest.main()
