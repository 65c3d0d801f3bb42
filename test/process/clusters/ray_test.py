#!/usr/bin/env python3
"""dtrain run --engine ray, on a real cluster of three nodes, which all tests here share."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python"), str(HERE.parents[1] / "support")]

from cluster_jobs import (AGENTS, DEADLINE, DTRAIN, FACTS, MARK, OURS, PATIENCE, ROW, ClusterJobs,  # noqa: E402
                          proc_file, processes_with, said_by, until)
from support import BIN_DIR  # noqa: E402
from ray_cluster import DATA, PYTHON, RayCluster  # noqa: E402
from shared_build import SharedBuild  # noqa: E402
from store_job import StoreJob  # noqa: E402
from support_python import environment, start_job  # noqa: E402


TREE, BIN = HERE.parents[2], pathlib.Path(BIN_DIR).absolute()


def setUpModule():
    global CLUSTER
    CLUSTER = RayCluster(OURS)
    unittest.addModuleCleanup(CLUSTER.close)
    for _ in range(3):
        CLUSTER.add(num_cpus=2)


class Ray(ClusterJobs):
    ENGINE = "ray"

    def setUp(self):
        super().setUp()
        self.environment.update(RAY_ADDRESS=CLUSTER.address, PYTHON_EXEC=PYTHON)
        self.own = set()  # nodes of this test alone

    def test_one_command_is_a_job_on_the_cluster(self):
        said = self.says("--engine", "ray", "--nnodes", "3", "--nproc", "2", "sh", "-c", FACTS)
        self.assertEqual(self.rows(said), [(r, 6, r % 2, r // 2) for r in range(6)], said)
        self.assertEqual({row[4:] for row in ROW.findall(said)}, {(self.folder, self.environment["LR"])}, said)

    def test_one_config_file_is_for_this_host_and_for_the_cluster(self):
        trainer = "num_workers: 2, max_retries: 1, resources_per_worker: {CPU: 1}, use_gpu: false"
        for engine in "local", "ray":
            with self.subTest(engine=engine):
                file = pathlib.Path(self.folder, "job.yaml")
                file.write_text(f"backend: {{type: {engine}, trainer: {{{trainer}}}}}\n")
                said = self.says("--config", file.name, "sh", "-c", FACTS)
                self.assertEqual(self.rows(said), [(0, 2, 0, 0), (1, 2, 1, 0)], said)
                self.assertEqual("is for --engine ray or spark" in said, engine == "local", said)

    def run_here(self, *words, python=PYTHON, modules=()):
        """With the dtrain that has dtrain-data beside it."""
        path = ":".join(map(str, (BIN.parent / "python", *modules)))
        done = subprocess.run(words, cwd=self.folder, timeout=DEADLINE, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, env={**self.environment, "PYTHON_EXEC": str(python),
                                                             "PYTHONPATH": path})
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_from_a_raw_table_to_predictions_here_and_on_the_cluster(self):
        # examples/flights, where nothing but the type changes
        flights, python = TREE / "examples/flights", TREE / ".venv/bin/python"
        job, losses = (flights / "job.yaml").read_text().replace("input: ", f"input: {TREE}/"), {}
        job = job.replace("backend:\n", f"backend:\n  cache_dir: {self.folder}/cache\n")
        for engine, strategy in ("local", "ddp"), ("local", "fsdp"), ("ray", "ddp"):
            pathlib.Path(self.folder, "job.yaml").write_text(job.replace("type: local", f"type: {engine}"))
            said = self.run_here(BIN / "dtrain", "run", "--config=job.yaml", "--strategy", strategy,
                                 BIN / "train_flights", f"{engine}-{strategy}")
            self.assertEqual("data set built" in said, not losses, said)
            losses[engine, strategy] = re.search(r"validation loss (\S+)", said).group(1)
        self.assertEqual(len(set(losses.values())), 1, losses)
        self.assertLess(float(losses["ray", "ddp"]), 0.16)  # 1 for who always says the mean

        # January's flights, from the raw file, on the cluster: the same config says what is done with the rows first.
        lines = (TREE / ".cache/flights.csv").read_text().splitlines(keepends=True)
        january = [line for line in lines if line.startswith("2013,1,")]
        pathlib.Path(self.folder, "january.csv").write_text("".join(lines[:1] + january))
        self.environment["DTRAIN_ENGINE_PYTHON"] = PYTHON
        for program, output in (flights / "predict.py", "out"), (BIN / "predict_flights", "out-program"):
            self.run_here(BIN / "dtrain", "predict", "--config=job.yaml", "--recipe=config", "--filter",
                          "--keep=day,flight", program, "january.csv", output, "ray-ddp", python=python)
        landed = [line.split(",") for line in january if line.split(",")[8] not in ("", "NA")]
        for name, place in ("delays", 8), ("flights", 10):
            pathlib.Path(self.folder, name).write_text("\n".join(words[place] for words in landed))
        wrong, error = map(float, self.run_here(python, "-c", """
import numpy, pyarrow.parquet
rows, same = pyarrow.parquet.read_table("out"), pyarrow.parquet.read_table("out-program")
assert rows.schema.names == same.schema.names == ["day", "flight", "minutes", "predicted"], same.schema
day, flight, minutes, said = (column.to_numpy() for column in rows.columns)
assert numpy.array_equal(flight, numpy.loadtxt("flights")) and same["flight"].equals(rows["flight"])
assert all(abs(same[name].to_numpy() - rows[name].to_numpy()).max() < 0.01 for name in ("minutes", "predicted"))
print(abs(minutes - numpy.loadtxt("delays")).max(), ((minutes - said) ** 2).mean() / minutes.var())
""").split())
        self.assertLess(wrong, 0.01)
        self.assertLess(error, 0.2)

    def test_a_data_set_in_a_store_with_credentials_of_the_config(self):
        job = StoreJob(self, self.folder)
        job.check_run(self, "ray", {**self.environment, "DTRAIN_ENGINE_PYTHON": PYTHON}, DEADLINE)
        log_dir = re.search(rb"--log_dir=([^\0]+)", proc_file(CLUSTER.raylet(0), "cmdline"))
        job.check_no_secret_below(self, log_dir[1].decode())

    def test_nodes_without_the_cache_are_named_before_the_build(self):
        cache = pathlib.Path(self.folder, "cache")
        cache.mkdir()
        node = CLUSTER.add(num_cpus=1, hidden=str(cache))
        self.addCleanup(CLUSTER.settle)  # Ray Data would ask it
        self.addCleanup(CLUSTER.kill, node)
        pathlib.Path(self.folder, "in.csv").write_text("x\n1\n")
        pathlib.Path(self.folder, "job.yaml").write_text("dataset: {input: in.csv}\nbackend: {cache_dir: cache}\n")
        done = subprocess.run([BIN / "dtrain", "run", "--config=job.yaml", "--engine=ray", "--nnodes=4", "--nproc=1",
                               "true"], cwd=self.folder, env=self.environment, timeout=DEADLINE, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(f"backend.cache_dir: {cache} on this node is another folder than", done.stdout)
        self.assertEqual(done.stdout.count("\n"), 1, done.stdout)
        self.assertEqual([path.name for path in cache.iterdir()], [".lock"])
        # Workers of a script are asked as well: they write there.
        pathlib.Path(self.folder, "script.py").write_text("def process(table): return table")
        self.run_here(PYTHON, "-c", "import pyarrow, pyarrow.parquet as parquet\n"
                      "parquet.write_table(pyarrow.table({'id': range(100)}), 'in.parquet')", modules=[DATA])
        pathlib.Path(self.folder, "job.yaml").write_text(
            "dataset: {input: in.parquet}\nbackend: {type: ray, cache_dir: cache, "
            "processor: {type: python, script: script.py, num_workers: 7}}\n")
        done = subprocess.run([BIN / "dtrain", "preprocess", "--config=job.yaml"], cwd=self.folder, timeout=DEADLINE,
                              env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(f"backend.cache_dir: {cache} on this node is another folder than", done.stdout)
        self.assertEqual([path.name for path in cache.iterdir()], [".lock"])

    def test_processors_with_a_script_on_the_cluster(self):
        def run(*words):
            return self.run_here(*words, modules=[DATA])

        run(PYTHON, "-c", """
import pyarrow, pyarrow.parquet as parquet
parquet.write_table(pyarrow.table({"id": range(100)}), "in.parquet", row_group_size=20)""")
        on_two_nodes = """
import os
def process(table):
    assert os.environ["GROUP_WORLD_SIZE"] == "2"
    return {"twice": [2 * row.as_py() for row in table["id"]]}"""
        by_ray = """
import ray
def process(dataset):
    assert sum(node["Alive"] for node in ray.nodes()) > 2
    return dataset.map_batches(lambda batch: {"twice": 2 * batch["id"]})"""
        doubled = "def process(frame):\n    frame['twice'] = 2 * frame['id']\n    return frame[['twice']]"
        for kind, script in (("python, num_workers: 4", on_two_nodes), ("ray", by_ray),
                             ("dask, num_workers: 3", doubled), ("modin, num_workers: 3", doubled)):
            pathlib.Path(self.folder, "script.py").write_text(script)
            pathlib.Path(self.folder, "job.yaml").write_text(
                "dataset: {input: in.parquet}\n"
                f"backend: {{type: ray, cache_dir: cache, processor: {{type: {kind}, script: script.py}}}}\n")
            run(BIN / "dtrain", "preprocess", "--config=job.yaml")
        self.assertEqual(run(PYTHON, "-c", """
import pathlib, pyarrow.parquet as parquet
for entry in pathlib.Path("cache").glob("*/train"):
    print(sorted(parquet.read_table(entry)["twice"].to_pylist()) == [*range(0, 200, 2)])"""), "True\n" * 4)

    def test_the_nodes_of_the_cluster_preprocess_a_data_set_together(self):
        build = SharedBuild(self.folder, "backend:\n  type: ray\n")
        alone = build.write("alone", config="backend:\n")
        for config in alone, build.write("cache"):
            self.run_here(build.dtrain, "preprocess", f"--config={config}")
        workers = build.workers()
        self.assertEqual(workers, [f"{rank} of {len(workers)} on {rank}" for rank in range(len(workers))])
        self.assertGreaterEqual(len(workers), 3)
        self.run_here(build.dtrain, "preprocess", "--config=" + build.write("more", processor=", num_workers: 4"))
        self.assertEqual([worker[:6] for worker in build.workers()], [f"{rank} of 4" for rank in range(4)])
        for cache in "cache", "more":
            self.assertEqual(build.built(cache), build.built("alone"))

    def test_workers_of_the_job_on_nodes_that_the_cluster_chooses(self):
        CLUSTER.settle()
        said = self.says("--engine", "ray", "-np", "5", "sh", "-c", FACTS)
        self.assertEqual([row[:3] for row in self.rows(said)], [(r, 5, r % 2) for r in range(5)], said)
        pathlib.Path(self.folder, "job.yaml").write_text("backend: ray\n")
        said = self.says("--config=job.yaml", "sh", "-c", FACTS)
        self.assertEqual([row[:3] for row in self.rows(said)], [(r, 3, 0) for r in range(3)], said)
        planned = subprocess.run([DTRAIN, "plan", "--config=job.yaml", "-np", "5", "sh"], cwd=self.folder, text=True,
                                 env=self.environment, timeout=DEADLINE, capture_output=True)
        self.assertTrue(planned.stdout.startswith("5 workers on 3 nodes; nothing was started\n"), planned)
        self.assertRegex(planned.stdout, r"(?m)^  \S+ +1 +4 +0 +1 +\?$")

    def test_an_address_and_several_nodes_are_enough(self):
        self.assertEqual([row[:2] for row in self.rows(self.says("--nnodes", "2", "sh", "-c", FACTS))],
                         [(0, 2), (1, 2)])
        self.assertEqual([row[:2] for row in self.rows(self.says("sh", "-c", FACTS))], [(0, 1)])
        self.environment["RAY_ADDRESS"] = "127.0.0.1:1"
        self.says("--engine", "local", "sh", "-c", FACTS)

    def test_as_many_nodes_as_have_room(self):
        said = self.says("--engine", "ray", "--nnodes", "2:5", "--nproc", "cpu", "sh", "-c", FACTS)
        self.assertEqual(sorted(row[:2] for row in self.rows(said)), [(rank, 6) for rank in range(6)], said)

    def test_workers_have_the_gpus_that_ray_gives(self):
        node = CLUSTER.add(num_cpus=2, num_gpus=4)
        said = self.says("--engine", "ray", "--nproc", "2", "--resources-per-worker", "CPU=1,GPU=1", "sh", "-c",
                         "echo GPUs ${CUDA_VISIBLE_DEVICES-all}")
        CLUSTER.kill(node)
        shown = re.findall(r"GPUs (\S+)", said)
        self.assertEqual(len(shown), 2, said)
        self.assertEqual({len(each.split(",")) for each in shown}, {2}, said)

    def test_a_node_that_lacks_the_program_gets_it(self):
        hidden = pathlib.Path(self.folder, "hidden")
        hidden.mkdir()
        node = CLUSTER.add(num_cpus=2, hidden=str(hidden))
        (hidden / "train").write_text("#!/bin/sh\necho rank $RANK in $PWD reads $(cat data/cfg)\n")
        (hidden / "train").chmod(0o755)
        (hidden / "data").mkdir()
        (hidden / "data" / "cfg").write_text("lr=0.1")
        self.folder = str(hidden)
        try:
            said = self.says("--engine", "ray", "--nnodes", "4", "--ship", "--ship-files", "data", "./train")
        finally:
            CLUSTER.kill(node)
        places = re.findall(r"rank \d in (\S+) reads lr=0\.1", said)
        shipped = [place for place in places if "/dtrain-ship-" in place]
        self.assertEqual((places.count(self.folder), len(shipped)), (3, 1), said)
        self.assertFalse(os.path.exists(shipped[0]))

    def test_the_exit_code_is_the_jobs(self):
        said = self.says("--engine", "ray", "--nnodes", "2", "sh", "-c", "exit $((7 + 0 * RANK))", code=7)
        self.assertIn("exit code 7", said)
        self.says("--engine", "ray", "--nnodes", "2", "sh", "-c", "exit 255", code=255)

    def test_too_little_room_is_told_at_once(self):
        for words in ["--nnodes", "4"], ["--nproc", "3"], ["--resources-per-worker", "CPU=1,TPU=1"]:
            with self.subTest(words=words):
                said = self.says("--engine", "ray", *words, "sh", "-c", "echo started", code=75)
                self.assertNotIn("started", said)
                self.assertRegex(said, r"(?m)^dtrain: the cluster has room on \d of \d nodes for .* has CPU 2.* free")

    def test_room_that_another_job_has(self):
        first = self.running("--nnodes", "2", "--nproc", "2", workers=4)
        self.assertIn("room on 1 of", self.says("--engine", "ray", "--nnodes", "2", "--nproc", "2", "true", code=75))
        self.says("--engine", "ray", "--nproc", "2", "true")
        first.terminate()
        self.assertEqual(first.wait(DEADLINE), 143)

    def test_what_is_wrong_is_one_line(self):
        self.check_refusals([
            (127, "nosuchprogram: not in PATH", ["nosuchprogram"], {}),
            (2, "cannot import ray", ["true"], {"PYTHON_EXEC": "/usr/bin/python3"}),
            (127, "PYTHON_EXEC=nosuchpython", ["true"], {"PYTHON_EXEC": "nosuchpython"}),
            (125, "127.0.0.1:1 does not answer: Connection refused", ["true"], {"RAY_ADDRESS": "127.0.0.1:1"}),
            (2, "is where jobs are submitted", ["true"], {"RAY_ADDRESS": "http://127.0.0.1:8265"}),
            (2, "is no HOST:PORT", ["true"], {"RAY_ADDRESS": "local"}),
            (2, "from outside", ["true"], {"RAY_ADDRESS": "ray://127.0.0.1:10001"}),
            (2, "--nproc '0'", ["--nproc", "0", "true"], {}),
            (2, "is no whole number", ["--resources-per-worker", "GPU=0.5", "true"], {}),
            (2, "--standalone", ["--standalone", "true"], {}),
        ])

    def test_a_function_from_python(self):
        variables = environment(**self.environment, DTRAIN_ENGINE_PYTHON=PYTHON)
        del variables["PYTHON_EXEC"]
        said = said_by(self, start_job(self, ["nodes", "ray"], variables, self.folder), 0, DEADLINE)
        self.assertIn("[1] rank 1 of 2 trains with 1.5, 0.0\n", said)
        self.assertIn("\nvalue 1.5\n", said)
        self.assertIn("\nstep 17 remotely", said)

    def test_a_folder_with_names_of_ours(self):
        for name in "ray.py", "socket.py", "json.py", "subprocess.py":
            pathlib.Path(self.folder, name).write_text("raise SystemExit('not this one')\n")
        self.assertEqual(len(self.rows(self.says("--engine", "ray", "--nnodes", "2", "sh", "-c", FACTS))), 2)

    def test_workers_are_as_on_the_node(self):
        said = self.says("--engine", "ray", "sh", "-c", "nice; cat /proc/self/oom_score_adj; env")
        self.assertEqual(re.findall(r"(?m)^\[0\] (-?\d+)$", said),
                         [str(os.nice(0)), pathlib.Path("/proc/self/oom_score_adj").read_text().strip()], said)
        self.assertEqual(re.findall(r"(?m)^\[0\] (RAY_\w+|PYTHONBREAKPOINT|SPT_NOENV)", said), ["RAY_ADDRESS"])

    def test_a_submitter_that_is_stopped_for_a_while(self):
        job = self.start("--engine", "ray", "sh", "-c", "seq 100000")
        until(lambda: processes_with("ray::Node"), PATIENCE, "an actor")  # the shim has its order
        os.kill(job.pid, signal.SIGSTOP)
        until(lambda: processes_with("dtrain agent --relay"), PATIENCE, "the relay")
        os.kill(job.pid, signal.SIGCONT)
        job.stdout.readline()
        os.kill(job.pid, signal.SIGSTOP)
        try:
            job.wait(7)  # longer than anybody waits for a last word
        except subprocess.TimeoutExpired:
            os.kill(job.pid, signal.SIGCONT)
        said = job.communicate(timeout=DEADLINE)[0]
        self.assertEqual(job.returncode, 0, said[-2000:])
        self.assertTrue("[0] 100000\n" in said, said[-2000:])

    def test_a_request_to_end(self):
        for number, code in (signal.SIGTERM, 143), (signal.SIGINT, -2):
            with self.subTest(signal=number):
                job = self.running("--nnodes", "2", "--nproc", "2", workers=4)
                job.send_signal(number)
                said_by(self, job, code, DEADLINE)

    def test_nothing_is_left_when_a_part_is_killed(self):
        self.check_ends({
            "the submitter": (lambda job: [job.pid], -9),
            "the shim": (lambda job: [pid for pid in processes_with("dtrain-ray") if pid != job.pid][:1], 125),
            "an actor": (lambda job: processes_with("ray::Node")[:1], 125),
            "a relay": (lambda job: processes_with("dtrain agent --relay")[:1], 125),
        })

    def test_a_node_that_is_lost_ends_the_job(self):
        node = CLUSTER.add(num_cpus=8)
        job = self.running("--nproc", "8", workers=8)
        CLUSTER.kill(node)
        said_by(self, job, 125, DEADLINE)

    def elastic(self, nnodes, *words):
        """Of nodes with the resource `own`, which no other test uses."""
        return self.start("--engine", "ray", "--nnodes", nnodes, "--resources-per-worker", "CPU=1,own=1", *words,
                          "sh", "-c", f"echo up $RANK of $WORLD_SIZE in $DTRAIN_ROUND as $$; exec sleep {MARK}")

    def own_node(self):
        node = CLUSTER.add(num_cpus=1, resources={"own": 1})
        self.own.add(node)
        self.addCleanup(self.lose, node)
        return node

    def lose(self, node):
        if node in self.own:
            self.own.remove(node)
            CLUSTER.kill(node)

    def ups(self, job, size):
        """The workers' pids by rank, once all of a round of this size run."""
        watch = threading.Timer(DEADLINE, job.kill)
        watch.start()
        self.addCleanup(watch.cancel)
        said, found = "", {}
        while len(found) < size:
            line = job.stdout.readline()
            said += line
            self.assertTrue(line, f"the job has ended; it said: {said}")
            if up := re.search(rf"up (\d+) of {size} in (\d+) as (\d+)", line):
                rank, number, pid = map(int, up.groups())
                found = {**{r: p for r, p in found.items() if p[0] == number}, rank: (number, pid)}
        watch.cancel()
        return {rank: pid for rank, (_, pid) in found.items()}

    def ancestor(self, pid, of):
        """Which of these processes has started it."""
        while pid not in of:
            pid = int(proc_file(pid, "stat").rpartition(b")")[2].split()[1])
        return pid

    def test_a_job_outlives_nodes_and_takes_new_ones(self):
        for _ in range(3):
            self.own_node()
        job = self.elastic("1:3")
        workers = self.ups(job, 3)
        raylets = {CLUSTER.raylet(node): node for node in self.own}
        victim = raylets[self.ancestor(workers[0], raylets)]
        begin = time.monotonic()
        self.lose(victim)
        self.ups(job, 2)
        print(f"the raylet with rank 0 is killed: {time.monotonic() - begin:.2f} s later the others run again")
        begin = time.monotonic()
        self.own_node()
        there = time.monotonic() - begin
        workers = self.ups(job, 3)
        print(f"a raylet is started: there after {there:.2f} s, its workers and all others run after "
              f"{time.monotonic() - begin:.2f} s")
        actor = self.ancestor(workers[0], processes_with("ray::Node"))
        begin = time.monotonic()
        os.kill(actor, signal.SIGKILL)
        self.ups(job, 3)
        print(f"an actor is killed: {time.monotonic() - begin:.2f} s later all run again, with its node")
        begin = time.monotonic()
        job.kill()
        until(lambda: not any(map(processes_with, (*AGENTS, MARK))), PATIENCE, "the end of all agents")
        print(f"the submitter is killed: {time.monotonic() - begin:.2f} s later no agent is left")

    def test_too_few_nodes_are_awaited_for_a_while(self):
        first, second = self.own_node(), self.own_node()
        job = self.elastic("2:3", "--rdzv-conf", "join_timeout=8,last_call_timeout=1")
        self.ups(job, 2)
        self.lose(first)
        self.own_node()
        self.ups(job, 2)
        self.lose(second)
        said = said_by(self, job, 125, DEADLINE)
        self.assertRegex(said, r"the agent is lost\n(?s:.*)1 of 2:3 nodes are left, and no other came within 8 s")

    def submit(self, *words):
        """`ray job` with these words."""
        environment = {**self.environment, "NO_COLOR": "1"}
        job = subprocess.Popen([pathlib.Path(PYTHON).with_name("ray"), "job", *words], env=environment, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(job.stdout.close)
        self.addCleanup(self.finish, job)
        return job

    def test_ray_job_submit(self):
        pathlib.Path(self.folder, "cfg").write_text("0.5")
        runtime = json.dumps({"env_vars": {"PYTHON_EXEC": PYTHON, "LR": "0.1"}})
        where = "--address", CLUSTER.jobs
        said = said_by(self, self.submit(
            "submit", *where, "--working-dir", self.folder, "--runtime-env-json", runtime, "--",
            DTRAIN, "run", "--nnodes", "2", "sh", "-c", f"{FACTS}; echo reads $(cat cfg)"), 0, DEADLINE)
        rows = set(re.findall(r"(?m)^\[\d\] rank (\d) of 2, 0 on \1 in \S*/working_dir_files/\S+ with 0\.1$", said))
        self.assertEqual(rows, {"0", "1"}, said)
        self.assertIn("[1] reads 0.5\n", said)

        job = self.submit("submit", *where, "--submission-id", f"stopped-{os.getpid()}", "--runtime-env-json", runtime,
                          "--", DTRAIN, "run", "--nnodes", "2", "sh", "-c",
                          f"trap 'sleep 0.5; echo saved; exit 0' TERM; echo ready; sleep {MARK} & wait")
        self.await_workers(job, 2)
        said_by(self, self.submit("stop", *where, f"stopped-{os.getpid()}"), 0, DEADLINE)
        job.communicate(timeout=DEADLINE)
        said = said_by(self, self.submit("logs", *where, f"stopped-{os.getpid()}"), 0, DEADLINE)
        self.assertEqual(said.count("] saved\n"), 2, said)
        self.assertNotIn("is lost", said)

    def test_lines_stay_whole(self):
        line = "x" * 300
        said = self.says("--engine", "ray", "--nnodes", "2", "--nproc", "2", "sh", "-c",
                         f"seq -f '%g {line}' 5000; seq -f '%g {line}' 5000 >&2")
        self.assertEqual(len(re.findall(rf"(?m)^\[[0-3]\] \d+ {line}$", said)), 4 * 2 * 5000)

    def test_no_secret_is_to_be_seen(self):
        job = self.running("--nnodes", "2", workers=2)
        self.check_no_secret_is_to_be_seen()
        job.terminate()
        self.assertEqual(job.wait(DEADLINE), 143)


if __name__ == "__main__":
    unittest.main()
