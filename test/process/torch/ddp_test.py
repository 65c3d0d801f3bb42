"""torch's own DDP under dtrain: a program with no change, a restart with a fresh store, the error of @record."""
import os
import re
import subprocess
import sys
import unittest

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ddp_worker.py")


def run(*flags):
    environment = {**os.environ, "PYTHON_EXEC": sys.executable, "PYTHONWARNINGS": "ignore"}
    return subprocess.run([DTRAIN, "run", "--nproc", "2", *flags, WORKER], env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=150)


class Ddp(unittest.TestCase):
    def test_trains_in_the_second_round(self):
        done = run("--max-restarts", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("restart 1 of 1", done.stderr)
        weights = re.findall(r"^\[\d\] weights (\S+)$", done.stdout, re.M)
        self.assertEqual(len(weights), 2, done.stdout)
        self.assertEqual(weights[0], weights[1], "the replicas are equal")

    def test_the_exception_is_the_headline(self):
        done = run()
        self.assertEqual(done.returncode, 1, done.stderr)
        headline = done.stderr[done.stderr.rindex("first failure:"):]
        self.assertIn("first failure: rank 1: RuntimeError: the first time fails", headline)
        self.assertIn("RuntimeError: the first time fails", headline)


if __name__ == "__main__":
    unittest.main()
