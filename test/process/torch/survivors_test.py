#!/usr/bin/env python3
"""dtrain run --survivors: ranks die, and the others go on, in C++ (Session::reform()) and Python (dtrain.reform())."""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "support"), str(HERE.parent / "launcher")]

import netlab  # noqa: E402
from lab_case import LabCase, new_token  # noqa: E402
import survivors_job  # noqa: E402
from survivors_job import LIMIT  # noqa: E402

BIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"])
DTRAIN = str(BIN / "dtrain")
WORKER = [str(pathlib.Path(os.environ["DTRAIN_TEST_BIN_DIR"]) / "survivors_worker")]
PYTHON = [sys.executable, str(HERE / "backend" / "reform.py")]


def environment(**more):
    return survivors_job.environment(PYTHONPATH=str(BIN.parent / "python"), **more)


class Job(survivors_job.Job):
    def __init__(self, commands, **more):
        super().__init__(commands, PYTHONPATH=str(BIN.parent / "python"), **more)

    def kill(self, member):
        return super().kill(f"DTRAIN_MEMBER={member}")


def run(*words):
    return subprocess.Popen, [DTRAIN, "run", *map(str, words)]


class Survivors(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="dtrain-survivors-"))

    def done(self):
        pathlib.Path(self.folder, "done").touch()

    def assert_all_steps_count(self, job, ranks):
        ends = re.findall(r"ends: weight (\d+) after (\d+) steps", job.text)
        self.assertEqual(len(ends), ranks, job.text[-3000:])
        self.assertEqual(len(set(ends)), 1, ends)
        self.assertEqual(*ends[0])

    def go_on(self, program, kind):
        with Job([run("--nproc", 4, "--survivors", 1, "--max-restarts", 1, *program, self.folder)]) as job:
            job.expect("world 4 step")
            killed = job.kill("2.0")
            job.expect("rank 2 .*new process takes its place")
            times = [(int(job.expect(r"of 3 goes on at (\d+)")[1]) - killed) / 1e6 for _ in range(3)]
            back = (int(job.expect(r"of 4 goes on at (\d+)")[1]) - killed) / 1e6
            job.expect("world 4 step")
            # No restart is left: two at once, and rank 0 among them.
            killed = job.kill("0.0")
            job.kill("2.1")
            job.expect(r"of 2 goes on at (\d+)")
            job.expect("world 2 step")
            self.done()
            self.assertEqual(job.end(), [0], job.text[-3000:])
        self.assert_all_steps_count(job, 2)
        print(f"{kind}: from the death of a rank to the first collective of those that are left "
              f"{statistics.median(times):.0f} ms, to that with a new process {back:.0f} ms", flush=True)

    def test_those_that_are_left_go_on_in_cpp(self):
        self.go_on(WORKER, "C++")

    def test_those_that_are_left_go_on_in_python(self):
        self.go_on(PYTHON, "Python")

    def test_too_few_are_left(self):
        with Job([run("--nproc", 3, "--survivors", 2, *WORKER, self.folder)]) as job:
            job.expect("world 3 step")
            job.kill("1.0")
            job.expect("world 2 step")
            job.kill("2.0")
            self.assertEqual(job.end(), [137], job.text)
        self.assertIn("first failure: rank 2: signal 9 (SIGKILL)", job.text)

    def test_all_die_and_the_next_begin_anew(self):
        """In the same round, if the first was replaced before the other died; else in the next one."""
        with Job([run("--nproc", 2, "--survivors", 1, "--max-restarts", 3, *WORKER, self.folder)]) as job:
            job.expect("world 2 step")
            job.kill("0.0")
            job.expect("world 2 step")
            for member in "1.0", "0.1":
                job.kill(member)
            job.expect("world . step 0")
            self.done()
            self.assertEqual(job.end(), [0], job.text)

    def test_programs_that_do_not_call_reform(self):
        program = ("import os, torch, torch.distributed as d; d.init_process_group('dtrain'); "
                   "os.environ['RANK'] == '1' and os.kill(os.getpid(), 9); d.all_reduce(torch.ones(1))")
        with Job([run("--nproc", 2, "--survivors", 1, sys.executable, "-c", program)]) as job:
            self.assertEqual(job.end(), [1], job.text)
        self.assertRegex(job.text, r"rank 1 \(local rank 1\): signal 9 \(SIGKILL\); 1 worker of this node left")
        self.assertRegex(job.text, r"first failure: rank 0: RuntimeError: .*: rank 1 \(pid \d+\) died")

    def test_a_program_without_the_flag_is_as_before(self):
        program = ("import torch.distributed as d; d.init_process_group('dtrain'); d.barrier(); "
                   "d.destroy_process_group()")
        said = subprocess.run([DTRAIN, "run", "--nproc", "2", sys.executable, "-c", program], env=environment(),
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(said.returncode, 0, said.stderr)

    def test_reform_needs_the_flag(self):
        said = subprocess.run([DTRAIN, "run", "--nproc", "2", sys.executable, "-c", "import dtrain; dtrain.reform()"],
                              env=environment(), capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(said.returncode, 1)
        self.assertIn("dtrain: reform() needs a launcher that lets ranks go on when one dies; start the program by "
                      "dtrain run --survivors N", said.stderr)

    def test_a_process_in_the_place_of_another_one_says_how_it_joins(self):
        program = ("import os, signal, torch.distributed as d; d.init_process_group('dtrain'); "
                   "os.environ['RANK'] == '1' and os.kill(os.getpid(), 9); signal.pause()")
        with Job([run("--nproc", 2, "--survivors", 1, "--max-restarts", 1, sys.executable, "-c", program)]) as job:
            job.expect("dtrain: this process takes the place of a rank that has died; call dtrain.reform")
            job.expect("rank 1 .*: exit code 1; 1 worker of this node left to go on")
            job.processes[0].terminate()
            self.assertEqual(job.end(), [143])


class Hosts(LabCase):
    """Two hosts with two ranks each: the ranks hear over TCP that one is gone."""

    def test_those_that_are_left_go_on_over_hosts(self):
        net = self.lab(2)
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="dtrain-survivors-"))
        os.mkdir(os.path.join(folder, "dtrain"))
        new_token(DTRAIN, os.path.join(folder, "dtrain"))
        words = [DTRAIN, "run", "--nproc", "2", "--nnodes", "2", "--rdzv-endpoint", "host1:29400", "--survivors", "1",
                 "--max-restarts", "1", *WORKER, folder]
        with Job([(host.popen, words) for host in net.hosts], XDG_CONFIG_HOME=folder) as job:
            job.expect("world 4 step")
            killed = job.kill("2.0")
            times = [(int(job.expect(r"of 3 goes on at (\d+)")[1]) - killed) / 1e6 for _ in range(3)]
            job.expect("world 4 step")
            job.kill("0.0")
            job.expect("world 4 step")
            pathlib.Path(folder, "done").touch()
            self.assertEqual(job.end(), [0, 0], job.text[-3000:])
        ends = re.findall(r"ends: weight (\d+) after (\d+) steps", job.text)
        self.assertEqual(len(ends), 4)
        self.assertEqual(len(set(ends)), 1)
        self.assertEqual(*ends[0])
        print(f"two hosts: from the death of a rank to the first collective of those that are left "
              f"{statistics.median(times):.0f} ms", flush=True)


if __name__ == "__main__":
    netlab.become_able()
    unittest.main()
