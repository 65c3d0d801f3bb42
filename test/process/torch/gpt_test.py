#!/usr/bin/env python3
"""examples/gpt: the same losses under every strategy, and after a failure."""
import json
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"])
LIMIT = 300
SMALL = ("--width", 32, "--depth", 2, "--heads", 2, "--context", 16, "--global-batch", 8, "--generate", 0)


def start(*words, strategy=None, ranks=1, threads="1"):
    environment = {k: v for k, v in os.environ.items() if k != "DTRAIN_STRATEGY"}
    line = [BIN / "dtrain", "run", "--nproc", ranks]
    line += ["--strategy", strategy] if strategy else []
    environment |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": threads}
    if threads is None:
        del environment["OMP_NUM_THREADS"]
    return subprocess.Popen([str(word) for word in [*line, *words]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, errors="replace", env=environment)


def run(*words, **how):
    job = start(*words, **how)
    said = job.communicate(timeout=LIMIT)[0]
    return job.returncode, said


def numbers(path):
    return [float(line.split()[-1]) for line in path.read_text().splitlines()]


class Gpt(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-gpt-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def losses(self, name, *flags, **how):
        path = self.folder / name
        code, said = run(BIN / "gpt", *SMALL, "--loss-file", path, *flags, **how)
        self.assertEqual(code, 0, said)
        return numbers(path)

    def test_every_strategy_has_the_losses_of_one_process(self):
        flags = ("--steps", 50, "--dtype", "float64")
        alone = self.losses("alone", *flags)
        self.assertEqual(len(alone), 50)
        self.assertLess(alone[-1], alone[0] - 0.5)
        for ranks, strategy in ((2, "ddp"), (2, "zero1"), (4, "zero2"), (2, "fsdp"), (4, "fsdp"),
                                (4, json.dumps({"type": "fsdp", "one_copy": False, "shard_size": 2}))):
            mine = self.losses("shared", *flags, strategy=strategy, ranks=ranks)
            self.assertEqual(len(mine), 50)
            for a, b in zip(mine, alone):
                self.assertAlmostEqual(a, b, delta=1e-9, msg=f"{strategy} on {ranks}")

    def test_blocks_that_run_again_change_no_loss(self):
        flags = ("--steps", 12, "--dtype", "float64")
        alone = self.losses("alone", *flags)
        self.assertEqual(self.losses("again", *flags, "--recompute"), alone)
        for ranks, strategy in ((2, "ddp"), (2, "zero1"), (2, "zero2"), (3, "fsdp")):
            if ranks == 3:
                flags += ("--global-batch", 9)
            plain = self.losses("plain", *flags, strategy=strategy, ranks=ranks)
            self.assertEqual(self.losses("again", *flags, "--recompute", strategy=strategy, ranks=ranks), plain)

    def test_micro_batches_change_no_loss(self):
        flags = ("--steps", 20, "--dtype", "float64")
        alone = self.losses("alone", *flags)
        for ranks, strategy, count in ((1, "ddp", 8), (2, "ddp", 4), (2, "zero1", 2), (2, "zero2", 4), (4, "fsdp", 2)):
            mine = self.losses("parts", *flags, "--micro-batches", count, strategy=strategy, ranks=ranks)
            self.assertEqual(len(mine), 20)
            for a, b in zip(mine, alone):
                self.assertAlmostEqual(a, b, delta=1e-9, msg=f"{strategy} on {ranks}, {count} micro-batches")

    def test_deterministic_steps_have_the_same_bits_on_any_number_of_ranks(self):
        def losses(name, ranks, count):
            strategy = json.dumps({"type": name, "deterministic": True})
            # As many threads as the launcher chooses: other ones for other numbers of ranks.
            return self.losses("bits", "--steps", 12, "--micro-batches", count, strategy=strategy, ranks=ranks,
                               threads=None)
        wanted = losses("zero2", 1, 4)
        self.assertEqual(len(set(wanted)), 12)
        for name, ranks, count in (("zero1", 2, 2), ("zero2", 4, 1), ("fsdp", 2, 2), ("fsdp", 4, 1)):
            self.assertEqual(losses(name, ranks, count), wanted, f"{name} on {ranks}")

    def test_lower_precision_and_muon_learn_too(self):
        for flags, strategy in ((("--dtype", "bfloat16"), "fsdp"), (("--optimizer", "muon"), "fsdp"),
                                (("--optimizer", "muon"), "zero1"),
                                ((), json.dumps({"type": "fsdp", "mixed_precision": {"param": "bfloat16"}}))):
            found = self.losses("low", "--steps", 50, *flags, strategy=strategy, ranks=2)
            self.assertLess(found[-1], found[0] - 0.5, f"{flags} {strategy}")

    def test_a_killed_run_goes_on_to_the_same_losses(self):
        flags = ("--steps", 40, "--dtype", "float64", "--save-every", 10)
        straight = self.losses("straight", *flags, strategy="zero1", ranks=2)
        path, saved, told = self.folder / "killed", self.folder / "ckpt", self.folder / "told"
        words = (BIN / "gpt", *SMALL, *flags, "--save", saved, "--resume", "--loss-file")
        # The first run dies after step 25; the next one has other ranks and another strategy.
        os.mkfifo(told)
        losses = os.open(told, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, losses)
        job = start(*words, told, strategy="fsdp", ranks=2)
        lines, deadline = b"", time.monotonic() + LIMIT
        while lines.count(b"\n") < 25 and time.monotonic() < deadline and job.poll() is None:
            if select.select([losses], [], [], 1)[0]:
                lines += os.read(losses, 65536)
        job.kill()
        job.communicate(timeout=LIMIT)
        self.assertGreaterEqual(lines.count(b"\n"), 25)
        code, said = run(*words, path, strategy="zero2", ranks=4)
        self.assertEqual(code, 0, said)
        first = int(re.search("going on after step ([1-4]0)", said)[1])
        self.assertEqual(len(numbers(path)), 40 - first)
        for a, b in zip(numbers(path), straight[first:]):
            self.assertAlmostEqual(a, b, delta=1e-9)

    def test_damaged_checkpoints_are_told(self):
        saved = self.folder / "ckpt"
        words = (BIN / "gpt", *SMALL, "--save", saved, "--save-every", 2, "--resume", "--steps")
        code, said = run(*words, 4, strategy="zero1", ranks=2)
        self.assertEqual(code, 0, said)
        self.assertNotIn("warning", said)
        cut = saved / "step-00000004/optimizer.safetensors"
        os.truncate(cut, cut.stat().st_size - 1)
        code, said = run(*words, 4, strategy="fsdp", ranks=2)
        self.assertEqual(code, 0, said)
        self.assertEqual(re.findall("gpt: warning: (.*) has", said), [str(cut)])
        self.assertIn("going on after step 2\n", said)
        for step in (2, 4):
            os.truncate(saved / f"step-0000000{step}/dtrain.json", 20)
        code, said = run(*words, 4, strategy="zero1", ranks=2)
        self.assertNotEqual(code, 0)
        self.assertRegex(said, f"gpt: dtrain: {saved} has no checkpoint that can be loaded: .*step-00000004/dtrain.json"
                         ".*; .*step-00000002/dtrain.json: ")
        self.assertNotIn("step 0  loss", said)

    def test_it_writes_text_and_says_what_does_not_fit(self):
        code, said = run(BIN / "gpt", *SMALL[:-1], 50, "--steps", 2, strategy="fsdp", ranks=2)
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"step 1  loss [0-9.]+\n(?s:.{50,})")
        code, said = run(BIN / "gpt", *SMALL, "--global-batch", 9, ranks=2)
        self.assertNotEqual(code, 0)
        self.assertIn("--global-batch 9 must be a multiple of the 2 ranks", said)
        code, said = run(BIN / "gpt", *SMALL, "--micro-batches", 3, ranks=2)
        self.assertNotEqual(code, 0)
        self.assertIn("--micro-batches 3 must divide the 4 stretches of each rank", said)
        code, said = run(BIN / "gpt", "--data", "/nowhere")
        self.assertNotEqual(code, 0)
        self.assertTrue(re.search("cannot read /nowhere", said), said)
        self.assertEqual(subprocess.run([BIN / "gpt", "--heads", "5"], capture_output=True).returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2 if "-v" in sys.argv else 1)
