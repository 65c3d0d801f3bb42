"""fsdp over two hosts: ranks cannot keep the parameters once. Rank 0 says so if the strategy asks for it by name."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "support")]

import netlab  # noqa: E402
from lab_case import LabCase, new_token  # noqa: E402

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
PROGRAM = os.path.join(os.environ["DTRAIN_TEST_BIN_DIR"], "any_strategy")
DEADLINE = 150
NOTE = r"dtrain: strategy: one_copy is true, and ranks that share the model are on several hosts: each rank keeps"


class OneCopy(LabCase):
    def setUp(self):
        self.net = self.lab(2)
        home = self.enterContext(tempfile.TemporaryDirectory())
        self.environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "XDG_CONFIG_HOME": home, "OMP_NUM_THREADS": "1"}
        os.mkdir(os.path.join(home, "dtrain"))
        new_token(DTRAIN, os.path.join(home, "dtrain"))

    def train(self, **keys):
        """What each of the two hosts says, with two ranks each."""
        strategy = json.dumps({"type": "fsdp", **keys})
        nodes = [host.popen([DTRAIN, "run", "--nproc", "2", "--strategy", strategy, "--nnodes", "2", "--rdzv-backend",
                             "c10d", "--rdzv-endpoint", "host1:29400", "--rdzv-id", "one", PROGRAM],
                            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True) for host in self.net.hosts]
        said = [node.communicate(timeout=DEADLINE)[0] for node in nodes]
        self.assertEqual([node.returncode for node in nodes], [0, 0], "\n".join(said))
        text = "\n".join(said)
        self.assertEqual(len(re.findall("fsdp: loss", text)), 1, text)
        return len(re.findall(NOTE, text))

    def test_who_asks_for_it_is_told_once(self):
        self.assertEqual(self.train(one_copy=True), 1)

    def test_who_does_not_ask_or_shares_within_hosts_is_not_told(self):
        self.assertEqual(self.train(), 0)
        self.assertEqual(self.train(one_copy=True, shard_size=2), 0)


if __name__ == "__main__":
    netlab.become_able()
    unittest.main()
