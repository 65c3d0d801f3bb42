#!/usr/bin/env python3
"""Spark's own TorchDistributor under `dtrain shim`, in both modes, on a real master and a worker, with Spark's own
encryption; and a job of `dtrain run --engine spark` there.
This Python has torch and numpy, which Spark's Python is lent."""
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from spark_cluster import CHEAP, OPTIONS, PYTHON, SparkCluster  # noqa: E402

SITE = sysconfig.get_path("purelib")
DTRAIN = str(pathlib.Path(os.environ["DTRAIN_BIN_DIR"], "dtrain").resolve())
DEADLINE = 300
DRIVER = f"""
import os, sys
from pyspark.sql import SparkSession
from pyspark.ml.torch.distributor import TorchDistributor

def work(a):
    import os
    return a, os.environ["RANK"], os.environ["WORLD_SIZE"], "DTRAIN_JOB_ID" in os.environ

def fails():
    raise ValueError("no luck")

builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.executor.memory", "512m")
builder.config("spark.executor.extraJavaOptions", "{CHEAP}").config("spark.driver.extraJavaOptions", "{CHEAP}")
for name in "PYTHONPATH", "DTRAIN_TOKEN_FILE", "PYTHONWARNINGS":
    builder.config("spark.executorEnv." + name, os.environ[name])
spark = builder.getOrCreate()
for local in True, False:
    distributor = TorchDistributor(num_processes=2, local_mode=local, use_gpu=False)
    print("result", local, distributor.run(work, 7))
    try:
        distributor.run(fails)
    except Exception as error:
        print("failed", local, type(error).__name__)
"""


class TorchDistributor(unittest.TestCase):
    def test_both_modes(self):
        with tempfile.TemporaryDirectory() as folder:
            cluster = SparkCluster(f"DTRAIN_TEST_CLUSTER={folder}", "of-this-cluster-2c9b")
            self.addCleanup(cluster.close)
            cluster.add_worker(2)
            token = os.path.join(folder, "token")
            subprocess.run([DTRAIN, "token", "--new", "--file", token], check=True, capture_output=True)
            environment = {**{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
                           "MASTER": cluster.address, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": PYTHON,
                           "SPARK_CONF_DIR": cluster.folder,
                           "PYTHONPATH": SITE, "PYTHONWARNINGS": "ignore", "DTRAIN_TOKEN_FILE": token,
                           "XDG_CACHE_HOME": folder, "HOME": folder, "TMPDIR": folder, "PYTHONDONTWRITEBYTECODE": "1"}
            driver = pathlib.Path(folder, "driver.py")
            driver.write_text(DRIVER)
            done = subprocess.run([DTRAIN, "shim", PYTHON, driver], env=environment, cwd=folder, text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE)
            said = done.stdout + done.stderr
            self.assertEqual(done.returncode, 0, said[-8000:])
            self.assertRegex(done.stdout, r"(?m)^result True \(7, '[01]', '2', True\)$")
            self.assertRegex(done.stdout, r"(?m)^result False \(7, '0', '2', True\)\nfailed False \w+$")
            self.assertIn("\nfailed True RuntimeError\n", done.stdout)
            self.assertIn("dtrain: 2 workers of", said)
            self.assertIn("ValueError: no luck", said)
            job = subprocess.run([DTRAIN, "run", "--engine", "spark", f"--spark={OPTIONS}", "sh", "-c", "exit 7"],
                                 env={**environment, "PYTHON_EXEC": PYTHON}, cwd=folder, text=True,
                                 stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE)
            self.assertEqual(job.returncode, 7, job.stdout + job.stderr)


if __name__ == "__main__":
    unittest.main()
