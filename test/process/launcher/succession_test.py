"""The host of a job is lost, and the nodes that are left choose another: real agents on hosts of a lab."""
import os
import signal
import time
import unittest

from hosts_test import END, PORT, WORKER, HostsCase, Node, until
from support import DEADLINE

SETTLED = 3  # seconds after it has begun a round can be followed, on a slow machine too


class Succession(HostsCase):
    def started(self, lab, nodes, *flags, nnodes):
        """So many nodes in their first round, which has settled; host 0 hosts the job."""
        nodes = [Node(lab.host(i), ["run", "--token-file", self.token, "--rdzv-id", "succession", "--nnodes", nnodes,
                                    "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{lab.host(0).ipv4}:{PORT}", *flags,
                                    "bash", "-c", WORKER + END],
                      {**os.environ, "END": self.end}) for i in range(nodes)]
        for node in nodes:
            node.expect(r"met \d in 0\.")
        self.pass_by(SETTLED)
        return nodes

    def test_the_host_dies_and_then_the_next_one(self):
        lab = self.lab(4)
        nodes = self.started(lab, 4, nnodes="2:4")
        self.host_is_lost(lab.host(0), nodes[1:], 1)
        for node in nodes[1:]:
            node.expect(r"at R=\d G=\d/3 W=3 .* N=1 RC=0")
        hosts = [node for node in nodes[1:] if "it hosts the job, at " in node.text]
        self.assertEqual(len(hosts), 1, [node.text for node in nodes])
        self.assertIn("at R=0 ", hosts[0].text[hosts[0].text.index("it hosts"):])
        # Again, with an agent that is killed while its host lives on.
        self.pass_by(SETTLED)
        os.kill(hosts[0].agent(), signal.SIGKILL)
        left = [node for node in nodes[1:] if node is not hosts[0]]
        for node in left:
            node.expect(r"at R=\d G=\d/2 W=2 .* N=2 RC=0")
        self.finish(*left)

    def test_a_process_of_dtrain_dies_there(self):
        """Of the agent, its guard and its front any may be killed alone: that ends this node, not the job."""
        for name in ("dt-guard", "dtrain"):
            with self.subTest(name):
                self.end = os.path.join(self.folder, name)
                lab = self.lab(3)
                first, *others = self.started(lab, 3, nnodes="1:3")
                os.kill(first.named(name), signal.SIGKILL)
                until(lambda: not first.workers(), DEADLINE)
                dead = time.monotonic()
                for node in others:
                    node.expect(r"at R=\d G=\d/2 W=2 .* N=1 RC=0")
                self.assertLess(dead, min(node.when("N=1 RC=0") for node in others), "the halves overlap")
                self.finish(*others)
                self.assertIn(first.wait(), (125, -signal.SIGKILL), first.text)

    def test_two_halves_never_run_at_once(self):
        lab = self.lab(3)
        first, *others = self.started(lab, 3, nnodes="1:3")
        self.halves_never_run_at_once(lab, first, others)

    def test_of_two_nodes_none_can_follow(self):
        lab = self.lab(2)
        nodes = self.started(lab, 2, nnodes="1:2")
        os.kill(nodes[0].agent(), signal.SIGKILL)
        self.assertEqual(nodes[1].wait(), 125)
        self.assertRegex(nodes[1].text, r"the agent that hosts the job at \S+ is gone.*; of two nodes, one cannot know "
                                        "whether the other is gone or cut off")

    def test_it_can_be_turned_off(self):
        lab = self.lab(3)
        nodes = self.started(lab, 3, "--rdzv-conf", "succession=0", nnodes="1:3")
        os.kill(nodes[0].agent(), signal.SIGKILL)
        for node in nodes[1:]:
            self.assertEqual(node.wait(), 125)
            self.assertNotIn("N=1", node.text)

    def test_nodes_that_are_stopped_are_no_voters(self):
        lab = self.lab(4)
        host, *others = self.started(lab, 4, nnodes="1:4")
        for node in others:
            os.kill(node.agent(), signal.SIGTERM)
        host.expect(r"at R=0 G=0/1 W=1 .* RC=0")
        self.pass_by(5)  # two intervals later it would be in doubt, two more and it would end
        self.assertNotIn("too few nodes answer", host.text)
        self.finish(host)
        self.ends([143] * 3, others)

    def test_too_few_are_left(self):
        lab = self.lab(3)
        nodes = self.started(lab, 3, "--rdzv-conf", "join_timeout=4", nnodes="1:3")
        lab.host(0).crash()
        lab.host(1).crash()
        self.assertEqual(nodes[2].wait(), 125)
        self.assertRegex(nodes[2].text, r"1 of 3 nodes of the last round are here, 2 must be to choose another host")


if __name__ == "__main__":
    unittest.main(verbosity=2)
