#!/usr/bin/env python3
"""--strategy FILE: a config of DeepSpeed or Ludwig trains a real program, what nobody carries out is an error, and the
pages name what is accepted."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"])
TEST_BIN = pathlib.Path(os.environ["DTRAIN_TEST_BIN_DIR"])
PROGRAM = TEST_BIN / "train_by_config"
LIMIT = 120

DEEPSPEED = {
    "train_batch_size": 16,
    "gradient_accumulation_steps": 1,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "betas": [0.9, 0.95], "weight_decay": 0.01}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_max_lr": 0.01, "warmup_num_steps": 5,
                                                      "warmup_type": "linear", "total_num_steps": 40}},
    "gradient_clipping": 0.01,
    "zero_optimization": {"stage": 2, "contiguous_gradients": True, "overlap_comm": True,
                          "reduce_bucket_size": 1000},
    "steps_per_print": 100,
}


def run(*words, env=None):
    clean = {k: v for k, v in os.environ.items() if k != "DTRAIN_STRATEGY"}
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=LIMIT,
                          env={**clean, "CUDA_VISIBLE_DEVICES": "", **(env or {})})


class Configs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name, "ds_config.json")
        self.disk = tempfile.TemporaryDirectory(dir=BIN)  # /tmp may lie in memory
        self.addCleanup(self.disk.cleanup)

    def write(self, **changes):
        self.file.write_text(json.dumps({**DEEPSPEED, **changes}, indent=2))
        return self.file

    def train(self, file, nproc=2):
        done = run(BIN / "dtrain", "run", "--nproc", nproc, "--strategy", file, PROGRAM)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = re.search(r"(\w+): micro (\d+) accumulation (\d+) global (\d+) steps (\d+) rate (\S+) clipped (\d) "
                          r"loss (\S+)", done.stdout)
        self.assertTrue(found, done.stdout + done.stderr)
        return found.groups()

    def test_all_of_it_is_carried_out(self):
        losses = []
        for stage, name in enumerate(("ddp", "zero1", "zero2", "fsdp")):
            got = self.train(self.write(zero_optimization={"stage": stage}))
            self.assertEqual(got[:5], (name, "8", "1", "16", "20"))
            # The last step is number 19: the scheduler counts 18.
            self.assertAlmostEqual(float(got[5]), 0.01 * (40 - 18) / 35, places=9)
            self.assertEqual(got[6], "1")
            losses.append(float(got[7]))
        self.assertLess(max(losses) - min(losses), 1e-4, losses)

    def test_another_division_of_the_batch_trains_the_same(self):
        whole = self.train(self.write())
        pieces = self.train(self.write(gradient_accumulation_steps=4))
        self.assertEqual(pieces[1:4], ("2", "4", "16"))
        self.assertAlmostEqual(float(whole[7]), float(pieces[7]), places=4)
        alone = self.train(self.write(), nproc=1)
        self.assertEqual(alone[1:4], ("16", "1", "16"))
        self.assertAlmostEqual(float(whole[7]), float(alone[7]), places=4)

    def test_what_stage_3_keeps_whole_trains_the_same(self):
        sharded = self.train(self.write(zero_optimization={"stage": 3}))
        for zero in ({"stage3_param_persistence_threshold": 16}, {"stage3_param_persistence_threshold": 1e9},
                     {"stage3_prefetch_bucket_size": 300}):
            whole = self.train(self.write(zero_optimization={"stage": 3, **zero}))
            self.assertEqual(whole[:7], sharded[:7])
            self.assertAlmostEqual(float(whole[7]), float(sharded[7]), places=5)

    def test_a_trainer_section_of_ludwig_is_carried_out(self):
        self.file.write_text(json.dumps({
            "backend": {"type": "ray", "trainer": {"strategy": "fsdp"}},
            "trainer": {"learning_rate": 0.005, "batch_size": 4, "effective_batch_size": 16, "train_steps": 60,
                        "optimizer": {"type": "adamw"}, "gradient_clipping": {"clipglobalnorm": 0.01},
                        "learning_rate_scheduler": {"decay": "linear", "warmup_fraction": 0.1}}}))
        got = self.train(self.file)
        self.assertEqual(got[:5], ("fsdp", "4", "2", "16", "30"))
        # The rate of two ranks, in the last of 60 batches, of which 6 are the warm-up.
        self.assertAlmostEqual(float(got[5]), 0.005 * 2 / 54, places=9)
        self.assertEqual(got[6], "1")
        self.assertLess(float(got[7]), 0.3)

    def test_offloaded_state_trains_the_same(self):
        disk, cpu = {"device": "nvme", "nvme_path": self.disk.name, "pin_memory": True}, {"device": "cpu"}
        for stage, places in ((0, [disk]), (2, [disk, cpu]), (3, [disk, cpu])):
            in_memory = self.train(self.write(zero_optimization={"stage": stage}))
            for offload in places:
                zero = {"stage": stage, "offload_optimizer": offload}
                self.assertEqual(self.train(self.write(zero_optimization=zero)), in_memory)
        self.assertEqual(os.listdir(self.disk.name), [])

    def test_state_that_cannot_be_on_disk_is_an_error(self):
        own = json.dumps({"type": "zero2", "state_folder": self.disk.name})
        for program, why in ((TEST_BIN / "any_strategy", "steps an optimizer that keeps its state in memory"),
                             (TEST_BIN / "headline_worker", "trains with dtrain::Ddp, which leaves it in memory")):
            done = run(BIN / "dtrain", "run", "--nproc", 2, "--strategy", own, program, "throw", 0)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stdout + done.stderr)
        zero = {"stage": 2, "offload_optimizer": {"device": "nvme", "nvme_path": self.disk.name + "/none"}}
        done = run(BIN / "dtrain", "run", "--nproc", 2, "--strategy", self.write(zero_optimization=zero), PROGRAM)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/none' cannot have the optimizer's state", done.stdout + done.stderr)

    def test_under_torchrun_the_variable_has_the_text(self):
        self.write()
        done = run(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "--no-python",
                   PROGRAM, env={"DTRAIN_STRATEGY": self.file.read_text()})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout + done.stderr, "zero2: micro 8")
        done = run(PROGRAM, env={"DTRAIN_STRATEGY": str(self.file)})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('DTRAIN_STRATEGY="$(cat ds_config.json)"', done.stdout + done.stderr)

    def test_what_is_wrong_is_said_before_a_worker_starts(self):
        done = run(BIN / "dtrain", "run", "--nproc", 3, "--strategy", self.write(), PROGRAM)
        self.assertEqual(done.returncode, 2)
        self.assertIn("train_batch_size is 16, which gradient_accumulation_steps 1 x 3 ranks = 3", done.stderr)
        file = self.write(zero_optimization={"stage": 3, "offload_param": {"device": "nvme"}})
        done = run(BIN / "dtrain", "run", "--nproc", 2, "--strategy", file, PROGRAM)
        self.assertEqual(done.returncode, 2)
        self.assertIn("zero_optimization.offload_param.device 'nvme' is not known", done.stderr)
        done = run(BIN / "dtrain", "run", "--nproc", 2, "--strategy", self.file.with_name("no.json"), PROGRAM)
        self.assertEqual(done.returncode, 2)
        self.assertIn("the file cannot be read: No such file or directory", done.stderr)

    def test_units_of_accelerate_are_classes_of_the_program(self):
        for name, code in (("Block", 0), ("GPT2Block", 1)):
            self.file.write_text(json.dumps({"fsdp_config": {"fsdp_version": 2,
                                                             "fsdp_transformer_layer_cls_to_wrap": name}}))
            done = run(BIN / "dtrain", "run", "--nproc", 2, "--strategy", self.file, TEST_BIN / "any_strategy")
            self.assertEqual(done.returncode != 0, code != 0, done.stdout + done.stderr)
            self.assertIn("fsdp: loss" if code == 0 else "units has 'GPT2Block', and the model made no such unit",
                          done.stdout + done.stderr)

    def test_the_config_of_the_page_on_sharding_trains(self):
        page = (ROOT / "docs/training/sharding.md").read_text()
        self.file.write_text(page.split("```json\n")[1].split("```")[0])
        self.assertEqual(self.train(self.file)[:5], ("fsdp", "8", "16", "256", "20"))

    def test_the_page_on_sharding_shows_lines_of_this_program(self):
        page = (ROOT / "docs/training/sharding.md").read_text()
        shown = page.split("```json\n")[1].split("```cpp\n")[1].split("```")[0].splitlines()
        self.assertGreater(len(shown), 12)
        # The program keeps the norm, to print it.
        program = (ROOT / "test/process/torch/train_by_config.cc").read_text().replace(" norm = model.", " model.")
        lines = iter([line.strip() for line in program.splitlines()])
        for line in shown:
            self.assertIn(line.split("  //")[0].strip(), lines, f"{line} is missing, or not in its place")

    def test_the_page_names_what_has_no_meaning(self):
        page = (ROOT / "docs/training/config.md").read_text()
        named = []
        for source in sorted((ROOT / "strategies/config").glob("*.cc")):
            for call in re.findall(r"without_meaning\((?:\{(.*?)\})\);", source.read_text(), re.S):
                named += [(source.name, key) for key in re.findall(r'"([^"]+)"', call)]
        self.assertGreater(len(named), 90)
        # A page may write `fsdp_key` for the key that Ludwig and Accelerate write without fsdp_ too.
        missing = [each for each in named if not re.search(rf"[`._]{re.escape(each[1])}`", page)]
        self.assertEqual(missing, [])

    def test_a_program_that_does_not_read_it_ends_with_an_error(self):
        done = run(BIN / "dtrain", "run", "--nproc", 2, "--strategy", self.write(), TEST_BIN / "any_strategy")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the config (--strategy, DTRAIN_STRATEGY) has optimizer, scheduler, gradient_clipping, "
                      "train_batch_size, and this program does not read it", done.stdout + done.stderr)
        self.file.write_text('{"zero_optimization": {"stage": 2}, "train_batch_size": "auto"}')
        done = run(BIN / "dtrain", "run", "--nproc", 2, "--strategy", self.file, TEST_BIN / "any_strategy")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("zero2: loss", done.stdout)


if __name__ == "__main__":
    unittest.main()
