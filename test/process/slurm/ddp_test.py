"""torch's own DDP over the nodes of a SLURM step: trains, fails, restarts, ends with equal weights everywhere."""
import os
import re
import sys
import unittest

from cluster import Cluster, missing

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "torch", "ddp_worker.py")


@unittest.skipIf(missing(), f"not installed: {', '.join(missing())}")
class Ddp(unittest.TestCase):
    def test_trains_over_three_nodes(self):
        with Cluster(nodes=3) as cluster:
            done = cluster.run("srun", "-N3", DTRAIN, "run", "--nproc", "1", "--max-restarts", "1", WORKER, timeout=240,
                               env=cluster.environment(PYTHON_EXEC=sys.executable, PYTHONWARNINGS="ignore"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rank 1 (local rank 0): exit code 1", done.stderr)
        weights = re.findall(r"^\[\d\] weights (\S+)$", done.stdout, re.M)
        self.assertEqual(len(weights), 3, done.stdout)
        self.assertEqual(len(set(weights)), 1, "the replicas are equal")


if __name__ == "__main__":
    unittest.main()
