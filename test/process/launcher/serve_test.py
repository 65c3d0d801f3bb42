"""`dtrain rendezvous serve`: real jobs through a standing server on hosts of a lab."""
import contextlib
import json
import os
import re
import signal
import socket
import unittest

from hosts_test import END, PORT, WORKER, HostsCase, Node
from lab_case import certify, make_authority
from support import DEADLINE, DTRAIN, until, until_it_counts

# Rank 0 sets the key `k` to the first letter of its job's name, and after a second barrier every rank reads it.
SHARE = r"""
[ $RANK = 0 ] && printf "\x01\x01\0\0\0\0\0\0\0k\x01\0\0\0\0\0\0\0${TORCHELASTIC_RUN_ID:0:1}" >&3
printf "\x12\x01\0\0\0\0\0\0\0c\\x$(printf %02x "$WORLD_SIZE")\0\0\0\0\0\0\0" >&3
[ "$(head -c1 <&3 | od -An -tx1)" = " 00" ] || exit 98
printf '\x03\x01\0\0\0\0\0\0\0k' >&3
echo "job $TORCHELASTIC_RUN_ID has $(head -c9 <&3 | tail -c1) at $RANK/$WORLD_SIZE."
"""


class Serve(HostsCase):
    def server(self, lab, *flags, env=None):
        server = Node(lab.host(0), ["rendezvous", "serve", "--port", PORT, "--token-file", self.token, *flags], env)
        return server.expect("rendezvous server: port")

    def node(self, host, job, script, *flags, nnodes="2", token=None):
        return Node(host, ["run", "--token-file", token or self.token, "--rdzv-id", job, "--nnodes", nnodes,
                           "--rdzv-backend", "c10d", "--rdzv-endpoint", f"host1:{PORT}", *flags, "bash", "-c",
                           WORKER + script], {**os.environ, "END": self.end})

    def stop(self, server):
        server.process.send_signal(signal.SIGTERM)
        self.ends([0], [server])

    def facts(self, lab):
        """What the newest server says; other labs on this machine may have one too."""
        said = lab.host(0).run([DTRAIN, "status", "--json"])
        return min(json.loads(said.stdout)["servers"], key=lambda server: server["age_s"])

    def test_jobs_at_once_never_mix(self):
        lab = self.lab()
        server = self.server(lab)
        # On the server's host too, where the port is not free.
        jobs = {job: [self.node(lab.host(i), job, SHARE) for i in at] for job, at in
                {"A": (1, 2), "B": (0, 2), "C": (0, 1), "#" + 120 * "D": (1, 2)}.items()}
        for job, nodes in jobs.items():
            self.ends([0, 0], nodes)
            text = "".join(node.text for node in nodes)
            self.assertEqual(len(re.findall(rf"job {job} has {job[0]} at \d/2\.", text)), 2, text)
            # Where rank 0 is, others can reach.
            self.assertRegex(text, r"M=127\.0\.0\.1 R0=" + "|".join(re.escape(lab.host(i).ipv4) for i in range(3)))
            server.expect(rf"job {re.escape(job[:20])}\S* has ended: all workers ended with exit code 0")
        until(lambda: self.facts(lab)["job_count"] == 0, DEADLINE)
        self.stop(server)

    def test_certificates_instead_of_a_token(self):
        lab = self.lab(2)
        make_authority(self.folder, "ca")
        shown = [certify(self.folder, name, "ca") for name in ("server", "node")]
        server = Node(lab.host(0), ["rendezvous", "serve", "--port", PORT, *shown[0]])
        server.expect(r"rendezvous server: port \d+, pid \d+, certificates of \S+ca\.pem")
        nodes = [Node(lab.host(i), ["run", *shown[1], "--rdzv-id", "#" + 120 * "D", "--nnodes", 2, "--rdzv-backend",
                                    "c10d", "--rdzv-endpoint", f"host1:{PORT}", "bash", "-c", WORKER + SHARE],
                      {**os.environ, "END": self.end}) for i in range(2)]
        self.ends([0, 0], nodes)
        self.stop(server)

    def test_failure_restart_and_status(self):
        lab = self.lab(2)
        server = self.server(lab)
        script = '[ $DTRAIN_ROUND = 1 ] && { ' + END + '; }; [ $RANK = 1 ] && exit 7; wait_for_end'
        nodes = [self.node(lab.host(i), "job", script, "--max-restarts", 1) for i in range(2)]
        for node in nodes:
            node.expect(r"N=1 RC=1 .*\n(.*\n)*.*met \d in 1")
        facts = self.facts(lab)
        self.assertEqual((facts["job_count"], facts["jobs"][0]["job"]), (1, "job"))
        rounds = facts["jobs"][0]["rounds"]
        self.assertEqual((rounds["round"], rounds["restarts"], rounds["nodes_here"]), (1, 1, 2))
        text = lab.host(0).run([DTRAIN, "status", "--job", "job"]).stdout
        self.assertRegex(text, r"rendezvous server at port 29400, pid \d+ on host host1, .*: 1 job\n"
                               r"  job job: running, round 1, .*2 of 2 nodes")
        self.finish(*nodes)
        self.stop(server)

    def test_a_failed_job_is_forgotten(self):
        lab = self.lab(2)
        server = self.server(lab)
        for code in (5, 6):
            nodes = [self.node(lab.host(i), "again", f"[ $RANK = 0 ] && exit {code}; wait_for_end") for i in range(2)]
            self.ends([code, code], nodes)
            self.assertIn("N=0 RC=0", nodes[0].text)
        self.stop(server)

    def test_the_server_is_lost(self):
        lab = self.lab(3)
        server = self.server(lab)
        hosts = (lab.host(1), lab.host(2))
        ends = [self.node(host, "ends", "wait_for_end", "--rdzv-conf", "rejoin=0") for host in hosts]
        stays = [self.node(host, "stays", "[ $DTRAIN_ROUND = 0 ] && wait_for_end; exit 0") for host in hosts]
        for node in ends + stays:
            node.expect(r"met \d in 0")
        server.process.kill()
        self.ends([125, 125], ends)
        self.assertIn("the rendezvous server at host1:29400 is gone", ends[0].text)
        for node in stays:
            node.expect("waiting: nobody at host1:29400 yet")
        server = self.server(lab)
        self.ends([0, 0], stays)
        for node in stays:
            self.assertRegex(node.text, r"W=2 .* N=1 RC=0")
        self.stop(server)

    def test_a_node_that_comes_back_too_late(self):
        lab = self.lab(3)
        server = self.server(lab)
        script = "[ $WORLD_SIZE = 2 ] && wait_for_end; exit 0"
        nodes = [self.node(lab.host(i), "job", script, nnodes="1:2") for i in (1, 2)]
        for node in nodes:
            node.expect(r"met \d in 0")
        lab.cut("host3")
        self.ends([0], nodes)
        server.expect("job job has ended")
        lab.heal()
        self.ends([125], nodes[1:])
        self.assertIn("the job has ended: all workers ended with exit code 0", nodes[1].text)
        self.stop(server)

    def test_whoever_reads_its_lines_may_hang(self):
        lab = self.lab(2)
        reads, writes = os.pipe()
        os.set_blocking(writes, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writes, bytes(4096))
        os.set_blocking(writes, True)
        server = lab.host(0).popen([DTRAIN, "rendezvous", "serve", "--port", str(PORT), "--token-file", self.token],
                                   stderr=writes)
        nodes = [self.node(lab.host(1), job, "", "--rdzv-conf", "last_call_timeout=1", nnodes="1:2")
                 for job in ("one", "two")]
        self.ends([0, 0], nodes)
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(DEADLINE), 0)
        os.close(reads)
        os.close(writes)

    def test_strangers(self):
        lab = self.lab(2)
        server = self.server(lab)
        other = self.node(lab.host(1), "job", "", token=self.new_token("other"))
        with lab.host(1).network():
            plain = socket.create_connection((lab.host(0).ipv4, PORT), DEADLINE)
        plain.sendall(b"\xd7dround\x09")
        self.assertEqual(plain.recv(100), b"")
        plain.close()
        nodes = [self.node(lab.host(i), "job", "") for i in range(2)]
        self.ends([0, 0, 125], [*nodes, other])
        self.assertIn("the token differs", other.text)
        self.assertIn("the token differs", server.text)
        nameless = self.node(lab.host(1), "none", "")
        self.ends([125], [nameless])
        self.assertIn("give yours a name with --rdzv-id", nameless.text)
        second = Node(lab.host(0), ["rendezvous", "serve", "--port", PORT, "--token-file", self.token])
        self.ends([125], [second])
        self.assertRegex(second.text, r"29400: the port is taken by dtrain")
        self.stop(server)

    def test_limits(self):
        lab = self.lab(2)
        server = self.server(lab, "--max-jobs", 1, "--max-nodes", 3, "--max-store-mib", 1)
        # SET of 2 MB: the store closes the connection.
        big = r"""printf '\x01\x01\0\0\0\0\0\0\0k\0\0\x20\0\0\0\0\0' >&3; head -c 2097152 /dev/zero >&3 2>/dev/null
printf '\x03\x01\0\0\0\0\0\0\0k' >&3 2>/dev/null; read -r -t 60 <&3; echo "closed: $?."; """
        first = [self.node(lab.host(i), "first", big + END) for i in range(2)]
        for node in first:
            node.expect(r"closed: 1\.")
        server.expect(r"job first: store: .*full")
        second = [self.node(lab.host(i), "second", "") for i in range(2)]
        for node in second:
            node.expect(r"waiting: the server has (1 jobs|3 nodes), its limit \(--max-(jobs|nodes)\)")
        self.finish(*first)
        self.ends([0, 0], second)
        self.stop(server)

    def test_signals(self):
        lab = self.lab(2)
        ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(ready.close)
        ready.bind(os.path.join(self.folder, "notify"))
        ready.settimeout(DEADLINE)
        server = self.server(lab, env={**os.environ, "NOTIFY_SOCKET": ready.getsockname()})
        self.assertIn(b"READY=1", ready.recv(1000))
        nodes = [self.node(lab.host(i), "first", "wait_for_end") for i in range(2)]
        for node in nodes:
            node.expect(r"met \d in 0")
        for _ in range(2):  # as `timeout` does it
            server.process.send_signal(signal.SIGTERM)
        self.assertIn(b"STOPPING=1", ready.recv(1000))
        server.expect("SIGTERM: taking no new jobs; waiting for 1 job to end")
        self.node(lab.host(1), "second", "", "--rdzv-conf", "join_timeout=1").expect(
            "the server is about to end and takes no new jobs")
        self.assertIsNone(server.process.poll())
        until_it_counts()
        server.process.send_signal(signal.SIGTERM)
        self.ends([125, 125, 0], [*nodes, server])
        self.assertIn("the rendezvous server on host host1 was stopped by SIGTERM", nodes[0].text)
        server = self.server(lab)
        nodes = [self.node(lab.host(i), "third", END) for i in range(2)]
        for node in nodes:
            node.expect(r"met \d in 0")
        server.process.send_signal(signal.SIGINT)
        server.expect("SIGINT: taking no new jobs")
        self.finish(*nodes)
        self.ends([0], [server])


if __name__ == "__main__":
    unittest.main()
