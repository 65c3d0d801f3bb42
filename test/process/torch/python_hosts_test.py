"""dtrain's collectives for torch.distributed between hosts of a lab: gloo as the oracle, a killed rank, IPv6 alone."""
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
PACKAGE = os.path.join(os.path.dirname(os.environ["DTRAIN_BIN_DIR"]), "python")
DEADLINE = 150


class PythonAcrossHosts(LabCase):
    def setUp(self):
        self.net = self.lab(2)
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        os.mkdir(os.path.join(self.folder, "dtrain"))
        new_token(DTRAIN, os.path.join(self.folder, "dtrain"))
        self.environment = {**os.environ, "PYTHON_EXEC": sys.executable, "PYTHONPATH": PACKAGE,
                            "PYTHONWARNINGS": "ignore", "XDG_CONFIG_HOME": self.folder}

    def run_on_all(self, ranks, program, *arguments, endpoint="host1:29400"):
        """So many ranks on each host. What each agent's exit code was, and what it said."""
        agents = [host.popen([DTRAIN, "run", "--nproc", str(ranks), "--nnodes", "2", "--rdzv-backend", "c10d",
                              "--rdzv-endpoint", endpoint, "--rdzv-id", "comm", HERE / "backend" / program, *arguments],
                             env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True) for host in self.net.hosts]
        said = [agent.communicate(timeout=DEADLINE)[0] for agent in agents]
        return [agent.returncode for agent in agents], "\n".join(said)

    def equal_to_gloo(self, ranks, *arguments):
        codes, said = self.run_on_all(ranks, "oracle.py", *arguments)
        self.assertEqual(codes, [0, 0], said)
        self.assertEqual(len(re.findall(r"equal in \d+ cases", said)), 2 * ranks, said)

    def test_a_rank_on_each_host_gets_what_gloo_gives(self):
        self.equal_to_gloo(1, "--train")

    def test_two_ranks_on_each_host_get_what_gloo_gives(self):
        self.equal_to_gloo(2)

    def test_whatever_gloo_offers_is_there(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.equal_to_gloo(ranks, "--surface")

    def a_killed_rank_is_named(self, ranks, *arguments, **options):
        codes, said = self.run_on_all(ranks, "killed.py", os.path.join(self.folder, "moment"), *arguments, **options)
        self.assertNotIn(0, codes, said)
        told = re.findall(r"^(?:\[\d\] )?after ([\d.]+) s: .*: rank 1 \(pid \d+\) died$", said, re.M)
        self.assertEqual(len(told), 2 * ranks - 1, said)
        self.assertLess(max(map(float, told)), 1)

    def test_a_killed_rank_is_named_by_all_others(self):
        self.a_killed_rank_is_named(2)

    def test_a_killed_rank_is_named_by_all_that_wait_for_its_messages(self):
        self.a_killed_rank_is_named(2, "messages")

    def test_hosts_with_ipv6_alone(self):
        if not self.net.ipv6:
            self.skipTest("no IPv6 on this machine")
        for host in self.net.hosts:
            host.run(["ip", "-4", "address", "flush", "dev", "eth0"], check=True)
        self.a_killed_rank_is_named(1, endpoint=f"[{self.net.host(0).ipv6}]:29400")


if __name__ == "__main__":
    netlab.become_able()
    unittest.main()
