"""How long a function takes as a job of two ranks: by Spark's own TorchDistributor, and by dtrain's, in one session
of Spark and by turns. Prints JSON: {mode: {who: [seconds]}}. A program for Spark's Python, with torch and dtrain's
package.

usage: distributors.py RUNS
"""
import json
import os
import sys
import time

from dtrain.spark import TorchDistributor as Dtrains
from pyspark.ml.torch.distributor import TorchDistributor as Sparks
from pyspark.sql import SparkSession


def work():
    return os.environ["WORLD_SIZE"]


def seconds(distributor, local):
    began = time.monotonic()
    value = distributor(num_processes=2, local_mode=local, use_gpu=False).run(work)
    if value != "2":
        raise RuntimeError(f"{distributor.__module__} gave {value!r}")
    return time.monotonic() - began


def main(runs):
    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    for name in "PYTHONPATH", "PYTHONWARNINGS":
        builder.config(f"spark.executorEnv.{name}", os.environ[name])
    session = builder.getOrCreate()
    found = {}
    for mode, local in ("local", True), ("spark", False):
        found[mode] = {"TorchDistributor": [], "dtrain": []}
        for run in range(runs + 1):  # the first one warms up
            for who, distributor in ("TorchDistributor", Sparks), ("dtrain", Dtrains):
                took = seconds(distributor, local)
                if run:
                    found[mode][who].append(took)
    session.stop()
    return found


if __name__ == "__main__":
    FOUND = main(int(sys.argv[1]))
    print("\n" + json.dumps(FOUND))
