#!/usr/bin/env python3
"""dtrain preprocess on the hosts of a list: each does a part of the work, and the result is that of one host."""
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from ssh_case import DEADLINE, OnHosts  # noqa: E402

from shared_build import DTRAIN, SharedBuild  # noqa: E402
from support import said_by, until  # noqa: E402


class Preprocess(OnHosts):
    def setUp(self):
        super().setUp()
        self.build = SharedBuild(self.folder, "hosts: ['host[1-3]:2']\nbackend:\n")

    def begin(self, *words):
        job = self.net.host(0).popen([DTRAIN, *words], env=self.environment, cwd=self.folder,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     text=True)
        self.addCleanup(job.stdout.close)
        return job

    def preprocess(self, config, code=0):
        return said_by(self, self.begin("preprocess", "--config", config), code, DEADLINE)

    def test_the_bytes_are_those_of_one_host_and_every_host_has_a_share(self):
        self.preprocess(self.build.write("alone", processor=", num_workers: 1"))
        job, seen = self.begin("run", "--config", self.build.write("cache"), "--nproc", "1", "sh", "-c",
                               "ls $DTRAIN_DATASET | wc -l"), set()
        until(lambda: seen.update(self.processes()) or job.poll() is not None, DEADLINE, "the end of the job")
        said = said_by(self, job, 0, DEADLINE)
        self.assertIn("data set built", said)
        self.assertEqual(seen, {0, 1, 2}, said)
        self.assertEqual(self.build.built("cache"), self.build.built("alone"))

    def processes(self):
        """The hosts on which one shares the work."""
        return {number for number in range(self.HOSTS) for pid in self.net.host(number).pids()
                if b"dtrain-data\0work" in self.words_of(pid)}

    @staticmethod
    def words_of(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return b""


if __name__ == "__main__":
    unittest.main()
