"""Processors that others have written: dtrain starts their cluster on the ranks of a job, and ends it.

    dask    SCRIPT's process(frame) gets a dask.dataframe of INPUT, and returns one
    modin   SCRIPT's process(frame) gets a modin.pandas.DataFrame of INPUT, and returns one

Rank 0 runs the scheduler, a worker, and the script, in a process each. Each other rank is a worker. OUTPUT/.dtrain,
which all nodes see, has the scheduler's address and the certificate with which all connections are encrypted: a
scheduler executes what it is sent, so only who can read that folder may talk to it. Files get into OUTPUT when all of
the result is written.
"""
import contextlib
import hashlib
import importlib.util
import json
import logging
import os
import select
import shutil
import subprocess
import sys

from .parts import Refused, input_files, link_once, sync, sync_folder

DEADLINE = 120  # seconds, until all ranks have a worker
PACKAGES = {"dask": ("dask", "distributed", "pandas"), "modin": ("modin", "distributed")}
PIP = {"dask": "'dask[dataframe,distributed]'", "modin": "'modin[dask]'"}


def check_packages(kind):
    for package in PACKAGES[kind]:
        if importlib.util.find_spec(package) is None:
            raise Refused(f"{sys.executable} has no {package}; pip install {PIP[kind]}")


class Cluster:
    """Of Dask, for this attempt of the job."""

    def __init__(self, work):
        job = "-".join(os.environ.get(f"TORCHELASTIC_{name}", "") for name in ("RUN_ID", "RESTART_COUNT"))
        self.attempt = hashlib.sha256(job.encode()).hexdigest()[:16] + "."
        self.restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        self.work = work
        self.scheduler_file = os.path.join(work, f"scheduler-{self.attempt}json")
        self.certificate = os.path.join(work, f"certificate-{self.attempt}pem")
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
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
        os.makedirs(self.work, mode=0o700, exist_ok=True)
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

    def remove_what_others_left(self):
        for name in os.listdir(self.work):
            if self.attempt not in name:
                path = os.path.join(self.work, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

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
            client.wait_for_workers(self.size, timeout=DEADLINE)
            yield client
            # What the result was made of is of no use any more, and what dies with it no news.
            client.run(logging.disable)
            client.run_on_scheduler(logging.disable)
            client.shutdown()
        for child in self.children:
            child.wait(DEADLINE)


def setting(name):
    text = os.environ.get(name, "")
    return json.loads(text) if text else None


def dask_result(function, files, folder):
    import dask.dataframe
    frame = dask.dataframe.read_parquet(files)
    parallelism = setting("DTRAIN_PARALLELISM")
    if parallelism:
        frame = frame.repartition(npartitions=parallelism)
    if setting("DTRAIN_PERSIST") is not False:
        frame = frame.persist()
    result = function(frame)
    if not hasattr(result, "to_parquet"):
        raise Refused(f"process() returned a {type(result).__name__}; return a dask.dataframe.DataFrame")
    result.to_parquet(folder, write_index=False, name_function=lambda number: f"part-{number:05d}.parquet")


def modin_result(function, files, folder):
    os.environ["MODIN_ENGINE"] = "dask"
    parallelism = setting("DTRAIN_PARALLELISM")
    if parallelism:
        os.environ["MODIN_NPARTITIONS"] = str(parallelism)
    import modin.pandas
    result = function(modin.pandas.concat([modin.pandas.read_parquet(file) for file in files], ignore_index=True)
                      if len(files) > 1 else modin.pandas.read_parquet(files[0]))
    if not isinstance(result, modin.pandas.DataFrame):
        raise Refused(f"process() returned a {type(result).__name__}; return a modin.pandas.DataFrame")
    os.makedirs(folder)
    whole = os.path.join(folder, "whole")
    result.to_parquet(whole, index=False)
    # A file, or a folder with one for each of its partitions.
    written = [os.path.join(whole, name) for name in sorted(os.listdir(whole))] if os.path.isdir(whole) else [whole]
    for number, path in enumerate(written):
        os.rename(path, os.path.join(folder, f"part-{number:05d}.parquet"))
    if os.path.isdir(whole):
        os.rmdir(whole)


RESULTS = {"dask": dask_result, "modin": modin_result}


def work(kind, load, source, folder):
    """load() gives the user's function; rank 0 alone calls it, when there is a cluster."""
    work_folder = os.path.join(folder, ".dtrain")
    cluster = Cluster(work_folder)
    os.environ.update(cluster.environment())
    check_packages(kind)
    files = input_files(source, folder)
    if cluster.restarts > 0 and os.path.exists(os.path.join(folder, "_SUCCESS")):
        return None  # of this job: a rank died when all was done
    found = sorted(name for name in os.listdir(folder) if name != ".dtrain") if os.path.isdir(folder) else []
    if found:
        raise Refused(f"{folder}: has files already ({found[0]}); choose another folder")
    cluster.make_certificate()
    if cluster.rank > 0:
        return os.execv(sys.executable, cluster.worker())
    cluster.remove_what_others_left()
    new = os.path.join(work_folder, f"new-{cluster.attempt}d")
    try:
        with cluster.client():
            RESULTS[kind](load(), files, new)
    finally:
        cluster.kill()
    for name in sorted(os.listdir(new)):
        with open(os.path.join(new, name), "rb") as file:
            os.fsync(file.fileno())
        os.rename(os.path.join(new, name), os.path.join(folder, name))
    sync_folder(folder)
    with open(os.path.join(folder, "_SUCCESS"), "w") as file:
        sync(file)
    shutil.rmtree(work_folder, ignore_errors=True)
    return None
