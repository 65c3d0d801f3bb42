"""What the matrix compares dtrain with: torch's own torchrun, and Spark's own TorchDistributor in its local mode. Both
on one host. Nothing is demanded of them: the page shows what they do."""
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from engines import ROOT, SPARK_PYTHON, Engine  # noqa: E402
from support import proc_file  # noqa: E402

TORCH_PYTHON = str(ROOT / ".venv/bin/python")
# A rank of TorchDistributor is a Python file; here it becomes the command.
WORKER = "import os, sys\nos.execvp(sys.argv[1], sys.argv[1:])\n"
DRIVER = """
import sys
from pyspark.sql import SparkSession
from pyspark.ml.torch.distributor import TorchDistributor
SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
TorchDistributor(num_processes=2, local_mode=True, use_gpu=False).run(sys.argv[1], *sys.argv[2:])
"""


class Torchrun(Engine):
    name = "torchrun"

    def words(self, flags, command):
        return [TORCH_PYTHON, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                "--no-python", *command]


class TorchDistributor(Engine):
    name = "TorchDistributor"

    def __enter__(self):
        super().__enter__()
        for name, text in ("worker.py", WORKER), ("driver.py", DRIVER):
            pathlib.Path(self.folder, name).write_text(text)
        for name in "SPARK_HOME", "JAVA_HOME", "MASTER":
            self.environment.pop(name, None)
        self.environment.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=SPARK_PYTHON, PYTHONWARNINGS="ignore",
                                PYTHONPATH=str(next((ROOT / ".venv/lib").glob("python*/site-packages"))))
        return self

    def words(self, flags, command):
        return [SPARK_PYTHON, os.path.join(self.folder, "driver.py"), os.path.join(self.folder, "worker.py"), *command]

    def agent(self):
        """The torchrun that it starts."""
        return next(pid for pid in self.left() if b"torch.distributed.run\0" in proc_file(pid, "cmdline"))


PEERS = [Torchrun, TorchDistributor]
