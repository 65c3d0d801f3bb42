"""`dtrain shim COMMAND`: torchrun is dtrain in all that COMMAND starts. No torch is needed here.
usage: shim_test.py path/to/dtrain [unittest's arguments]"""
import importlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import types
import unittest

DTRAIN = str(pathlib.Path(sys.argv.pop(1)).resolve())
DEADLINE_S = 60
OURS = "dtrain: 2 workers"
SAYS = "import os, sys; print('rank', os.environ['RANK'], *sys.argv[1:])\n"


class Shim(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.cache = self.folder / "cache"
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("PYTHON", "XDG_", "PET_", "DTRAIN"))}
        self.environment.update(XDG_CACHE_HOME=str(self.cache), PYTHONDONTWRITEBYTECODE="1")
        self.script = self.folder / "train.py"
        self.script.write_text(SAYS)

    def shim(self, *words, program=DTRAIN, **variables):
        environment = {name: value for name, value in {**self.environment, **variables}.items() if value is not None}
        done = subprocess.run([program, "shim", *map(str, words)], env=environment, cwd=self.folder, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S)
        return done.returncode, done.stdout, done.stderr

    def says(self, *words, code=0, **variables):
        done = self.shim(*words, **variables)
        self.assertEqual(done[0], code, done)
        return done[1] + done[2]

    def runs_on_dtrain(self, *words, arguments="a", **variables):
        said = self.says(*words, "--nproc-per-node", "2", self.script, "a", **variables)
        self.assertIn(OURS, said)
        self.assertEqual(sorted(re.findall("(?m)^rank .*", said)), [f"rank {rank} {arguments}".format(rank)
                                                               for rank in range(2)], said)

    def fake_torch(self):
        """Its folders alone, to see what becomes of the module."""
        api = self.folder / "torch/distributed/launcher/api.py"
        api.parent.mkdir(parents=True)
        api.write_text("def launch_agent(): pass\n")
        return str(self.folder)

    def folders(self):
        return sorted(self.cache.glob("dtrain/*"))

    def test_whoever_starts_torchrun_starts_dtrain(self):
        self.runs_on_dtrain("torchrun")
        self.runs_on_dtrain("sh", "-c", 'exec torchrun "$@"', "sh")
        self.runs_on_dtrain("--", "env", "torchrun")
        self.runs_on_dtrain(sys.executable, "-m", "torch.distributed.run")
        self.runs_on_dtrain(sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call([sys.executable, "
                            "'-uX', 'dev', '-Wignore', '-mtorch.distributed.run', *sys.argv[1:]]))")
        self.runs_on_dtrain(sys.executable, "-m", "torch.distributed.launch", arguments="--local-rank={} a")

    def test_scripts_that_are_torchrun(self):
        package = self.folder / "torch" / "distributed"
        package.mkdir(parents=True)
        (package / "run.py").write_text("raise SystemExit('torch itself')\n")
        self.runs_on_dtrain(sys.executable, package / "run.py")
        script = self.folder / "torchrun"
        script.write_text(f"#!{sys.executable}\nimport sys\nfrom torch.distributed.run import main\nsys.exit(main())\n")
        script.chmod(0o755)
        self.runs_on_dtrain(script)
        self.runs_on_dtrain("sh", "-c", f'exec {sys.executable} "$(command -v torchrun)" "$@"', "sh")
        script.write_text(f"#!{sys.executable}\nprint('something else')\n")
        self.assertEqual(self.says(script), "something else\n")

    def test_other_programs_of_python_are_left_alone(self):
        for words in ([self.script], ["-m", "train"], ["-c", SAYS], ["-"], ["-m", "json.tool", "--help"]):
            done = self.shim(sys.executable, *words, RANK="7", PYTHONPATH=str(self.folder))
            self.assertEqual((done[0], done[2]), (0, ""), words)
        self.assertEqual(self.says(sys.executable, self.script, "-m", "torch.distributed.run", RANK="7"),
                         "rank 7 -m torch.distributed.run\n")

    def test_workers_run_the_python_that_was_asked_for(self):
        other = self.folder / "python"
        other.symlink_to(sys.executable)
        self.script.write_text("import os; print('rank', os.environ['RANK'], os.environ['PYTHON_EXEC'])\n")
        self.runs_on_dtrain(other, "-m", "torch.distributed.run", arguments=str(other))
        self.runs_on_dtrain(sys.executable, "-m", "torch.distributed.run", arguments=str(other),
                            PYTHON_EXEC=str(other))
        # A worker that is a launcher with another Python.
        inner = self.folder / "inner.py"
        inner.write_text(f"import os\nos.execv({str(other)!r}, [{str(other)!r}, '-m', 'torch.distributed.run', "
                         f"'--nproc-per-node', '1', {str(self.script)!r}])\n")
        self.assertIn(f"rank 0 {other}\n", self.says(sys.executable, "-m", "torch.distributed.run",
                                                     "--nproc-per-node", "1", inner))

    def test_the_sitecustomize_of_others_is_run_too(self):
        (self.folder / "sitecustomize.py").write_text("import sys; sys.others = 'were here'\n")
        show = "import os, sys, sitecustomize; print(sys.others, sitecustomize.__file__, os.environ['PYTHONPATH'])"
        said = self.says(sys.executable, "-c", show, PYTHONPATH=str(self.folder))
        [cache] = self.folders()
        self.assertEqual(said, f"were here {self.folder}/sitecustomize.py {cache}/python:{self.folder}\n")
        self.runs_on_dtrain(sys.executable, "-m", "torch.distributed.run", PYTHONPATH=str(self.folder))

    def test_a_shim_in_a_shim_is_one(self):
        code = 'echo "$PATH $PYTHONPATH"'
        once = self.says("sh", "-c", code)
        self.assertEqual(self.says(DTRAIN, "shim", DTRAIN, "shim", "sh", "-c", code), once)
        [cache] = self.folders()
        self.assertEqual(once, f"{cache}/bin:{os.environ['PATH']} {cache}/python\n")

    def test_the_command_takes_the_place_of_dtrain(self):
        self.assertEqual(self.shim("sh", "-c", "exit 7")[0], 7)
        self.assertEqual(self.shim("sh", "-c", "kill -9 $$")[0], -9)
        self.assertEqual(self.shim("sh", "-c", "echo $1", "sh", "--help"), (0, "--help\n", ""))
        self.assertIn("COMMAND", self.says("--help"))

    def test_a_failed_job_has_torchruns_code(self):
        self.script.write_text("import os, sys; sys.exit(3 * int(os.environ['RANK']))\n")
        said = self.says(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", self.script, code=1)
        self.assertIn("exitcode  : 3", said)

    def test_mistakes(self):
        no_folder = self.folder / "file"
        no_folder.write_text("")
        text = self.folder / "text"
        text.write_text("")
        for words, variables, code, error in (
                ([], {}, 2, "no command given: dtrain shim COMMAND [its arguments]"),
                (["--"], {}, 2, "no command given: dtrain shim COMMAND [its arguments]"),
                (["--frobnicate", "true"], {}, 2, "unknown flag --frobnicate; dtrain shim takes none"),
                (["nosuchcommand"], {}, 127, "nosuchcommand: not found"),
                ([text], {}, 126, f"{text}: Permission denied"),
                (["true"], {"XDG_CACHE_HOME": str(no_folder)}, 125,
                 f"cannot make {no_folder}/dtrain (XDG_CACHE_HOME names another place): Not a directory"),
                (["true"], {"XDG_CACHE_HOME": f"{self.folder}/a:b"}, 2,
                 f"{self.folder}/a:b/dtrain: a colon in it would divide PATH; XDG_CACHE_HOME names another place"),
                (["true"], {"XDG_CACHE_HOME": None, "HOME": None}, 2,
                 "neither HOME nor XDG_CACHE_HOME says where the shim's files can be")):
            with self.subTest(words=words, variables=variables):
                self.assertEqual(self.shim(*words, **variables), (code, "", f"dtrain: {error}\n"))

    def test_what_deepspeeds_launcher_cannot_do_is_an_error(self):
        launch = sys.executable, "-m", "deepspeed.launcher.launch"
        for words, why in ((("--world_info=e30=", "train.py"), "list index out of range"),
                           (("--world_info=?", "train.py"), ""), (("train.py",), "--world_info"),
                           (("--world_info=e30=",), "program"),
                           (("--world_info=e30=", "--save_pid", "7", "train.py"), "--save_pid cannot be carried out")):
            said = self.says(*launch, *words, code=2)
            self.assertRegex(said, r"\Adtrain: dtrain shim: -m deepspeed.launcher.launch .*\n\Z")
            self.assertIn(why, said)

    def test_deepspeeds_launchers_for_several_nodes(self):
        """What DeepSpeed's runners are made to say. It is dtrain's part of them alone."""
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/torchrun"))
        self.addCleanup(sys.path.pop, 0)
        runners = importlib.import_module("_dtrain_deepspeed")
        usual = dict(launcher_args="", ssh_port=None, master_port=29500, enable_each_rank_log="None", quiet=False,
                     no_python=False, module=False, no_local_rank=False, include="", exclude="", num_gpus=-1,
                     user_script="train.py", user_args=["a b"])

        def command(get_cmd, resources, **asked):
            runner = types.SimpleNamespace(args=types.SimpleNamespace(**{**usual, **asked}), exports={"K": '"a b"'})
            environment = {}
            words = get_cmd(runner, environment, resources)
            self.assertEqual(environment, {"K": "a b"})
            words = words[0] if isinstance(words, tuple) else words
            return words[1:words.index("--")], words[words.index("--") + 1:]

        both = {"a": [0, 1], "b": [0, 1]}
        flags, program = command(runners._over_ssh, both, ssh_port=22, enable_each_rank_log="logs", quiet=True)
        self.assertEqual(flags, ["run", "--hosts", "a:2,b:2", "--ssh=ssh -p 22", "--log-dir=logs", "--redirects", "3",
                                 "--quiet", "--no-python"])
        self.assertEqual(program[3:], [sys.executable, "-u", "train.py", "--local_rank=${local_rank}", "a b"])
        flags, program = command(runners._over_ssh, {"a": [1], "b": [0, 1]}, no_local_rank=True, no_python=True)
        self.assertEqual(flags, ["run", "--hosts", "a:2,b:2", "--include", "a:1@b:0,1", "--no-python"])
        self.assertEqual(program[3:], ["train.py", "a b"])
        flags, program = command(runners._by_slurm, both, module=True, launcher_args="-p gpu", include="a@b",
                                 num_gpus=2, master_port=7)
        self.assertEqual(flags, ["run", "--engine", "slurm", "--nnodes", "2", "--nproc", "2",
                                 "--srun=-p gpu --nodelist=a,b --gpus-per-node=2", "--master-port", "7", "--no-python"])
        self.assertEqual(program, [sys.executable, "-u", "-m", "train.py", "a b"])
        for get_cmd, asked, why in ((runners._over_ssh, {"launcher_args": "-x"}, "DTRAIN_SSH='ssh OPTIONS'"),
                                    (runners._by_slurm, {"launcher_args": "'--comment=a b'"}, "with a blank"),
                                    (runners._over_ssh, {"venv_script": "x"}, "--venv_script cannot be carried out"),
                                    (runners._over_ssh, {"elastic_training": True}, "--nnodes MIN:MAX"),
                                    (runners._by_slurm, {"bind_core_list": "1"}, "--bind_core_list cannot be")):
            with self.subTest(asked=asked), self.assertRaisesRegex(ValueError, why):
                command(get_cmd, both, **asked)

    def test_composers_launcher(self):
        launch = sys.executable, "-m", "composer.cli.launcher"
        script = self.folder / "composer"
        script.write_text(f"#!{sys.executable}\nfrom composer.cli.launcher import main\n")
        script.chmod(0o755)
        for words in launch, (script,):
            said = self.says(*words, "-n", "2", "--stdout", "{local_rank}.log", self.script, "$RANK", "$local_rank")
            self.assertEqual(re.findall("(?m)^.*rank .*", said), ["[0] rank 0 0 $local_rank"])
            self.assertIn(OURS, said)
        self.assertEqual((self.folder / "1.log").read_text(), "rank 1 1 $local_rank\n" * 2)
        self.assertNotIn("rank 1", self.says(*launch, "-n", "2", "-m", "train", PYTHONPATH=str(self.folder)))
        said = self.says(*launch, "-c", "sh", "-c", "echo $NODE_RANK $LOCAL_WORLD_SIZE", LOCAL_WORLD_SIZE="3",
                         WORLD_SIZE="3")
        self.assertIn("[0] 0 3\n", said)
        self.assertIn("/nowhere: No such file", self.says(*launch, "-n", "1", "-c", "/nowhere", code=127))
        self.assertIn(f"{self.script}: Permission denied", self.says(*launch, "-n", "1", "-c", self.script, code=126))

    def test_composers_launcher_on_two_nodes(self):
        with socket.create_server(("127.0.0.1", 0)) as place:
            port = place.getsockname()[1]
        flags = "-n", "2", "--world_size", "4", "--master_addr", "127.0.0.1", "--master_port", port
        words = [DTRAIN, "shim", sys.executable, "-m", "composer.cli.launcher", *map(str, flags)]
        nodes = [subprocess.Popen([*words, "--" + name, rank, self.script, "$NODE_RANK"], env=self.environment,
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                 for name, rank in (("node_rank", "0"), ("base_rank", "2"))]
        for node in nodes:
            self.addCleanup(node.stdout.close)
            self.addCleanup(node.kill)
        said = [node.communicate(timeout=DEADLINE_S)[0] for node in nodes]
        self.assertEqual([node.returncode for node in nodes], [0, 0], said)
        self.assertIn("rank 0 0\n", said[0])
        self.assertIn("rank 2 1\n", said[1])

    def test_composers_main_leaves_the_environment_of_its_caller_alone(self):
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/torchrun"))
        self.addCleanup(sys.path.pop, 0)
        composer = importlib.import_module("_dtrain_composer")
        started = []
        main = composer.main_before(None, lambda _, words: started.append((words, os.environ["NODE_RANK"])) or 7)
        self.addCleanup(setattr, sys, "argv", sys.argv)
        sys.argv = ["composer", "-n", "2", "train.py"]
        before = dict(os.environ)
        self.assertEqual(main(), 7)
        self.assertEqual(dict(os.environ), before)
        [(words, node)] = started
        self.assertEqual(node, "0")
        self.assertEqual(words[words.index("--failure-grace") + 1], "30", "Composer's time between its two signals")

    def test_mistakes_with_composers_launcher(self):
        launch = sys.executable, "-m", "composer.cli.launcher", "-n", "2"
        two = "--world_size", "4"
        for words, why in (([], "the following arguments are required: program"),
                           (["--nope", "x"], "unrecognized arguments: --nope"),
                           (["-n", "0", "x"], "--nproc is 0"),
                           (["-m", "-c", "x"], "--module_mode and --command_mode exclude each other"),
                           (["--stdout", "{pid}", "x"], "--stdout={pid}: there are {rank}, {local_rank}, "),
                           (["--stderr", "{", "x"], "--stderr={: there are"),
                           (["--world_size", "1", "x"], "--world_size is 1, less than --nproc 2"),
                           (["--world_size", "5", "x"], "does not say how many nodes there are; type dtrain run "),
                           ([*two, "x"], "a job of several nodes needs --node_rank"),
                           ([*two, "--node_rank", "2", "x"], "--node_rank 2: there are 2 nodes of 2 processes"),
                           ([*two, "--base_rank", "1", "x"], "--base_rank 1 is not --node_rank times --nproc"),
                           (["--base_rank", "2", "x"], "--base_rank 2: this job has one node, so leave it out"),
                           ([*two, "--node_rank", "1", "x"], "needs --master_addr and --master_port")):
            with self.subTest(words=words):
                said = self.says(*launch, *words, code=2)
                self.assertRegex(said, r"\Adtrain: dtrain shim: -m composer.cli.launcher -n: .*\n\Z")
                self.assertIn(why, said)
        self.assertIn("MASTER_PORT=x is not a number", self.says(*launch, "x", MASTER_PORT="x", code=2))

    def test_the_folder_is_made_once_and_made_anew_if_damaged(self):
        jobs = [subprocess.Popen([DTRAIN, "shim", "true"], env=self.environment, stderr=subprocess.PIPE)
                for _ in range(8)]
        self.assertEqual([(job.communicate()[1], job.returncode) for job in jobs], [(b"", 0)] * 8)
        [cache] = self.folders()
        for damage in (lambda: (cache / "python/sitecustomize.py").write_text(""),
                       lambda: (cache / "bin/torchrun").unlink(),
                       lambda: shutil.rmtree(cache / "python"),
                       lambda: (shutil.rmtree(cache), cache.write_text("a file"))):
            damage()
            self.runs_on_dtrain(sys.executable, "-m", "torch.distributed.run")
            self.assertEqual(self.folders(), [cache])

    def test_another_dtrain_has_another_folder(self):
        moved = self.folder / "dtrain"
        shutil.copy(DTRAIN, moved)
        self.shim("true")
        self.assertEqual(self.shim("sh", "-c", "readlink $(command -v torchrun)", program=moved)[1], f"{moved}\n")
        self.assertEqual(len(self.folders()), 2)
        # One in the other.
        (self.folder / "sitecustomize.py").write_text("print('once')\n")
        said = self.says(moved, "shim", sys.executable, "-c", "import torch.distributed.launcher.api as api; "
                         "print(api.launch_agent.__module__)", PYTHONPATH=self.fake_torch())
        self.assertEqual(said, "once\n_dtrain_shim\n")
        self.runs_on_dtrain(moved, "shim", "torchrun")
        # Removed while a command runs that it has started: torch's own torchrun is not taken instead.
        said = self.says("sh", "-c", f"rm {moved} && exec {sys.executable} -m torch.distributed.run train.py",
                         program=moved, code=127)
        self.assertRegex(said, r"^dtrain: \S+/bin/torchrun: No such file or directory; start the command with `dtrain "
                               r"shim` again\n$")

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a file away")
    def test_a_folder_of_another_user_is_refused(self):
        self.shim("true")
        [cache] = self.folders()
        os.chown(cache, 12345, 12345)
        self.assertRegex(self.says("true", code=2), "^dtrain: " + re.escape(str(cache)) + " is not yours alone")
        os.chown(cache, 0, 0)
        for folder in cache, cache.parent:
            folder.chmod(0o777)
            self.assertRegex(self.says("true", code=2), f"^dtrain: {folder} is not yours alone")
            folder.chmod(0o755)
        self.says("true")
        cache.chmod(0o777)
        self.assertRegex(self.says("true", code=2), "is not yours alone")


if __name__ == "__main__":
    unittest.main()
