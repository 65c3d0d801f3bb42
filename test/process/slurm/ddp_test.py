"""torch's own DDP over the nodes of a SLURM step: trains, fails, restarts, ends with equal weights everywhere. A
function of a Python program as a job of SLURM's. And `dtrain predict`."""
import os
import pathlib
import re
import sys
import tempfile
import unittest

from cluster import Cluster, missing

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import pyarrow  # noqa: E402
import pyarrow.parquet as parquet  # noqa: E402
import support_python  # noqa: E402

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
PACKAGES = os.path.join(os.environ["DTRAIN_BIN_DIR"], "..", "python")
WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "torch", "ddp_worker.py")


@unittest.skipIf(missing(), f"not installed: {', '.join(missing())}")
class Ddp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(nodes=3))

    def test_trains_over_three_nodes(self):
        cluster = self.cluster
        done = cluster.run("srun", "-N3", DTRAIN, "run", "--nproc", "1", "--max-restarts", "1", WORKER, timeout=240,
                           env=cluster.environment(PYTHON_EXEC=sys.executable, PYTHONWARNINGS="ignore"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rank 1 (local rank 0): exit code 1", done.stderr)
        weights = re.findall(r"^\[\d\] weights (\S+)$", done.stdout, re.M)
        self.assertEqual(len(weights), 3, done.stdout)
        self.assertEqual(len(set(weights)), 1, "the replicas are equal")

    def test_a_function_from_python(self):
        with tempfile.TemporaryDirectory(prefix="dtrain-slurm-run-") as folder:
            done = self.cluster.run(support_python.PYTHON, support_python.JOB, "nodes", "slurm", cwd=folder,
                                    timeout=240, env=support_python.environment(**self.cluster.environment()))
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("[1] rank 1 of 2 trains with 1.5, 0.0\n", done.stdout)
        self.assertIn("value 1.5\n", done.stdout)
        self.assertIn("step 17 remotely", done.stdout)

    def test_predict_shares_the_row_groups_among_the_nodes(self):
        with tempfile.TemporaryDirectory(prefix="dtrain-slurm-predict-") as folder:
            parquet.write_table(pyarrow.table({"x": range(60)}), f"{folder}/in.parquet", row_group_size=10)
            pathlib.Path(folder, "p.py").write_text(
                "import os\ndef predict(table):\n"
                "    return {'x': table['x'], 'node': [os.environ['GROUP_RANK']] * len(table)}\n")
            done = self.cluster.run("srun", "-N3", DTRAIN, "predict", "--nproc", "1", "p.py", "in.parquet", "out",
                                    cwd=folder, timeout=240,
                                    env=self.cluster.environment(PYTHON_EXEC=sys.executable, PYTHONPATH=PACKAGES))
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = parquet.read_table(f"{folder}/out")
        self.assertEqual(rows["x"].to_pylist(), list(range(60)))
        self.assertLessEqual(set(rows["node"].to_pylist()), {"0", "1", "2"})


if __name__ == "__main__":
    unittest.main()
