"""dtrain under a real SLURM: three slurmd on this machine; where it can have a lab, on a network of their own, so that
a job of several nodes is one across hosts, and MUNGE hands out its secret."""
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launcher"))
from cluster import Cluster, descendants, missing  # noqa: E402
from killing import end_step_at_once  # noqa: E402
from support import DEADLINE, DTRAIN, NOBODY, free_port, proc_file, until  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import netlab  # noqa: E402
from data_job import SHOW, DataJob  # noqa: E402
from lab_case import new_token  # noqa: E402
from store_job import StoreJob  # noqa: E402
import shared_build  # noqa: E402

FAKE_DRIVER = os.environ.get("DTRAIN_FAKE_NVML", "")  # the folder of a made-up libnvidia-ml.so.1
RUN = [DTRAIN, "run", "--quiet"]
# Says what happens to it, and goes on until it is ended. What is never written to is opened once: bash may fail to run
# a trap in the middle of a <().
WATCHFUL = """
exec 4<> <(:)
trap 'echo got USR1 at $RANK' USR1
trap 'echo got TERM at $RANK; exit 9' TERM
echo ready
while :; do read -t 0.05 _ <&4; done
"""
# Saves when it is asked to; the next run has all that is to be done.
SAVES = """
exec 4<> <(:)
save() {
  echo saved $RANK
  : > $SAVED/$RANK
  until [ $(ls $SAVED | wc -l) = 6 ]; do read -t 0.05 _ <&4; done  # the barrier
  exit 75
}
trap save USR1
echo ready $RANK restart $SLURM_RESTART_COUNT
[ -z "$SLURM_RESTART_COUNT" ] || exit 0
while :; do read -t 0.05 _ <&4; done
"""
# Counts its steps in the memory that dtrain keeps, and nowhere else.
COUNTS = """
import os, signal
fd, rank = int(os.environ["DTRAIN_STATE_FD"]), os.environ["RANK"]
step = int(os.pread(fd, 8, 0) or 0)
run = os.environ.get("SLURM_RESTART_COUNT", 0)
print(f"run {run}: rank {rank} goes on from {step}", flush=True)
if run == "1" and "DONE_AT_ONCE" in os.environ:
    raise SystemExit
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
while True:
    step += 1
    os.pwrite(fd, b"%8d" % step, 0)
    signal.sigtimedwait([signal.SIGUSR2], 0.05)
"""
UNWILLING = "exec 4<> <(:); trap '' TERM; echo ready; while :; do read -t 0.1 _ <&4; done"


@unittest.skipIf(missing(), f"not installed: {', '.join(missing())}")
class SlurmTest(unittest.TestCase):
    tracked_by = "pgid"

    @classmethod
    def setUpClass(cls):
        try:
            cls.lab = netlab.Lab(1)
            cls.addClassCleanup(cls.lab.close)
        except netlab.Unavailable:
            cls.lab = None
        cls.cluster = Cluster(nodes=3, tracked_by=cls.tracked_by, network=cls.lab and cls.lab.host(0))
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)

    def tearDown(self):
        until(lambda: not self.cluster.jobs(), DEADLINE, "the end of the last job")
        until(lambda: not self.cluster.left(), DEADLINE, "the end of all that the jobs started")

    def srun(self, *words, code=0, **popen):
        """`srun WORDS` to its end, which is `code`; its standard output, sorted by lines."""
        done = self.cluster.run("srun", *words, **popen)
        self.said = done.stderr
        self.assertEqual(done.returncode, code, f"{done.stdout}\n{done.stderr}\n{self.cluster.logs()}")
        return "".join(sorted(done.stdout.splitlines(keepends=True)))


class Starting(SlurmTest):
    def test_a_step_is_one_job(self):
        for nodes in (1, 2, 3):
            with self.subTest(nodes=nodes):
                said = self.srun(f"-N{nodes}", *RUN, "--nproc", "2", "sh", "-c",
                                 "echo $RANK of $WORLD_SIZE on $GROUP_RANK/$GROUP_WORLD_SIZE in $TORCHELASTIC_RUN_ID")
                seen = re.findall(r"^\[\d\] (\d) of (\d) on (\d)/(\d) in (\S+)$", said, re.M)
                self.assertEqual([row[:4] for row in seen],
                                 [(str(r), str(2 * nodes), str(r // 2), str(nodes)) for r in range(2 * nodes)])
                self.assertEqual(len({row[4] for row in seen}), 1)
                self.assertRegex(seen[0][4], r"^\d+\.0$" if nodes > 1 else r"^job-")

    def test_a_data_set_is_built_once_by_all_nodes(self):
        with tempfile.TemporaryDirectory() as folder:
            job = DataJob(folder, DTRAIN, "")
            said = self.srun("-N3", job.dtrain, "run", "--quiet", "--config", job.config, "--nproc", "1", "sh", "-c",
                             SHOW)
            self.assertEqual(re.findall(r"rank \d reads abc and a", said),
                             [f"rank {rank} reads abc and a" for rank in range(3)], self.said)
            self.assertEqual(job.builds(), 1)

    def test_nodes_with_different_numbers_of_workers(self):
        said = self.srun("-N3", "sh", "-c", f'exec {DTRAIN} run --quiet --nproc $((SLURM_NODEID + 1)) sh -c "{{}}"'
                         .format(r"echo \$GROUP_RANK: \$LOCAL_RANK of \$LOCAL_WORLD_SIZE, \$RANK of \$WORLD_SIZE"))
        self.assertEqual(re.findall(r"\d: .*", said), ["0: 0 of 1, 0 of 6", "1: 0 of 2, 1 of 6", "1: 1 of 2, 2 of 6",
                                                       "2: 0 of 3, 3 of 6", "2: 1 of 3, 4 of 6", "2: 2 of 3, 5 of 6"])

    def test_node_numbers_are_those_of_slurm(self):
        said = self.srun("-N3", *RUN, "--nproc", "1", "sh", "-c",
                         "echo $GROUP_RANK = $SLURM_NODEID on $SLURMD_NODENAME")
        self.assertEqual(re.findall(r"\d = .*", said), [f"{i} = {i} on node{i + 1}" for i in range(3)])

    def test_workers_keep_to_the_cpus_of_the_step(self):
        said = self.srun("-N2", "-c1", "sh", "-c",
                         f"taskset -cp $$; exec {' '.join(RUN)} --nproc 2 sh -c 'taskset -cp $$'")
        self.assertEqual(len(re.findall("affinity list: 0$", said, re.M)), 6, said)

    def test_two_steps_of_an_allocation_at_once(self):
        step = f"srun -N2 --overlap {' '.join(RUN)} --nproc 1 sh -c 'echo $TORCHELASTIC_RUN_ID $WORLD_SIZE'"
        done = self.cluster.run("salloc", "-N2", "-Q", "bash", "-c", f"{step} & {step} & wait -n && wait -n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(re.findall(r"\d+\.(\d) (\d)$", done.stdout, re.M)), [("0", "2")] * 2 + [("1", "2")] * 2)

    def test_a_job_script(self):
        script = os.path.join(self.cluster.folder, "job.sh")
        with open(script, "w") as f:
            f.write("#!/bin/bash\n"
                    f"{' '.join(RUN)} --nproc 2 sh -c 'echo alone $RANK of $WORLD_SIZE'\n"
                    f"srun {' '.join(RUN)} --nproc 2 sh -c 'echo together $RANK of $WORLD_SIZE'\n")
        output = os.path.join(self.cluster.folder, "job.out")
        done = self.cluster.run("sbatch", "-N3", "--ntasks-per-node=1", "--wait", "-o", output, script)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(output) as f:
            said = f.read()
        self.assertEqual(sorted(re.findall("alone .*", said)), ["alone 0 of 2", "alone 1 of 2"])
        self.assertEqual(sorted(re.findall("together .*", said)), [f"together {i} of 6" for i in range(6)])

    def test_doctor_says_where_it_is(self):
        done = self.cluster.run("srun", "-N3", "--label", DTRAIN, "doctor")
        self.assertEqual(len(re.findall(r"^\d: \S+ +SLURM +step \d+\.0, node \d of 3, meeting", done.stdout, re.M)), 3,
                         done.stdout)
        done = self.cluster.run("salloc", "-N3", "-Q", DTRAIN, "doctor")
        self.assertRegex(done.stdout, r"SLURM +allocation \d+ of 3 nodes, not in a step")

    def test_an_array_of_jobs(self):
        script, output = (os.path.join(self.cluster.folder, name) for name in ("array.sh", "array-%a.out"))
        with open(script, "w") as f:
            f.write("#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --array=0-2\n"
                    f"srun {' '.join(RUN)} --nproc 2 sh -c 'echo job $SLURM_ARRAY_TASK_ID rank $RANK of $WORLD_SIZE'\n")
        done = self.cluster.run("sbatch", "--wait", "-o", output, script)
        self.assertEqual(done.returncode, 0, done.stderr)
        for number in range(3):
            with open(output.replace("%a", str(number))) as f:
                said = sorted(re.findall("job .*", f.read()))
            self.assertEqual(said, [f"job {number} rank {rank} of 4" for rank in range(4)])

    @unittest.skipUnless(FAKE_DRIVER, "DTRAIN_FAKE_NVML is not set")
    def test_gpus_are_those_that_slurm_has_left(self):
        def workers(visible):
            said = self.srun("-N2", "env", f"CUDA_VISIBLE_DEVICES={visible}", "SLURM_GPUS_ON_NODE=2", "FAKE_NVML=4",
                             f"LD_LIBRARY_PATH={FAKE_DRIVER}", *RUN, "--nproc", "gpu", "sh", "-c",
                             "echo $LOCAL_RANK of $LOCAL_WORLD_SIZE sees $CUDA_VISIBLE_DEVICES")
            return sorted(re.findall(r"\d of .*", said))
        for visible in ("0,1", "2,3"):
            self.assertEqual(workers(visible), [f"{r} of 2 sees {visible}" for r in (0, 0, 1, 1)])
        self.assertEqual(workers("1"), ["0 of 1 sees 1"] * 2)

    def test_an_allocation_without_srun_is_one_node(self):
        for words in (["salloc", "-N3", "-Q"], ["salloc", "-N3", "-Q", "srun", "-N1", "-n1"]):
            done = self.cluster.run(*words, *RUN, "--nproc", "2", "sh", "-c", "echo $RANK of $WORLD_SIZE")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(re.findall(r"\d of \d", done.stdout)), ["0 of 2", "1 of 2"])

    def test_several_tasks_on_a_node_are_an_error(self):
        for words in (["-N2", "-n3"], ["-N1", "-n2"]):
            self.srun(*words, *RUN, "true", code=2)
            self.assertIn("has 2 tasks on a node", self.said)
            self.assertIn("--ntasks-per-node=1", self.said)
        said = self.srun("-N1", "-n2", *RUN, "--standalone", "sh", "-c", "echo $WORLD_SIZE")
        self.assertEqual(re.findall(r"\d$", said, re.M), ["1", "1"])

    def test_the_users_flags_come_first(self):
        said = self.srun("-N2", *RUN, "--nnodes", "1", "sh", "-c", "echo world $WORLD_SIZE")
        self.assertEqual(said.count("world 1"), 2)
        said = self.srun("-N2", *RUN, "--rdzv-id", "mine", "sh", "-c", "echo id $TORCHELASTIC_RUN_ID of $WORLD_SIZE")
        self.assertEqual(said.count("id mine of 2"), 2)

    def test_a_job_inside_a_worker_is_its_own(self):
        said = self.srun("-N2", *RUN, "--nproc", "1", *RUN, "sh", "-c", "echo inner $WORLD_SIZE")
        self.assertEqual(said.count("inner 1"), 2)

    def test_by_the_name_of_torchrun_slurm_does_not_count(self):
        said = self.srun("-N2", "bash", "-c", f"exec -a torchrun {DTRAIN} --no-python sh -c 'echo world $WORLD_SIZE'")
        self.assertEqual(said.count("world 1"), 2)


class FromALoginShell(SlurmTest):
    def dtrain(self, *words, code=0):
        done = self.cluster.run(DTRAIN, "run", "--engine", "slurm", *words)
        self.assertEqual(done.returncode, code, f"{done.stdout}\n{done.stderr}\n{self.cluster.logs()}")
        return done.stdout

    def test_dtrain_starts_a_step_and_returns_its_code(self):
        said = self.dtrain("--nnodes", "2", "--nproc", "2", "--srun", "-J mine -t 5", "sh", "-c",
                           "echo $RANK of $WORLD_SIZE on $(env -u OMP_NUM_THREADS nproc) in $SLURM_JOB_NAME")
        self.assertEqual(sorted(re.findall(r"(\d) of 4 on 2 in mine", said)), ["0", "1", "2", "3"], said)
        self.dtrain("--nnodes", "2", "sh", "-c", "exit $((RANK * 7))", code=7)
        self.assertIn("/opt", self.dtrain("--dry-run", "/opt/train"))

    def test_the_values_of_a_config_file_go_along(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("backend: {type: slurm, trainer: {num_workers: 4, max_retries: 2}}\nnnodes: 2\n")
            file.flush()
            # A descriptor of the command's own: no step can read it.
            done = self.cluster.run("sh", "-c", f'exec 9<{file.name}; exec "$@"', "-", "env",
                                    "DTRAIN_CONFIG=/proc/self/fd/9", DTRAIN, "run", "sh", "-c",
                                    "echo $RANK of $WORLD_SIZE, $TORCHELASTIC_MAX_RESTARTS file ${DTRAIN_CONFIG-none}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(re.findall(r"\d of 4, 2 file none", done.stdout)),
                         [f"{r} of 4, 2 file none" for r in range(4)])

    def test_a_data_set_in_a_store_with_credentials_of_the_config(self):
        def popen(*words, **options):
            with self.cluster.network():
                return subprocess.Popen(*words, **options)

        with tempfile.TemporaryDirectory() as folder:
            job = StoreJob(self, folder, popen=popen)
            done = self.cluster.run(*job.words_on("slurm"), env=self.cluster.environment(**job.environment))
            self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}\n{self.cluster.logs()}")
            # As docs/cache.md says: srun has them in its environment, which its user and root can read.
            job.check_said(self, done.stdout + done.stderr, shown=["srun in environ"])
            job.check_no_secret_below(self, folder)
            job.check_no_secret_below(self, self.cluster.folder)

    def test_in_an_allocation_it_takes_the_nodes_of_that(self):
        # Variables of `--ntasks-per-gpu`, as no node here has a GPU.
        environment = self.cluster.environment(SLURM_NTASKS_PER_GPU="1", SLURM_NTASKS_PER_CORE="1")
        job = [DTRAIN, "run", "--engine", "slurm", "--nproc", "1", "sh", "-c", "echo $RANK of $WORLD_SIZE"]
        done = self.cluster.run("salloc", "-N3", "-n6", *job, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(re.findall(r"\d of 3", done.stdout)), ["0 of 3", "1 of 3", "2 of 3"])

    @unittest.skipUnless(os.path.exists(shared_build.DTRAIN + "-data"), "this build has no Arrow")
    def test_the_nodes_of_an_allocation_preprocess_a_data_set_together(self):
        with tempfile.TemporaryDirectory(prefix="dtrain-data-") as folder:
            build = shared_build.SharedBuild(folder, "backend:\n  type: slurm\n")
            alone = build.write("alone", config="backend:\n")
            for config in alone, build.write("cache"):
                done = self.cluster.run("salloc", "-N3", "-n3", build.dtrain, "preprocess", "--config", config)
                self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
            self.assertEqual(build.workers(), ["0 of 3 on 0", "1 of 3 on 1", "2 of 3 on 2"])
            self.assertEqual(build.built("cache"), build.built("alone"))
            # An allocation for more tasks than a step of dtrain's has, and srun's own words for the nodes of the step.
            for name, words, workers, spread in (
                    ("more", "", 4, (0, 0, 1, 1, 2, 2)), ("tasks", "srun: -n 2\n", 0, (0, 1)),
                    ("nodes", "srun: -N 2\n", 4, (0, 0, 1, 1)), ("range", "nnodes: 1:5\n", 0, (0, 1, 2))):
                config = build.write(name, config=f"{words}backend:\n  type: slurm\n",
                                     processor=f", num_workers: {workers}" if workers else "")
                done = self.cluster.run("salloc", "-N3", "-n6", build.dtrain, "preprocess", "--config", config)
                self.assertEqual(done.returncode, 0, f"{name}: {done.stdout}\n{done.stderr}")
                self.assertEqual(name == "more", "each node has 2 of the 4 processes, which" in done.stderr)
                self.assertEqual(build.workers(),
                                 [f"{rank} of {len(spread)} on {node}" for rank, node in enumerate(spread)])

    @unittest.skipUnless(os.path.exists(shared_build.DTRAIN + "-data"), "this build has no Arrow")
    def test_the_nodes_of_an_allocation_are_asked_whether_they_see_the_cache(self):
        with tempfile.TemporaryDirectory(prefix="dtrain-data-") as folder:
            build = shared_build.SharedBuild(folder, "backend:\n  type: slurm\n")
            prolog, false = (os.path.join(folder, name) for name in ("prolog", "srun"))
            for path, text in (prolog, "echo print Welcome"), (false, '! echo "$@" | grep -q look && exec $SRUN "$@"'):
                pathlib.Path(path).write_text(f"#!/bin/sh\n{text}\n")
                os.chmod(path, 0o755)
            # In another working folder the cache is another one.
            os.makedirs(os.path.join(folder, "elsewhere/asked"))
            config = build.write("asked", cache="/proc/self/cwd/asked")
            job = ["salloc", "-N3", "-n6", "sh", "-c", f'cd {folder}; exec "$@"', "-", build.dtrain, "run", "--config",
                   config, "--nproc", "1"]
            done = self.cluster.run(*job, f"--srun=--chdir={folder}/elsewhere --task-prolog={prolog} -l", "true")
            self.assertEqual(done.returncode, 2, f"{done.stdout}\n{done.stderr}")
            for node in range(1, 4):
                self.assertEqual(len(re.findall(f"^dtrain: node{node}: backend.cache_dir: /proc/self/cwd/asked on this "
                                                "node is another", done.stderr, re.M)), 1, done.stderr)
            self.assertEqual(os.listdir(os.path.join(folder, "asked")), [".lock"])
            self.assertEqual(build.workers(), [])
            # A srun that does not answer is no reason against the job.
            environment = self.cluster.environment(PATH=f"{folder}:{os.environ['PATH']}", SRUN=shutil.which("srun"))
            for more in {"env": environment}, {}:
                done = self.cluster.run(*job, f"--srun=--task-prolog={prolog}", "sh", "-c", "ls $DTRAIN_DATASET",
                                        **more)
                self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
                self.assertEqual("they will look when the job starts" in done.stderr, bool(more), done.stderr)
                self.assertIn("part-00000.parquet", done.stdout)
                shutil.rmtree(os.path.join(folder, "asked"))
                os.mkdir(os.path.join(folder, "asked"))

    def test_a_job_with_a_range_of_nodes_goes_on_without_one(self):
        end = os.path.join(self.cluster.folder, "end")
        self.addCleanup(lambda: os.path.exists(end) and os.remove(end))
        job = self.cluster.start(DTRAIN, "run", "--quiet", "--engine", "slurm", "--nnodes", "2:4", "--nproc", "1",
                                 "--srun=-N3 -t5", "sh", "-c",
                                 f"echo $RANK of $WORLD_SIZE on $SLURMD_NODENAME in $DTRAIN_ROUND; "
                                 f"until [ -e {end} ]; do sleep 0.05; done; echo done", stderr=subprocess.STDOUT)
        self.addCleanup(job.stdout.close)
        said = self.cluster.wait_for(job, " in 0", 3)  # the ends of their lines
        self.assertEqual(said.count(" of 3 on "), 3, said)
        lost = re.search(r"1 of 3 on (\S+)", said)[1]
        mark = f"SLURMD_NODENAME={lost}".encode()
        end_step_at_once(next(pid for pid, name in self.cluster.left() if name == "dtrain-agent"
                              and mark in proc_file(pid, "environ").split(b"\0")), descendants)
        said = self.cluster.wait_for(job, " of 2 on ", 2)
        self.assertNotIn(lost, re.findall(r" of 2 on (\S+)", said))
        with open(end, "w"):
            pass
        self.cluster.wait_for(job, "done", 2)
        # srun waits for the lost task until the daemon of that node is silent for SlurmdTimeout. Here it isn't.
        self.cluster.run("scancel", *self.cluster.jobs())
        job.communicate(timeout=DEADLINE)

    def test_what_srun_refuses_is_its_own_error(self):
        done = self.cluster.run(DTRAIN, "run", "--engine", "slurm", "--srun", "-p nosuch", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("srun: error", done.stderr)


class Secrets(SlurmTest):
    WORLD = ("sh", "-c", "echo world $WORLD_SIZE, r0 at $DTRAIN_RANK0_ADDR, token $DTRAIN_TOKEN.")

    def setUp(self):
        if not self.lab:
            self.skipTest("no network namespaces")

    def worlds(self, *words, **popen):
        said = self.srun("-N3", *words, *RUN, *self.WORLD, **popen)
        self.assertEqual(said.count(f"world 3, r0 at {self.cluster.address}, token ."), 3, said + self.said)

    def test_munge_carries_it_and_nobody_needs_a_token(self):
        self.worlds()
        self.worlds("env", "HOME=/nonexistent")

    def test_a_token_that_the_user_names_comes_first(self):
        token = new_token(DTRAIN, self.cluster.folder)
        self.worlds("env", f"DTRAIN_TOKEN_FILE={token}", "DTRAIN_MUNGE_SOCKET=/nonexistent")
        said = self.srun("-N3", "env", f"DTRAIN_TOKEN_FILE={token}", "sh", "-c",
                         f"echo $({DTRAIN} doctor)")  # one line each
        self.assertEqual(said.count("MUNGE works, and nodes know each other by DTRAIN_TOKEN_FILE"), 3, said)

    def test_without_munge_and_token(self):
        self.srun("-N3", "env", "DTRAIN_MUNGE_SOCKET=/nonexistent", "HOME=/nonexistent", *RUN, "true", code=2)
        self.assertIn("MUNGE: no munged at /nonexistent", self.said)
        self.assertIn("--token-file", self.said)

    def test_munged_that_does_not_answer_ends_the_wait_in_time(self):
        """It takes connections and says nothing: nodes ask again, until the user's time is over."""
        path = os.path.join(self.cluster.folder, "hung")
        with socket.socket(socket.AF_UNIX) as hung:
            hung.bind(path)
            hung.listen(100)
            self.srun("-N3", "env", f"DTRAIN_MUNGE_SOCKET={path}", DTRAIN, "run", "--rdzv-conf", "timeout=5", "true",
                      code=124)
        self.assertRegex(self.said, "MUNGE|munged")

    def test_strangers_at_the_port_get_nothing_that_they_can_open(self):
        come = os.path.join(self.cluster.folder, "come")
        with self.cluster.network():
            port = free_port()
        job = self.cluster.start("srun", "-N3", "sh", "-c",
                                 f"[ $SLURM_NODEID = 0 ] || until [ -e {come} ]; do sleep 0.1; done; "
                                 f"exec {DTRAIN} run --master-port {port} true")
        self.addCleanup(job.communicate)

        def ask(request):
            """All that comes back; None: nobody is there yet."""
            try:
                with self.cluster.network(), socket.create_connection((self.cluster.address, port), DEADLINE) as peer:
                    peer.sendall(request)
                    return b"".join(iter(lambda: peer.recv(4096), b""))
            except ConnectionError:
                return None
        credential = until(lambda: ask(b"\xd9munge\n\x01"), DEADLINE, "an answer")
        self.assertRegex(credential, rb"^MUNGE:[A-Za-z0-9+/=]+:$")
        unmunge = [f"unmunge", f"--socket={self.cluster.socket}"]
        if os.geteuid() == 0:
            done = subprocess.run(unmunge, input=credential, capture_output=True, timeout=DEADLINE, user=NOBODY)
            self.assertIn(b"Unauthorized", done.stdout + done.stderr)
            self.assertNotIn(b"dtrain", done.stdout)
        self.assertFalse(ask(b"\xd9munge\n\x02"))
        self.assertFalse(ask(b"\xd9munge\n\x01more"))
        open(come, "w").close()
        self.assertEqual(job.wait(DEADLINE), 0, self.cluster.logs())


class EndingTest(SlurmTest):
    def start(self, nodes="-N3", *flags, workers=6, script=WATCHFUL):
        job = self.cluster.start("srun", nodes, *RUN, "--nproc", "2", *flags, "bash", "-c", script)
        self.addCleanup(self.end, job)
        self.read = self.cluster.wait_for(job, "ready\n", workers)
        return job

    def end(self, job):
        if job.returncode is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.communicate()

    def outcome(self, job):
        out, err = job.communicate(timeout=DEADLINE)
        self.read += out
        self.said = err
        return job.returncode


class Ending(EndingTest):
    def test_the_exit_code_is_the_first_failing_workers(self):
        for code in (1, 2, 41, 124, 127, 200, 255):
            with self.subTest(code=code):
                self.srun("-N3", *RUN, "--nproc", "2", "sh", "-c", f"[ $RANK != 3 ] || exit {code}; exec sleep 60",
                          code=code)
                self.assertIn(f"first failure: rank 3: exit code {code}", self.said)

    def test_a_worker_that_dies_of_a_signal(self):
        for name in ("SEGV", "KILL", "TERM", "ABRT"):
            with self.subTest(signal=name):
                self.srun("-N2", *RUN, "--nproc", "2", "sh", "-c",
                          f"ulimit -c 0; [ $RANK != 3 ] || kill -{name} $$; exec sleep 60",
                          code=128 + getattr(signal, f"SIG{name}"))

    def test_a_killed_agent_ends_the_step_on_all_nodes(self):
        job = self.start()
        agents = [pid for pid, name in self.cluster.left() if name == "dtrain-agent"]
        self.assertEqual(len(agents), 3)
        os.kill(agents[1], signal.SIGKILL)
        self.assertEqual(self.outcome(job), 125, self.said)

    def test_a_restart_takes_all_nodes_along(self):
        said = self.srun("-N3", *RUN, "--nproc", "1", "--max-restarts", "1", "sh", "-c",
                         '[ $RANK.$TORCHELASTIC_RESTART_COUNT != 2.0 ] || exit 3; '
                         '[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 60; echo round 1 $RANK')
        self.assertEqual(re.findall("round .*", said), [f"round 1 {rank}" for rank in range(3)])

    def test_scancel(self):
        job = self.start()
        self.cluster.run("scancel", *self.cluster.jobs())
        self.assertEqual(self.outcome(job), 128 + signal.SIGTERM, self.said)
        self.assertEqual({r for r in re.findall(r"got TERM at (\d)", self.read)}, set("012345"))

    def test_scancel_of_workers_that_do_not_want_to_end(self):
        job = self.start("-N3", "--shutdown-timeout", "0.5", script=UNWILLING)
        self.cluster.run("scancel", *self.cluster.jobs())
        self.assertEqual(self.outcome(job), 128 + signal.SIGTERM, self.said)

    def test_slurms_sigkill_leaves_nothing(self):
        job = self.start("-N3", "--shutdown-timeout", "60", script=UNWILLING)
        self.cluster.run("scancel", *self.cluster.jobs())
        self.outcome(job)  # srun gives up at about the same time, and then ends with 0

    def submit(self, name, nodes, words, *flags, **variables):
        """A job script of one step, and where its output goes."""
        script, output = (os.path.join(self.cluster.folder, f"{name}.{end}") for end in ("sh", "out"))
        with open(script, "w") as f:
            f.write(f"#!/bin/bash\n#SBATCH --nodes={nodes} --ntasks-per-node=1 --requeue --open-mode=append\n"
                    f"exec srun {shlex.join([*RUN, *words])}\n")
        export = ",".join(["ALL", *(f"{name}={value}" for name, value in variables.items())])
        done = self.cluster.run("sbatch", "--parsable", f"--export={export}", "-o", output, *flags, script)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip(), output

    def said_in(self, output):
        if not os.path.exists(output):
            return ""
        with open(output) as f:
            return f.read()

    def steps(self, output, run, ranks):
        """Where each rank of that run has begun, once all have."""
        found = re.findall(rf"run {run}: rank (\d) goes on from (\d+)", self.said_in(output))
        return {int(rank): int(step) for rank, step in found} if len(found) == ranks else None

    def test_jobs_that_go_back_into_the_queue(self):
        """One saves when it is asked to. The others write nothing: their agents carry the state over. One of these
        comes to its time limit; another one is given back by somebody else, as by a preemption, and then cancelled."""
        saved, states = (os.path.join(self.cluster.folder, name) for name in ("saved", "states"))
        os.mkdir(saved)
        os.mkdir(states)
        keeps = ["--state-dir", states, "--nproc", "2", "--no-python", sys.executable, "-c", COUNTS]
        _, saves = self.submit("saves", 3, ["--requeue", "52", "--nproc", "2", "bash", "-c", SAVES], "--time=1",
                               SAVED=saved)
        _, limited = self.submit("limited", 2, ["--requeue", "52", *keeps], "--time=1", DONE_AT_ONCE=1)
        number, given = self.submit("given", 1, keeps)
        until(lambda: self.steps(given, 0, 2), DEADLINE, "the first steps")
        until(lambda: self.cluster.run("scontrol", "requeue", number).returncode == 0, DEADLINE, "the requeue")
        began = until(lambda: self.steps(given, 1, 2), 4 * DEADLINE, "the second run")
        self.assertGreater(min(began.values()), 0, self.said_in(given))
        files = [name for name in os.listdir(states) if f".{number}." in name]
        self.assertEqual(len(files), 2, self.said_in(given))
        self.cluster.run("scancel", number)
        until(lambda: not self.cluster.jobs(), 4 * DEADLINE, "the end of the jobs")
        said = self.said_in(saves)
        self.assertEqual({r for r in re.findall(r"saved (\d)", said)}, set("012345"), said)
        self.assertEqual(len(re.findall(r"job \d+ goes back into SLURM's queue", said)), 1, said)
        self.assertEqual(len(re.findall(r"ready \d restart 1", said)), 6, said)
        said = self.said_in(limited)
        self.assertEqual(self.steps(limited, 0, 4), dict.fromkeys(range(4), 0), said)
        self.assertGreater(min(self.steps(limited, 1, 4).values()), 0, said)
        self.assertEqual(len(re.findall(r"job \d+ goes back into SLURM's queue", said)), 1, said)
        self.assertIn("this job does not run again: the state of its workers is not kept", self.said_in(given))
        self.assertEqual(os.listdir(states), [])

    def test_what_cannot_be_requeued_is_told(self):
        self.srun("-N1", *RUN, "--requeue", "10", "true", code=2)
        self.assertRegex(self.said, r"--requeue '10': job \d+ is no batch job, and SLURM requeues no others")

    def test_usr1_is_a_notice_to_the_workers(self):
        job = self.start()
        self.cluster.run("scancel", "--signal=USR1", *self.cluster.jobs())
        self.read += self.cluster.wait_for(job, "got USR1", 6)
        self.assertEqual({r for r in re.findall(r"got USR1 at (\d)", self.read)}, set("012345"))
        self.assertIsNone(job.poll())
        self.cluster.run("scancel", *self.cluster.jobs())
        self.assertEqual(self.outcome(job), 128 + signal.SIGTERM, self.said)

    def test_a_worker_that_ends_well_on_usr1_ends_the_job_well(self):
        job = self.start(script="exec 4<> <(:); trap 'exit 0' USR1; echo ready; while :; do read -t 0.1 _ <&4; done")
        self.cluster.run("scancel", "--signal=USR1", *self.cluster.jobs())
        self.assertEqual(self.outcome(job), 0, self.said)


class EndingByTheTree(EndingTest):
    """SLURM signals every process of the step itself: front, agent, guard and workers."""

    tracked_by = "linuxproc"

    def test_scancel(self):
        job = self.start(script="echo ready; exec sleep 60")
        self.cluster.run("scancel", *self.cluster.jobs())
        self.assertEqual(self.outcome(job), 128 + signal.SIGTERM, self.said)

    def test_scancel_of_workers_that_end_at_once_with_a_code_of_their_own(self):
        job = self.start("-N1", workers=2)
        self.cluster.run("scancel", *self.cluster.jobs())
        self.assertEqual(self.outcome(job), 128 + signal.SIGTERM, self.said)

    def test_a_failure_without_a_signal_keeps_its_code(self):
        self.srun("-N3", *RUN, "--nproc", "2", "sh", "-c", "[ $RANK != 3 ] || exit 9; exec sleep 60", code=9)

    def test_usr1(self):
        job = self.start("-N1", workers=2)
        self.cluster.run("scancel", "--signal=USR1", *self.cluster.jobs())
        while set(re.findall(r"got USR1 at (\d)\n", self.read)) != set("01"):  # some get it twice
            self.read += self.cluster.wait_for(job, "\n")
        self.assertIsNone(job.poll())
        self.cluster.run("scancel", *self.cluster.jobs())
        self.assertEqual(self.outcome(job), 128 + signal.SIGTERM, self.said)


if __name__ == "__main__":
    unittest.main()
