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
from lab_case import LabCase, new_token  # noqa: E402

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
DEADLINE = 150


class DdpAcrossHosts(LabCase):
    def setUp(self):
        self.net = self.lab(3)
        home = self.enterContext(tempfile.TemporaryDirectory())
        self.environment = {**os.environ, "PYTHON_EXEC": sys.executable, "PYTHONWARNINGS": "ignore",
                            "XDG_CONFIG_HOME": home}
        os.mkdir(os.path.join(home, "dtrain"))
        new_token(DTRAIN, os.path.join(home, "dtrain"))

    def train(self, hosts, name, *words):
        """On these hosts, with a failure in the first round."""
        agents = [host.popen([os.path.join(os.path.dirname(DTRAIN), name), *words, "--nnodes", str(len(hosts)),
                              "--rdzv-backend", "c10d", "--rdzv-endpoint", "host1:29400", "--rdzv-id", "ddp",
                              "--max-restarts", "1", HERE / "ddp_worker.py"],
                             env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True) for host in hosts]
        said = [agent.communicate(timeout=DEADLINE)[0] for agent in agents]
        self.assertEqual([agent.returncode for agent in agents], [0] * len(hosts), "\n".join(said))
        weights = re.findall(r"^(?:\[\d\] )?weights (\S+)$", "\n".join(said), re.M)
        self.assertEqual(len(weights), len(hosts), said)
        self.assertEqual(len(set(weights)), 1, "the replicas are equal")

    def test_trains_in_the_second_round(self):
        self.train(self.net.hosts, "dtrain", "run", "--nproc", "1")

    def test_as_torchrun_the_workers_go_to_the_store_by_themselves(self):
        self.train(self.net.hosts, "torchrun", "--nproc-per-node", "1")

    def test_at_a_standing_server(self):
        server = self.net.host(0).popen([DTRAIN, "rendezvous", "serve"], env=self.environment, stderr=subprocess.PIPE,
                                        text=True)
        self.assertIn("rendezvous server", server.stderr.readline())
        # By this name too, although no worker can go to this store by itself.
        self.train(self.net.hosts[1:], "torchrun", "--nproc-per-node", "1")
        server.terminate()
        said = server.communicate(timeout=DEADLINE)[1]
        self.assertEqual(server.returncode, 0, said)
        self.assertIn("job ddp has ended: all workers ended with exit code 0", said)


if __name__ == "__main__":
    netlab.become_able()
    unittest.main()
