#!/usr/bin/env python3
"""dtrain.run() and dtrain.spark in programs of their own, on this host."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from support_python import PYTHON, environment, start_job  # noqa: E402
from support import pids, proc_file, said_by, until  # noqa: E402

DEADLINE = 120


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="dtrain-python-"))
        self.mark = f"DTRAIN_TEST_JOB={os.path.basename(self.folder)}"

    def tearDown(self):
        until(lambda: not self.processes(), 20, "the end of all that was started")
        self.assertEqual(os.listdir(self.folder), [], "files of a job are left")

    def processes(self):
        return [pid for pid in pids() if self.mark.encode() in proc_file(pid, "environ").split(b"\0")]

    def start(self, *words, **how):
        more = dict([self.mark.split("=")], TMPDIR=self.folder, PYTHONIOENCODING=how.pop("encoding", "utf-8"))
        return start_job(self, words, environment(**how, **more), self.folder)

    def says(self, *words, **how):
        return said_by(self, self.start(*words, **how), 0, DEADLINE)

    def test_a_function_returns_the_value_of_rank_0(self):
        said = self.says("value")
        for rank in range(2):
            self.assertIn(f"[{rank}] rank {rank} of 2 trains with 1.5, 0.9\n", said)
        self.assertIn("\nvalue 1.5\n", said)

    def test_an_exception_is_raised_here_with_the_traceback_of_there(self):
        said = self.says("fails")
        self.assertIn("step 17 remotely", said)
        self.assertIn("rank 1:", said)

    def test_a_rank_that_is_killed(self):
        self.assertIn("code 137", self.says("is_killed"))

    def test_a_script_returns_what_it_has_said(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write("import sys\nprint(sys.argv[1:])\nsys.exit(int(sys.argv[1]) if len(sys.argv) == 2 else 0)\n")
            script.flush()
            said = self.says("script", script.name)
        self.assertIn(r"""said "[0] ['--lr=0.01', '3']\n" """[:-1], said)
        self.assertIn("code 7 tail True", said)

    def test_an_interrupt_ends_ranks_that_ignore_it(self):
        job = self.start("interrupted")
        ready = 0
        while ready < 2:  # so what they say comes while they run
            line = job.stdout.readline()
            self.assertTrue(line)
            ready += "sleeps" in line
        job.send_signal(signal.SIGINT)
        said = said_by(self, job, 0, DEADLINE)
        self.assertIn("interrupted\n", said)
        self.assertEqual(self.processes(), [])

    def test_a_second_interrupt_is_for_haste(self):
        job = self.start("interrupted")
        for text in "sleeps", "SIGINT: passing it":
            while text not in (line := job.stdout.readline()):
                self.assertTrue(line)
            job.send_signal(signal.SIGINT)
        said = said_by(self, job, 0, DEADLINE)
        self.assertIn("interrupted\n", said)
        self.assertEqual(self.processes(), [])

    def test_only_the_last_round_counts(self):
        said = self.says("ends_without_value")
        self.assertIn("code 0 rank 0 has ended without a value", said)
        self.assertIn("RunError 3 the job has failed with exit code 3", said)

    def test_a_stream_that_cannot_show_all(self):
        self.assertIn("[0] ? ?\n", self.says("umlauts", encoding="ascii"))

    def test_ranks_end_with_a_caller_that_is_killed(self):
        job = self.start("interrupted")
        while "sleeps" not in job.stdout.readline():
            pass
        job.kill()
        job.wait()
        until(lambda: not self.processes(), 60, "the end of the ranks")
        until(lambda: not list(pathlib.Path(self.folder).glob("dtrain-run-*")), 60, "the end of the job's folder")

    def test_files_and_folders_are_removed_whatever_ends_their_program(self):
        script = ("import os, signal, sys\n"
                  "from dtrain._removed import removed\n"
                  "os.mkdir('folder')\n"
                  "for path in 'folder/within', 'file': open(path, 'w').close()\n"
                  "with removed('file'), removed('folder'):\n"
                  "    if len(sys.argv) > 1: os.kill(os.getpid(), int(sys.argv[1]))\n")
        for words in [], [str(int(signal.SIGTERM))], [str(int(signal.SIGKILL))]:
            with self.subTest(words=words):
                variables = dict([self.mark.split("=")])
                done = subprocess.run([PYTHON, "-c", script, *words], env=environment(**variables), cwd=self.folder,
                                      timeout=DEADLINE)
                self.assertEqual(done.returncode, -int(words[0]) if words else 0)
                until(lambda: not os.listdir(self.folder), 60, "the end of all files")

    def test_a_function_of_the_program_needs_cloudpickle(self):
        job = self.start("value", cloudpickle=False)
        said = said_by(self, job, 1, DEADLINE)
        self.assertIn("TypeError: train is not in a module of its own", said)

    def test_torch_distributor_on_this_host(self):
        said = self.says("local")
        self.assertIn("\nvalue 0.5\n", said)
        self.assertIn("\nstep 17\n", said)

    def test_deepspeed_distributor_on_this_host(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write("import sys\nprint(sys.argv[1:], open(sys.argv[-1]).read())\n")
            script.flush()
            said = self.says("deepspeed", script.name)
        self.assertIn("value (['--deepspeed', '--deepspeed_config'], {'zero_optimization': {'stage': 2}})\n", said)
        self.assertIn("said 2\n", said)

    def test_what_makes_no_sense_is_an_error(self):
        said = self.says("refusals")
        for text in ("TypeError flags is a text", "ValueError the script's name is empty",
                     "RunError --help has failed with exit code 127", "ValueError num_processes is 0",
                     "ValueError num_processes is '2'", "RuntimeError this host has no GPU",
                     "RuntimeError there is no Spark session",
                     "TypeError a script has arguments and no keywords: lr",
                     "RunError /no/such/script.py has failed with exit code 127",
                     "RunError the job has failed with exit code 2"):
            self.assertIn(text, said)


if __name__ == "__main__":
    unittest.main()
