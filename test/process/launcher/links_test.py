"""Nodes whose network is bad: slow, lossy, broken one way or for large packets; and agents of another version."""
import contextlib
import os
import re
import socket
import threading
import time
import unittest

from hosts_test import END, PORT, WORKER, HostsCase, Node
from lab_case import netlab
from support import DEADLINE, until

GREETING = b"\xd7dround"  # then the version
STAYS = "[ $WORLD_SIZE = 2 ] && wait_for_end; exit 0"


class Links(HostsCase):
    def node(self, host, script="", *flags, at="host1", nnodes="3", conf="join_timeout=60", secured=True):
        given = ["--token-file", self.token] if secured else ["--insecure"]
        return Node(host, ["run", *given, "--rdzv-id", "links", "--nnodes", nnodes, "--rdzv-backend", "c10d",
                           "--rdzv-endpoint", f"{at}:{PORT}", "--rdzv-conf", conf, *flags, "bash", "-c",
                           WORKER + script], {**os.environ, "END": self.end})

    def proxy(self, lab, **how):
        """From the last host of the lab to the host of the job."""
        host = lab.hosts[-1]
        with host.network():
            return self.enterContext(netlab.Proxy((lab.host(0).ipv4, PORT), (host.ipv4, PORT), **how))

    def all_meet(self, nodes, patience=DEADLINE):
        begin = time.monotonic()
        until(lambda: all(node.process.poll() is not None for node in nodes), patience, "the end of all nodes")
        self.ends([0] * len(nodes), nodes)
        self.assertEqual(self.met(nodes), len(nodes), "".join(node.text for node in nodes))
        return time.monotonic() - begin

    @staticmethod
    def met(nodes):
        """How many workers have met in the newest round in which any has."""
        rounds = re.findall(r"met \d in (\d+)\.", "".join(node.text for node in nodes))
        return rounds.count(max(rounds, key=int, default=""))

    def test_a_slow_link(self):
        lab = self.lab(4)
        proxy = self.proxy(lab, delay=0.1, bandwidth=125_000)  # bytes per second: 1 Mbit/s
        nodes = [self.node(lab.host(0)), *(self.node(lab.host(i), at="host4") for i in (1, 2))]
        print(f"a job over 100 ms each way and 1 Mbit/s: {self.all_meet(nodes):.2f} s", flush=True)
        self.assertGreaterEqual(proxy.connections_seen, 2)

    def test_three_of_ten_packets_are_lost(self):
        lab = self.lab(3)
        for sender in lab.hosts:
            for receiver in lab.hosts:
                if sender is not receiver:
                    lab.drop(sender, receiver, loss=0.3)
        # More than nodes are promised to live through with the usual times, so it may take more than one round.
        conf, begin = "join_timeout=120,keep_alive_interval=5", time.monotonic()
        nodes = [self.node(host, END, "--max-restarts", 50, conf=conf) for host in lab.hosts]
        until(lambda: self.met(nodes) == len(nodes), 6 * DEADLINE, "a round of all")
        print(f"a job with 30 % loss meets after {time.monotonic() - begin:.2f} s", flush=True)
        # How the job has ended the host says once, and leaves a second later.
        lab.heal()
        self.finish(*nodes)

    def test_a_connection_that_is_open_at_one_end_alone(self):
        """The host of the job sees the node go while it waits for more; the node hears nothing."""
        lab = self.lab(4)
        proxy = self.proxy(lab)
        conf = "last_call_timeout=6"
        host = self.node(lab.host(0), STAYS, nnodes="2:3", conf=conf)
        third = self.node(lab.host(2), STAYS, at="host4", nnodes="2:3", conf=conf)
        host.expect("waiting: 2 nodes, up to 1 more may come, here: host1, host3")
        proxy.freeze()  # so it cannot just come again
        proxy.half_open()
        second = self.node(lab.host(1), STAYS, nnodes="2:3", conf=conf)
        for node in (host, second):
            node.expect(r"at R=\d G=\d/2 W=2 .* N=0 RC=0")
        third.expect(r"waiting: host4:29400: it (does not answer|closes the connection)")
        self.assertNotIn("at R=", third.text)
        proxy.thaw()
        self.all_meet([host, second, third])

    def test_large_packets_are_lost(self):
        """Between one node and the host of the job, both ways. What a join says is small; where not even that gets
        through the node says so and ends."""
        for above, code, why in ((600, 0, r"met \d in 0\."),
                                 (150, 124, r"nobody has opened the job .* within 4 s .*: it (does not|closes)")):
            with self.subTest(above=above):
                lab = self.lab(3)
                for sender, receiver in (("host1", "host3"), ("host3", "host1")):
                    lab.drop(sender, receiver, above=above)
                conf = "join_timeout=4,last_call_timeout=6"
                nodes = [self.node(host, "[ $WORLD_SIZE = 3 ] || [ $RANK = 0 ] || exit 0", nnodes="2:3", conf=conf)
                         for host in lab.hosts]
                self.ends([0, 0, code], nodes)
                self.assertRegex(nodes[2].text, why)

    def test_another_version_of_the_protocol(self):
        lab = self.lab(3)
        host = self.node(lab.host(0), secured=False, nnodes="2").expect("waiting")
        with lab.host(2).network():
            for version in (b"\x01", b"\xff"):
                with socket.create_connection((lab.host(0).ipv4, PORT), DEADLINE) as stranger:
                    stranger.settimeout(DEADLINE)
                    stranger.sendall(GREETING + version + bytes(64))
                    said = b"".join(iter(lambda: stranger.recv(4096), b""))
                    self.assertEqual(said[:-1], GREETING)
        own = said[-1]
        # And a host of another one: a node that comes says so in the end, in one line.
        with self.greeting_at(lab.host(2), GREETING + bytes([own + 1])):
            node = self.node(lab.host(1), at="host3", secured=False, nnodes="2")
            self.assertEqual(node.wait(), 125)
        why = rf"the agent there speaks version {own + 1} of the protocol, this one version {own}"
        self.assertEqual(len(re.findall(rf"cannot join the job at host3:{PORT}: {why}", node.text)), 1, node.text)
        self.assertNotIn("at R=", node.text)
        self.all_meet([host, self.node(lab.host(1), secured=False, nnodes="2")])

    @contextlib.contextmanager
    def greeting_at(self, host, words):
        """A port at which everybody is told these words."""
        def serve():
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    with peer, contextlib.suppress(OSError):
                        peer.sendall(words)
                        while peer.recv(4096):
                            pass

        with host.network():
            server = socket.create_server((host.ipv4, PORT))
        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            server.close()
            serving.join()


if __name__ == "__main__":
    unittest.main(verbosity=2)
