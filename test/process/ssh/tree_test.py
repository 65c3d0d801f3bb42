#!/usr/bin/env python3
"""dtrain run --hosts with --ssh-fanout 2: host1 starts host2 and host6 by ssh, host2 starts host3 and host5, host3
starts host4, and host6 starts host7 and host8."""
import hashlib
import os
import pathlib
import re
import signal
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from ssh_case import DEADLINE, OnHosts  # noqa: E402

import netlab  # noqa: E402
from support import until  # noqa: E402

TREE = ["-H", "host[1-8]:1", "--ssh-fanout", "2"]
PROXY = """
ProxyUseFdpass yes
ProxyCommand python3 {folder}/connect %h %p
"""
CONNECT = """
import socket, subprocess, sys
to = socket.create_connection((sys.argv[1], int(sys.argv[2])))
socket.send_fds(socket.socket(fileno=1), [b"x"], [to.fileno()])
none = subprocess.DEVNULL
subprocess.Popen(["sleep", "50"], stdin=none, stdout=none, stderr=none)
"""
WAITS = ["bash", "-c", "trap 'echo saved $RANK; exit 0' TERM; trap 'echo dumped $RANK' USR1; "
                       "echo ready $RANK of $WORLD_SIZE on $(hostname) with $LR; while :; do sleep 50 & wait $!; done"]


class Tree(OnHosts):
    HOSTS = 8

    def ssh_of(self, host):
        """The ssh that run there: {host: (pid, its parent)}."""
        found = {}
        for pid in self.net.host(host - 1).pids():
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[0] == b"ssh":
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                found[words[-3].decode()] = pid, int(re.search(r"PPid:\s*(\d+)", status)[1])
        return found

    def own_agent_of(self, branch):
        """The child of a branch that is no ssh."""
        children = pathlib.Path(f"/proc/{branch}/task/{branch}/children").read_text().split()
        agents = [int(pid) for pid in children
                  if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] != b"ssh"]
        self.assertEqual(len(agents), 1)
        return agents[0]

    def lines_of(self, job, word, count=HOSTS):
        """So many lines with this word."""
        lines = []
        while len(lines) < count:
            line = job.stdout.readline()
            self.assertTrue(line, f"the job has ended after {lines}")
            if word in line:
                lines.append(line)
        return lines

    def ranks_of(self, said, word):
        return sorted(map(int, re.findall(rf"{word} (\d+)", said)))

    def test_hosts_reach_hosts_for_one_job(self):
        job = self.start(*TREE, *WAITS)
        ready = "".join(self.lines_of(job, "ready"))
        self.assertEqual(sorted(re.findall(r"ready (\d) of 8 on host(\d) with (.*)", ready)),
                         [(str(rank), str(rank + 1), self.environment["LR"]) for rank in range(8)])
        self.assertEqual([sorted(self.ssh_of(host)) for host in range(1, 9)],
                         [["host2", "host6"], ["host3", "host5"], ["host4"], [], [], ["host7", "host8"], [], []])
        for pid in self.left():
            for file in "cmdline", "environ":
                self.assertNotRegex(pathlib.Path(f"/proc/{pid}/{file}").read_bytes(), rb"dtrain-[A-Za-z0-9_-]{48}")
        job.send_signal(signal.SIGUSR1)
        self.assertEqual(self.ranks_of("".join(self.lines_of(job, "dumped")), "dumped"), list(range(8)))
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.ranks_of(job.communicate(timeout=DEADLINE)[0], "saved"), list(range(8)))
        self.assertEqual(job.returncode, 143)

    def test_output_and_exit_code_come_through_the_tree(self):
        said = self.says(*TREE, "sh", "-c",
                         "i=0; while [ $i -lt 1500 ]; do echo line $i of $RANK which is long enough to matter; "
                         "echo line $i of $RANK which is long enough to matter >&2; i=$((i+1)); done; "
                         "[ $RANK != 3 ] || exit 7; sleep 50", code=7)
        lines = re.findall(r"^\[(\d)\] line (\d+) of (\d) which is long enough to matter$", said, re.M)
        self.assertTrue(all(prefix == rank for prefix, _, rank in lines))
        self.assertEqual(len([line for line in lines if line[0] == "3"]), 2 * 1500)
        self.assertRegex(said, r"rank 3.*exit code 7|exit code 7.*rank 3")

    def test_whoever_is_lost_takes_along_what_it_reaches_and_nothing_is_left(self):
        words = "ssh has ended with 255: is the connection lost?; lost with it, because it reaches them"
        for victim, told in [("branch", f"host2: {words}: host3, host4, host5"), ("ssh", f"host3: {words}: host4"),
                             ("agent", "host2: the agent died of SIGKILL"), ("submitter", None)]:
            with self.subTest(victim=victim):
                job = self.start(*TREE, "sh", "-c", "echo ready; exec sleep 50")
                self.lines_of(job, "ready")
                ssh, branch = self.ssh_of(2)["host3"]
                agent = self.own_agent_of(branch)
                pid = {"branch": branch, "ssh": ssh, "agent": agent, "submitter": job.pid}[victim]
                os.kill(pid, signal.SIGKILL)
                said = job.communicate(timeout=DEADLINE)[0]
                self.assertNotEqual(job.returncode, 0)
                if told:
                    lost = re.findall(r"^.*(?:connection lost|agent is lost|agent died).*$", said, re.M)
                    self.assertEqual(lost, ["dtrain: " + told], said)
                until(lambda: not self.left(), 10, "the end of all")

    def test_a_host_that_another_one_cannot_reach_names_both(self):
        self.ssh.stop("host4")
        said = self.says(*TREE, "true", code=125)
        self.assertRegex(said, r"^dtrain: host4: ssh: connect to host host4 .*refused; host3 must reach it by ssh "
                               r"without a question; with --ssh-fanout 0 this host reaches all hosts itself\n$")
        self.ssh.stop("host2")
        self.assertRegex(self.says(*TREE, "true", code=125), r"^dtrain: host2: ssh: connect to host host2 .*refused\n$")
        said = self.says(*TREE, "--dry-run", "true")
        self.assertRegex(said, r"(?m)^host2: ssh ")
        self.assertRegex(said, r"(?m)^host4, from host3: ssh ")
        said = self.says(*TREE, "--nnodes", "2:8", "--rdzv-conf", "last_call_timeout=1", "sh", "-c", "echo $WORLD_SIZE")
        self.assertEqual(said.count("refused; the job begins without it"), 2, said)

        # What ssh has started on the hosts dies with it.
        folder = pathlib.Path(self.folder)
        (folder / "connect").write_text(CONNECT)
        with open(folder / "ssh_config", "a") as config:
            config.write(PROXY.format(folder=folder))
        self.ssh.start(self.net.host(1))
        self.assertIn("host4: ", self.says(*TREE, "true", code=125))
        until(lambda: not self.left(), 10, "the end of the helpers of ssh")

    def test_files_go_along_the_tree_once(self):
        self.environment["TMPDIR"] = "/run/tmp"
        here = self.net.host(0).path("/run/tmp/work")
        here.mkdir()
        content = os.urandom(8 << 20)
        (here / "content").write_bytes(content)
        (here / "train").write_text("#!/bin/sh\necho $RANK has $(sha256sum < content)\n")
        (here / "train").chmod(0o755)
        before = self.sent()
        job = self.start_in("/run/tmp/work", *TREE, "--ship", "--ship-files", "content", "./train")
        said = job.communicate(timeout=DEADLINE)[0]
        self.assertEqual(job.returncode, 0, said)
        self.assertEqual(sorted(re.findall(r"(\d) has (\w+)", said)),
                         [(str(rank), hashlib.sha256(content).hexdigest()) for rank in range(8)])
        self.assertIn("host2 and 6 more got files", said)
        times = (self.sent() - before) / len(content)
        self.assertTrue(2 <= times < 2.6, times)
        until(lambda: not any(list(host.path("/run/tmp").glob("dtrain-ship-*")) for host in self.net.hosts), 10,
              "the end of what was shipped")

    def sent(self):
        """Bytes that host1 has sent to other hosts."""
        rows = self.net.host(0).run(["cat", "/proc/net/dev"]).stdout.splitlines()[2:]
        return sum(int(row.split(":")[1].split()[8]) for row in rows if not row.strip().startswith("lo:"))


if __name__ == "__main__":
    netlab.become_able()
    unittest.main()
