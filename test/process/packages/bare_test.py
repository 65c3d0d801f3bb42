#!/usr/bin/env python3
"""The first hour on a bare Debian 12: the wheel with pip, and README's commands in a clone.

    test/process/packages/bare_test.py PYTHON [-v] [Case.test]

PYTHON is one that has torch. `make wheel` has to have made the wheel. The clone is of the last commit. Needs root, this
machine's Debian mirror and PyPI, and half an hour: run with DTRAIN_TEST_ALL=1 (make test-packages).
"""
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import unittest

from bare_system import CACHE, ROOT, BareSystem, Failed, said_by

HOUR = 3600
# Without the mean of the gradients the ranks' weights would differ: each rank has other points.
DDP = """
import sys, torch, torch.distributed as dist
dist.init_process_group(sys.argv[1])
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)  # DDP begins with rank 0's weights
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
torch.manual_seed(7)
x = torch.randn(100, 3)
y = x @ torch.tensor([[2.0], [-3.0], [5.0]]) + 7
optimizer = torch.optim.SGD(model.parameters(), 0.2)
for _ in range(200):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x[rank::world]), y[rank::world]).backward()
    optimizer.step()
weights = torch.cat([each.detach().flatten() for each in model.parameters()])
every = [torch.zeros(4) for _ in range(world)]
dist.all_gather(every, weights)
assert all(torch.equal(each, weights) for each in every), every
print(dist.get_backend(), [round(weight, 2) for weight in weights.tolist()])
dist.destroy_process_group()
"""
# A test to be killed while its system's processes run. All of them hold the pipe that it is given.
KILLED = """
import subprocess, sys
from bare_system import BareSystem
bare = BareSystem()
subprocess.run(bare.command("setsid tail -f /dev/null & echo here; wait"), pass_fds=[int(sys.argv[1])])
"""


@unittest.skipUnless(os.environ.get("DTRAIN_TEST_ALL") == "1", "takes minutes: make test-packages")
class Bare(unittest.TestCase):
    def setUp(self):
        mounts = pathlib.Path("/proc/self/mounts").read_text()
        self.addCleanup(lambda: self.assertEqual(pathlib.Path("/proc/self/mounts").read_text(), mounts))


class NothingIsLeft(Bare):
    """What bare_system.py promises."""

    def setUp(self):
        super().setUp()
        self.held, self.holder = os.pipe()
        self.addCleanup(os.close, self.held)

    def assert_no_process(self):
        """Every process had the pipe's other end."""
        os.close(self.holder)
        self.assertTrue(select.select([self.held], [], [], 60)[0])
        self.assertEqual(os.read(self.held, 1), b"")

    def test_of_a_command_that_fails(self):
        with BareSystem() as bare:
            script = "mkdir /there; mount -t tmpfs tmpfs /there; setsid tail -f /dev/null & exit 3"
            with self.assertRaisesRegex(Failed, "ended with 3"):
                said_by(bare.command(script), deadline=60, pass_fds=[self.holder])
        self.assert_no_process()
        self.assertFalse(bare.folder.exists())

    def test_of_a_command_that_does_not_end(self):
        with BareSystem() as bare, self.assertRaisesRegex(Failed, "not done in 2 s"):
            said_by(bare.command("setsid tail -f /dev/null & wait"), deadline=2, pass_fds=[self.holder])
        self.assert_no_process()
        self.assertFalse(bare.folder.exists())

    def test_of_a_test_that_is_killed(self):
        killed = subprocess.Popen([sys.executable, "-B", "-c", KILLED, str(self.holder)], pass_fds=[self.holder],
                                  cwd=pathlib.Path(__file__).parent, stdout=subprocess.PIPE)
        with killed:
            try:
                self.assertTrue(select.select([killed.stdout], [], [], HOUR)[0])
                self.assertEqual(killed.stdout.readline(), b"here\n")
            finally:
                killed.kill()
        self.assert_no_process()
        left, = CACHE.glob("run-*")
        with BareSystem():
            self.assertFalse(left.exists())


class Wheel(Bare):
    def test_pip_install_and_jobs(self):
        """A job of DDP on gloo and on dtrain, with the torch of this machine."""
        wheel, = (ROOT / "build/wheel/dist").glob("*.whl")
        with BareSystem() as bare:
            bare.bind(pathlib.Path(PYTHON).parents[1])
            bare.apt_install("python3", "python3-venv")
            shutil.copy(wheel, bare.root / "root")
            (bare.root / "root/ddp.py").write_text(DDP)
            bare.says(f"python3 -m venv /root/venv; /root/venv/bin/pip install --no-index /root/{wheel.name}")
            self.assertRegex(bare.says("/root/venv/bin/dtrain --version"), r"^dtrain \d+\.\d+\.\d+")
            bare.says("/root/venv/bin/dtrain run --nproc 2 true")
            site = PYTHON.replace("bin/python", "lib/python3.11/site-packages")
            bare.says(f"echo {site} >/root/venv/lib/python3.11/site-packages/torch.pth")
            job = ". /root/venv/bin/activate; dtrain run --nproc 2 /root/ddp.py "
            # Without a compiler: gloo needs none, and dtrain says what to install.
            self.trains("gloo", bare.says(job + "gloo"))
            with self.assertRaisesRegex(Failed, r"Debian and Ubuntu: apt-get install g\+\+"):
                bare.says(job + "dtrain")
            bare.apt_install("g++", "python3-dev")
            first = bare.says(job + "dtrain")
            self.trains("dtrain", first)
            self.assertEqual(first.count("compiling the backend"), 1, first)
            again = bare.says(job + "dtrain")
            self.trains("dtrain", again)
            self.assertNotIn("compil", again)

    def trains(self, backend, said):
        for rank in range(2):
            self.assertIn(f"[{rank}] {backend} [2.0, -3.0, 5.0, 7.0]\n", said)


class Commands(Bare):
    def test_readmes_commands_in_a_clone(self):
        """`make demo` as a whole. Of `make test` the set-up, and the beginning of the build: all of it takes hours on
        a machine of two cores, and CI runs it."""
        with BareSystem() as bare:
            said_by(["git", "clone", "-q", ROOT, bare.root / "root/dtrain"])
            bare.apt_install("git", "make")
            said = bare.says("cd /root/dtrain && make demo", deadline=HOUR)
            self.assertRegex(said, r"setup: \d+ Debian packages installed")
            accuracy = re.findall(r"\[0\] .*accuracy\D+([\d.]+)", said)
            self.assertGreater(float(accuracy[-1]), 90, said)
            self.assertEqual(bare.says("cd /root/dtrain && git status --porcelain"), "")
            said = bare.says_until("cd /root/dtrain && make test", r"\n\[20/\d+\] ", deadline=HOUR)
            self.assertIn("Lightning and Accelerate installed", said)
            steps = int(re.search(r"\n\[20/(\d+)\] ", said)[1])
            self.assertGreater(steps, 100)


if __name__ == "__main__":
    PYTHON = os.path.abspath(sys.argv.pop(1))
    unittest.main()
