"""Real packages that start torchrun, and what they do under `dtrain shim`. Where torch can do the same, the results
are compared. usage: shim_test.py PYTHON [unittest's arguments]

PYTHON has torch. .venv-peers has Lightning, Accelerate, DeepSpeed and Composer (scripts/setup.sh peers)."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PYTHON = os.path.abspath(sys.argv.pop(1))
PEERS = ROOT / ".venv-peers/bin/python"
DTRAIN = str(pathlib.Path(os.environ["DTRAIN_BIN_DIR"], "dtrain").resolve())
CALLS = HERE / "programs/shim_calls.py"
DEADLINE = 240
SAYS = """import os, sys
print("result", os.environ["RANK"], os.environ["LOCAL_RANK"], os.environ["WORLD_SIZE"], *sys.argv[1:], flush=True)
print("result on dtrain", "DTRAIN_JOB_ID" in os.environ, flush=True)
sys.exit(int(os.environ.get("CODE", "0")))
"""


def results(said):
    return sorted(re.findall(r"(?m)^(?:\[\d+\] )?(result .*)", said))


class UnderShim(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.script = self.folder / "says.py"
        self.script.write_text(SAYS)
        (self.folder / "tmp").mkdir()

    def run_command(self, *words, shim=True, **variables):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("PYTHON", "PET_", "CUDA_VISIBLE"))}
        environment.update(XDG_CACHE_HOME=str(self.folder), TMPDIR=str(self.folder / "tmp"), PYTHONWARNINGS="ignore",
                           PYTHONDONTWRITEBYTECODE="1", HF_HOME=str(self.folder), **variables)
        return subprocess.run([*([DTRAIN, "shim"] if shim else []), *map(str, words)], env=environment, text=True,
                              cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE)

    def says(self, *words, code=0, **more):
        done = self.run_command(*words, **more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr[-5000:])
        return done.stdout + done.stderr

    def left(self):
        """What jobs have left; `import torch` leaves something else."""
        names = os.listdir(self.folder / "tmp")
        return [name for name in names if name.startswith(("dtrain", "torchelastic"))]

    def on_dtrain(self, said, *arguments):
        expected = [f"result {rank} {rank} 2 {' '.join(arguments)}".format(rank).strip() for rank in range(2)]
        self.assertEqual(results(said), sorted(expected + ["result on dtrain True"] * 2), said)


class Launcher(UnderShim):
    def call(self, name, **variables):
        """What the calls give under torch's own agent, and the same under dtrain."""
        theirs = results(self.says(PYTHON, CALLS, name, shim=False, **variables))
        for path in (self.folder / "tmp").glob("torchelastic_*"):  # torch leaves one for each job
            shutil.rmtree(path)
        said = self.says(PYTHON, CALLS, name, **variables)
        return theirs, results(said), said

    def test_functions(self):
        for name in "function", "restart":
            theirs, ours, said = self.call(name)
            self.assertEqual([line.replace("False", "True") for line in theirs], ours, said)
            self.assertIn("dtrain: 2 workers", said)
            self.assertEqual(self.left(), [])

    def test_a_closure_needs_cloudpickle_and_the_error_says_so(self):
        said = self.says(PYTHON, CALLS, "closure", code=1)
        self.assertIn("TypeError: dtrain shim: the function cannot reach other processes", said)
        self.assertIn("-m pip install cloudpickle", said)
        self.assertEqual(self.left(), [])

    def test_a_program_without_a_guard_ends(self):
        program = self.folder / "unguarded.py"
        program.write_text("from torch.distributed.launcher.api import LaunchConfig, elastic_launch\n"
                           "def work():\n    print('result worked')\n"
                           "elastic_launch(LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=1, run_id='x',\n"
                           "    rdzv_backend='c10d', rdzv_endpoint='localhost:0', max_restarts=0), work)()\n")
        said = self.says(PYTHON, program, code=1)
        self.assertIn("An attempt has been made to start a new process before", said)
        self.assertEqual(results(said), [])

    def test_torchruns_variables_are_not_read_twice(self):
        said = self.says(PYTHON, "-c", "from torch.distributed.run import main; main()", "says", "x", PET_MODULE="1",
                         PET_NPROC_PER_NODE="2")
        self.on_dtrain(said, "x")

    def test_programs(self):
        theirs, ours, said = self.call("program")
        self.assertEqual(theirs, ours, said)
        self.assertEqual(self.left(), [])

    def test_failures_are_torchs_exception(self):
        exits = self.folder / "exits.py"
        exits.write_text("import os, signal\nif os.environ['RANK'] == '0': raise SystemExit(3)\nsignal.pause()\n")
        theirs, ours, said = self.call("failure", EXITS_WITH_3=str(exits))
        pids = re.compile(r"PID \d+")
        self.assertEqual([pids.sub("PID", line) for line in theirs], [pids.sub("PID", line) for line in ours], said)
        self.assertEqual(len(ours), 3)

    def test_logs(self):
        theirs, ours, said = self.call("logs")
        self.assertEqual(theirs, ours, said)
        self.assertEqual(len(ours), 2)

    def test_what_cannot_be_carried_out_is_refused(self):
        said = self.says(PYTHON, CALLS, "refused")
        lines = results(said)
        self.assertEqual(len(lines), 3, said)
        self.assertIn("result ValueError dtrain shim: logs_specs is a Mine, and only DefaultLogsSpecs", lines[2])
        self.assertIn("result RuntimeError true: dtrain has ended with exit code 2, and has said why", lines[0])
        self.assertIn("--event-log-handler", said)
        self.assertIn("zeus", said)

    def test_a_signal_is_torchs_exception(self):
        theirs, ours, said = self.call("stopped")
        self.assertEqual(theirs, ["result SIGTERM"])
        self.assertEqual(ours, theirs, said)

    def test_torchruns_own_script(self):
        script = pathlib.Path(PYTHON).parent / "torchrun"
        self.on_dtrain(self.says(script, "--nproc-per-node", "2", self.script, "x"), "x")


@unittest.skipUnless(PEERS.exists(), "no .venv-peers: scripts/setup.sh peers")
class Packages(UnderShim):
    def test_accelerate_launch(self):
        words = [PEERS.parent / "accelerate", "launch", "--multi_gpu", "--num_processes", "2"]
        self.on_dtrain(self.says(*words, self.script, "x"), "x")
        said = self.says(*words, "--max_restarts", "1", self.script, CODE="3", code=1)
        self.assertIn("exitcode  : 3", said)
        self.assertIn("restarting all workers (restart 1 of 1)", said)

    def test_accelerates_notebook_launcher(self):
        program = self.folder / "notebook.py"
        program.write_text("import os\nfrom accelerate import notebook_launcher\n\n\ndef work(a):\n"
                           "    print('result', a, os.environ['RANK'], 'DTRAIN_JOB_ID' in os.environ)\n\n\n"
                           "if __name__ == '__main__':\n"
                           "    notebook_launcher(work, (5,), num_processes=2, use_port='0')\n")
        self.assertEqual(results(self.says(PEERS, program)), ["result 5 0 True", "result 5 1 True"])

    def test_fabric_run(self):
        words = "-m", "lightning_fabric.cli", "--accelerator", "cpu", "--devices", "2"
        self.on_dtrain(self.says(PEERS, *words, self.script, "x"), "x")

    def test_deepspeed(self):
        launcher = PEERS.parent / "deepspeed"
        said = self.says(launcher, "--num_gpus", "2", self.script, "x")
        self.on_dtrain(said, "--local_rank={}", "x")
        self.on_dtrain(self.says(launcher, "--num_gpus", "2", "--no_local_rank", "--module", "says", "x"), "x")
        self.on_dtrain(self.says(launcher, "--num_gpus", "2", "--no_local_rank", self.script, PET_NNODES="2"))
        said = self.says(launcher, "--num_gpus", "2", self.script, CODE="5", code=5)
        self.assertIn("exit code 5", said)
        said = self.says(launcher, "--num_gpus", "2", "--bind_cores_to_rank", self.script, code=2)
        self.assertIn("--bind_cores_to_rank cannot be carried out; leave it out", said)

    def test_deepspeeds_launcher_for_open_mpi(self):
        hosts = self.folder / "hosts"
        hosts.write_text("localhost slots=2\n")
        words = [PEERS.parent / "deepspeed", "-H", hosts, "--force_multi", "--no_ssh_check",
                 "--master_addr", "127.0.0.1"]
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "NO_COLOR": "1"}
        said = self.says(*words, "--launcher", "openmpi", "--module", "says", "a b", **root)
        self.on_dtrain(said, "a b")
        self.assertIn(f"{DTRAIN} run --engine mpi", said)
        said = self.says(*words, "--launcher", "impi", self.script, code=2)
        self.assertIn("\ndtrain: dtrain shim: deepspeed: --launcher impi cannot be carried out; type mpirun ", said)

    def test_composer(self):
        words = PEERS.parent / "composer", "-n", "2", "--stdout", "rank{rank:02d}", self.script, "$RANK", "~/x", "$$"
        other = self.folder / "rank01"
        said = self.says(*words, shim=False) + other.read_text()
        theirs = [line for line in results(said) if "on dtrain" not in line]
        self.assertEqual(theirs, [f"result {rank} {rank} 2 {rank} {os.path.expanduser('~')}/x $$" for rank in "01"])
        other.unlink()
        said = self.says(*words)
        self.assertEqual(results(said + other.read_text()), sorted(theirs + ["result on dtrain True"] * 2))
        self.assertEqual(len(results(said)), 2, said)
        self.assertIn("first failure", self.says(*words, CODE="5", code=5))

    def test_composers_trainer(self):
        said = self.says(PEERS, "-m", "composer", "-n", "2", "--stdout", "other", CALLS.parent / "composer_trainer.py")
        self.assertIn("dtrain: done: 2 workers", said)
        [first], [second] = results(said), results((self.folder / "other").read_text())
        self.assertIn("result rank 0 of 2 on node 0: DistributedDataParallel, 8ba, ", first)
        self.assertEqual(first.replace("rank 0", "rank 1"), second)


if __name__ == "__main__":
    unittest.main()
