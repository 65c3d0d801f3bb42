#!/usr/bin/env python3
"""--strategy: one binary under every strategy, by dtrain, by torchrun and by hand. The binary is the one of
docs/training/sharding.md."""
import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest

BIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"])
PROGRAM = pathlib.Path(os.environ["DTRAIN_TEST_BIN_DIR"], "any_strategy")
ROOT = pathlib.Path(__file__).resolve().parents[3]
LIMIT = 120


def run(*words, env=None):
    clean = {k: v for k, v in os.environ.items() if k != "DTRAIN_STRATEGY"}
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=LIMIT,
                          env={**clean, "CUDA_VISIBLE_DEVICES": "", **(env or {})})


def loss_in(test, done, strategy):
    test.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    found = re.search(rf"{strategy}: loss ([0-9.]+)", done.stdout)
    test.assertTrue(found, done.stdout + done.stderr)
    return float(found[1])


class Strategies(unittest.TestCase):
    def test_the_page_shows_this_program(self):
        page = (ROOT / "docs/training/sharding.md").read_text()
        listing = page.split("```cpp\n")[1].split("```")[0]
        self.assertGreater(len(listing), 500)
        self.assertIn(listing, (ROOT / "test/process/torch/any_strategy.cc").read_text())

    def test_each_strategy_gives_the_same_loss(self):
        losses = {}
        for strategy in ("ddp", "zero1", "zero2", "fsdp", '{"type": "fsdp", "one_copy": false, "prefetch": 2}',
                         '{"type": "fsdp", "shard_size": 1}'):
            name = re.search(r"ddp|zero1|zero2|fsdp", strategy)[0]
            done = run(BIN / "dtrain", "run", "--nproc", 2, "--strategy", strategy, PROGRAM)
            losses[strategy] = loss_in(self, done, name)
        self.assertLess(max(losses.values()) - min(losses.values()), 2e-3, losses)
        self.assertLess(min(losses.values()), 0.5)

    def test_the_environment_says_it_too(self):
        done = run(BIN / "dtrain", "run", "--nproc", 2, PROGRAM, env={"DTRAIN_STRATEGY": "zero2"})
        loss_in(self, done, "zero2")
        done = run(BIN / "dtrain", "run", "--nproc", 2, "--strategy", "fsdp", PROGRAM, env={"DTRAIN_STRATEGY": "zero2"})
        loss_in(self, done, "fsdp")

    def test_under_torchrun(self):
        done = run(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "--no-python",
                   PROGRAM, env={"DTRAIN_STRATEGY": "fsdp"})
        loss_in(self, done, "fsdp")

    def test_by_hand(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        # One thread for each rank, as the launcher would have it: more of them wait for each other on busy cores.
        base = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                "DTRAIN_STRATEGY": "zero1", "OMP_NUM_THREADS": "1"}
        ranks = [subprocess.Popen([PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={**base, "RANK": str(r)}) for r in range(2)]
        said = [rank.communicate(timeout=LIMIT)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
        self.assertRegex(said[0], "zero1: loss")

    def test_alone(self):
        loss_in(self, run(PROGRAM, env={"DTRAIN_STRATEGY": "fsdp"}), "fsdp")

    def test_what_cannot_be_is_an_error(self):
        done = run(BIN / "dtrain", "run", "--nproc", 2, "--strategy", "zero9", PROGRAM)
        self.assertEqual(done.returncode, 2)
        self.assertIn("type 'zero9' is not known; one of ddp, zero1, zero2, fsdp", done.stderr)
        done = run(BIN / "dtrain", "run", "--nproc", 2, "--strategy", '{"type": "fsdp", "prefetc": 2}', PROGRAM)
        self.assertEqual(done.returncode, 2)
        self.assertIn("fsdp does not have the key 'prefetc'; its keys are", done.stderr)
        done = run(PROGRAM, env={"DTRAIN_STRATEGY": "zero9"})
        self.assertIn("type 'zero9' is not known", done.stdout + done.stderr)
        # The digits example trains with Ddp.
        done = run(BIN / "dtrain", "run", "--nproc", 2, "--strategy", "fsdp", BIN / "train")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the strategy is fsdp, and this program trains with dtrain::Ddp", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
