#!/usr/bin/env python3
"""The progress of real programs reaches Kubeflow Trainer's server: of a C++ program that does nothing for it, and of a
Python program that reports."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "test/support")]

from trainer_server import TrainerServer, make_credentials  # noqa: E402

BIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"]).resolve()
LIMIT = 120
PROGRAM = """
import torch
import dtrain
for step in range(1, 4):
    dtrain.report_progress(step, 4, loss=torch.tensor(0.5 / step), worst=float("nan"))
dtrain.report_progress(4, 4, loss=0.25)
"""


class Progress(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="dtrain-progress-"))
        make_credentials(self.folder)
        self.server = TrainerServer(self.folder)
        self.addCleanup(self.server.close)

    def last_post(self, *words):
        temporary = os.path.join(self.folder, "tmp")
        os.makedirs(temporary)
        done = subprocess.run([str(word) for word in (BIN / "dtrain", "run", "--nproc", 2, *words)], text=True,
                              env={**os.environ, **self.server.variables(), "CUDA_VISIBLE_DEVICES": "",
                                   "TMPDIR": temporary, "PYTHONPATH": str(BIN.parent / "python"),
                                   "PYTHON_EXEC": sys.executable},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(os.listdir(temporary), [], done.stdout)
        return self.server.all_posts()[-1]

    def test_a_program_of_parallel_does_nothing_for_it(self):
        last = self.last_post("--strategy", "zero1", BIN / "train", "--data", ROOT / ".cache/digits.csv.gz", "--epochs",
                              1)
        self.assertGreater(int(last["step"]), 0)
        self.assertEqual((last["dtrain_state"], last["progressPercentage"], last["dtrain_world_size"]),
                         ("succeeded", 100, "2"))

    def test_a_program_in_python_reports(self):
        program = os.path.join(self.folder, "program.py")
        pathlib.Path(program).write_text(PROGRAM)
        last = self.last_post(program)
        self.assertEqual((last["step"], last["steps"], last["loss"], last.get("worst")), ("4", "4", "0.25", None))


if __name__ == "__main__":
    unittest.main()
