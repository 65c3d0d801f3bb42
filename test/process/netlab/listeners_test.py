"""Every port of a job that other hosts reach: it speaks TLS alone, nothing else listens there, and who comes without
the token joins nothing and writes nothing."""
import ipaddress
import json
import contextlib
import os
import re
import shutil
import socket
import ssl
import sys
import unittest

from attack_test import KEY, PORT, SILENCE, STORE_GREETING, VALUE, Attack
from lab import HERE
from hosts_test import Node
from support import DEADLINE, DTRAIN, until

LISTEN, UNCONNECTED = "0A", "07"  # in /proc/net/tcp and /proc/net/udp
ALERT = re.compile(rb"\x15\x03..", re.S)
MAGIC = b"\x00\xce\xf7\x85\x3c"


def text(words):
    return len(words).to_bytes(8, "little") + words.encode()


SET = MAGIC + b"\x01" + text(f"{KEY}-0-0") + text("c" * len(VALUE))
GET = b"\x03" + text(f"{KEY}-0-0")
# A frame of one byte, the number of msg::Here: the answer of a node to its host's welcome.
HERE_I_AM = b"\x01\0\0\0\x09"


def sockets(host, kind, state):
    """(address, port) of each such socket of a host."""
    found = []
    for version in ("", "6"):
        # A thread's network is its own: /proc/thread-self, not /proc/self.
        with host.network(), open(f"/proc/thread-self/net/{kind}{version}") as f:
            for line in f.readlines()[1:]:
                local, _, what = line.split()[1:4]
                if what == state:
                    digits, port = local.split(":")
                    words = [bytes.fromhex(digits[i:i + 8])[::-1] for i in range(0, len(digits), 8)]
                    found.append((ipaddress.ip_address(b"".join(words)), int(port, 16)))
    return found


def outside(host, kind="tcp", state=LISTEN):
    return sorted({(str(address), port) for address, port in sockets(host, kind, state) if not address.is_loopback})


def hello():
    """The first words of a client of TLS that has no key."""
    context, words = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.MemoryBIO()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_bio(ssl.MemoryBIO(), words).do_handshake()
    except ssl.SSLWantReadError:
        return words.read()


class Listeners(Attack):
    HOSTS = 4

    def node(self, rank, *flags, token=True, endpoint="host1", backend=("--rdzv-backend", "c10d"), **how):
        given = ["--token-file", self.token] if token else ["--insecure"]
        words = ["run", *given, "--nnodes", "2:3", *backend, "--rdzv-endpoint", endpoint, "--rdzv-id", "attacked",
                 "--rdzv-conf", "last_call_timeout=1", *flags, sys.executable, HERE / "steps_worker.py", KEY, VALUE]
        return Node(self.net.host(rank), words, **how)

    def started(self, *ranks, **how):
        nodes = [self.node(rank, **how) for rank in ranks]
        self.addCleanup(self.stop, nodes)
        for node in nodes:
            node.expect(r"step \d+ round 0")
        return nodes

    def half_said(self, target, words, patience=DEADLINE):
        """What comes back, when these words are all that ever comes."""
        self.target = target
        with self.connect() as peer:
            peer.settimeout(patience)
            try:
                peer.sendall(words)
                with contextlib.suppress(OSError):  # it may have hung up by now
                    peer.shutdown(socket.SHUT_WR)
                return b"".join(iter(lambda: peer.recv(65536), b""))
            except ConnectionError:
                return SILENCE

    def a_join(self):
        """What an agent of this job says first, to a port without TLS; its last word is the node's Join."""
        with self.attacker.network(), socket.create_server((self.attacker.ipv4, PORT)) as server:
            server.settimeout(DEADLINE)
            node = self.node(1, token=False, endpoint=self.attacker.ipv4)
            peer, _ = server.accept()
        with peer:
            peer.settimeout(DEADLINE)
            said = b""
            while b"attacked" not in said and (more := peer.recv(4096)):
                said += more
        node.process.kill()
        node.wait()
        self.assertIn(b"attacked", said)
        return said

    def speak_tls_alone(self, listeners):
        for target in listeners:
            with self.subTest(target=target):
                for words in (b"\xff", b"\0", b"\n", os.urandom(64), SET):
                    said = self.half_said(target, words)
                    self.assertTrue(said == SILENCE or ALERT.match(said) and len(said) <= 7, said)
                self.assertRegex(self.half_said(target, hello()), rb"\A[\x15\x16]\x03")
        for host in self.net.hosts:
            self.assertEqual(outside(host, "udp", UNCONNECTED), [])

    def take_nothing(self, listeners):
        join = self.a_join()
        for target in listeners:
            for words in (join + HERE_I_AM, SET, STORE_GREETING + b"\x02" + SET, MAGIC + GET):
                with self.subTest(target=target, words=words[:8]):
                    said = self.half_said(target, words)
                    self.assertLessEqual(len(said), 7, said)

    def rounds(self, host):
        """What `dtrain status` there says of the job."""
        said = json.loads(host.run([DTRAIN, "status", "--json", "--job", "attacked"], check=True).stdout)
        return next(job["rounds"] for job in said["jobs"] if job["rounds"] and job["host"] == host.name)

    def test_the_words_are_good_where_they_are_let_in(self):
        """So that the others of this file mean something."""
        waits = self.node(0, token=False).expect("waiting: 1/2 nodes")
        join = self.a_join()
        self.target = (self.net.host(0).ipv4, PORT)
        with self.connect() as peer:
            peer.sendall(join + HERE_I_AM)
            waits.expect("waiting: 2 nodes, .* here: host1, host2")
        waits.process.kill()
        waits.wait()
        # The store that workers have, at the address of their own host alone.
        node, other = self.started(0, 1)
        loopback = [port for address, port in sockets(node.host, "tcp", LISTEN) if address.is_loopback]
        for port in loopback:
            with node.host.network(), socket.create_connection(("127.0.0.1", port), DEADLINE) as peer:
                peer.settimeout(DEADLINE)
                peer.sendall(SET + GET)
                self.assertTrue(peer.recv(1))  # so it was let in
        self.assertEqual([node.wait(), other.wait()], [1, 1])
        self.assertIn("the value in the store has changed", node.text + other.text)

    def test_agents_of_a_job_and_those_that_could_host_it(self):
        nodes = self.started(0, 1)
        listeners = [outside(host) for host in self.net.hosts]
        self.assertEqual(listeners, [[(host.ipv4, PORT)] for host in self.net.hosts[:2]] + [[], []])
        self.speak_tls_alone(listeners[0] + listeners[1])
        self.take_nothing(listeners[0] + listeners[1])
        self.unharmed(nodes)
        until(lambda: len(self.rounds(self.net.host(0))["nodes"]) == 2, DEADLINE, "both nodes in what the host says")

    def test_a_standing_server(self):
        server = Node(self.net.host(0), ["rendezvous", "serve", "--port", PORT, "--token-file", self.token])
        self.addCleanup(self.stop, [server])
        server.expect("rendezvous server: port")
        nodes = self.started(1, 2)
        (port,), *others = [outside(host) for host in self.net.hosts]
        self.assertEqual(port[1], PORT)
        self.assertEqual(others, [[(host.ipv4, PORT)] for host in self.net.hosts[1:3]] + [[]])
        listeners = [(self.net.host(0).ipv4, PORT), *others[0], *others[1]]
        self.speak_tls_alone(listeners)
        self.take_nothing(listeners)
        self.unharmed(nodes)
        until(lambda: len(self.rounds(self.net.host(1))["nodes"]) == 2, DEADLINE, "both nodes in what the host says")

    @unittest.skipUnless(shutil.which("etcd"), "etcd is not installed")
    def test_a_job_with_an_etcd_of_its_own(self):
        nodes = self.started(0, 1, 2, endpoint="host1,host2,host3", backend=["--ha"])
        listeners = [outside(host) for host in self.net.hosts]
        self.assertEqual(listeners.pop(), [])
        for node, found in zip(nodes, listeners):
            own = set(found) - {(node.host.ipv4, PORT), (node.host.ipv4, PORT + 1)}  # what is left is no member's
            hosting = "this node hosts the job" in node.text
            # One that found the job's host at once, for it came late, has opened none.
            self.assertIn(len(own), [1] if hosting else [0, 1])
            self.assertEqual({address for address, _ in own} - {node.host.ipv4}, set())
            for port in own if not hosting else ():  # nobody accepts there yet
                self.assertRaises(TimeoutError, self.half_said, port, hello(), patience=0.2)
                found.remove(port)
        self.speak_tls_alone(sum(listeners, []))
        self.unharmed(nodes)


if __name__ == "__main__":
    unittest.main()
