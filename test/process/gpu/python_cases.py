"""Python programs on GPUs under `dtrain run`, with dtrain's backend for CPU tensors and with NCCL alone."""
import re
import unittest

from job import HERE, KIND, PACKAGE, GpuCase, needs, needs_gpu, numbered_rows

PROGRAMS = HERE / "programs"
BACKEND = HERE.parent / "torch/backend"


class Python(GpuCase):
    def test_the_backend_is_there(self):
        """From a wheel it is compiled by the first who needs it."""
        self.ok(self.run_command("sh", "-c", '"$PYTHON_EXEC" -m dtrain', limit=400), "backend for Python")

    def test_ddp_and_fsdp2_1(self):
        self.ok(self.job(1, BACKEND / "devices.py", KIND), f"FSDP2 on {KIND}: ")

    def test_ddp_and_fsdp2_2(self):
        self.ok(self.job(2, BACKEND / "devices.py", KIND, limit=90), f"FSDP2 on {KIND}: ")

    def collectives(self, backend, ranks):
        done = self.job(ranks, PROGRAMS / "collectives.py", backend, KIND, limit=90)
        for line in re.findall(r"(?m)^(?:\[0\] )?(\w+: (?:ok|FAILED).*)$", done.out):
            print(f"  {backend} on {ranks}: {line}", flush=True)
        self.assertNotIn("FAILED", done.out, str(done))
        self.ok(done, "end")

    def test_collectives_1(self):
        self.collectives("dtrain", 1)

    def test_collectives_2(self):
        self.collectives("dtrain", 2)

    @needs_gpu
    def test_collectives_of_nccl_alone_2(self):
        self.collectives("nccl", 2)

    @needs_gpu
    def test_a_script_for_torchrun(self):
        for ranks in ("gpu", 2):
            with self.subTest(ranks=ranks):
                self.ok(self.job(ranks, PROGRAMS / "script.py"), r"loss 0\.0")

    @needs("pyarrow")
    @unittest.skipUnless((PACKAGE / "dtrain/libdtrain_data.so").exists(), "it was built without pyarrow")
    def test_batches_in_page_locked_memory(self):
        with numbered_rows() as file:
            self.ok(self.job(1, PROGRAMS / "pinned.py", KIND, file), f"rows on {KIND}")

    @needs("accelerate")
    @needs_gpu
    def test_accelerate(self):
        self.ok(self.job("gpu", PROGRAMS / "accelerate_train.py", limit=90), "learnt on cuda")

    @needs("pytorch_lightning")
    @needs_gpu
    def test_lightning(self):
        self.ok(self.job("gpu", PROGRAMS / "lightning_train.py", limit=90), "learnt on cuda")

    def test_the_package_is_what_is_tested(self):
        self.assertTrue((PACKAGE / "dtrain/__init__.py").exists(), PACKAGE)


class PythonFaults(GpuCase):
    def fails(self, backend, way, pattern, limit=60):
        done = self.job(2, PROGRAMS / "fault.py", backend, KIND, way, limit=limit)
        self.assertNotEqual(done.code, 0, str(done))
        print(f"  {backend}, {way}: {done.seconds:.1f} s in all; " +
              "; ".join(re.findall("(?m)^first failure: .*$", done.err)), flush=True)
        self.assertIn("training", done.out)
        self.headline(done, 1, pattern)

    def test_killed_inside_an_all_reduce(self):
        self.fails("dtrain", "inside", r"signal 9 \(SIGKILL\)")

    @needs_gpu
    def test_killed_inside_an_all_reduce_of_nccl_alone(self):
        self.fails("nccl", "inside", r"signal 9 \(SIGKILL\)")

    def test_exception(self):
        self.fails("dtrain", "raise", "RuntimeError: cannot read shard 7")

    @needs_gpu
    def test_device_side_assert(self):
        self.fails("dtrain", "assert", "device-side assert")

    def test_exit_3(self):
        self.fails("dtrain", "exit3", "exit code 3")

    def test_late_for_a_collective_of_the_cpu(self):
        self.fails("dtrain", "late_cpu", "did not arrive in time")

    @needs_gpu
    def test_late_for_an_all_reduce(self):
        done = self.job(2, PROGRAMS / "fault.py", "dtrain", KIND, "late", limit=60)
        self.assertNotEqual(done.code, 0, str(done))
        print(f"  late: {done.seconds:.1f} s in all; " + "; ".join(re.findall("(?m)^first failure: .*$", done.err)),
              flush=True)
        self.assertRegex(done.err, "timeout|timed out", str(done))
