"""`dtrain install-torchrun` makes the link torchrun where it is told, and replaces nothing.
usage: install_torchrun_test.py path/to/dtrain [unittest's arguments]"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

DTRAIN = str(pathlib.Path(sys.argv.pop(1)).resolve())
DEADLINE_S = 30


def run(words):
    done = subprocess.run(words, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=DEADLINE_S)
    return done.returncode, done.stdout, done.stderr


class InstallTorchrun(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        (self.folder / "bin").mkdir()
        (self.folder / "other").mkdir()
        self.dtrain = self.folder / "bin/dtrain"
        shutil.copy(DTRAIN, self.dtrain)

    def install(self, *words):
        return run([str(self.dtrain), "install-torchrun", *words])

    def test_beside_dtrain(self):
        link = self.folder / "bin/torchrun"
        self.assertEqual(self.install(), (0, f"{link} is dtrain now\n", ""))
        self.assertEqual(os.readlink(link), "dtrain")
        self.assertEqual(self.install(), (0, f"{link} is dtrain already\n", ""))
        code, said, _ = run([str(link), "--help"])
        self.assertEqual(code, 0)
        self.assertIn("--nproc-per-node", said)

    def test_elsewhere(self):
        link = self.folder / "other/torchrun"
        self.assertEqual(self.install(str(link.parent)), (0, f"{link} is dtrain now\n", ""))
        self.assertEqual(os.readlink(link), str(self.dtrain))

    def test_what_is_there_is_never_replaced(self):
        for name in ("bin", "other"):
            link = self.folder / name / "torchrun"
            link.write_text("torch's own")
            self.assertEqual(self.install(str(link.parent)), (2, "", f"dtrain: {link} is there and is not this dtrain; "
                                                              "remove it first, or choose another folder: dtrain "
                                                              "install-torchrun DIR\n"))
            self.assertEqual(link.read_text(), "torch's own")
            link.unlink()
            link.symlink_to("nowhere")
            self.assertEqual(self.install(str(link.parent))[0], 2)

    def test_mistakes(self):
        self.assertEqual(self.install("/nonexistent"), (2, "", "dtrain: /nonexistent is not a folder\n"))
        self.assertEqual(self.install("--force")[0], 2)
        self.assertEqual(self.install("a", "b"), (2, "", "dtrain: dtrain install-torchrun takes one argument (b)\n"))
        code, _, said = self.install("/proc")
        self.assertEqual((code, said.split(": No")[0]), (125, "dtrain: cannot make /proc/torchrun"))


if __name__ == "__main__":
    unittest.main()
