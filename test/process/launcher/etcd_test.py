"""Nodes that meet by etcd: real agents and a real etcd on hosts of a lab, and what happens when some of them die."""
import os
import re
import shutil
import signal
import time
import unittest

from etcd_hosts import EtcdHosts
from hosts_test import END, WORKER, HostsCase, Node
from lab_case import make_authority, make_certificate
from support import DEADLINE, until


class Etcd(HostsCase):
    def setUp(self):
        if not shutil.which("etcd"):
            self.fail("etcd is not installed: scripts/setup.sh test")
        super().setUp()

    def etcd(self, hosts, tls=None):
        self.cluster = EtcdHosts(hosts, self.folder, tls)
        self.endpoint, self.ctl = self.cluster.endpoint, self.cluster.ctl

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
        # etcd chooses its next leader within 2 s, and needs as long again each time that its votes are split.
        nodes = [self.node(lab.host(i), END, "--rdzv-conf", "lease_ttl=10", nnodes="2") for i in (0, 1)]
        for node in nodes:
            node.expect(r"met \d in 0\.")
        dead = self.cluster.leader()
        self.cluster.members[dead.name].send_signal(signal.SIGKILL)
        # The host of the job goes on to keep its lease with the others.
        alive = next(lab.host(i) for i in (2, 3, 4) if lab.host(i) is not dead)
        until(lambda: self.ctl(alive, "put", "probe", "1").returncode == 0, DEADLINE)
        until(lambda: "addresses" in self.ctl(alive, "get", "/dtrain/etcd-test/host").stdout, DEADLINE)
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

    def test_the_front_of_the_host_dies(self):
        lab = self.lab(4)
        first, *others = self.started(lab)
        os.kill(first.named("dtrain"), signal.SIGKILL)
        until(lambda: not first.workers(), DEADLINE)
        dead = time.monotonic()
        for node in others:
            node.expect(r"met \d in 1\.")
        self.assertLess(dead, min(node.when(r"N=1 RC=0") for node in others), "the halves overlap")
        self.finish(*others)

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

    def certify(self, name, address):
        """NAME.pem and NAME.key, for a member at this address and for its clients. Without a Common Name: etcd's
        gateway takes it for a user and refuses it."""
        make_certificate(self.folder, name, "ca", f"/O={name}",
                         f"subjectAltName=IP:{address}\nextendedKeyUsage=serverAuth,clientAuth\n")

    def password(self, name, words):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write(words + "\n")
        return path

    def secured(self, lab):
        """etcd on the last host, which wants certificates and passwords; what a node says to it."""
        make_authority(self.folder, "ca")
        for name in ("member", "client"):
            self.certify(name, lab.hosts[-1].ipv4)
        shown = {name: os.path.join(self.folder, file) for name, file in
                 (("cacert", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"))}
        self.etcd(lab.hosts[-1:], tls=shown)
        for words in ("user add root:r", "user grant-role root root", "user add trainer:t", "role add training",
                      "role grant-permission training --prefix=true readwrite /dtrain/",
                      "user grant-role trainer training", "auth enable"):
            done = self.ctl(lab.hosts[-1], *words.split())
            self.assertTrue(done.returncode == 0 or words.startswith("user grant-role root"), done.stderr)
        return {"protocol": "https", **shown, "user": "trainer", "password_file": self.password("password", "t")}

    @staticmethod
    def conf(settings):
        return "--rdzv-conf", ",".join(f"{name}={value}" for name, value in settings.items())

    def test_over_tls_with_certificates_and_a_user(self):
        lab = self.lab(4)
        settings = self.secured(lab)
        nodes = [self.node(lab.host(i), END, *self.conf(settings)) for i in (0, 1, 2)]
        for node in nodes:
            node.expect(r"met \d in 0\.")
        self.assertNotEqual(self.ctl(lab.host(3), "get", "/dtrain/etcd-test/host").returncode, 0)
        first, *others = sorted(nodes, key=lambda node: "this node hosts the job" not in node.text)
        self.host_is_lost(first.host, others, 1)
        self.finish(*others)

    def test_without_what_a_secured_etcd_wants(self):
        lab = self.lab(2)
        settings = {**self.secured(lab), "join_timeout": 6}
        wrong = self.password("wrong", "x")
        nodes = {}
        for change, why in (({"password_file": wrong}, "authentication failed, invalid user ID or password"),
                            ({"cert": "", "key": ""}, "the peer expects a certificate"),
                            ({"protocol": "http", "cacert": "", "cert": "", "key": ""},
                             "it has closed the connection; does it need https")):
            given = {name: value for name, value in {**settings, **change}.items() if value}
            nodes[why] = self.node(lab.host(0), "", *self.conf(given), job=f"job{len(nodes)}")
        for why, node in nodes.items():
            with self.subTest(why):
                self.assertEqual(node.wait(), 124, node.text)
                self.assertRegex(node.text, r"waiting: etcd at \S+: " + why)
                self.assertRegex(node.text, r"nobody has opened the job at etcd .*: etcd at \S+: ")
                self.assertNotIn("at R=", node.text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
