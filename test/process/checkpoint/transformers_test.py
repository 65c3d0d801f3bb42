"""A model that Transformers saved is trained by ranks of dtrain, and Transformers opens what they saved."""
import os
import re
import shutil
import subprocess
import unittest

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")

import torch
from checkpoint_cases import BIN, DTRAIN, Case
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

logging.disable_progress_bar()
LLAMA = os.path.join(BIN, "../test/bin/ckpt_llama")
WORDS = torch.arange(32).view(2, 16) * 3 % 64
STEPS = 4


def loss_of(model):
    with torch.no_grad():
        return model(WORDS, labels=WORDS).loss.item()


def made(tied):
    torch.manual_seed(tied)
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                         tie_word_embeddings=tied)
    return LlamaForCausalLM(config)


class Transformers(Case):
    def train(self, ranks, strategy, *words):
        done = subprocess.run([DTRAIN, "run", "--nproc", str(ranks), "--strategy", strategy, LLAMA, *words],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
        return done, dict(re.findall(r"(before|after) (\S+)$", done.stdout, re.M))

    def test_weights_go_there_and_back(self):
        for tied, ranks, strategy, limit in [(False, 1, "ddp", "50KB"), (False, 3, "fsdp", "50KB"),
                                             (True, 2, "zero2", "1GB"), (True, 2, "fsdp", "20KB")]:
            with self.subTest(f"{strategy} on {ranks}"):
                given, into = self.folder + f"-{tied}-{ranks}-{strategy}", self.folder + f"-{strategy}-{tied}"
                model = made(tied)
                model.save_pretrained(given, max_shard_size=limit)
                done, losses = self.train(ranks, strategy, given, into, str(STEPS), *["tied"] * tied)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertAlmostEqual(float(losses["before"]), loss_of(model), delta=1e-5)
                # The same steps by torch.
                sgd = torch.optim.SGD(model.parameters(), lr=0.1)
                for _ in range(STEPS):
                    sgd.zero_grad()
                    model(WORDS, labels=WORDS).loss.backward()
                    sgd.step()
                step = os.path.join(into, f"step-{STEPS:08d}")
                shutil.copy(os.path.join(given, "config.json"), step)
                opened, told = LlamaForCausalLM.from_pretrained(step, output_loading_info=True)
                for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
                    self.assertFalse(told[what], f"{what}: {told[what]}")
                self.assertAlmostEqual(loss_of(opened), float(losses["after"]), delta=1e-6)
                theirs = dict(model.named_parameters())
                for name, parameter in opened.named_parameters():
                    self.assertLess((parameter - theirs[name]).abs().max().item(), 1e-5, name)
                self.assertLess(float(losses["after"]), float(losses["before"]) - 0.01)

    def test_another_model_is_told(self):
        made(True).save_pretrained(self.folder)
        done, _ = self.train(2, "fsdp", self.folder, self.folder + "-into", "1")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"rank \d: dtrain: .*the files lack lm_head.weight")


if __name__ == "__main__":
    unittest.main()
