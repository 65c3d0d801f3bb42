"""Calls torch's launcher from a program, as libraries do: shim_calls.py CALL. Prints what came of it."""
import os
import sys
import tempfile

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, LogsSpecs, SignalException, Std
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch


class Point:  # reaches ranks and comes back only if they know this module as the caller does
    def __init__(self, x):
        self.x = x


def config(**more):
    return LaunchConfig(**{**dict(min_nodes=1, max_nodes=1, nproc_per_node=2, run_id="calls", rdzv_backend="c10d",
                                  rdzv_endpoint="localhost:0", max_restarts=0), **more})


def place(point):
    return Point((point.x, int(os.environ["RANK"]), os.environ["WORLD_SIZE"], "DTRAIN_JOB_ID" in os.environ))


def function():
    points = elastic_launch(config(), place)(Point(4))
    print("result", sorted((rank, type(point) is Point, point.x) for rank, point in points.items()))


def closure():
    four = 4
    print("result", elastic_launch(config(), lambda: four + int(os.environ["RANK"]))())


def second_try():
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        sys.exit(1)
    return os.environ["RANK"], os.environ["ROLE_NAME"], os.environ["TORCHELASTIC_MAX_RESTARTS"]


def restart():
    print("result", sorted(elastic_launch(config(max_restarts=2, role="worker"), second_try)().items()))


def rank_one_raises():
    if os.environ["RANK"] == "1":
        raise ValueError("no luck")


def told(error):
    rank, failure = error.get_first_failure()
    message = failure.message["message"] if isinstance(failure.message, dict) else failure.message
    print("result", error.name, rank, failure.local_rank, failure.exitcode, failure.pid > 1, message)


def failure():
    killed = "import os, signal; os.environ['RANK'] == '1' and os.kill(os.getpid(), 9); signal.pause()"
    for entry, words in ((rank_one_raises, ()), (sys.executable, ("-c", killed)),
                         (sys.executable, ("-u", os.environ["EXITS_WITH_3"]))):
        try:
            elastic_launch(config(), entry)(*words)
        except ChildFailedError as error:
            told(error)


def program():
    code = "import os; print('result rank', os.environ['RANK'])"
    print("result", sorted(elastic_launch(config(), sys.executable)("-c", code).items()))


def logs():
    with tempfile.TemporaryDirectory() as folder:
        specs = DefaultLogsSpecs(log_dir=folder, redirects={0: Std.OUT}, tee=Std.NONE, local_ranks_filter={1})
        elastic_launch(config(logs_specs=specs), "sh")("-c", "echo result $RANK")
        found = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
        texts = [path for path in found if path.endswith("stdout.log")]
        print("result", sorted((path.split("/")[-2], open(path).read()) for path in texts))


def refused():
    class Mine(LogsSpecs):
        root_log_dir = "nowhere"

        def reify(self, envs):
            raise NotImplementedError

    for more in (dict(logs_specs=Mine()), dict(event_log_handler="mine"), dict(rdzv_backend="zeus")):
        try:
            elastic_launch(config(**more), "true")()
        except (ValueError, RuntimeError) as error:
            print("result", type(error).__name__, error)


def stopped():
    """A signal of the caller's own: torch raises it as an exception."""
    try:
        elastic_launch(config(), sys.executable)(
            "-c", "import os, signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); "
                  f"os.environ['RANK'] == '1' and os.kill({os.getpid()}, signal.SIGTERM); signal.pause()")
    except SignalException as error:
        print("result", error.sigval.name)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
