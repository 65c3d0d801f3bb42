"""Processors that others have written: dtrain starts their cluster on the ranks of a job, and ends it.

    dask    SCRIPT's process(frame) gets a dask.dataframe of INPUT, and returns one
    modin   SCRIPT's process(frame) gets a modin.pandas.DataFrame of INPUT, and returns one
    ray     SCRIPT's process(dataset) gets a ray.data.Dataset of INPUT, and returns one (ray_data.py)

Of Dask, rank 0 runs the scheduler, a worker, and the script, in a process each. Each other rank is a worker.
OUTPUT/.dtrain, which all nodes see, has the scheduler's address and the certificate with which all connections are
encrypted: a scheduler executes what it is sent, so only who can read that folder may talk to it. Files get into OUTPUT
when all of the result is written.
"""
import contextlib
import hashlib
import importlib.util
import logging
import os
import select
import shutil
import subprocess
import sys

from pyarrow import parquet

from . import stores
from .parts import GROUP_ROWS, Refused, input_files, link_once, one_line, setting, sync, sync_folder
from .ray_data import ray_result

DEADLINE = 120  # seconds, until all ranks have a worker
PACKAGES = {"dask": ("dask", "distributed", "pandas"), "modin": ("modin", "distributed"),
            "ray": ("ray", "pandas", "numpy")}
PIP = {"dask": "'dask[dataframe,distributed]'", "modin": "'modin[dask]'", "ray": "'ray[data]'"}


def check_packages(kind):
    for package in PACKAGES[kind]:
        if importlib.util.find_spec(package) is None:
            raise Refused(f"{sys.executable} has no {package}; pip install {PIP[kind]}")


class Attempt:
    """One start of the job's ranks, and where its result is written until it is whole."""

    def __init__(self, folder):
        job = "-".join(os.environ.get(f"TORCHELASTIC_{name}", "") for name in ("RUN_ID", "RESTART_COUNT"))
        self.name = hashlib.sha256(job.encode()).hexdigest()[:16] + "."
        self.restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        self.folder = folder
        self.work = os.path.join(folder, ".dtrain")

    def is_done(self):
        if self.restarts > 0 and os.path.exists(os.path.join(self.folder, "_SUCCESS")):
            return True  # of this job: a rank died when all was done
        there = os.listdir(self.folder) if os.path.isdir(self.folder) else []
        found = sorted(name for name in there if name != ".dtrain")
        if found:
            raise Refused(f"{self.folder}: has files already ({found[0]}); choose another folder")
        return False

    def make_work_folder(self):
        os.makedirs(self.work, mode=0o700, exist_ok=True)

    def remove_what_others_left(self):
        for name in os.listdir(self.work):
            if self.name not in name:
                path = os.path.join(self.work, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

    @contextlib.contextmanager
    def result(self):
        """A folder for the files of the result, in the order of their names. They are OUTPUT's at the block's end."""
        self.make_work_folder()
        self.remove_what_others_left()
        new = os.path.join(self.work, f"new-{self.name}d")
        yield new
        written = [os.path.join(new, name) for name in sorted(os.listdir(new)) if name.endswith(".parquet")]
        check_columns(written)
        for number, path in enumerate(written):
            with open(path, "rb") as file:
                os.fsync(file.fileno())
            os.rename(path, os.path.join(self.folder, f"part-{number:05d}.parquet"))
        sync_folder(self.folder)
        with open(os.path.join(self.folder, "_SUCCESS"), "w") as file:
            sync(file)
        shutil.rmtree(self.work, ignore_errors=True)


def check_columns(files):
    """The libraries let partitions differ in their columns."""
    first = None
    for number, file in enumerate(files):
        with parquet.ParquetFile(file) as opened:
            mine = opened.schema_arrow.remove_metadata()
        first = first or mine
        if not first.equals(mine):
            raise Refused(f"process(): partition {number} of its result has other columns than the first: "
                          f"{one_line(mine)}, not {one_line(first)}")


class Cluster:
    """Of Dask, for this attempt of the job."""

    def __init__(self, attempt):
        self.attempt = attempt
        self.work = attempt.work
        self.scheduler_file = os.path.join(self.work, f"scheduler-{attempt.name}json")
        self.certificate = os.path.join(self.work, f"certificate-{attempt.name}pem")
        self.children = []

    def environment(self):
        """Dask's settings, in the variables that it reads."""
        settings = {"COMM__TLS__CA_FILE": self.certificate, "COMM__REQUIRE_ENCRYPTION": "True"}
        for role in "SCHEDULER", "WORKER", "CLIENT":
            settings[f"COMM__TLS__{role}__CERT"] = self.certificate
        return {**{f"DASK_DISTRIBUTED__{name}": value for name, value in settings.items()},
                "DASK_LOGGING__DISTRIBUTED": "warning",
                "DASK_DATAFRAME__SHUFFLE__METHOD": "tasks",
                "DASK_DATAFRAME__CONVERT_STRING": "False"}

    def make_certificate(self):
        """By whichever rank is first: all have the same then."""
        self.attempt.make_work_folder()
        if os.path.exists(self.certificate):
            return
        try:
            done = subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                 "-days", "30", "-subj", "/CN=dtrain", "-keyout", "-", "-out", "-"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=DEADLINE)
        except FileNotFoundError:
            raise Refused("openssl is missing, which makes the certificate of the cluster: install it") from None
        if done.returncode != 0:
            raise Refused(f"openssl cannot make the certificate of the cluster: {done.stderr.decode().strip()}")
        link_once(self.work, self.certificate, done.stdout, 0o600)

    def worker(self):
        threads = os.environ.get("OMP_NUM_THREADS", "1")
        return [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", self.scheduler_file,
                "--no-dashboard", "--no-nanny", "--nthreads", threads, "--death-timeout", str(DEADLINE),
                "--local-directory", os.environ.get("TMPDIR", "/tmp")]

    def start(self):
        """Returns the scheduler's address."""
        scheduler = subprocess.Popen([sys.executable, "-m", "dtrain_data.scheduler", self.scheduler_file],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.children.append(scheduler)
        self.children.append(subprocess.Popen(self.worker(), stdin=subprocess.DEVNULL))
        with scheduler.stdout as told:
            if not select.select([told], [], [], DEADLINE)[0] or not (address := told.readline().decode().strip()):
                raise Refused("the scheduler of Dask does not start; what it says is above")
        return address

    def kill(self):
        for child in self.children:
            child.kill()
        for child in self.children:
            child.wait(DEADLINE)

    @contextlib.contextmanager
    def client(self):
        """Of a cluster with all workers. The cluster ends with the block."""
        from distributed import Client
        os.environ["DASK_SCHEDULER_ADDRESS"] = self.start()
        with Client(os.environ["DASK_SCHEDULER_ADDRESS"], timeout=DEADLINE) as client:
            client.wait_for_workers(self.attempt.size, timeout=DEADLINE)
            yield client
            # What the result was made of is of no use any more, and what dies with it no news.
            client.run(logging.disable)
            client.run_on_scheduler(logging.disable)
            client.shutdown()
        for child in self.children:
            child.wait(DEADLINE)


def dask_frame(files):
    import dask.dataframe
    paths, options = stores.together(files)
    if options:  # Dask's own reader by pyarrow loses what persist() has kept
        from fsspec.implementations.arrow import ArrowFSWrapper
        options["filesystem"] = ArrowFSWrapper(options["filesystem"])
    return dask.dataframe.read_parquet(paths, **options)


def modin_frame(files):
    import modin.pandas
    if any(map(stores.is_uri, files)):  # of stores Modin reads all on rank 0
        from modin.pandas.io import from_dask
        return from_dask(dask_frame(files)).reset_index(drop=True)
    if len(files) == 1:
        return modin.pandas.read_parquet(files[0])
    return modin.pandas.concat([modin.pandas.read_parquet(file) for file in files], ignore_index=True)


def dask_result(load, files, folder):
    frame = dask_frame(files)
    parallelism = setting("DTRAIN_PARALLELISM")
    if parallelism:
        frame = frame.repartition(npartitions=parallelism)
    if setting("DTRAIN_PERSIST") is not False:
        frame = frame.persist()
    result = load()(frame)
    if not hasattr(result, "to_parquet"):
        raise Refused(f"process() returned a {type(result).__name__}; return a dask.dataframe.DataFrame")
    result.to_parquet(folder, write_index=False, row_group_size=GROUP_ROWS,
                      name_function=lambda number: f"part-{number:05d}.parquet")


def modin_result(load, files, folder):
    os.environ["MODIN_ENGINE"] = "dask"
    parallelism = setting("DTRAIN_PARALLELISM")
    if parallelism:
        os.environ["MODIN_NPARTITIONS"] = str(parallelism)
    import modin.pandas
    result = load()(modin_frame(files))
    if not isinstance(result, modin.pandas.DataFrame):
        raise Refused(f"process() returned a {type(result).__name__}; return a modin.pandas.DataFrame")
    os.makedirs(folder)
    whole = os.path.join(folder, "whole")
    result.to_parquet(whole, index=False, row_group_size=GROUP_ROWS)
    # A file, or a folder with one for each of its partitions.
    written = [os.path.join(whole, name) for name in sorted(os.listdir(whole))] if os.path.isdir(whole) else [whole]
    for number, path in enumerate(written):
        os.rename(path, os.path.join(folder, f"part-{number:05d}.parquet"))
    if os.path.isdir(whole):
        os.rmdir(whole)


RESULTS = {"dask": dask_result, "modin": modin_result, "ray": ray_result}


def work(kind, load, source, folder):
    """load() gives the user's function; rank 0 alone calls it, when there is a cluster."""
    attempt = Attempt(folder)
    if kind == "ray" and attempt.rank > 0:  # Ray has workers of its own, and rank 0 may have written files already
        return None
    check_packages(kind)
    files = input_files(source, folder)
    if attempt.is_done():
        return None
    try:
        stores.together(files)
    except (ValueError, OSError) as error:
        raise Refused(str(error)) from None
    if kind == "ray":
        with attempt.result() as new:
            ray_result(load, files, new)
        return None
    cluster = Cluster(attempt)
    os.environ.update(cluster.environment())
    cluster.make_certificate()
    if attempt.rank > 0:
        return os.execv(sys.executable, cluster.worker())
    with attempt.result() as new:
        try:
            with cluster.client():
                RESULTS[kind](load, files, new)
        finally:
            cluster.kill()
    return None
