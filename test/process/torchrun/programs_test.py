"""Real programs under torchrun and under dtrain: the same results. And restarts, many in a row.
usage: programs_test.py PYTHON [unittest's arguments]

PYTHON has torch. With `scripts/setup.sh peers` also PyTorch Lightning, Accelerate, Transformers and DeepSpeed, in
.venv-peers, which sees the torch of .venv. DTRAIN_RESTARTS: how many (4).
"""
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
PEERS = ROOT / ".venv-peers" / "bin" / "python"
BIN_DIR = pathlib.Path(os.environ["DTRAIN_BIN_DIR"]).resolve()
RESTARTS = int(os.environ.get("DTRAIN_RESTARTS", "4"))


def run(*command, python=PYTHON, folder=HERE, seconds=120, **variables):
    environment = {**os.environ, "PYTHON_EXEC": str(python), "PYTHONWARNINGS": "ignore", **variables}
    return subprocess.run(list(map(str, command)), env=environment, cwd=folder, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=seconds)


def results(done):
    """What the workers say came out, without prefixes. torchrun may put two of them on one line."""
    return sorted(re.findall(r"result (?:(?!result).)*|loss [\d.]+  test accuracy [\d.]+ %", done.stdout))


class Programs(unittest.TestCase):
    maxDiff = None

    def same(self, *words, python=PYTHON, folder=HERE):
        theirs = run(PYTHON, "-m", "torch.distributed.run", *words, python=python, folder=folder)
        ours = run(BIN_DIR / "torchrun", *words, python=python, folder=folder)
        self.assertEqual(theirs.returncode, 0, theirs.stderr[-3000:])
        self.assertEqual(ours.returncode, 0, ours.stderr[-3000:])
        self.assertNotEqual(results(ours), [], ours.stdout)
        self.assertEqual(results(theirs), results(ours))

    def test_ddp_on_gloo(self):
        self.same("--nproc-per-node", "2", HERE / "programs" / "ddp_hello.py")

    @unittest.skipUnless(PEERS.exists(), "no .venv-peers: scripts/setup.sh peers")
    def test_lightning(self):
        self.same("--nproc-per-node", "2", HERE / "programs" / "lightning_hello.py", python=PEERS)

    @unittest.skipUnless(PEERS.exists(), "no .venv-peers: scripts/setup.sh peers")
    def test_accelerate(self):
        self.same("--nproc-per-node", "2", HERE / "programs" / "accelerate_hello.py", python=PEERS)

    @unittest.skipUnless((BIN_DIR / "train").exists(), "built without strategies")
    @unittest.skipIf("thread" in os.environ.get("DTRAIN_TEST_SANITIZE", ""), "LibTorch has no ThreadSanitizer")
    def test_cpp(self):
        self.same("--nproc-per-node", "2", "--no-python", "./train", "--epochs=1", folder=BIN_DIR)


class Ecosystem(unittest.TestCase):
    """Programs as people have them, under `dtrain run`: exactly the losses that torchrun gives, on every rank."""
    maxDiff = None

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def run_program(self, launcher, name, python, workers=2):
        """The lines of each rank. No line is of a number of ranks other than that of the workers."""
        folder = self.folder / f"{launcher}-{workers}"
        words = ("run",) if launcher == "dtrain" else ("-m", "torch.distributed.run")
        # One thread: the order of a sum is the same under both launchers, on any machine.
        done = run(BIN_DIR / "dtrain" if launcher == "dtrain" else PYTHON, *words, "--nproc-per-node", workers,
                   HERE / "programs" / name, folder, python=python, OMP_NUM_THREADS="1", DS_ACCELERATOR="cpu",
                   HF_HUB_OFFLINE="1", HF_HOME=str(folder), TORCH_EXTENSIONS_DIR=str(folder))
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        lines = [(int(rank), said) for rank, said in re.findall(
            rf"result rank (\d+) of {workers}: ((?:(?!result).)*)", done.stdout)]
        self.assertEqual({rank for rank, _ in lines}, set(range(workers)), done.stdout)
        self.assertEqual(len(lines), done.stdout.count("result rank"), done.stdout)
        return [[said for its, said in lines if its == rank] for rank in range(workers)]

    def same(self, name, python=PYTHON):
        theirs = self.run_program("torchrun", name, python)
        ours = self.run_program("dtrain", name, python)
        self.assertEqual(ours, theirs)
        self.assertEqual(ours[0], ours[1])
        return ours[0]

    def test_fsdp2_and_its_checkpoint(self):
        losses, shards, went_on, files = self.same("fsdp2_checkpoint.py")
        self.assertIn("has 106 of 212 parameters", shards)
        self.assertEqual(went_on, "went on as before: True")
        self.assertEqual(files, "saved to __0_0.distcp __1_0.distcp")
        # One worker with the whole batch learns the same, but for the order of sums.
        alone = self.run_program("dtrain", "fsdp2_checkpoint.py", PYTHON, workers=1)[0][0]
        for ours, its in zip(losses.split()[1:], alone.split()[1:], strict=True):
            self.assertAlmostEqual(float(ours), float(its), places=5)

    @unittest.skipUnless(PEERS.exists(), "no .venv-peers: scripts/setup.sh peers")
    def test_transformers_trainer(self):
        mode, losses, _ = self.same("transformers_trainer.py", PEERS)
        self.assertEqual(mode, "ParallelMode.DISTRIBUTED DistributedDataParallel")
        self.assertIn("of 8 batches", losses)  # half of the 16 that the data has

    @unittest.skipUnless(PEERS.exists(), "no .venv-peers: scripts/setup.sh peers")
    def test_deepspeed_zero2(self):
        steps, parts = self.same("deepspeed_zero2.py", PEERS)
        self.assertIn("4 steps of stage 2", steps)
        self.assertIn("updates 106 of 212 parameters", parts)


# Says where it is, and lives until its standard input ends.
LIGHTHOUSE = """
import sys
from torchft.coordination import LighthouseServer
server = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=500, quorum_tick_ms=50,
                          heartbeat_timeout_ms=4000)
print(server.address(), flush=True)
sys.stdin.read()
server.shutdown()
"""


@unittest.skipUnless(PEERS.exists(), "no .venv-peers: scripts/setup.sh peers")
class ReplicaGroups(unittest.TestCase):
    def test_torchft_goes_on_without_a_group_and_heals_it(self):
        """Each worker averages by torchft with the other group. Group 1 dies once, and is not missed for long."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        for rank in "01":
            os.mkfifo(os.path.join(folder, rank))
        with subprocess.Popen([PEERS, "-c", LIGHTHOUSE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL) as lighthouse:
            try:
                address = lighthouse.stdout.readline().strip()
                self.assertRegex(address, r"^http://", "torchft is not in .venv-peers: scripts/setup.sh peers")
                done = run(BIN_DIR / "dtrain", "run", "--nproc", "4", "--replica-groups", "2", "--max-restarts", "1",
                           HERE / "programs" / "torchft_groups.py", python=PEERS, OMP_NUM_THREADS="1",
                           TORCHFT_LIGHTHOUSE=address, FOLDER=folder)
            finally:
                lighthouse.stdin.close()
        said = [line for line in done.stderr.splitlines() if "[torchft" not in line]
        self.assertEqual(done.returncode, 0, said)
        found = re.findall(r"(?m)^\[g(\d):(\d)\] result (\d) (\d): (\d) restarts, (\w+), (.*)$", done.stdout)
        self.assertEqual(len(found), 4, done.stdout)
        for group, rank, named_group, named_rank, restarts, alone, _ in found:
            self.assertEqual((group, rank), (named_group, named_rank))
            self.assertEqual(restarts, group)
            if group == "0":
                self.assertEqual(alone, "alone", "it waited for the other group")
        # The new processes of group 1 have got the state of group 0, and both end with the same.
        self.assertEqual(len({state for *_, state in found}), 1, done.stdout)


class Help(unittest.TestCase):
    def test_flags_of_torchrun_in_its_order(self):
        def names(text):
            return re.findall(r"(?m)^  (?:-\w(?: [A-Z]+)?, )?--([a-z][a-z-]*)", text)
        theirs = names(run(PYTHON, "-m", "torch.distributed.run", "--help").stdout)
        ours = run(BIN_DIR / "torchrun", "--help").stdout.split("Flags that dtrain adds")
        self.assertEqual(len(ours), 2)
        self.assertIn("nproc-per-node", theirs)
        # An older torchrun has not all of them.
        self.assertEqual([name for name in names(ours[0]) if name in theirs], theirs)


class Record(unittest.TestCase):
    def test_the_exception_reaches_both_reports(self):
        words = ("--nproc-per-node", "2", ROOT / "test" / "process" / "torch" / "ddp_worker.py")
        theirs = run(PYTHON, "-m", "torch.distributed.run", *words)
        ours = run(BIN_DIR / "torchrun", *words)
        for done in (theirs, ours):
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("RuntimeError: the first time fails", done.stderr)
        # torchrun takes for the root cause whom it looked at first, of those that failed in one second.
        self.assertRegex(ours.stderr, r"(?s)(Root Cause|first failure: rank 1: ).*rank\s*:? 1\b.*"
                                      r"RuntimeError: the first time fails")


class Restarts(unittest.TestCase):
    def test_as_many_as_asked_for(self):
        done = run(BIN_DIR / "dtrain", "run", "--nproc", "2", "--max-restarts", RESTARTS, "programs/restart_worker.py",
                   seconds=60 + 20 * RESTARTS)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        expected = sorted(f"result round {n}: {3 + 2 * n}" for n in range(RESTARTS + 1) for _ in range(2))
        self.assertEqual(results(done), expected)


if __name__ == "__main__":
    unittest.main()
