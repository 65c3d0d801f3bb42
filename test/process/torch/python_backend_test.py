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
DEADLINE = 150


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

    def test_whatever_gloo_offers_is_there(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                self.ok(run(ranks, "oracle.py", "--surface"), r"equal in \d+ cases")

    def test_monitored_barrier_names_all_that_are_missing(self):
        for backend, who in (("gloo", r"\b1, 3\b"), ("dtrain", r"these are missing: rank 1, rank 3\b")):
            with self.subTest(backend):
                done = run(4, "monitored.py", backend)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                said = dict.fromkeys(range(4), "")
                for rank, line in re.findall(r"^\[(\d)\] (.*)$", done.stdout, re.M):
                    said[int(rank)] += line + "\n"
                self.assertRegex(said[0], "two are missing: .*" + who)
                self.assertNotIn("nothing was said", done.stdout)
                self.assertEqual([line.count("two are missing") for line in said.values()], [1, 0, 1, 0], done.stdout)
                if backend == "dtrain":
                    told = [line.count("rank 0 is missing") for line in said.values()]
                    self.assertEqual(told, [0, 1, 1, 1], done.stdout)
                    self.assertRegex(
                        said[2], r"two are missing: dtrain: (group .*: )?monitored_barrier: rank 1 .*did not arrive")
                    self.assertRegex(
                        said[3], r"rank 0 is missing: dtrain: (group .*: )?monitored_barrier: rank 0 .*did not arrive")

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

    def test_memory_is_private_to_forked_children(self):
        self.ok(run(2, "memory.py", "a_child_between_backward_and_step", "a_child_that_goes_on_writing",
                    "a_child_that_reads"), "equal in 3 cases")

    def test_forked_children_and_programs_end_as_they_like(self):
        self.ok(run(2, "memory.py", "children_that_end_in_all_ways", "programs_and_loaders"), "equal in 2 cases")

    def test_complex_parameters(self):
        for ranks in (1, 2):
            self.ok(run(ranks, "memory.py", "complex_parameters"), "equal in 1 cases")

    def test_shared_tensors_are_resized_as_others(self):
        self.ok(run(2, "memory.py", "resized", "fsdp_from_the_backend"), "equal in 2 cases")

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
        for program in ([sys.executable, PROGRAMS / "round.py"], [THREE_WAYS]):
            for ranks in (3, 2, 3):
                with self.subTest(program=program, ranks=ranks):
                    codes, said = self.beside_store(store, program, ranks)
                    self.assertEqual(codes, [0] * ranks, said)

    def beside_store(self, store, program, ranks):
        """So many ranks of the program, whose store lives on: their exit codes, and what each said."""
        environment = {**os.environ, "PYTHONPATH": PACKAGE, "PYTHONWARNINGS": "ignore", "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
                       "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_RUN_ID": "rounds",
                       "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
        workers = [subprocess.Popen(program, env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True) for rank in range(ranks)]
        for worker in workers:
            self.addCleanup(worker.kill)
        said = [worker.communicate(timeout=DEADLINE)[0] for worker in workers]
        return [worker.returncode for worker in workers], said

    @unittest.skipUnless(hasattr(torch.distributed.ProcessGroup, "reconfigure"), "torch 2.15 has it")
    def test_those_that_are_left_after_a_death_form_their_group_anew(self):
        store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        codes, said = self.beside_store(store, [sys.executable, PROGRAMS / "survivors.py"], 3)
        self.assertEqual(codes, [0, -9, 0], said)
        for rank, place in ((0, 0), (2, 1)):
            self.assertRegex(said[rank], r"told: dtrain: collective 2 \(all_reduce .*: rank 1 \(pid \d+\) died")
            self.assertIn(f"now rank {place} of 2: 4.0, 3 had failed\n", said[rank])

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
            shutil.copytree(pathlib.Path(PACKAGE, "dtrain"), package,
                            ignore=shutil.ignore_patterns("*.so", "__pycache__"))
            built = package / "_built.py"
            built.write_text(built.read_text().replace("TORCH = ", 'TORCH = "0." '))
            for entry in pathlib.Path(PACKAGE).glob("dtrain-*.dist-info"):
                shutil.copytree(entry, pathlib.Path(folder, entry.name))
            program = ("import torch.distributed as d; print('fine'); "
                       "d.init_process_group('dtrain', store=d.HashStore(), rank=0, world_size=1)")
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": folder}, timeout=DEADLINE)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stdout, "fine\n", done.stderr)
            self.assertRegex(done.stderr, r"ImportError: dtrain was built for torch 0\.\S+ and this is torch 2\.")


if __name__ == "__main__":
    unittest.main()
