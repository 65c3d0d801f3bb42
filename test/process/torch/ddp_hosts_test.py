"""torch's own DDP over three hosts: gloo between them, the store through the agents, a restart of all."""
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

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
DEADLINE = 150


class DdpAcrossHosts(unittest.TestCase):
    def test_trains_in_the_second_round(self):
        self.train("dtrain", "run", "--nproc", "1")

    def test_as_torchrun_the_workers_go_to_the_store_by_themselves(self):
        self.train("torchrun", "--nproc-per-node", "1")

    def train(self, name, *words):
        try:
            lab = netlab.Lab(3)
        except netlab.Unavailable as error:
            self.skipTest(str(error))
        self.addCleanup(lab.close)
        with tempfile.TemporaryDirectory() as home:
            environment = {**os.environ, "PYTHON_EXEC": sys.executable, "PYTHONWARNINGS": "ignore",
                           "XDG_CONFIG_HOME": home}
            subprocess.run([DTRAIN, "token", "--new"], env=environment, check=True, capture_output=True,
                           timeout=DEADLINE)
            agents = [host.popen([os.path.join(os.path.dirname(DTRAIN), name), *words, "--nnodes", "3",
                                  "--rdzv-backend", "c10d", "--rdzv-endpoint", "host1:29400", "--max-restarts", "1",
                                  HERE / "ddp_worker.py"],
                                 env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True) for host in lab.hosts]
            said = [agent.communicate(timeout=DEADLINE)[0] for agent in agents]
        self.assertEqual([agent.returncode for agent in agents], [0, 0, 0], "\n".join(said))
        weights = re.findall(r"^(?:\[\d\] )?weights (\S+)$", "\n".join(said), re.M)
        self.assertEqual(len(weights), 3, said)
        self.assertEqual(len(set(weights)), 1, "the replicas are equal")


if __name__ == "__main__":
    netlab.become_able()
    unittest.main()
