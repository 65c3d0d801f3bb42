"""torch's own DDP on three hosts of a lab while something breaks: the training goes on, and no step is missing."""
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "launcher"), str(HERE.parents[1] / "support")]

import netlab  # noqa: E402
from lab_case import LabCase, new_token  # noqa: E402
from etcd_hosts import EtcdHosts  # noqa: E402
from hosts_test import Node  # noqa: E402
from steps import EVERY, is_worker, judge, newest, notes  # noqa: E402
from support import DTRAIN, until  # noqa: E402

PATIENCE = 120  # seconds for a round to begin: importing torch takes its time
PORT = 29400
SOME = 2 * EVERY  # steps


class Faults(LabCase):
    def setUp(self):
        self.net = self.lab(6)  # three for the job, three for what it needs
        self.folder = self.enterContext(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        self.token = new_token(DTRAIN, self.folder)
        self.nodes, self.seen = [], -1

    def c10d(self, at="host1"):
        return "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{at}:{PORT}"

    def etcd(self):
        if not shutil.which("etcd"):
            self.fail("etcd is not installed: scripts/setup.sh test")
        self.cluster = EtcdHosts(self.net.hosts[3:], self.folder)
        return "--rdzv-backend", "etcd", "--rdzv-endpoint", self.cluster.endpoint

    def train(self, flags, *faults, restarts=0):
        """On three hosts, with these flags of each. A fault does something, and says how many ranks make steps then and
        whether in a new round."""
        for host, own in zip(self.net.hosts, flags):
            words = ["run", "--token-file", self.token, "--nnodes", "2:3", "--rdzv-id", "faults", *own,
                     "--max-restarts", restarts, HERE / "kills_worker.py", self.folder]
            self.nodes.append(Node(host, words, env={**os.environ, "PYTHON_EXEC": sys.executable,
                                                     "PYTHONWARNINGS": "ignore"}))
        self.trains(3, True)
        for fault in faults:
            self.trains(*fault())
        pathlib.Path(self.folder, "end").touch()
        alive = [node for node in self.nodes if node.host.up]
        self.assertEqual([node.process.wait(PATIENCE) for node in alive], [0] * len(alive), self.story())
        self.assertEqual(judge(self.folder, self.last()), [])
        self.assertEqual(self.last() % EVERY, 0)

    def trains(self, ranks, anew):
        """So many ranks make some steps, in a later round or as before."""
        before, made = self.seen, self.last()
        try:
            until(lambda: newest(self.folder, SOME, ranks) > before - (not anew) and self.last() >= made + SOME,
                  PATIENCE, f"{ranks} ranks after round {before}")
        except AssertionError as error:
            self.fail(f"{error}\n{self.story()}")
        self.seen = newest(self.folder)
        if not anew:
            self.assertEqual(self.seen, before, self.story())

    def last(self):
        return max((step for _, step, *_ in notes(self.folder)), default=0)

    def story(self):
        return "\n".join(f"{node.host.name}: {line}" for node in self.nodes for line in node.text.splitlines())

    def its_host_is_lost(self):
        node = next(node for node in self.nodes if "this node hosts the job" in node.text)
        node.host.crash()
        return 2, True

    def test_the_host_of_the_job_is_lost_and_another_chosen(self):
        def lost():
            self.net.host(0).crash()
            return 2, True

        self.train([self.c10d()] * 3, lost)

    def test_a_member_of_etcd_is_lost_and_then_the_host_of_the_job(self):
        def member_is_lost():
            self.cluster.members[self.cluster.leader().name].send_signal(signal.SIGKILL)
            return 3, False

        self.train([self.etcd()] * 3, member_is_lost, self.its_host_is_lost)

    def test_a_node_is_cut_off_and_comes_back(self):
        def cut():
            self.net.cut("host3")
            return 2, True

        def heal():
            self.net.heal()
            return 3, True

        self.train([self.c10d()] * 3, cut, heal)

    def test_a_slow_network_and_a_worker_that_dies(self):
        with self.net.host(3).network():
            proxy = self.enterContext(netlab.Proxy((self.net.host(0).ipv4, PORT), (self.net.host(3).ipv4, PORT),
                                                   delay=0.1))

        def worker_dies():
            self.assertGreaterEqual(proxy.connections_seen, 2)
            worker = next(pid for pid in self.net.host(2).pids() if is_worker(pid))
            os.kill(worker, signal.SIGKILL)
            return 3, True

        self.train([self.c10d()] + [self.c10d("host4")] * 2, worker_dies, restarts=1)


if __name__ == "__main__":
    netlab.become_able()
    unittest.main()
