#!/usr/bin/env python3
"""dtrain run --engine spark, on a real standalone master with two workers, which all tests here share. All of its
connections are authenticated, and TLS."""
import json
import os
import pathlib
import re
import signal
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python"), str(HERE.parents[1] / "support")]

from cluster_jobs import (DEADLINE, FACTS, MARK, OURS, PATIENCE, ROW, ClusterJobs, command_lines,  # noqa: E402
                          processes_with, said_by, stat_of, until)
from support_python import environment, start_job  # noqa: E402
from store_job import StoreJob  # noqa: E402
from spark_cluster import OPTIONS, PYTHON, SparkCluster  # noqa: E402

GPUS = "GPU-5f1a", "GPU-77c0"
SECRET = "of-this-cluster-7d1e"


def setUpModule():
    global CLUSTER
    CLUSTER = SparkCluster(OURS, SECRET, tls=True)
    unittest.addModuleCleanup(CLUSTER.close)
    for _ in range(2):
        CLUSTER.add_worker(2, GPUS)


class Said:
    """What a program shows: lines `NAME: [VALUES]`, among those of others."""

    def __init__(self, job):
        self.lines, self.before = job.stdout, ""

    def next(self, name):
        for line in self.lines:
            self.before += line
            found = re.match(rf"(?:\[\d+\] )?{name}: (\[.*\])$", line)
            if found:
                return json.loads(found[1])
        raise AssertionError(f"the program has ended without {name}; it said: {self.before[-8000:]}")

    def of_ranks(self, count):
        return dict(self.next("of rank") for _ in range(count))


class Spark(ClusterJobs):
    ENGINE = "spark"

    def setUp(self):
        super().setUp()
        self.environment.update(MASTER=CLUSTER.address, PYTHON_EXEC=PYTHON, SPARK_LOCAL_IP="127.0.0.1",
                                SPARK_CONF_DIR=CLUSTER.folder,
                                DTRAIN_SPARK=f"{OPTIONS} --conf spark.ui.enabled=false")
        for name in "SPARK_HOME", "PYSPARK_PYTHON", "JAVA_HOME":
            self.environment.pop(name, None)

    def test_workers_of_a_job_take_as_few_executors_as_have_room(self):
        # Spark itself refuses tasks that are larger than an executor, where it knows how large that is.
        self.environment["DTRAIN_SPARK"] += " --conf spark.executor.cores=2"
        said = self.says("--engine", "spark", "--num-proc", "3", "sh", "-c", FACTS)
        self.assertEqual(self.rows(said), [(0, 3, 0, 0), (1, 3, 1, 0), (2, 3, 0, 1)], said)
        self.assertEqual({row[4:] for row in ROW.findall(said)}, {(self.folder, self.environment["LR"])}, said)

    def test_a_data_set_in_a_store_with_credentials_of_the_config(self):
        job = StoreJob(self, self.folder)
        job.check_run(self, "spark", {**self.environment, "DTRAIN_ENGINE_PYTHON": PYTHON}, DEADLINE)
        job.check_no_secret_below(self, CLUSTER.folder)

    def test_auto_takes_all_executors_and_the_exit_code_is_the_jobs(self):
        said = self.says("--engine", "spark", "--num-proc", "auto", "sh", "-c", "exit $((RANK * 7))", code=7)
        self.assertIn("rank 1", said)

    def test_workers_have_the_gpus_that_spark_gives_and_nothing_else_of_it(self):
        before = set(os.environ) | set(self.environment)
        said = self.says("--engine", "spark", "--nnodes", "1:8", "--nproc", "2", "--resources-per-worker",
                         "CPU=1,GPU=1", "sh", "-c", "echo GPUs $CUDA_VISIBLE_DEVICES; env")
        shown = re.findall(r"(?m)^\[\d\] GPUs (\S+)$", said)
        self.assertEqual([sorted(each.split(",")) for each in shown], [sorted(GPUS)] * 4, said)
        names = set(re.findall(r"(?m)^\[\d\] ((?:_?SPARK|PYSPARK|PYTHON)\w+)=", said)) - before
        self.assertLessEqual(names, {"PYTHONUNBUFFERED", "PYTHON_EXEC"})
        self.assertNotIn(SECRET, said)

    def test_too_little_room_is_told(self):
        said = self.says("--engine", "spark", "--nnodes", "5", "sh", "-c", "echo started", code=75)
        self.assertIn("room for 4 tasks of this kind at a time, and 5 nodes are asked for", said)
        self.assertNotIn("started", said)

    def test_what_is_wrong_is_one_line(self):
        nobody = {"MASTER": "spark://127.0.0.1:1"}
        self.check_refusals([
            (2, "cannot import pyspark", ["true"], {"PYTHON_EXEC": "/usr/bin/python3"}),
            (125, "spark://127.0.0.1:1 does not answer: Connection refused", ["true"], nobody),
            (2, "no master of Spark's is known", ["true"], {"MASTER": ""}),
            (2, "DTRAIN_SPARK: spark.authenticate.secret would be seen", ["true"],
             {"DTRAIN_SPARK": f"--conf spark.authenticate.secret={SECRET}"}),
            (2, "--nproc gpu counts GPUs", ["--nproc", "gpu", "true"], {}),
            (2, "--standalone", ["--standalone", "true"], {}),
            (125, "does not start here: Error: Unrecognized option: --nosuch", ["--spark=--nosuch", "true"], {}),
            (125, "Spark does not start here", ["true"], {"JAVA_HOME": self.folder}),
        ])

    def test_a_driver_that_the_master_does_not_take(self):
        """Spark itself asks such a master for a minute."""
        with open(os.path.join(CLUSTER.folder, "spark-defaults.conf")) as file:
            right = file.read()
        for text, properties in [
            ("spark.authenticate=true, spark.network.crypto.enabled=false, spark.ssl.rpc.enabled=true",
             right.replace(f"secret {SECRET}", "secret wrong")),
            ("A secret key must be specified via the spark.authenticate.secret config",
             right.replace("spark.authenticate.secret", "spark.nothing")),
            ("spark.authenticate=true, spark.network.crypto.enabled=false, spark.ssl.rpc.enabled=false",
             right.replace("spark.ssl.rpc.enabled true", "")),
        ]:
            pathlib.Path(self.folder, "spark-defaults.conf").write_text(properties)
            began = time.monotonic()
            self.check_refusals([(125, text, ["true"], {"SPARK_CONF_DIR": self.folder})])
            self.assertLess(time.monotonic() - began, 40)

    def test_an_error_of_a_node(self):
        self.assertIn("nosuchprogram: not in PATH", self.says("--nnodes", "2", "nosuchprogram", code=127))

    def test_nothing_is_left_when_a_part_is_killed(self):
        self.check_ends({
            "the submitter": (lambda job: [job.pid], -9),
            "the shim": (lambda job: [pid for pid in processes_with("dtrain-spark") if pid != job.pid][:1], 125),
            "an executor": (lambda job: processes_with("CoarseGrainedExecutorBackend")[:1], 125),
        })

    def test_a_job_with_a_range_of_nodes_goes_on_without_an_executor(self):
        job = self.start("--engine", "spark", "--nnodes", "1:2", "sh", "-c",
                         f"echo of $WORLD_SIZE: pid $$; exec sleep {MARK}")
        said, pid = "", None
        while not re.search(r"(?m)^\[0\] of 1:", said):
            line = job.stdout.readline()
            said += line
            self.assertTrue(line, said)
            found = re.match(r"\[1\] of 2: pid (\d+)$", line)
            if found:
                pid = int(found[1])
                while "CoarseGrainedExecutorBackend" not in command_lines()[pid]:
                    pid = stat_of(pid)[1]  # its parent
                os.kill(pid, signal.SIGKILL)
        self.assertIsNotNone(pid, said)
        job.terminate()
        said_by(self, job, 143, DEADLINE)

    def test_torch_distributor_in_a_session(self):
        variables = environment(**self.environment, PYSPARK_PYTHON=PYTHON,
                                PYSPARK_SUBMIT_ARGS=self.environment["DTRAIN_SPARK"] + " pyspark-shell")
        del variables["PYTHON_EXEC"]
        said = said_by(self, start_job(self, ["spark"], variables, self.folder), 0, DEADLINE)
        for text in ("[1] rank 1 of 2 trains with 0.5, 0.9", "value 0.5", "step 17", "both [1, 2]", "hidden ''",
                     "session 6"):
            self.assertIn(text + "\n", said)
        self.assertEqual([name for name in os.listdir(self.folder) if "run" in name], [])

    def test_ranks_have_the_rows_of_a_dataframe(self):
        """On two executors with two GPUs, which are a task's."""
        gpus = " ".join(f"--conf spark.{of}.resource.gpu.amount=2" for of in ("executor", "task"))
        variables = environment(**self.environment, PYSPARK_PYTHON=PYTHON, PYSPARK_SUBMIT_ARGS=self.environment[
            "DTRAIN_SPARK"] + f" {gpus} pyspark-shell")
        del variables["PYTHON_EXEC"]
        job = start_job(self, [], variables, self.folder, str(HERE / "dataframe_job.py"))
        self.addCleanup(self.finish, job)
        said = Said(job)
        [parts] = said.next("partitions")
        # Those of the user, whose number is right; and so rank 0 begins again with its first row.
        self.assertEqual(said.of_ranks(2), {str(rank): sorted(part) for rank, part in enumerate(parts)})
        self.assertEqual(said.next("epochs"), [True, True, [2, 2, 2, 2, 2, 1]])
        self.assertEqual(sorted(sum(said.of_ranks(4).values(), [])), list(range(8)))
        # Spark has one partition of several, in any order.
        first, second = sorted(zip(*said.next("mixed")[0]), key=lambda row: row[0])
        self.assertEqual([first[:2], first[3:]], [("a", True), ([[1, 2], [3, 4]], [0, 5, 0])])
        self.assertEqual([second[:2], second[3:]], [("b", False), ([[5, 6], [7, 8]], [1, 2, 3])])
        self.assertEqual([str(row[2]) for row in (first, second)], ["nan", "0.5"])
        for name, text, remotely in [
            ("KeyError", "of rank 1", True),
            ("RunError", "of 2 has 0 rows for 1 ranks, all have 1: see python.md", False),
            ("ValueError", "the column gap has the type interval, by which rows cannot reach the ranks", False),
            ("TypeError", "runs a function, and got 'train.py'", False),
            ("TypeError", "needs a DataFrame of Spark, and got [", False),
            ("ValueError", "say local_mode=False", False),
            ("RuntimeError", "this rank has no rows of a DataFrame", False),
            ("ValueError", "the column day has the type date, of which no batch can be made", False),
        ]:
            kind, message, of_rank = said.next("failure")
            self.assertEqual((kind, of_rank), (name, remotely), message)
            self.assertIn(text, message)
        self.check_rows_have_no_name(said, 2)
        os.kill(processes_with("CoarseGrainedExecutorBackend")[0], signal.SIGKILL)
        self.assertEqual(said.next("code"), [125])
        self.check_rows_have_no_name(said, 1)
        job.kill()
        said_by(self, job, -9, DEADLINE)
        until(lambda: not processes_with("CoarseGrainedExecutorBackend"), PATIENCE, "the end of the executors")

    def check_rows_have_no_name(self, said, tasks):
        for _ in range(tasks):
            size, place = said.next("holds")
            self.assertGreater(size, 0)
            self.assertTrue(place.startswith(CLUSTER.folder) and place.endswith(" (deleted)"), place)

    def test_a_request_to_end_and_no_secret_is_to_be_seen(self):
        job = self.running("--nnodes", "2", workers=2)
        self.check_no_secret_is_to_be_seen()
        self.assertEqual([line for line in command_lines().values() if SECRET in line], [])
        job.send_signal(signal.SIGINT)
        said_by(self, job, -2, DEADLINE)
        until(lambda: not processes_with("CoarseGrainedExecutorBackend"), PATIENCE, "the end of the executors")


if __name__ == "__main__":
    unittest.main()
