#!/usr/bin/env python3
"""What may go wrong between dtrain and an engine's shim: real relays and agents, and a shim that is strange."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "launcher")]

from support import DTRAIN, said_by, until  # noqa: E402

DEADLINE = 50  # less than anybody's patience with an agent that does not come


class Shim(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="dtrain-shim-"))

    def start(self, strange, nodes, *words):
        environment = {**os.environ, "PYTHON_EXEC": str(HERE / "strange_shim.py"), "STRANGE": strange,
                       "DTRAIN_HERE": os.path.abspath(DTRAIN), "XDG_CONFIG_HOME": self.folder}
        job = subprocess.Popen([os.path.abspath(DTRAIN), "run", "--engine", "ray", "--nnodes", str(nodes), *words],
                               env=environment, cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(job.stdout.close)
        return job

    def says(self, strange, nodes, *words, code=0):
        job = self.start(strange, nodes, *words)
        return self.said_by(job, code)

    def said_by(self, job, code=0):
        self.addCleanup(job.kill)
        return said_by(self, job, code, DEADLINE)

    def ranks(self, said):
        return sorted(int(rank) for rank in re.findall(r"(?m)^\[\d+\] rank (\d+)$", said))

    def test_more_nodes_than_begin_at_a_time(self):
        said = self.says("late", 66, "sh", "-c", "echo rank $RANK")
        self.assertEqual(self.ranks(said), list(range(66)))

    def test_a_command_that_is_stopped_while_nodes_are_sought(self):
        job = self.start("slow", 2, "sh", "-c", "echo rank $RANK")
        until(lambda: os.path.exists(os.path.join(self.folder, "asked")), 20, "the shim's start")
        os.kill(job.pid, signal.SIGSTOP)
        pathlib.Path(self.folder, "go").touch()
        time.sleep(1)  # tidy: allow sleep, because nothing tells that all has been said to a stopped process
        os.kill(job.pid, signal.SIGCONT)
        self.assertEqual(self.ranks(self.said_by(job)), [0, 1])

    def test_a_node_that_is_lost_at_once(self):
        self.assertIn("node1: its rack burns", self.says("lost", 2, "true", code=125))

    def test_an_error_after_the_nodes_were_found(self):
        self.assertIn("the cluster burns", self.says("error", 2, "true", code=125))

    def test_a_shim_that_ends(self):
        self.assertIn("ended with 1: no more of this", self.says("gone", 2, "true", code=125))

    def test_a_shim_that_talks_nonsense(self):
        self.assertIn("'hello' is nothing that an engine's shim says", self.says("nonsense", 2, "true", code=125))

    def test_a_request_to_end_while_nodes_are_sought(self):
        job = self.start("silent", 2, "true")
        time.sleep(0.5)  # tidy: allow sleep, because a request may come at any time
        job.terminate()
        self.said_by(job, code=143)

    def test_strangers_at_the_door(self):
        said = self.says("strangers", 2, "sh", "-c", "echo rank $RANK")
        self.assertEqual(self.ranks(said), [0, 1], said)
        self.assertIn("turned away a connection", said)


if __name__ == "__main__":
    unittest.main()
