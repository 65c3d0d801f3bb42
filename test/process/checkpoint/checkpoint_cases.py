"""What the tests of checkpoints share: ranks that save and load (worker.cc), and Python's safetensors."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

BIN = os.environ["DTRAIN_BIN_DIR"]
DTRAIN = os.path.join(BIN, "dtrain")
WORKER = os.path.join(BIN, "../test/bin/ckpt_worker")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path += glob.glob(os.path.join(ROOT, ".venv-test/lib/python3*/site-packages"))


def launch(ranks, *words, wrap=(), timeout=120):
    return subprocess.run([*wrap, DTRAIN, "run", "--nproc", str(ranks), *map(str, words)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})


def call(ranks, command, folder, *words, wrap=(), timeout=120):
    return launch(ranks, WORKER, command, folder, *words, wrap=wrap, timeout=timeout)


def said(done):
    """What each rank has reported."""
    return {int(rank): text for rank, text in re.findall(r"rank (\d+): (.*)$", done.stdout, re.M)}


def told(done, ranks):
    """What `load-each` told of each folder: {folder: {call: text}}, the same by all ranks."""
    texts = [{} for _ in range(ranks)]
    for rank, folder, what, text in re.findall(r"rank (\d+): (\S+) (latest|undamaged|load): (.*)$", done.stdout, re.M):
        texts[int(rank)].setdefault(folder, {})[what] = text
    assert all(each == texts[0] for each in texts), done.stdout
    return texts[0]


def ckpt(*words):
    return subprocess.run([DTRAIN, "ckpt", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120)


class Case(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="dtrain-checkpoint-")
        self.addCleanup(holder.cleanup)
        self.folder = os.path.join(holder.name, "run")

    def fine(self, done, text, ranks):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(said(done), {rank: text for rank in range(ranks)})

    def save(self, ranks, *words):
        done = call(ranks, "save", self.folder, *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def refused(self, done, pattern, ranks):
        """The same error on each rank; then the session ends in good order."""
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        texts = said(done)
        self.assertEqual(sorted(texts), list(range(ranks)))
        self.assertEqual(len(set(texts.values())), 1, texts)
        self.assertRegex(texts[0], "^dtrain: " + pattern)

    def names(self):
        return sorted(os.listdir(self.folder))
