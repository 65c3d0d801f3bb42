"""What the launcher knows of GPUs, and the examples on them."""
import os
import pathlib
import re

from job import BIN, DTRAIN, GPUS, KIND, TEST_BIN, GpuCase, gpus, needs_gpu

DIGITS = os.environ.get("DTRAIN_DIGITS", str(pathlib.Path(__file__).resolve().parents[3] / ".cache/digits.csv.gz"))
SHOW = ["sh", "-c", "echo rank $RANK of $WORLD_SIZE, local $LOCAL_RANK, sees [$CUDA_VISIBLE_DEVICES]"]


class Launcher(GpuCase):
    @needs_gpu
    def test_doctor_sees_the_gpus(self):
        done = self.run_command(DTRAIN, "doctor")
        self.assertRegex(done.out, rf"GPUs\b.*\b{GPUS} NVIDIA, {GPUS} usable", str(done))
        self.assertNotRegex(done.out, "cannot use the GPUs", str(done))

    @needs_gpu
    def test_a_worker_for_each_gpu(self):
        done = self.ok(self.job("gpu", *SHOW))
        self.assertEqual(len(re.findall(rf"rank \d+ of {GPUS}, ", done.out)), GPUS, str(done))

    @needs_gpu
    def test_gpus_by_uuid_and_none(self):
        self.ok(self.job("gpu", *SHOW, CUDA_VISIBLE_DEVICES=gpus()[0][0]), r"rank 0 of 1, .*sees \[GPU-")
        done = self.job("gpu", *SHOW, CUDA_VISIBLE_DEVICES="")
        self.assertEqual(done.code, 2, str(done))
        self.assertIn("no GPU is visible here", done.err)

    @needs_gpu
    def test_virtual_local_rank_shows_each_worker_its_own(self):
        done = self.ok(self.job("gpu", *SHOW, flags=["--virtual-local-rank"]))
        for rank in range(GPUS):
            self.assertRegex(done.out, rf"rank {rank} of {GPUS}, local 0, sees \[{rank}\]")

    def test_train(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.ok(self.job(ranks, BIN / "train", "--lr=0.01", "--data", DIGITS))

    def test_resnet(self):
        where = "GPU" if KIND == "cuda" else "CPU"
        for ranks, more in ((1, []), (2, []), (2, ["--strategy", "horovod"])):
            with self.subTest(ranks=ranks, more=more):
                self.ok(self.job(ranks, BIN / "resnet", "--depth", "18", "--synthetic", "64", "--batch", "16",
                                 "--epochs", "2", *more, limit=120), where)

    def test_three_ways(self):
        """Ddp, the optimizer in Horovod's way, and one process: the same weights."""
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                done = self.ok(self.job(ranks, TEST_BIN / "three_ways", limit=120))
                self.assertEqual(len(re.findall(rf"rank \d of {ranks} on {KIND}\S*, ", done.out)), 2 * ranks, str(done))

    def test_three_ways_without_the_gpus(self):
        self.ok(self.job(2, TEST_BIN / "three_ways", CUDA_VISIBLE_DEVICES=""), "on cpu")
