"""Nodes that do not fit together: what both sides tell of it, and that nobody waits for what cannot come."""
import contextlib
import os
import re
import socket
import subprocess
import sys
import unittest

from hosts_test import PORT, WORKER, HostsCase, Node
from support import DEADLINE, DTRAIN, Job, free_port, until

HERE = os.uname().nodename.split(".")[0]
LAUNCHER = "torchrun's, or another client of torch's store: all nodes need the same launcher"
# As torch's clients begin, and a question.
TORCH = b"\x00\xce\xf7\x85\x3c\x07"
# A torchrun's agent, as far as others see it: it has the port, and closes what is none of its clients.
ELSEWHERE = r"""
import socket, sys
with open("/proc/self/comm", "w") as name:
    name.write("pt_elastic")
with socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=64) as server:
    print("listening", flush=True)
    while True:
        server.accept()[0].close()
"""


def told(text, line):
    return len(re.findall("^dtrain: " + re.escape(line) + "$", text, re.MULTILINE))


class OneHost(unittest.TestCase):
    def setUp(self):
        self.port = free_port()
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def node(self, *flags):
        return self.stack.enter_context(Job("--rdzv-id", f"refusals-{self.port}", *flags, "true"))

    def static(self, rank, nnodes=2, *flags):
        return self.node("--nnodes", nnodes, "--node-rank", rank, "--master-port", self.port, *flags)

    def c10d(self, nnodes=2, *flags):
        return self.node("--nnodes", nnodes, "--rdzv-endpoint", f"localhost:{self.port}", *flags)

    def waiting(self, job, text="waiting: 1/2 nodes"):
        until(lambda: text in job.stderr(), DEADLINE)
        return job

    def ends(self, codes, *jobs):
        for code, job in zip(codes, jobs):
            self.assertEqual(job.wait(), code, job.stderr())

    def test_the_host_tells_once_of_each_node_that_it_has_refused(self):
        host = self.waiting(self.c10d())
        for _ in range(2):
            self.ends([125], self.c10d(3))
        self.ends([125], self.c10d(2, "--max-restarts", 4))
        lines = [f"refused a node from {HERE}: --nnodes 3 there, 2 here",
                 f"refused a node from {HERE}: --max-restarts 4 there, 0 here"]
        self.assertEqual([told(host.stderr(), line) for line in lines], [1, 1], host.stderr())
        self.ends([0, 0], self.c10d(), host)

    def test_nobody_waits_when_the_missing_node_was_refused(self):
        host = self.waiting(self.static(0))
        wrong = self.static(1, 3)
        self.ends([125, 125], wrong, host)
        self.assertIn("--nnodes 3 here, but 2 at the node that hosts the job", wrong.stderr())
        line = f"refused a node from {HERE}: --nnodes 3 there, 2 here"
        self.assertEqual(told(host.stderr(), line), 1, host.stderr())
        self.assertIn(f"no other node can come; {line}", host.stderr())

    def test_a_number_that_is_taken_is_told_and_the_right_node_is_awaited(self):
        host = self.waiting(self.static(0, 3), "waiting: 1/3")
        first = self.static(1, 3)
        self.waiting(host, "waiting: 2/3")
        self.ends([125], self.static(1, 3))
        self.assertIn(f"refused a node from {HERE}: --node-rank 1 there, which the agent with pid", host.stderr())
        self.ends([0, 0, 0], self.static(2, 3), first, host)

    def test_a_torchrun_that_knocks_is_known(self):
        host = self.waiting(self.c10d())
        with socket.create_connection(("127.0.0.1", self.port), DEADLINE) as torchrun:
            torchrun.settimeout(DEADLINE)
            torchrun.sendall(TORCH)
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(torchrun.recv(8), b"")
        until(lambda: told(host.stderr(), f"refused a node: it is {LAUNCHER}") == 1, DEADLINE)
        self.ends([0, 0], self.c10d(), host)

    def test_a_torchrun_that_has_the_port_is_known(self):
        torchrun = self.stack.enter_context(subprocess.Popen([sys.executable, "-c", ELSEWHERE, str(self.port)],
                                                             stdout=subprocess.PIPE))
        self.stack.callback(torchrun.kill)
        self.assertEqual(torchrun.stdout.readline(), b"listening\n")
        job = self.c10d()
        self.ends([125], job)
        self.assertIn(f"torchrun (pt_elastic (pid {torchrun.pid})) has opened this job at localhost:{self.port}: all "
                      "nodes need the same launcher", job.stderr().replace("127.0.0.1:", "localhost:"))

    def test_two_nodes_0(self):
        host = self.waiting(self.static(0))
        second = self.static(0)
        self.ends([125], second)
        self.assertRegex(second.stderr(), rf"dtrain-agent \(pid \d+\) hosts a job at 127.0.0.1:{self.port} already; is "
                                          r"this node really --node-rank 0\?")
        self.ends([0, 0], self.static(1), host)


class Hosts(HostsCase):
    def node(self, host, *flags, script="", **more):
        return Node(host, ["run", "--token-file", self.token, "--rdzv-id", "refusals", *flags, "bash", "-c",
                           WORKER + script], **more)

    def test_an_endpoint_alone_makes_a_job(self):
        lab = self.lab(3)
        endpoint = f"{lab.host(0).ipv4}:29500"
        nodes = [self.node(lab.host(i), "--nnodes", "2:3", "--rdzv-endpoint", endpoint) for i in (2, 1, 0)]
        self.ends([0, 0, 0], nodes)
        places = re.findall(r"R=(\d) G=\d/3 W=3 ", "".join(node.text for node in nodes))
        self.assertEqual(sorted(places), ["0", "1", "2"])
        self.assertIn("R=0 ", nodes[2].text)

    def test_both_sides_tell(self):
        lab = self.lab(2)
        where = "--master-addr", "host1", "--master-port", PORT
        host = self.node(lab.host(0), "--nnodes", 2, *where, "--node-rank", 0).expect("waiting")
        with lab.host(1).network():
            torchrun = socket.create_connection((lab.host(0).ipv4, PORT), DEADLINE)
        with torchrun:
            torchrun.sendall(TORCH)
            host.expect(f"turned away a connection from {re.escape(lab.host(1).ipv4)}: it is {LAUNCHER}")
        wrong = self.node(lab.host(1), "--nnodes", 3, *where, "--node-rank", 1)
        self.ends([125, 125], [wrong, host])
        self.assertEqual(told(host.text, "refused a node from host2: --nnodes 3 there, 2 here"), 1, host.text)
        self.assertIn(f"no other node can come; turned away a connection from {lab.host(1).ipv4}: it is {LAUNCHER}; "
                      "refused a node from host2: --nnodes 3 there, 2 here", host.text)

    def test_localhost_is_told_to_be_this_host_alone(self):
        lab = self.lab(2)
        nodes = [self.node(lab.host(i), "--nnodes", 2, "--rdzv-endpoint", f"localhost:{PORT}", "--rdzv-conf",
                           "join_timeout=1") for i in (0, 1)]
        self.ends([124, 124], nodes)
        for node in nodes:
            self.assertIn(f"waiting: 1/2 nodes, here: {node.host.name}; localhost is only this host, ", node.text)
            self.assertIn("within 1 s (--rdzv-conf join_timeout); localhost is only this host", node.text)


class NobodyReadsTheAgent(HostsCase):
    # What a worker sees of the processes above it.
    LOOK = r"""
import os, re
pid = os.getppid()
for _ in range(3):
    status = open(f"/proc/{pid}/status").read()
    try:
        open(f"/proc/{pid}/mem", "rb").close()
        seen = "can be read"
    except PermissionError:
        seen = "cannot be read"
    print(re.search(r"Name:\s*(\S+)", status)[1], seen, flush=True)
    pid = int(re.search(r"PPid:\s*(\d+)", status)[1])
"""

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to become another user")
    def test_no_worker_reads_the_memory_above_it(self):
        lab = self.lab(1)
        with open(self.token) as file:
            token = file.read().strip()
        user = ["setpriv", "--reuid", "1234", "--regid", "1234", "--clear-groups"]
        flags = ["--nnodes", "1:2", "--rdzv-conf", "last_call_timeout=0.1"]
        env = {**os.environ, "DTRAIN_TOKEN": token}
        node = Node(lab.host(0), ["run", *flags, "--rdzv-endpoint", f"host1:{PORT}", "--contain", "subreaper",
                                  "/usr/bin/python3", "-c", self.LOOK], env=env, before=user)
        self.ends([0], [node])
        seen = re.findall(r"(\S+) (can|cannot) be read", node.text)
        self.assertEqual(seen, [("dt-guard", "cannot"), ("dtrain-agent", "cannot"), ("dtrain", "cannot")], node.text)
        # The maps of a user namespace can be written all the same. A lab lets nobody mount /proc.
        addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
        own = [address for address in addresses if "." in address]
        if not own:
            return
        run = [*user, DTRAIN, "run", *flags, "--contain"]
        where = ["--rdzv-endpoint", f"{own[0]}:{free_port()}"]
        alone, across = (subprocess.run([*run, "pidns", *more, "id", "-u"], env=env, capture_output=True, text=True,
                                        timeout=DEADLINE) for more in (["--nnodes", "1"], where))
        self.assertEqual((across.returncode, across.stdout), (alone.returncode, alone.stdout), across.stderr)


if __name__ == "__main__":
    unittest.main()
