"""The rank at fault is the headline: each way to fail whose evidence differs, on one host and, of some, over three.
headline_soak.py has many of each, on a machine that others keep busy."""
import pathlib
import random
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "support")]

import netlab  # noqa: E402
from headline_soak import DTRAIN, WAYS, fault_of, lab_run, local_run  # noqa: E402
from lab_case import LabCase, new_token  # noqa: E402


class Headline(LabCase):
    def setUp(self):
        self.chance = random.Random(1)

    def names(self, ways, run):
        for way in ways:
            with self.subTest(way):
                culprit, said = run(way, self.chance)
                self.assertEqual(fault_of(said, way, culprit), "", "\n---\n".join(said))

    def test_python_on_dtrain(self):
        self.names([f"python-dtrain-{way}" for way in ("raise", "model", "exit0", "kill")], local_run)

    def test_python_on_gloo(self):
        self.names(["python-gloo-raise", "python-gloo-exit0"], local_run)

    def test_cpp(self):
        self.names([way for way in WAYS if way.startswith("cpp")], local_run)

    def test_three_hosts(self):
        net = self.lab(3)
        run = lab_run(net, new_token(DTRAIN, self.enterContext(tempfile.TemporaryDirectory())))
        self.names(["python-dtrain-raise", "python-gloo-exit0", "cpp-throw", "cpp-caught", "cpp-return0", "cpp-segv",
                    "cpp-model"], run)


if __name__ == "__main__":
    netlab.become_able()
    unittest.main()
