"""The dtrain binary on bad input, each time one clear line and the documented code (docs/exit-codes.md); and what
`help`, `version`, `doctor` and `--dry-run` print. usage: cli_test.py path/to/dtrain [unittest's arguments]"""
import json
import os
import pathlib
import platform
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

DTRAIN = str(pathlib.Path(sys.argv.pop(1)).resolve())
TORCHRUN = str(pathlib.Path(DTRAIN).with_name("torchrun"))
DEADLINE_S = 30


def call(*words, binary=DTRAIN, folder=None, env=None):
    clean = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
    return subprocess.run([binary, *words], cwd=folder, env={**clean, **(env or {})}, text=True, errors="replace",
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=DEADLINE_S)


class BadInput(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def file(self, name, content, mode=0o755):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)

    def refuses(self, code, expected, *words, **how):
        done = call(*words, folder=self.folder, **how)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("dtrain: "), done.stderr)
        self.assertIn(expected, done.stderr)
        self.assertEqual(done.returncode, code, done.stderr)

    def test_flags(self):
        self.refuses(2, "unknown flag --nprox; did you mean --nproc?", "run", "--nprox", "2", "true")
        self.refuses(2, "--nproc needs a value", "run", "--nproc")
        self.refuses(2, "--no could mean --node-rank, --no-python", "run", "--no", "true")
        self.refuses(2, "no program given", "run", "--nproc", "2")
        self.refuses(2, "name the members of etcd", "run", "--nnodes=2", "--rdzv-backend=etcd", "true")
        self.refuses(2, "not an address of this host", "run", "--nnodes=2", "--master-addr=192.0.2.1", "true")

    def test_impossible_numbers(self):
        for flag in ("--nproc", "--nproc_per_node"):
            for bad in ("0", "-1", "1e3", "99999999999", ""):
                self.refuses(2, f"{flag} '{bad}': expected a whole number", "run", flag, bad, "true")
        self.refuses(2, "PET_NPROC_PER_NODE='0': ", "run", "true", env={"PET_NPROC_PER_NODE": "0"})
        self.refuses(2, "DTRAIN_MAX_RESTARTS='x': ", "run", "true", env={"DTRAIN_MAX_RESTARTS": "x"})
        self.refuses(2, "--shutdown-timeout '-1': ", "run", "--shutdown-timeout=-1", "true")

    def test_commands(self):
        self.refuses(2, "unknown command rnu; did you mean dtrain run?", "rnu", "true")
        self.refuses(2, "to start a program: dtrain run ./train", "./train")
        self.refuses(2, "dtrain doctor takes --preflight and nothing else (x)", "doctor", "x")
        self.refuses(2, "no help on 'tea'; did you mean tee?", "help", "tea")
        self.refuses(2, "no help on 'exit-code'; did you mean exit-codes?", "help", "exit-code")

    def test_choices(self):
        self.refuses(2, "--contain 'cgruop': expected one of auto, cgroup, subreaper, pidns; did you mean cgroup?",
                     "run", "--contain", "cgruop", "true")
        self.refuses(2, "--help 'al': expected all; did you mean all?", "run", "--help=al")
        self.refuses(2, "--dry-run takes no value (--dry-run=x)", "run", "--dry-run=x", "true")

    def test_program_not_found(self):
        self.file("train", "#!/bin/sh\n")
        self.refuses(127, "train: not in PATH; ./train exists here: did you mean ./train?", "run", "train")
        self.refuses(127, "./trian: no such file; did you mean ./train?", "run", "./trian")
        self.refuses(127, "no-such-program: not in PATH", "run", "no-such-program")
        self.refuses(127, "train.py: no such file", "run", "train.py")
        self.refuses(127, "PYTHON_EXEC=/none: no such program", "run", "-m", "x", env={"PYTHON_EXEC": "/none"})

    def test_program_cannot_be_executed(self):
        self.file("plain", "text\n", 0o644)
        self.file("lost", "#!/no/such/interpreter\n")
        self.file("lost-env", "#!/usr/bin/env no-such-interpreter\n")
        self.file("windows", "#!/bin/sh\r\n")
        self.file("empty", "")
        self.refuses(126, "./plain: is not executable: chmod +x ./plain", "run", "./plain")
        self.refuses(126, "names /no/such/interpreter, which does not exist", "run", "./lost")
        self.refuses(126, "asks for no-such-interpreter, which is not in PATH", "run", "./lost-env")
        self.refuses(126, "Windows line ends", "run", "./windows")
        self.refuses(126, "is a folder", "run", str(self.folder))
        if not self.knows_foreign_programs():
            self.refuses(126, "./empty: is an empty file", "run", "./empty")

    @staticmethod
    def knows_foreign_programs():
        known = pathlib.Path("/proc/sys/fs/binfmt_misc")
        return known.is_dir() and bool({entry.name for entry in known.iterdir()} - {"register", "status"})

    @unittest.skipUnless(platform.machine() == "x86_64", "the made-up program is for another machine than x86_64")
    def test_program_for_another_machine(self):
        if self.knows_foreign_programs():
            self.skipTest("this kernel may know programs of other machines (binfmt_misc)")
        header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, 0, 64, 0, 0, 64, 56, 0,
                                                               0, 0, 0)
        self.file("arm", header)
        self.refuses(126, "is a program for aarch64 machines, this one is x86_64", "run", "./arm")

    def test_places_that_cannot_be_written(self):
        self.file("file", "")
        self.refuses(2, "is not a folder", "run", "--log-dir", "file/logs", "true")
        self.refuses(2, "its folder does not exist", "run", "--report", "none/report.json", "true")

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_log_dir_without_write_permission(self):
        (self.folder / "ro").mkdir(mode=0o555)
        self.refuses(2, "ro is not writable", "run", "--log-dir", "ro/logs", "true")

    def test_strange_bytes_stay_on_one_line(self):
        self.refuses(2, "unknown flag --a\\x0ab", "run", "--a\nb", "true")
        self.refuses(127, "./\\x1b[31mred", "run", "./\x1b[31mred")

    def test_full_output(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([DTRAIN, "help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 125)
        self.assertIn("No space left on device", done.stderr)


class GoodInput(unittest.TestCase):
    def test_help(self):
        for words in (["--help"], ["-h"], ["help"], ["run", "--help"], ["run", "-h", "true"], ["run", "--help=all"],
                      ["help", "tee"], ["help", "exit-codes"], ["doctor", "--help"]):
            done = call(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
            narrow = call(*words, env={"COLUMNS": "40"})
            self.assertLessEqual(max(map(len, narrow.stdout.splitlines())), 40)
        bare = call()
        self.assertEqual((bare.returncode, bare.stdout), (2, ""))
        self.assertEqual(bare.stderr, call("--help").stdout)

    def test_help_of_torchrun(self):
        done = call("--help", binary=TORCHRUN)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.startswith("Usage: torchrun [flags] PROGRAM"))
        torchruns, own = done.stdout.split("Flags of torchrun:")[1].split("Flags that dtrain adds", 1)
        for name in ("--nproc-per-node, --nproc_per_node", "--rdzv-backend, --rdzv_backend",
                     "--node-rank, --node_rank"):
            self.assertIn(name, torchruns)
        self.assertIn("--failure-grace", own)
        self.assertNotIn("--failure-grace", torchruns)

    def test_version(self):
        first = call("--version").stdout
        self.assertRegex(first, r"^dtrain \d+\.\d+\.\d+\n$")
        self.assertTrue(call("version").stdout.startswith(first))
        self.assertEqual(call("run", "--version").stdout, first)

    def test_dry_run_starts_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            done = call("run", "--nproc=2", "--dry-run", "touch", "made-$local_rank", folder=folder,
                        env={"PET_MAX_RESTARTS": "3"})
            self.assertEqual((done.returncode, done.stderr, os.listdir(folder)), (0, "", []))
        self.assertRegex(done.stdout, r"--max-restarts +3 +PET_MAX_RESTARTS\n")
        self.assertIn("  touch made-1\n", done.stdout)

    def test_dry_run_of_a_cluster_says_who_decides_how_many_nodes(self):
        for words, nodes in [(["--num-proc=auto"], "all nodes of Ray's cluster, by "),
                             (["--num-proc=4"], "as few nodes of Ray's cluster as have room for 4 workers, by "),
                             (["--nnodes=1:3"], "1 to 3 nodes of Ray's cluster, by ")]:
            done = call("run", "--engine=ray", *words, "--dry-run", "true")
            self.assertTrue(done.stdout.startswith(nodes), done)

    def test_print_config(self):
        env = {"PET_MAX_RESTARTS": "3", "DTRAIN_QUIET": "1"}
        config = json.loads(call("run", "--nproc=2", "--print-config=json", env=env).stdout)
        self.assertEqual(config["nproc"], {"value": "2", "origin": "flag"})
        self.assertEqual(config["max-restarts"], {"value": "3", "origin": "PET_MAX_RESTARTS"})
        self.assertEqual(config["quiet"]["origin"], "DTRAIN_QUIET")
        self.assertEqual(config["role"], {"value": "default", "origin": "default"})
        self.assertRegex(call("run", "--print-config", env=env).stdout, r"--max-restarts +3 +PET_MAX_RESTARTS\n")

    def test_env(self):
        done = call("env", env={"NCCL_DEBUG": "INFO", "TORCH_TOKEN": "hunter2", "PET_X": "http://me:hunter2@host"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("hunter2", done.stdout)
        self.assertRegex(done.stdout, r"NCCL_DEBUG +INFO\n")
        self.assertEqual(list(json.loads(call("env", "--json").stdout)),
                         ["dtrain", "system", "GPUs", "Python", "variables"])
        self.assertEqual(call("env", "x").returncode, 2)

    def test_env_does_not_wait_for_a_python_that_hangs(self):
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder) / "python3"
            python.write_text("#!/bin/sh\nexec sleep 60 </dev/null\n")
            python.chmod(0o755)
            done = call("env", env={"PYTHON_EXEC": str(python)})
            self.assertEqual(done.returncode, 0)
            self.assertIn("no answer within 10 s", done.stdout)

    def test_no_python_stays_when_env_or_doctor_is_killed(self):
        for command in ("env", "doctor"):
            with self.subTest(command=command), tempfile.TemporaryDirectory() as folder:
                python = pathlib.Path(folder) / "python3"
                pid_file = pathlib.Path(folder) / "pid"
                os.mkfifo(pid_file)
                python.write_text(f"#!/bin/sh\necho $$ > {pid_file}\nexec sleep 600\n")
                python.chmod(0o755)
                asked = subprocess.Popen([DTRAIN, command], env={"PATH": "/usr/bin:/bin", "PYTHON_EXEC": str(python)},
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
                with open(pid_file, encoding="ascii") as written:
                    hung = os.pidfd_open(int(written.read()))
                self.addCleanup(os.close, hung)
                # As Ctrl-C does; sleep is in a group of its own.
                os.killpg(asked.pid, signal.SIGINT)
                self.assertEqual(asked.wait(DEADLINE_S), -signal.SIGINT)
                ended, _, _ = select.select([hung], [], [], DEADLINE_S)
                if not ended:
                    signal.pidfd_send_signal(hung, signal.SIGKILL)
                self.assertTrue(ended, "Python outlived dtrain")

    def test_python_is_asked_without_the_current_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for place in ("here/importlib", "here/torch", "site/torch"):
                (pathlib.Path(folder) / place).mkdir(parents=True)
                (pathlib.Path(folder) / place / "__init__.py").write_text("raise SystemExit(9)\n")
            (pathlib.Path(folder) / "site/torch/version.py").write_text("__version__ = '2.15.0+site'\n")
            here, site = f"{folder}/here", f"{folder}/site"
            plain = {"PYTHON_EXEC": sys.executable, "PYTHONPATH": site}
            for env in (plain, {**plain, "PYTHONSAFEPATH": "1"}):
                python = json.loads(call("env", "--json", folder=here, env=env).stdout)["Python"]
                self.assertEqual((python.get("problem"), python.get("torch")), (None, "2.15.0+site"))

    def test_called_as_torchrun(self):
        done = call("--nproc_per_node=2", "--rdzv-backend=c10d", "--dry-run", "true", binary=TORCHRUN)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("  OMP_NUM_THREADS=1\n", done.stdout)
        self.assertEqual(call("--nprox", binary=TORCHRUN).returncode, 2)

    def test_flight_follows_the_links_that_it_is_given_and_none_that_it_finds(self):
        with tempfile.TemporaryDirectory() as holder:
            folder, elsewhere, link = (os.path.join(holder, name) for name in ("here", "elsewhere", "link"))
            for made in (folder, elsewhere):
                os.mkdir(made)
            golden = pathlib.Path(__file__).resolve().parents[2] / "golden/flight/flight_rank1.json"
            shutil.copy(golden, elsewhere)
            os.symlink(elsewhere, link)
            for named in (link, link + "/flight_rank1.json"):
                done = call("flight", named)
                self.assertEqual((done.returncode, done.stderr), (1, ""))
                self.assertIn("job-1", done.stdout)
            laid = os.path.join(folder, "flight_rank1.json")
            os.symlink(os.path.join(elsewhere, "flight_rank1.json"), laid)
            done = call("flight", folder)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"dtrain: {laid} cannot be read: it is a link, which is not followed\n")
            self.assertEqual(call("flight", laid).returncode, 1)

    def test_doctor(self):
        done = call("doctor")
        self.assertIn(done.returncode, (0, 1))
        self.assertEqual(done.returncode == 1, "FAIL" in done.stdout)
        for what in ("cores", "memory", "open files", "shared memory", "loopback", "python", "cgroup",
                     "port 29500", "core dumps", "clock"):
            self.assertIn(f" {what} ", done.stdout)

    def test_doctor_names_who_has_the_port(self):
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                server.bind(("", 29500))
                server.listen(1)
            except OSError:
                self.skipTest("something else has the port")
            self.assertRegex(call("doctor").stdout, rf"warn  port 29500 +taken by \S+ \({os.getpid()}\)")


if __name__ == "__main__":
    unittest.main()
