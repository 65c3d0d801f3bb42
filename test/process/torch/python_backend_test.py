"""dtrain's collectives under torch.distributed in Python: gloo as the oracle, ends of processes, a killed rank."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import torch.distributed

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
PACKAGE = os.path.join(os.path.dirname(os.environ["DTRAIN_BIN_DIR"]), "python")
THREE_WAYS = os.path.join(os.path.dirname(os.environ["DTRAIN_BIN_DIR"]), "test", "bin", "three_ways")
PROGRAMS = pathlib.Path(__file__).resolve().parent / "backend"
DEADLINE = 90


def run(ranks, program, *arguments):
    environment = {**os.environ, "PYTHON_EXEC": sys.executable, "PYTHONPATH": PACKAGE, "PYTHONWARNINGS": "ignore"}
    return subprocess.run([DTRAIN, "run", "--nproc", str(ranks), PROGRAMS / program, *arguments], env=environment,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)


class PythonBackend(unittest.TestCase):
    def ok(self, done, line):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, line)

    def test_two_ranks_get_what_gloo_gives(self):
        self.ok(run(2, "oracle.py", "--train"), r"equal in \d+ cases")

    def test_four_ranks_get_what_gloo_gives(self):
        self.ok(run(4, "oracle.py", "--train"), r"equal in \d+ cases")

    def test_a_program_that_does_not_import_dtrain(self):
        for name in ("dtrain", "cpu:dtrain"):
            with self.subTest(name):
                done = run(2, "unmodified.py", name)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(sorted(done.stdout.splitlines()), ["[0] dtrain: [3.0]", "[1] dtrain: [3.0]"])

    def test_ddp_and_fsdp2_equal_one_process(self):
        """What `make test-gpu` runs on CUDA."""
        self.ok(run(2, "devices.py", "cpu"), r"FSDP2 on cpu: ")

    def test_processes_end_as_they_should(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            self.ok(run(2, "endings.py", pipe), r"\d+ ends")

    def test_a_killed_rank_is_named_by_all_others(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(3, "killed.py", os.path.join(folder, "moment"))
        self.assertEqual(done.returncode, 128 + 9, done.stderr)
        said = re.findall(r"^\[(\d)\] after ([\d.]+) s: .*: rank 1 \(pid \d+\) died$", done.stdout, re.M)
        self.assertEqual(sorted(rank for rank, _ in said), ["0", "2"], done.stdout)
        self.assertLess(max(float(seconds) for _, seconds in said), 1)

    def test_rounds_on_one_store_do_not_meet_each_others_keys(self):
        """As under torchrun, where nodes come and go: other ranks for the same processes, one restart count."""
        store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        environment = {**os.environ, "PYTHONPATH": PACKAGE, "PYTHONWARNINGS": "ignore", "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
                       "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_RUN_ID": "rounds"}

        def begin(program, rank, ranks):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
            return subprocess.Popen(program, env={**environment, **own}, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        for program in ([sys.executable, PROGRAMS / "round.py"], [THREE_WAYS]):
            for ranks in (3, 2, 3):
                with self.subTest(program=program, ranks=ranks):
                    workers = [begin(program, rank, ranks) for rank in range(ranks)]
                    for worker in workers:
                        self.addCleanup(worker.kill)
                    said = [worker.communicate(timeout=DEADLINE)[0] for worker in workers]
                    self.assertEqual([worker.returncode for worker in workers], [0] * ranks, said)

    def test_where_the_kernel_wants_memory_that_cannot_be_executed(self):
        job = f"echo 2 >/proc/sys/vm/memfd_noexec && exec {DTRAIN} run --nproc 2 {THREE_WAYS}"
        done = subprocess.run(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", job],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
        if "memfd_noexec" in done.stderr or "unshare:" in done.stderr:
            self.skipTest("no PID namespace with vm.memfd_noexec: " + done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_another_torch_or_python_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder, "dtrain")
            package.mkdir()
            source = pathlib.Path(PACKAGE, "dtrain")
            (package / "__init__.py").write_text((source / "__init__.py").read_text())
            (package / "_built.py").write_text((source / "_built.py").read_text().replace("TORCH = ", 'TORCH = "0." '))
            for entry in pathlib.Path(PACKAGE).glob("dtrain-*.dist-info"):
                shutil.copytree(entry, pathlib.Path(folder, entry.name))
            for name in ("dtrain", "torch"):
                done = subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, text=True,
                                      env={**os.environ, "PYTHONPATH": folder}, timeout=DEADLINE)
                self.assertNotEqual(done.returncode, 0, name)
                self.assertRegex(done.stderr, r"ImportError: dtrain was built for torch 0\.\S+ and this is torch 2\.")


if __name__ == "__main__":
    unittest.main()
