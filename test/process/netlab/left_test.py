"""Whatever dies, nothing of a lab is left; and the shell's side of it, scripts/netlab."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from lab import DEADLINE, MODULES, TOOL, LabCase, gone, netlab
from support import NOBODY, proc_file, until

# A program with a lab in which processes that want to stay have been started. It prints their PIDs and waits.
OWNER = f"""
import os, sys
sys.path.insert(0, {str(MODULES)!r})
import netlab
lab = netlab.Lab(3)
for host in lab.hosts:
    child = host.popen(["setsid", "sh", "-c", "trap '' TERM HUP INT; setsid sleep 1000 & echo up; wait"], stdout=-1)
    child.stdout.readline()
print(*[pid for host in lab.hosts for pid in [host.init, *host.pids()]], lab._holder.pid, flush=True)
if "fork" in sys.argv and os.fork() == 0:  # somebody who holds every descriptor of the lab's owner, and goes on
    os.setsid()
sys.stdin.read()
"""

# Many labs in turn under a limit that allows about two at once, each killed: the kernel counts what is left of them.
ROUNDS = f"""
import signal, subprocess, sys, time
open("/proc/sys/user/max_net_namespaces", "w").write("10")
for _ in range(6):
    for attempt in range(100):
        owner = subprocess.Popen([sys.executable, "-c", {OWNER!r}], stdin=-1, stdout=-1, stderr=-1)
        if owner.stdout.readline():
            break
        owner.wait()  # the kernel takes networks down in its own time
        assert attempt < 99, "networks are left: " + owner.stderr.read().decode()
    owner.send_signal(signal.SIGKILL)
    owner.wait()
print("nothing left")
"""


class Killed(LabCase):
    def setUp(self):
        self.lab(1).close()  # skips where there can be none

    def pids_of_owner(self, *arguments):
        owner = subprocess.Popen([sys.executable, "-c", OWNER, *arguments], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        self.addCleanup(owner.stdout.close)
        self.addCleanup(owner.stdin.close)
        pids = [int(word) for word in owner.stdout.readline().split()]
        self.assertGreaterEqual(len(pids), 10)
        self.assertEqual([pid for pid in pids if gone(pid)], [])
        return owner, pids

    def test_owner_killed(self):
        owner, pids = self.pids_of_owner()
        owner.kill()
        owner.wait()
        until(lambda: all(map(gone, pids)), DEADLINE, "the end of every process of the lab")

    def test_owner_killed_while_a_copy_of_it_lives(self):
        owner, pids = self.pids_of_owner("fork")
        owner.kill()
        owner.wait()
        until(lambda: all(map(gone, pids)), DEADLINE, "the end of every process of the lab")

    def test_holder_killed(self):
        owner, pids = self.pids_of_owner()
        os.kill(pids[-1], signal.SIGKILL)

        # The owner alone can collect what it started; until then a killed process keeps its number, but no memory.
        self.addCleanup(owner.wait)
        self.addCleanup(owner.kill)
        until(lambda: not any(proc_file(pid, "cmdline") for pid in pids), DEADLINE, "the end of every process")

    def test_no_network_is_left(self):
        if not netlab.namespaces.user_namespaces_work():
            self.skipTest("needs user namespaces, to have the kernel count the networks")
        done = subprocess.run([*netlab.namespaces.as_own_root(), sys.executable, "-c", ROUNDS], capture_output=True,
                              text=True, timeout=280)
        self.assertEqual((done.stdout, done.returncode), ("nothing left\n", 0), done.stderr[-2000:])

    def test_the_machine_has_no_trace_of_a_lab(self):
        def seen():
            links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
            return [line.split(": ")[1] for line in links.splitlines()], os.listdir("/run")
        lab = self.lab(2)
        links, run = seen()
        self.assertFalse([name for name in links if name.startswith(("port", "lan"))], links)
        self.assertFalse([name for name in run if name.startswith(("host", "netlab"))], run)
        self.assertNotIn("host1", subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout)
        lab.close()


@unittest.skipUnless(os.geteuid() == 0, "needs root, to become somebody else")
class WithoutRoot(LabCase):
    def test_a_lab_of_nobody(self):
        folder = tempfile.mkdtemp(prefix="dtrain-netlab-")
        self.addCleanup(shutil.rmtree, folder)
        os.chmod(folder, 0o755)
        shutil.copytree(MODULES / "netlab", pathlib.Path(folder) / "netlab",
                        ignore=shutil.ignore_patterns("__pycache__"))
        program = ("import sys; sys.path.insert(0, sys.argv[1])\nimport netlab\n"
                   "try:\n    lab = netlab.Lab(2)\nexcept netlab.Unavailable as no:\n    sys.exit(f'skip: {no}')\n"
                   "with lab:\n    lab.cut('host2')\n    print(lab.host(0).run(['hostname']).stdout, end='')\n")
        done = subprocess.run(["/usr/bin/python3", "-B", "-c", program, folder], user=NOBODY, group=NOBODY,
                              extra_groups=[], cwd="/", capture_output=True, text=True, timeout=DEADLINE)
        if done.stderr.startswith("skip: "):
            self.skipTest(done.stderr.strip())
        self.assertEqual((done.stdout, done.stderr), ("host1\n", ""))


class Tool(LabCase):
    """scripts/netlab, with a lab of this test's own name."""

    def setUp(self):
        self.lab(1).close()
        self.name = f"test-{os.getpid()}-{self.id().rpartition('.')[2]}"
        self.addCleanup(lambda: self.tool("down", check=False))

    def tool(self, *arguments, check=True):
        done = subprocess.run([TOOL, "--lab", self.name, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=DEADLINE)
        if check:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def up(self, hosts):
        return self.tool("up", hosts, "--ends-with", str(os.getpid())).stdout  # even if this test is killed

    def test_from_up_to_down(self):
        up = self.up("2")
        self.assertIn("host2    10.77.0.2", up)
        self.assertIn(self.name, self.tool("list").stdout)
        self.assertEqual(self.tool("exec", "host1", "--", "hostname").stdout, "host1\n")
        self.assertEqual(self.tool("exec", "host1", "--", "sh", "-c", "exit 9", check=False).returncode, 9)
        self.assertIn("loses 10% to host2", self.tool("drop", "host1", "host2", "--loss", "10").stdout)
        self.assertIn("loses 100% to host1", self.tool("cut", "host2").stdout)
        self.assertNotIn("loses", self.tool("heal").stdout)
        self.assertIn("loses 100% to host2", self.tool("partition", "host1", "host2").stdout)
        self.assertIn("unplugged", self.tool("unplug", "host1").stdout)
        self.assertIn("down", self.tool("crash", "host2").stdout)
        self.assertIn("boot it first", self.tool("exec", "host2", "--", "true", check=False).stderr)
        self.assertNotIn("down", self.tool("boot", "host2").stdout)
        self.assertEqual(self.tool("down").stdout, "")
        self.assertNotIn(self.name, self.tool("list").stdout)

    def test_mistakes(self):
        self.assertIn("there is no lab", self.tool("status", check=False).stderr)
        self.up("1")
        self.assertIn("is up already", self.tool("up", "1", check=False).stderr)
        self.assertIn("no host 'host7'", self.tool("cut", "host7", check=False).stderr)
        missing = self.tool("exec", "host1", "--", "no-such-program", check=False)
        self.assertEqual(missing.returncode, 127)
        self.assertEqual(missing.stderr, "netlab: no-such-program: No such file or directory\n")

    def test_down_ends_what_runs(self):
        self.up("1")
        with subprocess.Popen([TOOL, "--lab", self.name, "exec", "host1", "--", "sh", "-c", "echo up; exec sleep 1000"],
                              stdout=subprocess.PIPE, text=True) as running:
            self.assertEqual(running.stdout.readline(), "up\n")
            self.tool("down")
            self.assertEqual(running.wait(DEADLINE), 128 + signal.SIGKILL)

    def test_ends_with_a_process(self):
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as companion:
            self.tool("up", "1", "--ends-with", str(companion.pid))
            self.assertIn(self.name, self.tool("list").stdout)
            companion.kill()
        until(lambda: self.name not in self.tool("list").stdout, DEADLINE, "the end of the lab")

    def test_server_killed(self):
        self.up("1")
        with subprocess.Popen([TOOL, "--lab", self.name, "exec", "host1", "--", "sh", "-c", "echo up; exec sleep 1000"],
                              stdout=subprocess.PIPE, text=True) as running:
            running.stdout.readline()
            mark = f"--lab\0{self.name}\0serve".encode()
            servers = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and mark in proc_file(pid, "cmdline")]
            self.assertGreaterEqual(len(servers), 1)
            os.kill(servers[0], signal.SIGKILL)
            self.assertEqual(running.wait(DEADLINE), 128 + signal.SIGKILL)
        until(lambda: self.name not in self.tool("list").stdout, DEADLINE, "the end of the lab")

    def test_terminate_reaches_the_command(self):
        self.up("1")
        command = "trap 'echo ended; exit 3' TERM; echo up; while :; do sleep 0.05; done"
        with subprocess.Popen([TOOL, "--lab", self.name, "exec", "host1", "--", "sh", "-c", command],
                              stdout=subprocess.PIPE, text=True) as running:
            running.stdout.readline()
            running.terminate()
            self.assertEqual(running.wait(DEADLINE), 3)
            self.assertEqual(running.stdout.read(), "ended\n")


if __name__ == "__main__":
    unittest.main()
