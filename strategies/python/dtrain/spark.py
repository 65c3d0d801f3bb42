"""What pyspark.ml.torch.distributor offers, carried out by dtrain. A program changes the import and nothing else:

    from dtrain.spark import TorchDistributor
    TorchDistributor(num_processes=8, local_mode=False).run(train, 0.01)
    TorchDistributor(num_processes=8, local_mode=False).train_on_dataframe(train, dataframe, 0.01)

See docs/python.md.
"""
import contextlib
import json
import os
import pathlib
import shlex
import socket
import sys
import tempfile
import threading
import warnings

from ._launch import LAST_WISH, RunError, launch, options_of
from ._removed import removed

__all__ = ["DeepspeedTorchDistributor", "RunError", "TorchDistributor", "get_spark_partition_data_loader"]

LONGEST_FOLDER = 60  # of a socket: its whole path has 107 bytes at most
GPUS = "spark.task.resource.gpu.amount"
_OF_ROWS = "SPARK_PARTITION_ARROW_DATA_FILE", "SPARK_DATAFRAME_SCHEMA_FILE"


def _active_context():
    spark = sys.modules.get("pyspark")
    return spark.SparkContext._active_spark_context if spark else None


def get_spark_partition_data_loader(num_samples, batch_size, num_workers=1, prefetch_factor=2):
    from ._partition import get_spark_partition_data_loader as make  # which needs pyarrow
    return make(num_samples, batch_size, num_workers, prefetch_factor)


_get_spark_partition_data_loader = get_spark_partition_data_loader  # pyspark.ml.torch.distributor's name


def _refuse_types(schema):
    """Of columns that Arrow cannot have: Spark itself says so when it has computed the rows."""
    from pyspark.sql.pandas.types import to_arrow_type
    for field in schema:
        try:
            to_arrow_type(field.dataType)
        except Exception as error:
            raise ValueError(f"the column {field.name} has the type {field.dataType.simpleString()}, by which rows "
                             f"cannot reach the ranks: cast or drop it ({str(error).splitlines()[0]})") from None


def _dealt(dataframe, parts):
    """With `parts` partitions. Those of the user are kept, if there are so many."""
    plan = dataframe._jdf.queryExecution().optimizedPlan()
    while plan.nodeName() in ("Project", "Filter"):
        plan = plan.child()
    is_dealt = plan.nodeName() in ("Repartition", "RepartitionByExpression") and plan.shuffle()
    return dataframe if is_dealt and plan.numPartitions() == parts else dataframe.repartition(parts)


def _answer(server, context, gone, data):
    """The shim of `dtrain run --engine spark` (scripts/engines), inside of the program that has the Spark session."""
    try:
        connection, _ = server.accept()
    except OSError:
        return  # dtrain has ended before it asked
    # dtrain may end at any time.
    with contextlib.suppress(OSError), connection, connection.makefile("r") as hears, connection.makefile("w") as says:
        code = hears.readline()
        if code:
            scope = {"__name__": "dtrain_shim", "HEARS": hears, "SAYS": says, "CONTEXT": context, "GONE": gone, **data}
            exec(compile(json.loads(code), "dtrain-spark", "exec"), scope)


# Started by dtrain in place of a Python: it only connects dtrain's pipes with the socket.
_BRIDGE = '''#!/bin/sh
exec {python} -I -c '
import os, shutil, socket, sys, threading
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
def hear():
    while chunk := link.recv(65536):
        os.write(1, chunk)
    os._exit(0)
threading.Thread(target=hear, daemon=True).start()
while chunk := os.read(0, 65536):
    link.sendall(chunk)
link.shutdown(socket.SHUT_WR)
threading.Event().wait(60)
' {socket}
'''


class TorchDistributor:
    """num_processes: ranks, one for each task of Spark, or for each GPU that its tasks have. local_mode: on this host,
    without Spark. use_gpu: each rank has a GPU.

    run() and train_on_dataframe() return and raise what dtrain.run() does.
    """

    def __init__(self, num_processes=1, local_mode=True, use_gpu=True, _ssl_conf=None):
        if not isinstance(num_processes, int) or num_processes < 1:
            raise ValueError(f"num_processes is {num_processes!r}, and must be a number from 1")
        self.num_processes, self.local_mode, self.use_gpu = num_processes, local_mode, use_gpu

    def run(self, train_object, /, *args, **kwargs):
        if self.local_mode:
            options = options_of(self._local_processes(), None, "local", ())
            with self._more_words(None) as words:
                return launch(train_object, args, kwargs, options, None, words, self._variables())
        return self._on_spark(train_object, args, kwargs)

    def train_on_dataframe(self, train_function, spark_dataframe, /, *args, **kwargs):
        """train_function(*args, **kwargs) on each rank, with rows of spark_dataframe, which that gets by
        get_spark_partition_data_loader(): this module's or that of pyspark.ml.torch.distributor."""
        if self.local_mode:
            raise ValueError("train_on_dataframe() needs executors, which the rows are on: say local_mode=False")
        if not callable(train_function):
            raise TypeError(f"train_on_dataframe() runs a function, and got {train_function!r}")
        if not hasattr(spark_dataframe, "mapInArrow"):
            raise TypeError(f"train_on_dataframe() needs a DataFrame of Spark, and got {spark_dataframe!r}")
        return self._on_spark(train_function, args, kwargs, spark_dataframe)

    _train_on_dataframe = train_on_dataframe  # Spark's name

    @contextlib.contextmanager
    def _more_words(self, folder):
        """The last words of the ranks' command line; what they name is there until the end."""
        yield []

    def _variables(self):
        return [] if self.use_gpu else ["CUDA_VISIBLE_DEVICES="]

    def _local_processes(self):
        if not self.use_gpu:
            return self.num_processes
        import torch
        gpus = torch.cuda.device_count()
        if not gpus:
            raise RuntimeError("this host has no GPU for PyTorch, and use_gpu is True; without GPUs, say use_gpu=False")
        if gpus < self.num_processes:
            warnings.warn(f"this host has {gpus} GPUs, so there are {gpus} ranks and not {self.num_processes}")
        return min(gpus, self.num_processes)

    def _tasks(self, conf):
        """(tasks, ranks of each)"""
        if not self.use_gpu:
            return self.num_processes, 1
        gpus = int(float(conf.get(GPUS, "0")))
        if gpus < 1:
            raise ValueError(f"{GPUS} is not set, so Spark gives tasks no GPU, and use_gpu is True")
        if self.num_processes % gpus:
            raise ValueError(f"num_processes is {self.num_processes}, and a task has {gpus} GPUs: the ranks must fill "
                             "the tasks")
        return self.num_processes // gpus, gpus

    def _on_spark(self, train_object, args, kwargs, dataframe=None):
        context = _active_context()
        if context is None:
            raise RuntimeError("there is no Spark session: make one (SparkSession.builder...getOrCreate()), or say "
                               "local_mode=True")
        tasks, ranks = self._tasks(context.getConf())
        data = {}
        if dataframe is not None:
            _refuse_types(dataframe.schema)
            data = {"DATA": _dealt(dataframe, tasks), "READERS": ranks}
        options = options_of(ranks, tasks, "spark", ())
        short = "/tmp" if len(tempfile.gettempdir()) > LONGEST_FOLDER else None
        with removed(tempfile.mkdtemp(prefix="dtrain-spark-", dir=short)) as folder, \
                socket.socket(socket.AF_UNIX) as server:
            door = os.path.join(folder, "door")
            server.bind(door)
            server.listen(1)
            bridge = pathlib.Path(folder, "bridge")
            bridge.write_text(_BRIDGE.format(python=shlex.quote(sys.executable), socket=shlex.quote(door)))
            bridge.chmod(0o700)
            gone = threading.Event()
            thread = threading.Thread(target=_answer, args=(server, context, gone, data), daemon=True)
            thread.start()
            environment = {**os.environ, "DTRAIN_ENGINE_PYTHON": str(bridge)}
            for name in _OF_ROWS:  # of a rank that is itself such a program
                environment.pop(name, None)
            try:
                with self._more_words(os.getcwd()) as words:
                    return launch(train_object, args, kwargs, options, environment, words, self._variables())
            finally:
                gone.set()
                with contextlib.suppress(OSError):
                    server.shutdown(socket.SHUT_RDWR)  # wakes who waits there
                thread.join(LAST_WISH)  # by then Spark knows that its stage is over


class DeepspeedTorchDistributor(TorchDistributor):
    """The same for programs of DeepSpeed: numGpus * nnodes ranks, with `--deepspeed --deepspeed_config FILE` as the
    last words of their command line (a function has them in sys.argv). deepspeedConfig: a path, or a dict for a file.
    """

    def __init__(self, numGpus=1, nnodes=1, localMode=True, useGpu=True, deepspeedConfig=None):
        for name, value in ("numGpus", numGpus), ("nnodes", nnodes):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}, and must be a number from 1")
        super().__init__(numGpus * nnodes, localMode, useGpu)
        self.deepspeed_config = deepspeedConfig

    @contextlib.contextmanager
    def _more_words(self, folder):
        if not isinstance(self.deepspeed_config, dict):
            yield ["--deepspeed"] + (["--deepspeed_config", self.deepspeed_config] if self.deepspeed_config else [])
            return
        descriptor, name = tempfile.mkstemp(prefix=".dtrain-deepspeed-", suffix=".json", dir=folder)
        with removed(name):
            with open(descriptor, "w") as file:
                json.dump(self.deepspeed_config, file)
            yield ["--deepspeed", "--deepspeed_config", name]
