"""A host without the job's token, and one that has it and cheats: nothing works, and the members notice nothing."""
import base64
import os
import pathlib
import re
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

from lab import HERE, LabCase, certify, make_authority, new_token
from capture import Capture
from hosts_test import Node
from support import DEADLINE, DTRAIN, SLOW, until

PORT = 29400
PEER = os.path.join(os.environ.get("DTRAIN_TEST_BIN_DIR", ""), "link_peer")
KEY, VALUE = "canary-key-b81f02", "canary-value-77e3c9" * 3
ROUND_GREETING, STORE_GREETING = b"\xd7dround", b"\xd8dstore"
SILENCE = b""


class Attack(LabCase):
    """A job on host1 and host2 whose workers make steps; the last host is the attacker's."""
    HOSTS = 3

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.token = self.new_token("token")
        self.net = self.lab(self.HOSTS)
        self.attacker = self.net.hosts[-1]
        self.target = (self.net.host(0).ipv4, PORT)

    def new_token(self, name):
        return new_token(DTRAIN, self.folder, name)

    def node(self, rank, *flags, token=None, host=None, before=(), steps=()):
        words = ["run", "--token-file", token or self.token, "--nnodes", 2, "--node-rank", rank, "--master-addr",
                 "host1", "--master-port", PORT, "--rdzv-id", "attacked", *flags, sys.executable,
                 HERE / "steps_worker.py", KEY, VALUE, *steps]
        return Node(host or self.net.host(rank), words, before=before)

    def job(self, **how):
        nodes = [self.node(rank, **how) for rank in (0, 1)]
        self.addCleanup(self.stop, nodes)
        for node in nodes:
            node.expect(r"step \d+ round 0")
        return nodes

    def stop(self, nodes):
        for node in nodes:
            if node.process.poll() is None:
                node.process.send_signal(signal.SIGTERM)
        for node in nodes:
            node.wait()

    @staticmethod
    def steps(nodes):
        return [max(map(int, re.findall(r"step (\d+) ", node.text)), default=-1) for node in nodes]

    def unharmed(self, nodes):
        """Steps go on, in the first round, at both nodes; and the job ends as its user wants."""
        before = self.steps(nodes)
        until(lambda: all(new > old + 5 for new, old in zip(self.steps(nodes), before)), DEADLINE, "more steps")
        for node in nodes:
            self.assertNotIn("round 1", node.text)
            self.assertNotIn("lost", node.text)

    def connect(self):
        with self.attacker.network():
            return socket.create_connection(self.target, DEADLINE)

    def say(self, words):
        """Everything that comes back, to the end of the connection."""
        with self.connect() as peer:
            peer.settimeout(DEADLINE)
            try:
                peer.sendall(words)
                return b"".join(iter(lambda: peer.recv(65536), b""))
            except ConnectionError:
                return SILENCE


class WithoutTheToken(Attack):
    def test_joining(self):
        nodes = self.job()
        for flags, why in ((("--token-file", self.new_token("other")), "the token differs"),
                           (("--insecure",), "closes the connection|turned away|does not answer")):
            with self.subTest(flags=flags):
                words = ["run", *flags, "--nnodes", 2, "--node-rank", 1, "--master-addr", "host1"]
                stranger = Node(self.attacker, [*words, "--master-port", PORT, "--rdzv-id", "attacked", "true"])
                self.assertEqual(stranger.wait(), 125, stranger.text)
                self.assertRegex(stranger.text, why)
        self.unharmed(nodes)

    def test_speaking_to_the_store_and_the_rounds(self):
        nodes = self.job()
        read = b"\x00\xce\xf7\x85\x3c\x03" + len(KEY).to_bytes(8, "little") + KEY.encode()
        for words in (read, ROUND_GREETING + b"\x03" + os.urandom(64), STORE_GREETING + b"\x01" + os.urandom(64),
                      b"GET / HTTP/1.1\r\nHost: host1\r\n\r\n", os.urandom(1 << 16), b"\0" * (1 << 16),
                      b"\xd9munge\n\x01", b"\x16\x03\x01\x40\x00" + os.urandom(1 << 14)):
            with self.subTest(words=words[:8]):
                answer = self.say(words)
                self.assertLessEqual(len(answer), 7, answer)  # at most an alert of TLS's
                self.assertNotIn(VALUE.encode(), answer)
        self.unharmed(nodes)

    def test_tls_without_the_key(self):
        nodes = self.job()
        for newest in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.maximum_version = newest
            with self.connect() as peer, self.assertRaises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(peer, server_hostname="host1")
        self.unharmed(nodes)

    def test_playing_a_connection_again_whole_or_changed(self):
        with Capture(self.net.host(0), self.folder) as seen:
            nodes = self.job()
        sent = [stream for flow, stream in seen.streams().items() if flow[2:] == self.target and stream]
        self.assertGreaterEqual(len(sent), 2, "the link of the agent and that of the store")
        for stream in sent:
            self.assertIn(b"dtrain1/", stream)  # the identity, in clear: this is a connection's beginning
            for words in (stream, stream[:-1], stream[:700] + os.urandom(64) + stream[764:], stream + stream):
                answer = self.say(words)
                self.assertNotIn(VALUE.encode(), answer)
                # Its own half of a handshake and the alert that ends it: nobody has the key to go on with.
                self.assertLess(len(answer), 1024)
        self.unharmed(nodes)
        line = next(n for n in nodes if "turned away" in n.text).text
        self.assertIn(f"turned away a connection from {self.attacker.ipv4}", line)

    def test_listening(self):
        with Capture(self.net.host(0), self.folder) as seen:
            nodes = self.job()
            self.unharmed(nodes)
        wire = seen.bytes
        self.assertIn(b"dtrain1/agent/0/", wire)  # what is in clear is seen, so the rest would be
        token = pathlib.Path(self.token).read_text().strip()
        raw = base64.urlsafe_b64decode(token.removeprefix("dtrain-"))[:32]
        for secret in (KEY.encode(), VALUE.encode(), b"canary", b"step-", token.encode(), token[7:23].encode(), raw,
                       raw[:16], raw.hex().encode()):
            self.assertNotIn(secret, wire)
        # As tshark reads it: whatever goes to the endpoint or comes from it is TLS 1.3 with the secret shared before.
        as_tls = ("-d", f"tcp.port=={PORT},tls", "-Y")
        extension = "tls.handshake.extensions."
        hellos = seen.fields([extension + "supported_version", extension + "psk.identity.selected"], *as_tls,
                             "tls.handshake.type == 2")
        self.assertGreaterEqual(len(hellos), 2, "the link of the agent and that of the store")
        self.assertEqual({tuple(hello) for hello in hellos}, {("0x0304", "0")})
        kinds = seen.fields(["tls.record.content_type", "tls.record.opaque_type"], *as_tls, "tls.record")
        self.assertGreater(len(kinds), 20)


class TooMany(Attack):
    COUNT = 10000
    PROCESSES = 4  # each makes a part of them
    TRIES = 3

    def crowd(self):
        """As many connections as COUNT, every other one silent, the rest slow; until the test ends."""
        words = [sys.executable, "-B", str(HERE / "crowd.py"), *map(str, self.target)]
        crowd = [Crowd(self.attacker.popen([*words, str(self.COUNT // self.PROCESSES)], stdout=subprocess.PIPE,
                                           text=True)) for _ in range(self.PROCESSES)]
        for part in crowd:
            self.addCleanup(part.end)
        said = [part.process.stdout.readline().split(": ") for part in crowd]
        for first, *why in said:
            if why:
                self.skipTest(f"this machine lets no {self.COUNT} connections be open: {why[0]}")
        self.assertEqual(sum(int(first.split()[1]) for first, in said), self.COUNT)

    def join_takes(self, crowded):
        """Seconds from the command to the first step of both nodes: the median of some."""
        few, took = ("sh", "-c", 'ulimit -n 1024; exec "$@"', "sh"), []
        for _ in range(self.TRIES):
            host = self.node(0, before=few).expect("waiting")
            if crowded:
                self.crowd()
            begin = time.monotonic()
            nodes = [host, self.node(1, before=few)]
            self.addCleanup(self.stop, nodes)
            for node in nodes:
                try:
                    node.expect(r"step 0 round 0")
                except AssertionError as error:
                    raise AssertionError("\n== and the other:\n".join(node.text for node in nodes)) from error
            took.append(max(node.when("step 0 round 0") for node in nodes) - begin)
            self.unharmed(nodes)
            self.doCleanups()
            self.setUp()
        return statistics.median(took)

    def test_ten_thousand_connections_that_say_nothing_or_little(self):
        for chance in range(3):  # the machine may have other work
            alone, among = self.join_takes(crowded=False), self.join_takes(crowded=True)
            print(f"a join takes {alone:.2f} s, with {self.COUNT} strangers at the port {among:.2f} s", flush=True)
            # A sanitizer makes each stranger's handshake cost many times as much: there both nodes have to meet.
            if among <= alone + 1 or SLOW > 1:
                return
        self.fail("strangers delay a join by more than a second")

    def test_members_do_not_notice_ten_thousand(self):
        nodes = self.job()
        self.crowd()
        self.unharmed(nodes)


class Crowd:
    """A process of crowd.py."""

    def __init__(self, process):
        self.process = process

    def end(self):
        with self.process:
            self.process.kill()


class WithTheToken(Attack):
    """Whoever has the token is a member; but a key is good for one thing alone."""

    def peer(self, token=None, job="attacked", role="agent", epoch=0, words=b""):
        command = [PEER, token or self.token, *map(str, self.target), job, role, str(epoch), words.hex()]
        return self.attacker.run(command, timeout=DEADLINE).stdout.strip()

    def test_keys_are_good_for_one_thing(self):
        nodes = self.job()
        hello = b"\x00\x00\x00\x00\x01" + (0).to_bytes(8, "little")
        # The host greets first, and what it says has the version.
        store, rounds = (bytes.fromhex(self.peer(role=role, words=b"?").split()[1])[:8] for role in ("store", "agent"))
        self.assertTrue(store.startswith(STORE_GREETING) and rounds.startswith(ROUND_GREETING))
        store += hello
        for what, how in (("another job", dict(job="other", role="store", words=store)),
                          ("another token", dict(token=self.new_token("other"), role="store", words=store)),
                          ("an old round", dict(role="store", epoch=7, words=store)),
                          ("the store with the key for rounds", dict(role="agent", words=store)),
                          ("rounds with the key for the store", dict(role="store", words=rounds)),
                          ("the store as workers speak", dict(role="store", words=b"\x00\xce\xf7\x85\x3c"))):
            with self.subTest(what):
                said = self.peer(**how)
                self.assertRegex(said, "^(refused|closed|served d8.{22}03)")  # 3: a frame that says why not
                self.assertNotIn(VALUE.encode().hex(), said)
        # The same with the right key is served: it is the key that the others lack.
        self.assertRegex(self.peer(role="store", words=store), "^served d8.{22}02")  # 2: welcome
        self.unharmed(nodes)


class WithCertificates(Attack):
    def setUp(self):
        super().setUp()
        make_authority(self.folder, "ca")
        self.shown = [certify(self.folder, f"node{rank}", "ca") for rank in (0, 1)]

    def node(self, rank, *flags, shown=None, host=None, **how):
        words = ["run", *(shown or self.shown[rank]), "--nnodes", 2, "--node-rank", rank, "--master-addr", "host1",
                 "--master-port", PORT, "--rdzv-id", "attacked", *flags, sys.executable, HERE / "steps_worker.py",
                 KEY, VALUE]
        return Node(host or self.net.host(rank), words, **how)

    def test_strangers(self):
        nodes = self.job()
        make_authority(self.folder, "foreign")
        other = certify(self.folder, "stranger", "foreign")
        mixed = ["--tls-ca", os.path.join(self.folder, "ca.pem"), *other[2:]]
        for shown, code, why in (
                (other, 125, "the peer's certificate is not valid: .*self-signed"),
                (["--token-file", self.token], 125, r"the peer expects a certificate \(--tls-ca\)"),
                (mixed, 2, "stranger.pem: unable to get local issuer certificate"),
                (other[:4], 2, "--tls-ca and --tls-cert without --tls-key")):
            with self.subTest(shown=shown):
                stranger = self.node(1, shown=shown, host=self.attacker)
                self.assertEqual(stranger.wait(), code, stranger.text)
                self.assertRegex(stranger.text, why)
        nodes[0].expect("the peer has a token, and this node has certificates")
        self.unharmed(nodes)

    def test_tls_without_a_certificate_and_with_a_strangers(self):
        nodes = self.job()
        make_authority(self.folder, "foreign")
        certify(self.folder, "stranger", "foreign")
        for name, link in (("", "dtrain1/store/0/attacked"), ("stranger", "dtrain1/store/0/attacked"),
                           ("node1", "dtrain1/store/0/another"), ("node1", "http/1.1")):
            with self.subTest(name=name, link=link):
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                context.set_alpn_protocols([link])
                if name:
                    context.load_cert_chain(*(os.path.join(self.folder, f"{name}.{kind}") for kind in ("pem", "key")))
                # Of TLS 1.3 the client is through before its certificate is judged.
                with self.assertRaises((ssl.SSLError, ConnectionError)), self.connect() as plain:
                    with context.wrap_socket(plain) as peer:
                        peer.settimeout(DEADLINE)
                        peer.sendall(STORE_GREETING + b"\x01" + os.urandom(64))
                        if not peer.recv(4096):
                            raise ConnectionError
        self.unharmed(nodes)


if __name__ == "__main__":
    unittest.main()
