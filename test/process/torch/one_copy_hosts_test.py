"""fsdp over two hosts: each host keeps the parameters once, if the strategy asks for that."""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "support")]

import netlab  # noqa: E402
from lab_case import LabCase, new_token  # noqa: E402

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
PROGRAM = os.path.join(os.environ["DTRAIN_TEST_BIN_DIR"], "any_strategy")
DEADLINE = 150


class OneCopy(LabCase):
    def setUp(self):
        self.net = self.lab(2)
        home = self.enterContext(tempfile.TemporaryDirectory())
        self.mark = f"XDG_CONFIG_HOME={home}".encode()  # of the ranks of this test: others run the program too
        self.environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "XDG_CONFIG_HOME": home, "OMP_NUM_THREADS": "1"}
        os.mkdir(os.path.join(home, "dtrain"))
        new_token(DTRAIN, os.path.join(home, "dtrain"))

    def train(self, *ranks, **keys):
        """Trains on two hosts with so many ranks each. Exit codes, and what both hosts say."""
        self.memories = {}
        strategy = json.dumps({"type": "fsdp", **keys})
        nodes = [host.popen([DTRAIN, "run", "--nproc", str(count), "--strategy", strategy, "--nnodes", "2",
                             "--rdzv-backend", "c10d", "--rdzv-endpoint", "host1:29400", "--rdzv-id", "one", PROGRAM],
                            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
                 for host, count in zip(self.net.hosts, ranks, strict=True)]
        end = time.monotonic() + DEADLINE
        while any(node.poll() is None for node in nodes) and time.monotonic() < end:
            self.look()
        text = "\n".join(node.communicate(timeout=max(1, end - time.monotonic()))[0] for node in nodes)
        return [node.returncode for node in nodes], text

    def look(self):
        """For each rank the memories of parameters that it had whenever this came by, by their inodes."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(process / "exe") != os.path.realpath(PROGRAM):
                    continue
                if self.mark not in (process / "environ").read_bytes().split(b"\0"):
                    continue
                lines = (process / "maps").read_text().splitlines()
                found = {line.split()[4] for line in lines if "memfd:dtrain parameters" in line}
                self.memories.setdefault(process, set()).update(found)

    def copies(self):
        """How many ranks have each copy of the parameters in shared memory: those that had a memory in common. One of
        them may have been seen before it had all, or while it ended."""
        copies = []
        for found in filter(None, self.memories.values()):
            same = [each for each in copies if each[0] & found]
            copies = [each for each in copies if each not in same]
            copies.append((found.union(*(each[0] for each in same)), 1 + sum(each[1] for each in same)))
        return sorted(ranks for _, ranks in copies)

    def loss(self, *ranks, **keys):
        codes, text = self.train(*ranks, **keys)
        self.assertEqual(codes, [0, 0], text)
        losses = re.findall("fsdp: loss (.*)", text)
        self.assertEqual(len(losses), 1, text)
        return losses[0]

    def test_one_copy_on_each_host_trains_as_parts_do(self):
        for keys in {}, {"mixed_precision": {"param": "bfloat16"}}:
            parts = self.loss(2, 2, **keys)
            self.assertEqual(self.copies(), [])
            self.assertEqual(self.loss(2, 2, one_copy=True, **keys), parts)
            self.assertEqual(self.copies(), [2, 2])  # two ranks have one, and two the other
        self.loss(2, 2, shard_size=2)
        self.assertEqual(self.copies(), [2, 2])
        self.loss(1, 1, one_copy=True)
        self.assertEqual(self.copies(), [])

    def test_nodes_with_different_numbers_of_ranks_are_refused(self):
        codes, text = self.train(2, 1, one_copy=True)
        self.assertNotIn(0, codes, text)
        self.assertIn("one_copy is true, and the nodes do not have equal numbers", text)
        self.loss(2, 1)


if __name__ == "__main__":
    netlab.become_able()
    unittest.main()
