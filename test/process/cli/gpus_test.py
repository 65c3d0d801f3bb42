"""--nproc gpu, --virtual-local-rank and doctor with a made-up NVML, found as the driver's own would be.
usage: gpus_test.py path/to/dtrain folder/of/libnvidia-ml.so.1"""
import os
import subprocess
import sys
import unittest

DTRAIN, FAKE = sys.argv[1:3]
DEADLINE_S = 60
SHOW = ["sh", "-c", 'echo "$RANK $LOCAL_RANK ${CUDA_VISIBLE_DEVICES-unset} ${local_rank}"']


def call(nvml, *words, **env):
    hidden = ("DTRAIN_", "PET_", "CUDA_VISIBLE", "HIP_VISIBLE", "ROCR_VISIBLE")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    environment.update({"FAKE_NVML": nvml, "LD_LIBRARY_PATH": FAKE}, **env)
    return subprocess.run([DTRAIN, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=DEADLINE_S, env=environment)


def lines(done):
    return sorted(line.partition("] ")[2] for line in done.stdout.splitlines())


class Workers(unittest.TestCase):
    def run_with(self, nvml, *flags, **env):
        done = call(nvml, "run", *flags, *SHOW, **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_one_for_each_gpu(self):
        self.assertEqual(len(lines(self.run_with("4", "--nproc", "gpu"))), 4)
        self.assertEqual(len(lines(self.run_with("3", "--nproc", "auto"))), 3)
        self.assertEqual(len(lines(self.run_with("4", "--nproc", "gpu", CUDA_VISIBLE_DEVICES="2,GPU-00000001"))), 2)
        self.assertEqual(len(lines(self.run_with("0", "--nproc", "auto"))), len(os.sched_getaffinity(0)))

    def test_no_gpu_is_an_error_whatever_the_reason(self):
        for nvml in ("0", "init:9", "crash"):
            done = call(nvml, "run", "--nproc", "gpu", *SHOW)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("no GPU is visible here", done.stderr)
        self.assertEqual(call("4", "run", "--nproc", "gpu", *SHOW, CUDA_VISIBLE_DEVICES="").returncode, 2)

    def test_a_number_asks_no_driver(self):
        self.assertEqual(len(lines(self.run_with("hang", "--nproc", "2"))), 2)

    def test_a_gpu_of_its_own(self):
        done = self.run_with("2", "--nproc", "gpu", "--virtual-local-rank")
        self.assertEqual(lines(done), ["0 0 0 0", "1 0 1 1"])
        done = self.run_with("1 mig:3", "--nproc", "gpu", "--virtual-local-rank",
                             CUDA_VISIBLE_DEVICES="MIG-00000000-fa4e-0000-0000-000000000001,"
                                                  "MIG-GPU-00000000-fa4e-0000-0000-000000000000/3/0")
        self.assertEqual(lines(done), ["0 0 MIG-00000000-fa4e-0000-0000-000000000001 0",
                                       "1 0 MIG-GPU-00000000-fa4e-0000-0000-000000000000/3/0 1"])
        few = call("4", "run", "--nproc", "3", "--virtual-local-rank", *SHOW, CUDA_VISIBLE_DEVICES="0,1")
        self.assertEqual(few.returncode, 2)
        self.assertIn("CUDA_VISIBLE_DEVICES=0,1 has fewer entries", few.stderr)


class Doctor(unittest.TestCase):
    def test_counts_and_problems(self):
        self.assertRegex(call("4", "doctor").stdout, r"ok +GPUs +4 NVIDIA, 4 usable")
        self.assertRegex(call("2 mig:3", "doctor", CUDA_VISIBLE_DEVICES="1").stdout, r"GPUs +2 NVIDIA, 1 usable")
        self.assertRegex(call("4", "doctor", CUDA_VISIBLE_DEVICES="").stdout, r"warn +GPUs +4 NVIDIA, 0 usable")
        self.assertRegex(call("init:9", "doctor").stdout, r"warn +GPU driver +NVML: nvmlInit failed \(9\)")
        self.assertRegex(call("crash", "doctor").stdout, r"warn +GPU driver +NVML crashed")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
