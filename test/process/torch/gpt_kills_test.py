#!/usr/bin/env python3
"""examples/gpt is killed at random moments of its start, loading, training and saving, and goes on to the same losses.

DTRAIN_SEED chooses the first seed, DTRAIN_TEST_KILLS the number of seeds (4; `make soak-checkpoint`: 100)."""
import os
import pathlib
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"])
SEED = int(os.environ.get("DTRAIN_SEED", random.randrange(10**6)))
SEEDS = int(os.environ.get("DTRAIN_TEST_KILLS", 4))
LIMIT = 300
STEPS = 16
MODEL = ("--width", 32, "--depth", 2, "--heads", 2, "--context", 16, "--global-batch", 12, "--generate", 0,
         "--dtype", "float64", "--steps", STEPS)
WAYS = [(1, "ddp"), (2, "ddp"), (2, "zero1"), (3, "zero2"), (2, "fsdp"), (3, "fsdp"),
        (2, '{"type": "fsdp", "one_copy": false}')]


def numbers(path):
    return [float(line.split()[-1]) for line in path.read_text().splitlines()]


def ranks_of(tag):
    """Processes of the job that run gpt now."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = pathlib.Path("/proc", name, "environ").read_bytes()
            program = os.readlink(f"/proc/{name}/exe")
        except OSError:
            continue
        if tag.encode() in environment and b"\0RANK=" in environment and program.endswith("/gpt"):
            found.append(int(name))
    return found


class Kills(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-gpt-kills-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, losses, way, *flags, tag="none", restarts=0):
        ranks, strategy = way
        words = [BIN / "dtrain", "run", "--nproc", ranks, "--max-restarts", restarts, "--strategy", strategy,
                 BIN / "gpt", *MODEL, "--loss-file", losses, *flags]
        return subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace",
                                env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "DTRAIN_KILLS_TAG": tag})

    def end(self, job):
        said = job.communicate(timeout=LIMIT)[0]
        self.assertEqual(job.returncode, 0, said)
        return said

    def kill_at(self, job, tag, seconds, whole):
        """True if something was killed; a job that has ended is left alone."""
        moment = time.monotonic() + seconds
        victims = []
        while not victims:
            if job.poll() is not None:
                return False
            select.select([], [], [], 0.02)  # the moment is the test's own
            if time.monotonic() >= moment:
                victims = [job.pid] if whole else ranks_of(tag)
        try:
            os.kill(random.choice(victims), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def test_the_losses_are_those_of_a_run_that_nobody_disturbed(self):
        print(f"DTRAIN_SEED={SEED}", flush=True)
        begin = time.monotonic()
        self.end(self.start(self.folder / "straight", (1, "ddp"), "--save", self.folder / "straight-ckpt",
                            "--save-every", 1))
        typical = time.monotonic() - begin
        straight = numbers(self.folder / "straight")
        self.assertEqual(len(straight), STEPS)
        kills, resumed = 0, 0
        for seed in range(SEED, SEED + SEEDS):
            chance = random.Random(seed)
            random.seed(seed)
            with self.subTest(f"DTRAIN_SEED={seed}"):
                saved, losses = self.folder / f"ckpt-{seed}", self.folder / f"losses-{seed}"
                flags = ("--save", saved, "--save-every", 1, "--resume")
                restarts = chance.random() < 0.5
                said = ""
                for attempt in range(chance.randint(1, 3)):
                    tag = f"{os.getpid()}-{seed}-{attempt}"
                    job = self.start(losses, chance.choice(WAYS), *flags, tag=tag, restarts=3 if restarts else 0)
                    # The straight run may have been slow, and then all moments are too late but the first.
                    moment = chance.random() * 0.7 * typical * (kills > 0)
                    kills += self.kill_at(job, tag, moment, not restarts and attempt % 2 == 0)
                    said += job.communicate(timeout=LIMIT)[0]
                    if restarts:
                        self.assertEqual(job.returncode, 0, said)
                job = self.start(losses, chance.choice(WAYS), *flags)
                said += self.end(job)
                resumed += len(re.findall(r"going on after step \d+", said))
                found = numbers(losses)
                self.assertLessEqual(len(found), STEPS)
                for mine, wanted in zip(reversed(found), reversed(straight)):
                    self.assertAlmostEqual(mine, wanted, delta=1e-9)
                # The last checkpoint is that of the last step, whoever wrote it.
                self.assertTrue((saved / f"step-{STEPS:08d}").is_dir(), os.listdir(saved))
                self.assertFalse([name for name in os.listdir(saved) if not name.startswith("step-")])
        print(f"{SEEDS} seeds, {kills} kills, {resumed} runs went on from a checkpoint", flush=True)
        if SEEDS >= 4:
            self.assertGreater(kills, 0)


if __name__ == "__main__":
    unittest.main()
