"""Nodes that meet by etcd: real agents and a real etcd on hosts of a lab, and what happens when some of them die."""
import os
import re
import shutil
import signal
import subprocess
import unittest

from hosts_test import END, WORKER, HostsCase, Node
from support import DEADLINE, until


class Etcd(HostsCase):
    def setUp(self):
        if not shutil.which("etcd"):
            self.fail("etcd is not installed: scripts/setup.sh test")
        super().setUp()

    def etcd(self, hosts):
        """A cluster with one member on each of these hosts, on its usual ports."""
        cluster = ",".join(f"{host.name}=http://{host.ipv4}:2380" for host in hosts)
        self.members = {
            host.name: host.popen(
                ["etcd", "--name", host.name, "--data-dir", os.path.join(self.folder, host.name),
                 "--listen-client-urls", f"http://{host.ipv4}:2379", "--advertise-client-urls",
                 f"http://{host.ipv4}:2379", "--listen-peer-urls", f"http://{host.ipv4}:2380",
                 "--initial-advertise-peer-urls", f"http://{host.ipv4}:2380", "--initial-cluster", cluster],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for host in hosts}
        self.endpoint = ",".join(f"{host.ipv4}:2379" for host in hosts)
        until(lambda: self.ctl(hosts[0], "get", "none").returncode == 0, DEADLINE)

    def ctl(self, host, *words):
        return host.run(["etcdctl", "--endpoints", self.endpoint, "--command-timeout", "2s", *words],
                        env={**os.environ, "ETCDCTL_API": "3"})

    def node(self, host, script=END, *flags, nnodes="2:3", job="etcd-test"):
        return Node(host, ["run", "--token-file", self.token, "--rdzv-id", job, "--nnodes", nnodes, "--rdzv-backend",
                           "etcd", "--rdzv-endpoint", self.endpoint, *flags, "bash", "-c", WORKER + script],
                    {**os.environ, "END": self.end})

    def host_of(self, nodes):
        return next(node for node in nodes if "this node hosts the job" in node.text)

    def test_two_jobs_meet_each_in_its_own_place(self):
        lab = self.lab(3)
        self.etcd([lab.host(2)])
        nodes = [self.node(lab.host(i % 2), "", "--nproc", 1 + i // 2, nnodes="2", job=f"job{i // 2}")
                 for i in range(4)]
        for node in nodes:
            self.assertEqual(node.wait(), 0, node.text)
        texts = ["".join(n.text for n in nodes[i:i + 2]) for i in (0, 2)]
        self.assertEqual(sorted(re.findall(r"R=(\d) G=\d/2 W=2 ", texts[0])), ["0", "1"])
        self.assertEqual(sorted(re.findall(r"R=(\d) G=\d/2 W=4 ", texts[1])), ["0", "1", "2", "3"])
        self.assertRegex(texts[0], r"M=127\.0\.0\.1 R0=10\.\S+ IF=eth0,eth0 ")
        # The key of the host goes with the job.
        kept = self.ctl(lab.host(2), "get", "--prefix", "/dtrain/", "--keys-only").stdout.split()
        self.assertEqual(sorted(kept), ["/dtrain/job0/record", "/dtrain/job1/record"])

    def test_a_member_of_etcd_dies_and_nobody_notices(self):
        lab = self.lab(5)
        self.etcd([lab.host(i) for i in (2, 3, 4)])
        nodes = [self.node(lab.host(i), nnodes="2") for i in (0, 1)]
        for node in nodes:
            node.expect(r"met \d in 0\.")
        status = self.ctl(lab.host(2), "endpoint", "status").stdout
        leader = next(line.split(":")[0] for line in status.splitlines() if line.split(", ")[4] == "true")
        dead = next(host for host in lab.hosts if host.ipv4 == leader)
        self.members[dead.name].send_signal(signal.SIGKILL)
        # The host of the job goes on to keep its lease with the others.
        alive = next(lab.host(i) for i in (2, 3, 4) if lab.host(i) is not dead)
        until(lambda: self.ctl(alive, "put", "probe", "1").returncode == 0, DEADLINE)
        self.assertIn("addresses", self.ctl(alive, "get", "/dtrain/etcd-test/host").stdout)
        self.finish(*nodes)
        for node in nodes:
            self.assertNotIn("N=1", node.text)

    def started(self, lab, **more):
        """Three nodes with etcd on a fourth host, in their first round; the one that hosts the job comes first."""
        self.etcd([lab.host(3)])
        nodes = [self.node(lab.host(i), **more) for i in (0, 1, 2)]
        for node in nodes:
            node.expect(r"met \d in 0\.")
        return sorted(nodes, key=lambda node: "this node hosts the job" not in node.text)

    def test_the_host_of_the_job_dies(self):
        lab = self.lab(4)
        first, *others = self.started(lab)
        self.host_is_lost(first.host, others, 1)
        self.assertIn("this node hosts the job", others[0].text + others[1].text)
        # Whoever comes to it later is taken in.
        first.host.boot()
        back = self.node(first.host)
        back.expect(r"met \d in 2\.")
        self.finish(back, *others)

    def test_the_host_is_cut_off_from_etcd_alone(self):
        lab = self.lab(4)
        first, *others = self.started(lab)
        lab.partition([first.host], [lab.host(3)])
        first.expect("etcd does not answer")
        for node in others:
            node.expect(r"met \d in 1\.")
        self.assertIn("this node hosts the job", others[0].text + others[1].text)
        # The first is a node like any other when it can see etcd again.
        lab.heal()
        first.expect(r"N=2 RC=0")
        self.finish(first, *others)

    def test_two_halves_never_run_at_once(self):
        lab = self.lab(4)
        first, *others = self.started(lab, nnodes="1:3")
        self.halves_never_run_at_once(lab, first, others, besides=[lab.host(3)])

    def test_etcd_is_not_there(self):
        lab = self.lab(1)
        self.endpoint = f"{lab.host(0).ipv4}:2379"
        node = self.node(lab.host(0), "", "--rdzv-conf", "join_timeout=3")
        self.assertEqual(node.wait(), 124)
        self.assertRegex(node.text, r"waiting: etcd: cannot connect to 10\.\S+:2379: Connection refused")
        self.assertRegex(node.text, r"nobody has opened the job at etcd 10\.\S+:2379 within 3 s")


if __name__ == "__main__":
    unittest.main(verbosity=2)
