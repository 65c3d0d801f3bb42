#!/usr/bin/env python3
"""--strategy: one binary under every strategy, by dtrain, by torchrun and by hand. The binary is the one of
docs/training/sharding.md, and then each of the examples."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "support")]

from ports import free_port  # noqa: E402

BIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"]).resolve()
TEST_BIN = pathlib.Path(os.environ["DTRAIN_TEST_BIN_DIR"]).resolve()
PROGRAM = TEST_BIN / "any_strategy"
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
        loss_in(self, by_torchrun("fsdp", PROGRAM), "fsdp")

    def test_by_hand(self):
        self.assertRegex(by_hand(self, "zero1", PROGRAM), "zero1: loss")

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
        # What wraps a whole model says in one line that it is ddp and nothing else.
        for words, who in (([TEST_BIN / "headline_worker", "caught", 0], "dtrain::Ddp"),
                           ([BIN / "resnet", *RESNET, "--strategy", "horovod"], "dtrain::hvd")):
            for strategy, why in (("fsdp", f"the strategy is fsdp, and this program trains with {who}, which is ddp"),
                                  ('{"type": "ddp", "bucket_bytes": 100}', "the strategy has keys of ddp")):
                done = run(*words, env={"DTRAIN_STRATEGY": strategy})
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertRegex(done.stderr, rf"\A\w+: dtrain: {re.escape(why)}.*\n\Z")


def by_torchrun(strategy, *words):
    return run(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "--no-python",
               *words, env={"DTRAIN_STRATEGY": strategy})


def by_hand(test, strategy, *words):
    # One thread for each rank, as the launcher would have it: more of them wait for each other on busy cores.
    world = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": str(free_port()), "DTRAIN_STRATEGY": strategy, "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**world, "RANK": str(r)}) for r in range(2)]
    said = [rank.communicate(timeout=LIMIT)[0] for rank in ranks]
    test.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
    return said[0]


RESNET = ("--depth", 18, "--batch", 8, "--double", "--threads", 1)
GPT = ("--width", 32, "--depth", 2, "--heads", 2, "--context", 16, "--global-batch", 8, "--generate", 0, "--dtype",
       "float64", "--steps", 8)


class Examples(unittest.TestCase):
    """Each example ends with the same numbers, whatever the strategy and whoever starts it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-strategies-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(folder.name)  # the tutorial saves there

    def same_result(self, command, result, tolerance):
        """`result` reads numbers from what the program has printed."""
        def started(strategy):
            return run(BIN / "dtrain", "run", "--nproc", 2, "--strategy", strategy, *command)
        found = {}
        for name, start in {**{s: started for s in ("ddp", "zero1", "zero2", "fsdp")},
                            '{"type": "fsdp", "one_copy": false}': started,
                            "torchrun": lambda _: by_torchrun("fsdp", *command)}.items():
            done = start(name)
            self.assertEqual(done.returncode, 0, f"{name}: {done.stdout}{done.stderr}")
            found[name] = result(done.stdout)
        found["by hand"] = result(by_hand(self, "zero2", *command))
        self.assertGreater(len(found["ddp"]), 0)
        for name, numbers in found.items():
            self.assertEqual(len(numbers), len(found["ddp"]), name)
            for one, other in zip(numbers, found["ddp"]):
                self.assertAlmostEqual(one, other, delta=tolerance, msg=f"{name}: {numbers}, ddp: {found['ddp']}")

    def test_digits(self):
        losses = self.folder / "loss.csv"
        data = ROOT / ".cache/digits.csv.gz"
        self.same_result([BIN / "train", "--data", data, "--epochs", 2, "--double", "--loss-csv", losses],
                         lambda _: [float(row.split(",")[1]) for row in losses.read_text().splitlines()[1:]], 1e-8)

    def test_tutorial(self):
        def result(said):
            subprocess.run(["rm", "-r", "checkpoint"], check=True)
            return [float(word) for word in re.findall(r"loss ([0-9.]+)", said)]
        self.same_result([BIN / "tutorial"], result, 2e-4)

    def test_resnet(self):
        results = self.folder / "result.json"
        def result(_):
            its = json.loads(results.read_text())
            return [its["test_loss"]] + [epoch["loss"] for epoch in its["epochs"]]
        self.same_result([BIN / "resnet", *RESNET, "--synthetic", 32, "--epochs", 2, "--json", results], result, 1e-8)

    def test_resnet_saves_whole_weights(self):
        weights, results = self.folder / "weights.pt", self.folder / "result.json"
        def test_loss(strategy, *words):
            done = run(BIN / "dtrain", "run", "--nproc", 3, "--strategy", strategy, BIN / "resnet", *RESNET, *words,
                       "--json", results)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return json.loads(results.read_text())["test_loss"]
        for strategy, other in (("ddp", "fsdp"), ("fsdp", "ddp")):
            trained = test_loss(strategy, "--synthetic", 24, "--epochs", 1, "--save", weights)
            self.assertLess(weights.stat().st_size, 100 << 20)  # 11.2 million numbers of 8 bytes, once
            test = ("--init", weights, "--epochs", 0)
            # The file is read into float32.
            self.assertAlmostEqual(test_loss(other, *test, "--synthetic", 24), trained, delta=1e-6)
            # Of a single test image: two ranks have none.
            few = (*test, "--synthetic", 4)
            self.assertAlmostEqual(test_loss("ddp", *few), test_loss("fsdp", *few), delta=1e-8)

    def test_gpt(self):
        losses = self.folder / "losses"
        self.same_result([BIN / "gpt", *GPT, "--loss-file", losses],
                         lambda _: [float(line.split()[-1]) for line in losses.read_text().splitlines()], 1e-9)


class ConfigOfGpt(unittest.TestCase):
    """What a config of DeepSpeed says of training is carried out by gpt: as by flags that say the same."""

    CONFIG = {"train_batch_size": 16, "gradient_accumulation_steps": 2, "gradient_clipping": 0.05,
              "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "betas": [0.9, 0.95], "weight_decay": 0.1}},
              "zero_optimization": {"stage": 3}}

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-config-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def gpt(self, config, *flags):
        losses, words = self.folder / "losses", [word for word in GPT]
        at = words.index("--global-batch")
        del words[at:at + 2]
        done = run(BIN / "dtrain", "run", "--nproc", 2, "--strategy", json.dumps(config), BIN / "gpt", *words, *flags,
                   "--loss-file", losses)
        said = done.stdout + done.stderr
        return done.returncode, said, losses

    def losses(self, *words):
        code, said, losses = self.gpt(*words)
        self.assertEqual(code, 0, said)
        return [float(line.split()[-1]) for line in losses.read_text().splitlines()]

    def test_it_trains_as_flags_do(self):
        zero = {"zero_optimization": {"stage": 3}}
        plain = {key: value for key, value in self.CONFIG.items() if key != "gradient_clipping"}
        self.assertEqual(self.losses(plain),
                         self.losses(zero, "--global-batch", 16, "--micro-batches", 2, "--lr", 0.01))
        self.assertEqual(self.losses(plain, "--global-batch", 8, "--micro-batches", 1, "--lr", 0.02),
                         self.losses(zero, "--global-batch", 8, "--lr", 0.02))
        self.assertNotEqual(self.losses(self.CONFIG), self.losses(plain))

    def test_its_schedule_is_the_rate(self):
        schedule = {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.01, "warmup_num_steps": 1000,
                                                   "warmup_type": "linear"}}
        slow = self.losses({**self.CONFIG, "scheduler": schedule})
        self.assertGreater(slow[-1], self.losses(self.CONFIG)[-1] + 0.05)

    def test_what_contradicts_is_an_error(self):
        schedule = {"type": "WarmupLR", "params": {"warmup_max_lr": 0.01}}
        micro = {**self.CONFIG, "train_micro_batch_size_per_gpu": 4}
        for config, flags, why in (
                ({**self.CONFIG, "scheduler": schedule}, ("--lr", 0.01), "--lr and the config's scheduler both say"),
                (micro, ("--global-batch", 8),
                 "train_micro_batch_size_per_gpu is 4, and with 4 forwards of all ranks in a step --global-batch 8 "
                 "must be 16"),
                ({**self.CONFIG, "fp16": {"enabled": True}}, (), "asks for float16, whose loss gpt does not scale")):
            code, said, _ = self.gpt(config, *flags)
            self.assertNotEqual(code, 0)
            self.assertIn(why, said)


if __name__ == "__main__":
    unittest.main()
