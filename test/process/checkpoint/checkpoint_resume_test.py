"""A run that is stopped and goes on in new processes is the undisturbed run, to the last bit of losses and parameters:
with dropout, a loss scale, a rate that follows the loss, and a sampler in the middle of an epoch."""
import os
import re
import unittest

from checkpoint_cases import BIN, Case, launch

PROGRAM = os.path.join(BIN, "../test/bin/ckpt_resume")
RANKS, STEPS, STOP = 2, 10, 5


class Resume(Case):
    def run_to(self, end, folder, strategy, forgotten="none"):
        """What rank 0 said of the steps and of the parameters."""
        done = launch(RANKS, "--strategy", strategy, PROGRAM, os.path.join(self.folder, folder), end, forgotten)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return re.findall(r"((?:step \d|parameters) .*)$", done.stdout, re.M)

    def test_it_is_the_undisturbed_run(self):
        for strategy in ("ddp", "zero2", "fsdp"):
            with self.subTest(strategy):
                straight = self.run_to(STEPS, f"{strategy} straight", strategy)
                self.assertEqual(len(straight), STEPS + 1)
                first = self.run_to(STOP, strategy, strategy)
                self.assertEqual(first[:-1], straight[:STOP])
                self.assertNotEqual(first[-1], straight[-1])
                self.assertEqual(self.run_to(STEPS, strategy, strategy), straight[STOP:])

    def test_the_run_has_what_must_be_remembered(self):
        """Each part of the state that is not restored makes another run: so the test above sees each of them."""
        straight = self.run_to(STEPS, "straight", "fsdp")
        for name, values in (("scale", 3), ("rate", 3), ("epoch", 2), ("stepped", 2)):
            self.assertGreaterEqual(len(set(re.findall(rf" {name} (\S+)", "\n".join(straight)))), values, straight)
        for forgotten in ("sampler", "grad_scaler", "plateau", "random"):
            with self.subTest(forgotten):
                self.run_to(STOP, forgotten, "fsdp")
                after = self.run_to(STEPS, forgotten, "fsdp", forgotten)
                self.assertNotEqual(after, straight[STOP:])
                self.assertNotEqual(after[-1], straight[-1])


if __name__ == "__main__":
    unittest.main()
