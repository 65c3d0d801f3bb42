"""What tests of jobs on a cluster share."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "launcher")]

from support import DTRAIN, pids, proc_file, said_by, stat_of, until  # noqa: E402,F401

DEADLINE = 90
PATIENCE = 60  # with processes that come or go
FACTS = "echo rank $RANK of $WORLD_SIZE, $LOCAL_RANK on $GROUP_RANK in $PWD with $LR"
ROW = re.compile(r"rank (\d+) of (\d+), (\d+) on (\d+) in (\S+) with (.*)")
MARK = f"31415.{os.getpid()}"  # by which workers that sleep are found
SLEEP = f"echo ready; exec sleep {MARK}"
AGENTS = "dtrain agent", "/proc/self/exe agent"  # a relay; the agent itself and its guard
OURS = f"DTRAIN_TEST_CLUSTER={os.getpid()}"  # what all that a cluster starts has in its environment


def command_lines():
    return {pid: proc_file(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace") for pid in pids()}


def processes_with(text):
    """What this test has started; others may run agents on this host at the same time."""
    return [pid for pid, line in command_lines().items()
            if text in line and pid != os.getpid() and OURS.encode() in proc_file(pid, "environ").split(b"\0")]


class ClusterJobs(unittest.TestCase):
    ENGINE = ""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="dtrain-cluster-"))
        self.environment = {**os.environ, **dict([OURS.split("=")]), "LR": "it's \"0.1\"",
                            "XDG_CONFIG_HOME": self.folder}

    def tearDown(self):
        until(lambda: not any(map(processes_with, (*AGENTS, MARK, "ray::Node"))), PATIENCE,
              "the end of all that the job started")

    def start(self, *words):
        job = subprocess.Popen([DTRAIN, "run", *words], env=self.environment, cwd=self.folder, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(job.stdout.close)
        self.addCleanup(self.finish, job)
        return job

    def finish(self, job):
        """So that a test that fails takes no room from the others."""
        if job.poll() is None:
            os.kill(job.pid, signal.SIGCONT)
            job.kill()
            job.wait()

    def says(self, *words, code=0):
        return said_by(self, self.start(*words), code, DEADLINE)

    def running(self, *words, workers):
        job = self.start("--engine", self.ENGINE, *words, "sh", "-c", SLEEP)
        said = ""
        while workers:
            line = job.stdout.readline()
            said += line
            self.assertTrue(line, f"the job has ended; it said: {said}")
            workers -= "ready" in line
        return job

    def rows(self, said):
        return sorted((int(rank), int(size), int(local), int(node))
                      for rank, size, local, node, *_ in ROW.findall(said))

    def check_refusals(self, cases):
        """[(exit code, what is said, words, environment)]: one line each."""
        for code, text, words, changes in cases:
            with self.subTest(text=text):
                with unittest.mock.patch.dict(self.environment, changes):
                    said = self.says("--engine", self.ENGINE, *words, code=code)
                self.assertIn(text, said)
                self.assertEqual(said.count("\n"), 1, said)

    def check_ends(self, parts):
        """{name: (what to kill of a job of two nodes, exit code)}: nothing is left."""
        for name, (find, code) in parts.items():
            with self.subTest(part=name):
                job = self.running("--nnodes", "2", workers=2)
                victims = find(job)
                self.assertEqual(len(victims), 1, name)
                os.kill(victims[0], 9)
                said_by(self, job, code, DEADLINE)
                until(lambda: not processes_with(MARK), PATIENCE, "the end of the workers")

    def check_no_secret_is_to_be_seen(self):
        for line in command_lines().values():
            self.assertIsNone(re.search(r"dtrain-[A-Za-z0-9_-]{40}", line), line)
