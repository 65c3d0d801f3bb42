"""A job with an etcd of its own (--ha): agents that start real members on hosts of a lab, and what becomes of them."""
import json
import os
import signal
import sys
import unittest

from hosts_test import END, WORKER, HostsCase, Node
from lab_case import NEW_KEY, openssl
from support import DEADLINE, comm_of, until

# What is answered over HTTP, an error too, to each URL in turn. Words: files of a certificate and its key, or nothing
# twice; URLs.
ASK = r"""
import http.client, json, ssl, sys, urllib.parse
context = ssl._create_unverified_context()
if sys.argv[1]:
    context.load_cert_chain(*sys.argv[1:3])
said = []
for url in map(urllib.parse.urlsplit, sys.argv[3:]):
    if url.scheme == "https":
        connection = http.client.HTTPSConnection(url.netloc, timeout=20, context=context)
    else:
        connection = http.client.HTTPConnection(url.netloc, timeout=20)
    try:
        connection.request("POST" if url.path.startswith("/v3/") else "GET", url.path, b"{}")
        answer = connection.getresponse()
        said.append(f"{answer.status} {answer.read().decode()}")
    except TimeoutError:
        said.append("no answer in time")
    except OSError as error:
        said.append(f"refused: {error}")
print(json.dumps(said))
"""
# What a member answers to at its port for clients, and at that for other members.
ASKED = {29400: ("/v3/cluster/member/list", "/version", "/health", "/metrics"),
         29401: ("/members", "/version", "/raft/probing")}


def members_on(host):
    """Pids of etcd on a host of the lab."""
    return [pid for pid in host.pids() if comm_of(pid) == "etcd"]


def folders_of(host):
    return list(host.path("/run/tmp").glob("dtrain-etcd-*"))


class PrivateEtcd(HostsCase):
    def node(self, host, *flags, nnodes="2:3", env=None, script=END):
        return Node(host, ["run", "--ha", "--token-file", self.token, "--rdzv-id", "ha test", "--nnodes", nnodes,
                           "--rdzv-endpoint", "host1,host2,host3", *flags, "bash", "-c", WORKER + script],
                    {**os.environ, "END": self.end, **(env or {})})

    def started(self, lab, *flags, **more):
        """Three nodes in their first round; the one that hosts the job comes first."""
        nodes = [self.node(lab.host(i), *flags, **more) for i in range(3)]
        for node in nodes:
            node.expect(r"met \d in 0\.")
        return sorted(nodes, key=lambda node: "this node hosts the job" not in node.text)

    def nothing_left(self, lab):
        for host in (host for host in lab.hosts if host.up):
            self.assertEqual(members_on(host), [])
            self.assertEqual(folders_of(host), [])

    def ask(self, host, urls, certificate=("", "")):
        """What a member answers to somebody on this host, who shows this certificate or none."""
        done = host.run([sys.executable, "-c", ASK, *certificate, *urls], check=True)
        return list(zip(urls, json.loads(done.stdout)))

    def test_a_job_from_its_begin_to_its_end(self):
        lab = self.lab(4)
        nodes = self.started(lab, "--rdzv-conf", "last_call_timeout=1", nnodes="3:4")
        # A fourth node, on a host without a member.
        nodes.append(self.node(lab.host(3), "--rdzv-conf", "last_call_timeout=1", nnodes="3:4"))
        nodes[3].expect(r"met \d in 1\.")
        self.assertEqual([len(members_on(host)) for host in lab.hosts], [1, 1, 1, 0])
        for node in nodes[:3]:
            self.assertRegex(node.text, r"this node runs member \d of 3 of the job's own etcd")
        self.strangers_are_turned_away(lab)
        self.finish(*nodes)
        self.nothing_left(lab)

    def strangers_are_turned_away(self, lab):
        folder, = folders_of(lab.host(0))
        own = [f"/run/tmp/{folder.name}/member.{kind}" for kind in ("pem", "key")]
        urls = [f"https://{lab.host(0).ipv4}:{port}{path}" for port, paths in ASKED.items() for path in paths]
        for url, said in self.ask(lab.host(0), urls, own):
            self.assertRegex(said, r"^200 ", url)
        for certificate in (("", ""), self.certificate_of_a_stranger()):
            for url, said in self.ask(lab.host(3), urls, certificate):
                self.assertRegex(said, r"^refused: ", url)
        # Without TLS: the words of its library, before anything of the member's sees the request.
        for url, said in self.ask(lab.host(3), [url.replace("https:", "http:") for url in urls]):
            self.assertRegex(said, r"^(refused: |400 Client sent an HTTP request to an HTTPS server)", url)
        # The folder with a member's key is its user's alone.
        self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
        self.assertEqual((folder / "member.key").stat().st_mode & 0o777, 0o600)

    def certificate_of_a_stranger(self):
        files = [os.path.join(self.folder, f"stranger.{kind}") for kind in ("pem", "key")]
        openssl(self.folder, "req", "-x509", *NEW_KEY, "-subj", "/O=dtrain agent", "-out", files[0], "-keyout",
                files[1])
        return files

    def test_any_host_may_be_lost_and_come_back(self):
        lab = self.lab(3)
        first, *others = self.started(lab)
        self.host_is_lost(first.host, others, 1)
        # Its member comes back without its data: as another one, so that the next host may be lost too.
        first.host.boot()
        back = self.node(first.host)
        back.expect(r"met \d in 2\.")
        until(lambda: self.has_begun(back.host), DEADLINE)
        others[0].host.crash()
        back.expect(r"met \d in 3\.")
        self.finish(back, others[1])
        self.nothing_left(lab)

    def has_begun(self, host):
        """Whether the member there serves; asked with the certificate of the member itself."""
        folder = f"/run/tmp/{folders_of(host)[0].name}"
        words = ["etcdctl", "--endpoints", f"https://{host.ipv4}:29400", "--cacert", f"{folder}/ca.pem",
                 "--cert", f"{folder}/member.pem", "--key", f"{folder}/member.key"]
        done = host.run([*words, "--command-timeout", "2s", "get", "none"], env={**os.environ, "ETCDCTL_API": "3"})
        return done.returncode == 0

    def test_a_member_that_is_killed_is_replaced(self):
        lab = self.lab(3)
        first, *others = self.started(lab)
        for node in (others[0], first):  # that of the job's host too
            old, = members_on(node.host)
            os.kill(old, signal.SIGKILL)
            until(lambda: members_on(node.host) not in ([], [old]) and self.has_begun(node.host), DEADLINE)
            self.assertIn("etcd does not run on this node yet: it has ended", node.text)
        self.finish(first, *others)
        self.nothing_left(lab)

    def test_a_second_agent_on_a_host_leaves_its_member_alone(self):
        lab = self.lab(3)
        first, second, third = self.started(lab, "--rdzv-conf", "last_call_timeout=1", nnodes="3:4")
        agent, before = second.agent(), [members_on(host) for host in lab.hosts]
        spare = self.node(second.host, "--rdzv-conf", "last_call_timeout=1", nnodes="3:4")
        spare.expect(r"met \d in 1\.")
        spare.expect(r"this node runs no member of etcd as long as port 29400 is taken by etcd \(pid \d+\)")
        self.assertEqual([members_on(host) for host in lab.hosts], before)
        # When the first agent there has gone the second one starts the member.
        os.kill(agent, signal.SIGKILL)
        self.assertEqual(second.wait(), 125)
        spare.expect(r"met \d in 2\.")
        until(lambda: members_on(spare.host) and self.has_begun(spare.host), DEADLINE)
        self.assertEqual([members_on(node.host) for node in (first, third)],
                         [before[lab.hosts.index(node.host)] for node in (first, third)])
        self.finish(first, third, spare)
        self.assertEqual(spare.text.count("this node runs no member"), 1)
        for node in (first, second, third, spare):
            self.assertNotIn("etcd does not run on this node", node.text)
        self.nothing_left(lab)

    def test_a_member_never_outlives_its_agent(self):
        lab = self.lab(3)
        nodes = self.started(lab, nnodes="3")
        agent, guard, all_of_it = nodes
        for node in nodes:  # so that nothing but SIGKILL ends them, as a broken pipe would
            os.kill(*members_on(node.host), signal.SIGSTOP)
        os.kill(agent.agent(), signal.SIGKILL)
        os.kill(guard.named("dt-guard"), signal.SIGKILL)
        os.kill(all_of_it.process.pid, signal.SIGSTOP)  # it would tidy up after the agent
        for pid in (all_of_it.agent(), all_of_it.named("dt-guard"), all_of_it.process.pid):
            os.kill(pid, signal.SIGKILL)
        for node, code in ((agent, 125), (guard, 125), (all_of_it, -signal.SIGKILL)):
            self.assertEqual(node.wait(), code, node.text)
        for node in nodes:
            until(lambda: not members_on(node.host), DEADLINE)
        for node in (agent, guard):
            self.assertEqual(folders_of(node.host), [])
        # Where nobody was left to do it, the next job removes the folder.
        old, = folders_of(all_of_it.host)
        again = self.node(all_of_it.host)
        until(lambda: old not in folders_of(all_of_it.host), DEADLINE)
        again.process.send_signal(signal.SIGINT)
        again.wait()
        self.nothing_left(lab)

    def test_without_etcd_and_without_a_token(self):
        lab = self.lab(3)
        node = self.node(lab.host(0), env={"PATH": "/nowhere"})
        self.assertEqual(node.wait(), 125)
        self.assertIn("--ha starts etcd on this host, but etcd is not in PATH: apt install etcd-server", node.text)
        for flags, text in ((("--rdzv-endpoint", "host1,host2"), "--ha needs three or five hosts"),
                            (("--rdzv-endpoint", "host1,host2,localhost"), "not for loopback addresses"),
                            (("--standalone",), "--standalone is a job of one node")):
            node = self.node(lab.host(0), *flags)
            self.assertEqual(node.wait(), 2)
            self.assertIn(text, node.text)

    def test_insecure(self):
        lab = self.lab(3)
        nodes = self.started(lab, "--insecure", nnodes="3")
        (_, said), = self.ask(lab.host(1), [f"http://{lab.host(0).ipv4}:29400/v3/cluster/member/list"])
        self.assertEqual(len(json.loads(said.removeprefix("200 "))["members"]), 3)
        self.assertIn("--insecure: anybody who reaches", nodes[0].text)
        self.finish(*nodes)


if __name__ == "__main__":
    unittest.main(verbosity=2)
