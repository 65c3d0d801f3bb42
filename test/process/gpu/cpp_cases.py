"""The training layer on GPUs: collectives, streams, training against CPUs and against Python, memory."""
import pathlib
import re
import sys
import tempfile
import unittest

from job import (HERE, KIND, TEST_BIN, WORKER, GpuCase, gpus, needs, needs_gpu, needs_to_be_alone, needs_two_gpus,
                 numbered_rows)

PROGRAMS = HERE / "programs"
sys.path.append(str(HERE.parents[1] / "parity"))


class Cpp(GpuCase):
    def test_every_call(self):
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                done = self.ok(self.job(ranks, TEST_BIN / "every_call", limit=120))
                said = re.findall(rf"rank \d of {ranks} on {KIND}\S*: (\d+) of \1 checks hold", done.out)
                self.assertEqual(len(said), ranks, str(done))

    def test_moves_1(self):
        self.checks("moves", 1, 60)

    def test_moves_2(self):
        self.checks("moves", 2, 90)

    def test_moves_4(self):
        self.checks("moves", 4, 120)

    def test_streams_1(self):
        self.checks("streams", 1, 60)

    def test_streams_2(self):
        self.checks("streams", 2, 120)

    def test_training_1(self):
        self.checks("training", 1, 60)

    def test_training_2(self):
        self.checks("training", 2, 120)

    def test_sharded_1(self):
        self.checks("sharded", 1, 90)

    def test_sharded_2(self):
        self.checks("sharded", 2, 180)

    def test_sharded_4(self):
        self.checks("sharded", 4, 240)

    def test_horovod_1(self):
        self.checks("horovod", 1, 60)

    def test_horovod_2(self):
        self.checks("horovod", 2, 120)

    def test_diverged_2(self):
        self.checks("diverged", 2, 60)

    @needs("pyarrow")
    @unittest.skipUnless((TEST_BIN / "pinned_worker").exists(), "it was built without pyarrow")
    def test_batches_in_page_locked_memory(self):
        with numbered_rows() as file:
            self.ok(self.job(1, TEST_BIN / "pinned_worker", KIND, file), f"rows on {KIND}")

    def test_the_same_weights_as_python(self):
        """C++ and Python on the same GPUs, with PowerSGD too."""
        import ddp_parity
        with tempfile.TemporaryDirectory() as folder:
            for number, (steps, rank, feedback, epsilon) in enumerate(ddp_parity.OPTIONS):
                self.ok(self.job(2, TEST_BIN / "ddp_steps", pathlib.Path(folder, f"ours{number}"), steps, rank,
                                 int(feedback), epsilon))
            done = self.ok(self.job(2, PROGRAMS / "parity.py", folder))
            for line in re.findall(r"(?m)^(?:\[0\] )?(.*weights .* apart.*)$", done.out):
                print("  " + line, flush=True)
            self.assertEqual(len(re.findall("weights .* apart", done.out)), len(ddp_parity.OPTIONS), str(done))

    @needs_gpu
    def test_peak_of_memory_is_pythons(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                ours, theirs = (max(map(int, re.findall(r"peak (\d+)", self.ok(done).out)))
                                for done in (self.job(ranks, WORKER, "memory"),
                                             self.job(ranks, PROGRAMS / "memory.py")))
                print(f"  peak on {ranks}: C++ {ours / 2**20:.0f} MiB, Python {theirs / 2**20:.0f} MiB", flush=True)
                self.assertLessEqual(ours, 1.05 * theirs)

    @needs_two_gpus
    def test_a_rank_takes_no_memory_on_gpus_of_others(self):
        """A process with a context on a GPU uses some hundreds of MiB there."""
        before = gpus()
        self.ok(self.job(len(before), PROGRAMS / "contexts.py", WORKER))

    @needs_gpu
    @needs_to_be_alone
    def test_memory_comes_back(self):
        before = [used for _, used in gpus()]
        self.ok(self.job(1, WORKER, "diverged"))
        self.assertLess(max(after - used for (_, after), used in zip(gpus(), before)), 100, "MiB are still in use")


class CppFaults(GpuCase):
    """One rank of two fails in the middle of training: who it was is said, and the other one does not wait for ever."""

    def fails(self, way, pattern, culprit=1, limit=40):
        done = self.job(2, WORKER, "fail", way, culprit, limit=limit)
        self.assertNotEqual(done.code, 0, str(done))
        print(f"  {way}: {done.seconds:.1f} s in all; " + "; ".join(re.findall("(?m)^first failure: .*$", done.err)),
              flush=True)
        self.assertIn("training", done.out)
        if pattern:
            self.headline(done, culprit, pattern)
        return done

    def test_killed(self):
        self.assertEqual(self.fails("kill", r"signal 9 \(SIGKILL\)").code, 137)

    def test_killed_first_rank(self):
        self.fails("kill", r"signal 9 \(SIGKILL\)", culprit=0)

    def test_killed_inside_an_all_reduce(self):
        self.assertEqual(self.fails("inside", r"signal 9 \(SIGKILL\)").code, 137)

    def test_segv(self):
        self.fails("segv", r"signal 11 \(SIGSEGV\)")

    def test_exit_1(self):
        self.fails("exit1", "exit code 1")

    def test_returns_0(self):
        self.fails("return0", "ended with code 0")

    def test_exception(self):
        self.fails("throw", "std::runtime_error: cannot read shard 7")

    @needs_gpu
    def test_out_of_memory(self):
        self.fails("memory", "out of memory")

    @needs_gpu
    def test_device_side_assert(self):
        self.fails("assert", "device-side assert")

    def test_late_for_a_collective_of_the_cpu(self):
        self.fails("late_cpu", "did not arrive in time")

    def test_late_for_an_all_reduce(self):
        """Its timeout is 5 s."""
        done = self.fails("late", None)
        self.assertLess(done.seconds, 25)
        self.assertRegex(done.err, "timeout|did not arrive in time|timed out", str(done))

    def test_without_a_launcher_nobody_waits_for_ever(self):
        """The one that is left learns it from NCCL, whose connection has ended, or by the timeout."""
        world = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29977"}
        if KIND == "cuda":
            world["CUDA_VISIBLE_DEVICES"] = "0"
        ranks = [self.start(WORKER, "fail", "inside", 1, **world, RANK=str(rank), LOCAL_RANK=str(rank),
                            NCCL_HOSTID=f"rank{rank}") for rank in range(2)]
        for rank in ranks:
            self.addCleanup(rank.kill)
        said = [rank.communicate(timeout=60) for rank in ranks]
        self.assertEqual(ranks[1].returncode, -9, said)
        self.assertNotIn(ranks[0].returncode, (0, -9), said)
        print(f"  rank 0 ended with {ranks[0].returncode}: {said[0][1][-300:]!r}", flush=True)
