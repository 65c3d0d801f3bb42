#!/usr/bin/env python3
"""dtrain preprocess on the hosts of a list: each does a part of the work, and the result is that of one host."""
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from ssh_case import DEADLINE, OnHosts  # noqa: E402

from shared_build import SharedBuild  # noqa: E402
from support import said_by  # noqa: E402


class Preprocess(OnHosts):
    def setUp(self):
        super().setUp()
        self.build = SharedBuild(self.folder, "hosts: ['host[1-3]:2']\nbackend:\n")

    def begin(self, *words):
        job = self.net.host(0).popen([self.build.dtrain, *words], env=self.environment, cwd=self.folder,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     text=True)
        self.addCleanup(job.stdout.close)
        return job

    def preprocess(self, config, code=0):
        return said_by(self, self.begin("preprocess", "--config", config), code, DEADLINE)

    def test_the_bytes_are_those_of_one_host_and_every_host_has_a_share(self):
        self.preprocess(self.build.write("alone", processor=", num_workers: 1"))
        self.assertEqual(self.build.workers(), [])
        job = self.begin("run", "--config", self.build.write("cache"), "--nproc", "1", "sh", "-c", "ls $DTRAIN_DATASET")
        self.assertIn("data set built", said_by(self, job, 0, DEADLINE))
        self.assertEqual(self.build.workers(), ["0 of 3 on 0", "1 of 3 on 1", "2 of 3 on 2"])
        self.assertEqual(self.build.built("cache"), self.build.built("alone"))

    def test_a_number_of_processes_is_spread_evenly(self):
        self.preprocess(self.build.write("cache", processor=", num_workers: 5"))
        self.assertEqual(self.build.workers(), [f"{rank} of 5 on {node}" for rank, node in enumerate((0, 0, 1, 1, 2))])
        self.preprocess(self.build.write("other", processor=", num_workers: 2"))
        self.assertEqual(self.build.workers(), ["0 of 2 on 0", "1 of 2 on 1"])


if __name__ == "__main__":
    unittest.main()
