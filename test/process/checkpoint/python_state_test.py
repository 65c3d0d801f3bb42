"""Training begins in Python's FSDP2 and goes on in C++, and the other way: the weights and the optimizer's state go
through torch.distributed.checkpoint."""
import os
import sys
import unittest

import torch
from checkpoint_cases import BIN, Case, launch

import safetensors.torch as st

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = os.path.join(BIN, "../test/bin/ckpt_go_on")
THEIRS = [sys.executable, "-W", "ignore", os.path.join(HERE, "go_on.py")]
HALF, END = 4, 9


def run(ranks, strategy, *words):
    return launch(ranks, "--strategy", strategy, *words, timeout=200)


class Both(Case):
    def done(self, ranks, strategy, *words):
        done = run(ranks, strategy, *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def theirs(self, ranks, algorithm, begin, end, name, *words):
        os.makedirs(self.folder, exist_ok=True)
        self.done(ranks, "ddp", *THEIRS, algorithm, begin, end, self.at(name), *words)

    def check(self, ours, theirs):
        """What C++ has at the end is what Python would have had."""
        step = self.at(ours, f"step-{END:08}")
        weights = st.load_file(os.path.join(step, "model.safetensors"))
        state = st.load_file(os.path.join(step, "optimizer.safetensors"))
        expected = st.load_file(self.at(theirs, "model", "model-00001-of-00001.safetensors"))
        self.assertEqual(set(weights), set(expected))
        for name, tensor in expected.items():
            torch.testing.assert_close(weights[name], tensor, rtol=1e-9, atol=1e-9, msg=name)
        for name, tensor in st.load_file(self.at(theirs, "state", "model-00001-of-00001.safetensors")).items():
            mine = state[name.removeprefix("state.")]
            torch.testing.assert_close(mine.to(tensor.dtype), tensor, rtol=1e-9, atol=1e-9, msg=name)

    def test_python_begins_and_cpp_goes_on(self):
        model, state = ("model", ""), ("state", "state.")
        cases = [("adamw", 2, "rank0", 3, "fsdp", model, state), ("sgd", 3, "consolidated", 2, "zero2", model, state),
                 ("adagrad", 3, "sharded", 2, "fsdp", (".", "model."), (".", "optim.state.")),
                 ("adamw", 3, "sharded", 4, "zero1", (".", "model."), (".", "optim.state."))]
        for number, (algorithm, ranks, way, ours, strategy, model, state) in enumerate(cases):
            with self.subTest(algorithm=algorithm, way=way, strategy=strategy):
                half, cpp, end = (f"{name}{number}" for name in ("half", "cpp", "end"))
                self.theirs(ranks, algorithm, 0, END, end, "--save", HALF, way, self.at(half))
                self.done(ours, strategy, OURS, algorithm, HALF, END, self.at(cpp), self.at(half, model[0]), model[1],
                          self.at(half, state[0]), state[1])
                self.check(cpp, end)

    def test_cpp_begins_and_python_goes_on(self):
        for number, (algorithm, ranks, strategy, theirs) in enumerate([("adamw", 3, "fsdp", 2), ("sgd", 2, "zero1", 3),
                                                                       ("adagrad", 2, "zero2", 2)]):
            with self.subTest(algorithm=algorithm, strategy=strategy):
                half, cpp, end = (f"{name}{number}" for name in ("half", "cpp", "end"))
                self.done(ranks, strategy, OURS, algorithm, 0, HALF, self.at(half))
                self.done(ranks, strategy, OURS, algorithm, 0, END, self.at(cpp))
                self.theirs(theirs, algorithm, HALF, END, end, "--load", self.at(half, f"step-{HALF:08}"))
                self.check(cpp, end)

    def test_cpp_takes_its_own_state_and_says_what_is_lacking(self):
        self.done(2, "fsdp", OURS, "adamw", 0, HALF, self.at("half"))
        self.done(2, "fsdp", OURS, "adamw", 0, END, self.at("whole"))
        step = self.at("half", f"step-{HALF:08}")
        self.done(3, "zero2", OURS, "adamw", HALF, END, self.at("rest"), step, "", step, "")
        for name in ("model", "optimizer"):
            one, other = (st.load_file(self.at(each, f"step-{END:08}", name + ".safetensors"))
                          for each in ("whole", "rest"))
            for tensor, values in one.items():
                torch.testing.assert_close(other[tensor], values, rtol=1e-9, atol=1e-9, msg=tensor)
        for algorithm, prefix, why in [("adagrad", "", "the files lack first.up.weight.sum, .* and 7 more; they have "),
                                       ("adamw", "optim.", "the files lack first.up.weight.exp_avg, ")]:
            done = run(2, "fsdp", OURS, algorithm, 0, 1, self.at("none"), step, "", step, prefix)
            self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
            self.assertRegex(done.stderr, why)
        done = run(2, "fsdp", OURS, "adamw", 0, 1, self.at("none"), self.folder, "", step, "")
        self.assertRegex(done.stderr, f"{self.folder} cannot be loaded: rank 0: it has neither model.safetensors nor")

    def test_counts_that_torch_has_lost_are_told(self):
        self.theirs(2, "adamw", 0, 1, "end", "--save", 1, "consolidated", self.at("half"))
        done = run(2, "fsdp", OURS, "adamw", 1, 2, self.at("cpp"), self.at("half", "model"), "",
                   self.at("half", "state"), "state.")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"rank 0: first.up.weight.step is 0, but first.up.weight.exp_avg is not\. .*"
                                      "without enable_consolidation")

    def test_rows_that_are_lacking_are_told(self):
        self.theirs(2, "adamw", 0, 1, "end", "--save", 1, "sharded", self.at("half"))
        os.remove(self.at("half", "shard-00002-model-00001-of-00001.safetensors"))
        done = run(2, "fsdp", OURS, "adamw", 1, 2, self.at("cpp"), self.at("half"), "model.", self.at("half"),
                   "optim.state.")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"\S+ has the shape \[\d+(, \d+)?\] in the files, and ")


if __name__ == "__main__":
    unittest.main()
