"""A program that uses dtrain.run(); its first argument says how."""
import concurrent.futures
import glob
import json
import os
import signal
import sys

import dtrain
from dtrain.spark import DeepspeedTorchDistributor, TorchDistributor


class Weights:
    def __init__(self, value):
        self.value = value


class Broken(Exception):
    def __init__(self, step):
        super().__init__(f"broken at step {step}")
        self.step = step


def train(rate, momentum=0.0):
    print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} trains with {rate}, {momentum}", flush=True)
    return Weights(rate + int(os.environ["RANK"]))


def breaks(rank):
    if os.environ["RANK"] == str(rank):
        raise Broken(17)
    signal.pause()


def dies():
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def ignores_signals():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("sleeps", flush=True)
    signal.pause()


def changes_by_round():
    """Rank 0 has a value in the first round, which rank 1 ends; and none in the second."""
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if os.environ["RANK"] == "0":
            return "an old value"
        wait_for_rank_0()
        raise Broken(1)
    sys.exit(int(os.environ["RANK"]) * 3)


def wait_for_rank_0():
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    while not glob.glob(os.path.join(folder, "round-*", "value")):
        os.sched_yield()


def rounds(code):
    sys.stdout.flush()
    try:
        print("value", dtrain.run(changes_by_round, nproc=code, flags=["--max-restarts", "1"]))
    except Exception as error:
        print(type(error).__name__, getattr(error, "code", ""), str(error).splitlines()[0])


def ends_without_value():
    try:
        dtrain.run(sys.exit, 0)
    except dtrain.RunError as error:
        print("code", error.code, str(error).splitlines()[0])
    rounds(2)


def says_umlauts():
    sys.stdout.buffer.write("\u00fc \u2603\n".encode())


def gpus():
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def fails(**where):
    try:
        dtrain.run(breaks, 1, **{"nproc": 2, **where})
    except Broken as error:
        print("step", error.step, "remotely" if "in breaks" in str(error.__cause__) else "", str(error.__cause__))


def is_killed():
    try:
        dtrain.run(dies, nproc=2)
    except dtrain.RunError as error:
        print("code", error.code)


def script(path):
    print("said", repr(dtrain.run(path, "--lr=0.01", 3, nproc=1)))
    try:
        dtrain.run(path, "7", nproc=2)
    except dtrain.RunError as error:
        print("code", error.code, "tail", "exit code 7" in error.output)


def interrupted():
    try:
        dtrain.run(ignores_signals, nproc=2)
    except KeyboardInterrupt:
        print("interrupted")


def distributes(on_spark):
    if on_spark:
        from pyspark.sql import SparkSession
        session = SparkSession.builder.getOrCreate()
    distributor = TorchDistributor(num_processes=2, local_mode=not on_spark, use_gpu=False)
    print("value", distributor.run(train, 0.5, momentum=0.9).value)
    try:
        distributor.run(breaks, 0)
    except Broken as error:
        print("step", error.step)
    if on_spark:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            one = TorchDistributor(num_processes=1, local_mode=False, use_gpu=False)
            print("both", sorted(weights.value for weights in pool.map(lambda rate: one.run(train, rate), (1, 2))))
        print("hidden", repr(one.run(gpus)))
        print("session", session.sparkContext.parallelize(range(4)).sum())


def words():
    return sys.argv[1:-1], json.load(open(sys.argv[-1]))


def deepspeed(path):
    config = {"zero_optimization": {"stage": 2}}
    distributor = DeepspeedTorchDistributor(numGpus=2, useGpu=False, deepspeedConfig=config)
    print("value", distributor.run(words))
    print("said", distributor.run(path, "1", "2").count("--deepspeed_config"))


def refusals():
    for make in (lambda: dtrain.run(train, 1, flags="--max-restarts 3"), lambda: dtrain.run(""),
                 lambda: dtrain.run("--help"),
                 lambda: TorchDistributor(0), lambda: TorchDistributor("2"), lambda: TorchDistributor(2).run(train, 1),
                 lambda: TorchDistributor(2, local_mode=False, use_gpu=False).run(train, 1),
                 lambda: dtrain.run("/bin/true", lr=1), lambda: dtrain.run("/no/such/script.py"),
                 lambda: dtrain.run(train, 1, engine="nonsense")):
        try:
            make()
        except Exception as error:
            print(type(error).__name__, str(error).splitlines()[0])


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "value":
        print("value", dtrain.run(train, 1.5, nproc=2, momentum=0.9).value)
    elif what == "nodes":
        print("value", dtrain.run(train, 1.5, nnodes=2, nproc=1, engine=rest[0]).value)
        fails(nnodes=2, nproc=1, engine=rest[0])
    elif what == "spark":
        distributes(True)
    elif what == "umlauts":
        dtrain.run(says_umlauts, nproc=1)
    elif what == "local":
        distributes(False)
    else:
        globals()[what](*rest)
