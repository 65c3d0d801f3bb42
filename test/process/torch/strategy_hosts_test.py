#!/usr/bin/env python3
"""examples/gpt over hosts of a lab, two ranks on each: sharded strategies have the losses of one process."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "support")]

import netlab  # noqa: E402
from lab_case import LabCase, new_token  # noqa: E402

BIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"])
DTRAIN = os.path.join(BIN, "dtrain")
DEADLINE = 120
STEPS = 10
GPT = [str(word) for word in (BIN / "gpt", "--width", 32, "--depth", 2, "--heads", 2, "--context", 16, "--global-batch",
                              8, "--generate", 0, "--dtype", "float64", "--steps", STEPS, "--loss-file")]
MOVED = 8 * 2 * 12 * 32 * 32  # bytes of the matrices of the blocks, which each step brings to the other host


class Jobs(LabCase):
    HOSTS = 2

    def setUp(self):
        self.net = self.lab(self.HOSTS)
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="dtrain-strategy-hosts-"))
        os.mkdir(os.path.join(self.folder, "dtrain"))
        new_token(DTRAIN, os.path.join(self.folder, "dtrain"))
        clean = {name: value for name, value in os.environ.items() if name != "DTRAIN_STRATEGY"}
        self.environment = {**clean, "XDG_CONFIG_HOME": self.folder, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        self.count = 0

    def losses(self, hosts, *flags, more=()):
        """Of a job on these hosts; on none: of the program by itself. `more`: words for the program."""
        self.count += 1
        path = pathlib.Path(self.folder, f"losses{self.count}")
        how = {"env": self.environment, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
               "stderr": subprocess.STDOUT, "text": True}
        line = [DTRAIN, "run", "--nproc", "2", "--nnodes", str(self.HOSTS), "--rdzv-endpoint", "host1:29400",
                "--rdzv-id", f"job{self.count}", *flags]
        words = [*GPT, str(path), *more]
        jobs = [host.popen([*line, *words], **how) for host in hosts] or [subprocess.Popen(words, **how)]
        said = [job.communicate(timeout=DEADLINE)[0] for job in jobs]
        self.assertEqual([job.returncode for job in jobs], [0] * len(jobs), "\n".join(said))
        return [float(each.split()[-1]) for each in path.read_text().splitlines()]

    def sent(self):
        """Bytes that have left the first host."""
        devices = self.net.host(0).run(["cat", "/proc/net/dev"], stdout=subprocess.PIPE, text=True, check=True).stdout
        return int(devices.split("eth0:")[1].split()[8])

    def assert_close(self, mine, alone):
        self.assertEqual(len(mine), len(alone))
        for a, b in zip(mine, alone):
            self.assertAlmostEqual(a, b, delta=1e-9)


class StrategiesAcrossHosts(Jobs):
    def test_each_has_the_losses_of_one_process(self):
        alone = self.losses([])
        self.assertEqual(len(alone), STEPS)
        self.assertLess(alone[-1], alone[0] - 0.1)
        one_copy, halves = {"type": "fsdp", "one_copy": True}, ("--micro-batches", "2")
        for strategy, more in (({"type": "zero1"}, ()), ({"type": "zero2"}, ()), ({"type": "fsdp"}, ()),
                               ({"type": "fsdp", "shard_size": 2}, ()),
                               ({"type": "fsdp", "reshard_after_forward": 2}, ()), (one_copy, halves),
                               ({**one_copy, "deterministic": True}, halves)):
            with self.subTest(strategy=strategy):
                before = self.sent()
                mine = self.losses(self.net.hosts, "--strategy", json.dumps(strategy), more=more)
                self.assert_close(mine, alone)
                self.assertGreater(self.sent() - before, STEPS * MOVED / 2, "the hosts talk over the network")

    def test_a_checkpoint_of_one_copy_on_each_host_goes_on_anywhere(self):
        alone = self.losses([])
        one_copy = ("--strategy", json.dumps({"type": "fsdp", "one_copy": True}))
        steps = pathlib.Path(self.folder, "steps")
        save = ("--save", str(steps), "--save-every", "5", "--resume")
        self.assert_close(self.losses(self.net.hosts, *one_copy, more=save), alone)
        for hosts, flags in ((self.net.hosts, one_copy), ([], ())):
            shutil.rmtree(steps / f"step-{STEPS:08}")
            self.assert_close(self.losses(hosts, *flags, more=save), alone[5:])


class SetsAcrossHosts(Jobs):
    HOSTS = 4

    def test_two_sets_of_two_hosts_with_one_copy_on_each_host(self):
        strategy = json.dumps({"type": "fsdp", "shard_size": 4, "one_copy": True})
        self.assert_close(self.losses(self.net.hosts, "--strategy", strategy), self.losses([]))


if __name__ == "__main__":
    netlab.become_able()
    unittest.main()
