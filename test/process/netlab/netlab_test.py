"""A lab's hosts are what they say they are: apart, themselves, reachable from each other, cut off on demand."""
import contextlib
import errno
import os
import select
import signal
import socket
import unittest

from lab import DEADLINE, LabCase, Post, connect, gone, listen, netlab, pair
from support import DTRAIN, until


class Hosts(LabCase):
    def test_each_reaches_each(self):
        lab = self.lab(4)
        for a in lab.hosts:
            for b in lab.hosts:
                for address in filter(None, (b.ipv4, b.ipv6)):
                    near, far = pair(a, b, address)
                    with near, far:
                        near.sendall(b"hello")
                        self.assertEqual(far.recv(5), b"hello")
                        if a is not b:
                            self.assertEqual(far.getpeername()[0], a.ipv6 if ":" in address else a.ipv4)

    def test_names(self):
        lab = self.lab()
        there = lab.host(0).run(["getent", "ahosts", "host2"])
        self.assertIn(lab.host(1).ipv4, there.stdout)
        nameless = self.lab(names=False)
        self.assertNotEqual(nameless.host(0).run(["getent", "ahosts", "host2"]).returncode, 0)

    def test_there_is_no_way_out(self):
        lab = self.lab()
        with socket.create_server(("127.0.0.1", 0)) as ours:
            with self.assertRaises(OSError) as refused:
                connect(lab.host(0), ours.getsockname())
        self.assertEqual(refused.exception.errno, errno.ECONNREFUSED)
        with self.assertRaises(OSError) as unreachable:
            connect(lab.host(0), ("192.0.2.1", 80))
        self.assertEqual(unreachable.exception.errno, errno.ENETUNREACH)

    def test_each_is_itself(self):
        lab = self.lab()
        facts = 'hostname; echo $HOSTNAME; cat /proc/sys/kernel/random/boot_id; echo $TMPDIR; ls $TMPDIR /dev/shm'
        lab.host(0).run(["sh", "-c", "touch $TMPDIR/mine /dev/shm/mine"], check=True)
        first, second = (host.run(["sh", "-c", facts], check=True).stdout.split() for host in lab.hosts)
        self.assertEqual((first[:2], second[:2]), (["host1"] * 2, ["host2"] * 2))
        self.assertNotEqual(first[2], second[2])
        self.assertEqual((first.count("mine"), second.count("mine")), (2, 0))
        self.assertTrue(lab.host(0).path("/run/tmp/mine").exists())
        self.assertFalse(os.path.exists("/dev/shm/mine"))

    def test_a_host_sees_its_own_processes_only(self):
        lab = self.lab()
        with lab.host(0).popen(["cat"], stdin=-1) as child:
            self.assertEqual(lab.host(0).pids(), [child.pid])
            seen = lab.host(1).run(["ps", "-e", "-o", "comm="]).stdout.split()
            self.assertNotIn("cat", seen)
            child.stdin.close()
            self.assertEqual(child.wait(DEADLINE), 0)

    def test_a_command_keeps_its_folder_its_descriptors_and_its_end(self):
        lab = self.lab(1)
        self.assertEqual(lab.host(0).run(["pwd"], cwd="/usr").stdout, "/usr\n")
        self.assertEqual(lab.host(0).run(["cat"], input="in and out").stdout, "in and out")
        self.assertEqual(lab.host(0).run(["sh", "-c", "exit 7"]).returncode, 7)
        self.assertEqual(lab.host(0).run(["sh", "-c", "kill -9 $$"]).returncode, -signal.SIGKILL)
        with self.assertRaises(FileNotFoundError):
            lab.host(0).run(["no-such-program"])

    def test_mistakes_are_named(self):
        lab = self.lab(1)
        for mistake, text in ((lambda: lab.cut("host9"), "no host 'host9'"),
                              (lambda: lab.host(0).boot(), "host1 is up"),
                              (lambda: lab.drop(0, 0, 3), "a part of 1"), (lambda: netlab.Lab(0), "1 to")):
            with self.assertRaisesRegex(netlab.LabError, text):
                mistake()


class Faults(LabCase):
    def posts(self, hosts):
        """A lab and a mailbox on each host; every host has heard from every other, so none needs to ask for a MAC."""
        lab = self.lab(hosts)
        posts = [Post(host) for host in lab.hosts]
        for post in posts:
            self.addCleanup(post.close)
        for a in range(hosts):
            for b in range(hosts):
                if a != b:
                    posts[a].send("warm", lab.host(b))
                    self.assertEqual(posts[b].receive(), "warm")
        return lab, posts

    def reaches(self, lab, posts, change):
        """Who hears whom while `change` is in force: {(from, to)}, by index."""
        everyone = [(a, b) for a in range(len(posts)) for b in range(len(posts)) if a != b]
        with change():
            for a, b in everyone:
                posts[a].send(f"{a} during", lab.host(b))
        for a, b in everyone:
            posts[a].send(f"{a} after", lab.host(b))
        heard = set()
        for b, post in enumerate(posts):
            missing = {f"{a} after" for a in range(len(posts)) if a != b}
            while missing:
                text = post.receive()
                missing.discard(text)
                if text.endswith("during"):
                    heard.add((int(text[0]), b))
        return heard

    @contextlib.contextmanager
    def while_(self, lab, fault, *arguments):
        fault(*arguments)
        try:
            yield
        finally:
            lab.heal()

    def test_one_way(self):
        lab, posts = self.posts(3)
        self.assertEqual(self.reaches(lab, posts, lambda: self.while_(lab, lab.drop, "host1", "host2")),
                         {(0, 2), (1, 0), (1, 2), (2, 0), (2, 1)})
        self.assertEqual(self.reaches(lab, posts, lambda: self.while_(lab, lab.drop, "host2", "host1")),
                         {(0, 1), (0, 2), (1, 2), (2, 0), (2, 1)})

    def test_cut(self):
        lab, posts = self.posts(3)
        self.assertEqual(self.reaches(lab, posts, lambda: self.while_(lab, lab.cut, "host2")), {(0, 2), (2, 0)})
        self.assertEqual(self.reaches(lab, posts, contextlib.nullcontext),
                         {(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)})

    def test_partition(self):
        lab, posts = self.posts(4)
        halves = [["host1", "host3"], ["host2", "host4"]]
        self.assertEqual(self.reaches(lab, posts, lambda: self.while_(lab, lab.partition, *halves)),
                         {(0, 2), (2, 0), (1, 3), (3, 1)})

    def test_some_of_it(self):
        lab, posts = self.posts(2)
        lab.drop(0, 1, 0.5)
        for _ in range(200):
            posts[0].send("maybe", lab.host(1))
        lab.heal()
        posts[0].send("end", lab.host(1))
        arrived = 0
        while posts[1].receive() != "end":
            arrived += 1
        self.assertTrue(0 < arrived < 200, arrived)

    def test_large_ones(self):
        lab, posts = self.posts(2)
        lab.drop(0, 1, above=600)
        for size in (50, 900, 60, 558, 559):  # with the headers of UDP, IP and Ethernet: 42 more
            posts[0].send("x" * size, lab.host(1))
        lab.heal()
        posts[0].send("end", lab.host(1))
        self.assertEqual([posts[1].socket.recv(1000) for _ in range(4)], [b"x" * 50, b"x" * 60, b"x" * 558, b"end"])

    def test_healing_one_leaves_the_rest(self):
        lab, posts = self.posts(3)

        @contextlib.contextmanager
        def two_cuts_one_healed():
            lab.drop(0, 1)
            lab.drop(0, 2)
            lab.heal("host2")
            yield
            lab.heal()
        self.assertEqual(self.reaches(lab, posts, two_cuts_one_healed), {(0, 1), (1, 0), (1, 2), (2, 0), (2, 1)})

    def test_a_connection_outlives_a_cut(self):
        lab = self.lab(2)
        near, far = pair(*lab.hosts)
        with near, far:
            lab.cut("host2")
            near.sendall(b"late")
            self.assertEqual(select.select([far], [], [], 0.2)[0], [])
            lab.heal("host2")
            self.assertEqual(far.recv(4), b"late")

    def test_a_pulled_cable_is_seen(self):
        lab = self.lab(2)

        def carrier():
            return "LOWER_UP" in lab.host(1).run(["ip", "link", "show", "eth0"], check=True).stdout
        self.assertTrue(carrier())
        lab.unplug("host2")
        until(lambda: not carrier(), DEADLINE, "the loss of the carrier")
        self.assertFalse(lab.status()[1]["plugged"])
        lab.heal("host2")
        until(carrier, DEADLINE, "the carrier")
        near, far = pair(*lab.hosts)
        near.close()
        far.close()

    def test_status_says_what_is_wrong(self):
        lab = self.lab(2)
        lab.drop("host1", "host2", 0.1)
        self.assertEqual([host["loses_to"] for host in lab.status()], [{"host2": 0.1}, {}])
        lab.heal()
        self.assertEqual([host["loses_to"] for host in lab.status()], [{}, {}])


class Ends(LabCase):
    DAEMON = "setsid sh -c 'trap \"\" TERM HUP INT; sleep 1000 & echo $!; wait' & echo started; wait"

    def test_a_crash_is_silent_and_complete(self):
        lab = self.lab(2)
        victim = lab.host(1)
        serve = ("import socket; s = socket.create_server(('', 5000)); print('up', flush=True); "
                 "c = s.accept(); s.accept()")
        with victim.popen(["python3", "-c", serve], stdout=-1, text=True) as server:
            server.stdout.readline()
            with connect(lab.host(0), (victim.ipv4, 5000)) as connection:
                victim.crash()
                self.assertEqual(server.returncode, -signal.SIGKILL)
                self.assertEqual(select.select([connection], [], [], 0.1)[0], [], "a crashed host said farewell")
        self.assertFalse(victim.up)
        with self.assertRaisesRegex(netlab.LabError, "boot it first"):
            victim.popen(["true"])

    def test_a_host_comes_back_as_another_boot(self):
        lab = self.lab(2)
        boot_id = ["cat", "/proc/sys/kernel/random/boot_id"]
        before = lab.host(1).run(boot_id, check=True).stdout
        lab.drop("host1", "host2")
        lab.host(1).crash()
        lab.host(1).boot()
        self.assertNotEqual(lab.host(1).run(boot_id, check=True).stdout, before)
        self.assertEqual(lab.status()[0]["loses_to"], {"host2": 1.0}, "a boot repairs no network")
        lab.heal()
        near, far = pair(*lab.hosts)
        near.close()
        far.close()

    def test_close_ends_every_process(self):
        lab = self.lab(2)
        children = [host.popen(["sh", "-c", self.DAEMON], stdout=-1, text=True) for host in lab.hosts]
        for child in children:
            for _ in range(2):
                child.stdout.readline()
        pids = [pid for host in lab.hosts for pid in host.pids()]
        self.assertGreaterEqual(len(pids), 6)
        lab.close()
        self.assertEqual([pid for pid in pids if not gone(pid)], [])
        for child in children:
            child.stdout.close()

    def test_two_labs_do_not_meet(self):
        one, other = self.lab(2), self.lab(2)
        with listen(one.host(1)) as server:
            with self.assertRaises(ConnectionRefusedError):
                connect(other.host(0), server.getsockname())
            one.cut("host2")
            near, far = pair(*other.hosts)
            one.close()
            with near, far:
                near.sendall(b"still here")
                self.assertEqual(far.recv(10), b"still here")


class Dtrain(LabCase):
    def test_single_node_needs_no_network(self):
        """No default route, no DNS, a host name of its own: dtrain run is not interested."""
        lab = self.lab(1)
        done = lab.host(0).run([DTRAIN, "run", "--nproc", "2", "--no-python", "sh", "-c",
                                "echo $RANK of $WORLD_SIZE at $MASTER_ADDR"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 2, done.stdout)
        self.assertIn("1 of 2 at ", done.stdout)


if __name__ == "__main__":
    unittest.main()
