"""The proxy misbehaves as it was told, and only so."""
import contextlib
import hashlib
import os
import select
import socket
import threading
import time
import unittest

from lab import DEADLINE, LabCase, connect, listen, netlab


class Case(unittest.TestCase):
    def proxied(self, **faults):
        """A proxy, a client's end and the target's end of one connection through it."""
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        proxy = netlab.Proxy(server.getsockname(), **faults)
        self.addCleanup(proxy.close)
        client, target = self.connection(proxy, server)
        return proxy, client, target

    def connection(self, proxy, server):
        server.settimeout(DEADLINE)
        client = socket.create_connection(proxy.address, DEADLINE)
        self.addCleanup(client.close)
        target, _ = server.accept()
        self.addCleanup(target.close)
        target.settimeout(DEADLINE)
        return client, target

    def assertSilent(self, *ends):
        self.assertEqual(select.select(ends, [], [], 0.2)[0], [])


def read_all(end):
    data = bytearray()
    while chunk := end.recv(1 << 16):
        data += chunk
    return bytes(data)


class Honest(Case):
    def test_every_byte_in_order_and_the_end(self):
        for faults in ({}, {"delay": 0.002, "jitter": 0.005, "stall_chance": 0.1, "stall": 0.01}):
            with self.subTest(faults):
                _, client, target = self.proxied(**faults)
                data = os.urandom(3_000_000)
                sender = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)))
                sender.start()
                self.assertEqual(hashlib.sha256(read_all(target)).digest(), hashlib.sha256(data).digest())
                sender.join()
                target.sendall(b"and back")  # the client has only ended its own direction
                target.close()
                self.assertEqual(read_all(client), b"and back")

    def test_an_unreachable_target_is_a_reset(self):
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            address = nobody.getsockname()
        with netlab.Proxy(address) as proxy:
            with self.assertRaises(ConnectionResetError):  # as soon as the connection is there, or a little later
                with socket.create_connection(proxy.address, DEADLINE) as client:
                    client.recv(1)

    def test_close_leaves_nothing(self):
        before = threading.active_count(), len(os.listdir("/proc/self/fd"))
        with netlab.Proxy(("127.0.0.1", 9)) as proxy:
            address = proxy.address
        self.assertEqual((threading.active_count(), len(os.listdir("/proc/self/fd"))), before)
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(address, DEADLINE)


class Slow(Case):
    """Lower bounds only: a busy machine is slower, never faster."""

    def round_trip(self, client, target):
        started = time.monotonic()
        client.sendall(b"?")
        target.recv(1)
        target.sendall(b"!")
        client.recv(1)
        return time.monotonic() - started

    def test_delay(self):
        proxy, client, target = self.proxied(delay=0.1)
        self.assertGreaterEqual(self.round_trip(client, target), 0.2)
        proxy.delay = 0.15
        self.assertGreaterEqual(self.round_trip(client, target), 0.3)

    def test_delays_overlap(self):
        """A long way is not a narrow one: what is under way together arrives together."""
        _, client, target = self.proxied(delay=0.2)
        started = time.monotonic()
        sent = 40
        for _ in range(sent):
            client.sendall(b"x" * 1000)
            select.select([], [], [], 0.001)
        received = 0
        while received < sent * 1000:
            received += len(target.recv(1 << 16))
        self.assertLess(time.monotonic() - started, sent * 0.2)

    def test_stall(self):
        _, client, target = self.proxied(stall_chance=1.0, stall=0.1)
        self.assertGreaterEqual(self.round_trip(client, target), 0.2)

    def test_bandwidth(self):
        _, client, target = self.proxied(bandwidth=1_000_000)
        started = time.monotonic()
        sender = threading.Thread(target=lambda: (client.sendall(bytes(300_000)), client.close()))
        sender.start()
        self.assertEqual(len(read_all(target)), 300_000)
        sender.join()
        self.assertGreaterEqual(time.monotonic() - started, 0.3)


class Broken(Case):
    def test_freeze_and_thaw(self):
        proxy, client, target = self.proxied()
        proxy.freeze()
        client.sendall(b"a")
        target.sendall(b"b")
        self.assertSilent(client, target)
        proxy.thaw()
        self.assertEqual((target.recv(1), client.recv(1)), (b"a", b"b"))

    def test_freeze_one_way(self):
        proxy, client, target = self.proxied()
        proxy.freeze("to_target")
        client.sendall(b"a")
        target.sendall(b"b")
        self.assertEqual(client.recv(1), b"b")
        self.assertSilent(target)
        proxy.thaw("to_target")
        self.assertEqual(target.recv(1), b"a")

    def test_reset(self):
        proxy, client, target = self.proxied()
        proxy.reset()
        for end in (client, target):
            with self.assertRaises(ConnectionResetError):
                end.recv(1)
        self.assertEqual(proxy.connections, 0)

    def test_half_open(self):
        proxy, client, target = self.proxied()
        proxy.half_open()
        with self.assertRaises(ConnectionResetError):
            target.recv(1)
        client.sendall(b"anybody there?")
        self.assertSilent(client)

    def test_refuse_and_accept(self):
        server = socket.create_server(("127.0.0.1", 0))
        with server, netlab.Proxy(server.getsockname()) as proxy:
            client, target = self.connection(proxy, server)
            proxy.refuse()
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection(proxy.address, DEADLINE)
            client.sendall(b"the old one goes on")
            self.assertEqual(target.recv(19), b"the old one goes on")
            proxy.accept()
            client, target = self.connection(proxy, server)
            client.sendall(b"and a new one")
            self.assertEqual(target.recv(13), b"and a new one")
            self.assertEqual(proxy.connections_seen, 2)


class InALab(LabCase):
    def test_a_proxy_stands_on_a_host(self):
        """host1 and host3 do not reach each other; the proxy on host2 reaches both."""
        lab = self.lab(3)
        lab.partition(["host1"], ["host3"])
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(listen(lab.host(2)))
            server.settimeout(DEADLINE)
            with lab.host(1).network():
                proxy = netlab.Proxy(server.getsockname(), listen=(lab.host(1).ipv4, 0))
            stack.enter_context(proxy)
            client = stack.enter_context(connect(lab.host(0), proxy.address))
            target, peer = server.accept()
            stack.enter_context(target)
            self.assertEqual(peer[0], lab.host(1).ipv4)
            client.sendall(b"by way of host2")
            self.assertEqual(target.recv(15), b"by way of host2")


if __name__ == "__main__":
    unittest.main()
