#!/usr/bin/env python3
"""A model that is too large for DDP inside a memory limit trains under FSDP inside the same limit; and dtrain says why
DDP's worker died."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "support")]

import limits  # noqa: E402

BIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"])
LIMIT = 120  # seconds
RANKS, STEPS = 4, 3
# 25 million parameters. DDP keeps 16 bytes of each in every rank, and 1.8 GiB are needed in all. FSDP keeps as much
# once: 1.1 GiB.
MODEL = ("--width", 512, "--depth", 8, "--heads", 8, "--context", 16, "--global-batch", RANKS, "--generate", 0)
BYTES = 1536 * 2**20


def can_limit():
    with limits.group_of(BYTES) as group:
        return group is not None


@unittest.skipUnless(can_limit(), "needs root and a writable cgroup with a memory controller")
class MemoryLimit(unittest.TestCase):
    def trained(self, strategy, folder):
        """The end of a training inside the limit, its losses, and its failure report."""
        losses, report = folder / f"{strategy}.losses", folder / f"{strategy}.json"
        words = (BIN / "dtrain", "run", "--nproc", RANKS, "--report", report, "--strategy", strategy,
                 BIN / "gpt", *MODEL, "--steps", STEPS, "--loss-file", losses)
        environment = {k: v for k, v in os.environ.items() if k != "DTRAIN_STRATEGY"}
        environment |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        with limits.group_of(BYTES) as group:
            done = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace",
                                  timeout=LIMIT, env=environment, preexec_fn=lambda: limits.enter(group))
        lines = losses.read_text().splitlines() if losses.exists() else []
        return done, lines, json.loads(report.read_text()) if report.exists() else None

    def test_fsdp_trains_where_ddp_dies(self):
        with tempfile.TemporaryDirectory(prefix="dtrain-limit-") as name:
            folder = pathlib.Path(name)
            done, losses, report = self.trained("ddp", folder)
            said = done.stdout + done.stderr
            self.assertEqual(done.returncode, 137, said)
            self.assertLess(len(losses), STEPS)
            self.assertRegex(said, r"first failure: rank \d: signal 9 \(SIGKILL\), out of memory")
            self.assertIn("limit 1.5 GiB", said)
            self.assertIn("limit 1.5 GiB", report["first_failure"]["out_of_memory"])
            done, losses, _ = self.trained("fsdp", folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(len(losses), STEPS)


if __name__ == "__main__":
    unittest.main(verbosity=2 if "-v" in sys.argv else 1)
