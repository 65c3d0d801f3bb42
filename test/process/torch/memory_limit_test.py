#!/usr/bin/env python3
"""A model that is too large for DDP inside a memory limit trains under FSDP inside the same limit; and dtrain says why
DDP's worker died. First with one limit for the job, then with one for each rank."""
import contextlib
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
# The matrices of the blocks alone have 42 million parameters. With gradients and AdamW's state they need 648 MiB, and a
# rank of DDP needs all of that. A rank may have 400 MiB, of which 60 MiB are the program's own.
RANK_MODEL = ("--width", 384, "--depth", 24, "--heads", 8, "--context", 16, "--global-batch", RANKS, "--generate", 0)
RANK_PARAMETERS = 12 * 384**2 * 24
RANK_BYTES = 400 * 2**20
assert RANK_BYTES < 0.65 * 16 * RANK_PARAMETERS


def can_limit():
    with limits.group_of(BYTES) as group:
        return group is not None


class Case(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="dtrain-limit-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def trained(self, strategy, model, before=(), **how):
        """The end of a training, what it wrote, its losses, and its failure report. `before`: words in front of the
        worker's own."""
        losses, report = self.folder / f"{strategy}.losses", self.folder / f"{strategy}.json"
        words = (BIN / "dtrain", "run", "--nproc", RANKS, "--report", report, "--strategy", strategy, *before,
                 BIN / "gpt", *model, "--steps", STEPS, "--loss-file", losses)
        environment = {k: v for k, v in os.environ.items() if k != "DTRAIN_STRATEGY"}
        environment |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace",
                              timeout=LIMIT, env=environment, **how)
        lines = losses.read_text().splitlines() if losses.exists() else []
        return done, done.stdout + done.stderr, lines, json.loads(report.read_text()) if report.exists() else None

    def fine(self, *words, **how):
        done, said, losses, _ = self.trained("fsdp", *words, **how)
        self.assertEqual(done.returncode, 0, said)
        self.assertEqual(len(losses), STEPS)


@unittest.skipUnless(can_limit(), "needs root and a writable cgroup with a memory controller")
class JobLimit(Case):
    def test_fsdp_trains_where_ddp_dies(self):
        with limits.group_of(BYTES) as group:
            done, said, losses, report = self.trained("ddp", MODEL, preexec_fn=lambda: limits.enter(group))
        self.assertEqual(done.returncode, 137, said)
        self.assertLess(len(losses), STEPS)
        self.assertRegex(said, r"first failure: rank \d: signal 9 \(SIGKILL\), out of memory")
        self.assertIn("limit 1.5 GiB", said)
        self.assertIn("limit 1.5 GiB", report["first_failure"]["out_of_memory"])
        with limits.group_of(BYTES) as group:
            self.fine(MODEL, preexec_fn=lambda: limits.enter(group))


class RankLimit(Case):
    def test_fsdp_trains_where_ddp_gets_no_memory(self):
        """What a rank maps for itself. This leaves out what the ranks share: the parameters of fsdp, and gradients."""
        limit = ("sh", "-c", f'ulimit -d {RANK_BYTES // 1024} && exec "$@"', "sh")
        done, said, losses, _ = self.trained("ddp", RANK_MODEL, limit)
        self.assertEqual(done.returncode, 1, said)
        self.assertLess(len(losses), STEPS)
        self.assertRegex(said, r"first failure: rank \d: exit code 1")
        self.assertRegex(said, r"can't allocate memory: you tried to allocate \d+ bytes")
        self.fine(RANK_MODEL, limit)

    @unittest.skipUnless(can_limit(), "needs root and a writable cgroup with a memory controller")
    def test_fsdp_trains_where_ddp_dies(self):
        """All that a rank takes, with the memory that it shares and was the first to use."""
        for strategy in ("ddp", "fsdp"):
            with self.subTest(strategy), contextlib.ExitStack() as stack:
                groups = [stack.enter_context(limits.group_of(RANK_BYTES, rank)) for rank in range(RANKS)]
                names = str(groups[0]).removesuffix("0")
                limit = ("sh", "-c", f'echo $$ > {names}"$RANK"/cgroup.procs && exec "$@"', "sh")
                if strategy == "fsdp":
                    self.fine(RANK_MODEL, limit)
                    self.assertEqual([limits.ended_of(group) for group in groups], [0] * RANKS)
                    self.assertGreater(min(limits.peak_of(group) for group in groups), 4 * RANK_PARAMETERS)
                    continue
                done, said, losses, _ = self.trained(strategy, RANK_MODEL, limit)
                self.assertEqual(done.returncode, 137, said)
                self.assertRegex(said, r"first failure: rank \d: signal 9 \(SIGKILL\)")
                self.assertLess(len(losses), STEPS)
                self.assertGreater(sum(limits.ended_of(group) for group in groups), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2 if "-v" in sys.argv else 1)
