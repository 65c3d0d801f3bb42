"""`dtrain run --config`: a file's values in a job, and files that are refused. usage: config_test.py path/to/dtrain"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

DTRAIN = str(pathlib.Path(sys.argv.pop(1)).resolve())
DEADLINE_S = 30


class Config(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def run_with(self, text, *words, env=None, name="dtrain", file="job.yaml"):
        (self.folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
        clean = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "TMPDIR": str(self.folder)}
        command = [str(pathlib.Path(DTRAIN).with_name(name)), *(["run"] if name == "dtrain" else []), *words]
        return subprocess.run(command, cwd=self.folder, env={**clean, **(env or {})}, text=True, errors="replace",
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=DEADLINE_S)

    def refuses(self, expected, text, *words, **how):
        done = self.run_with(text, "--config", "job.yaml", *words, "true", **how)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(expected, done.stderr)

    def test_flags_variables_and_a_file(self):
        file = "nproc: 2\nrole: of-file\nmax-restarts: 1\nquiet: true\n"
        show = "echo $WORLD_SIZE $ROLE_NAME $TORCHELASTIC_MAX_RESTARTS"
        done = self.run_with(file, "--config=job.yaml", "--role=typed", "sh", "-c", show,
                             env={"DTRAIN_MAX_RESTARTS": "3"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] 2 typed 3", "[1] 2 typed 3"])

    def test_json_by_a_variable(self):
        text = json.dumps({"backend": {"type": "local", "trainer": {"num_workers": 3}}}, indent="\t")
        done = self.run_with(text, "--quiet", "sh", "-c", "echo $WORLD_SIZE ${HOROVOD_SIZE-}", file="job.json",
                             env={"DTRAIN_CONFIG": "./job.json"})
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (0, ["[0] 3", "[1] 3", "[2] 3"]), done)
        shown = self.run_with(text, "--backend=./job.json", "--print-config", file="job.json").stdout.splitlines()
        self.assertEqual(shown[:-1], ["  --nproc     3           ./job.json:5: backend.trainer.num_workers",
                                      "  --num-proc  3           ./job.json:5: backend.trainer.num_workers",
                                      "  --engine    local       ./job.json:3: backend.type",
                                      "  --config    ./job.json  flag"])
        self.assertRegex(shown[-1], r"^  \d+ more have their defaults")

    def test_origins_in_json(self):
        done = self.run_with("\n\nnproc: 2\n", "--config=job.yaml", "--print-config=json")
        self.assertEqual(json.loads(done.stdout)["nproc"], {"value": "2", "origin": "job.yaml:3: nproc"})

    def test_values_are_shown_without_a_program(self):
        for engine in ("hosts: [a, b]", "backend: ray", "backend: spark", "backend: slurm"):
            done = self.run_with(engine + "\nmax-restarts: 3\n", "--config=job.yaml", "--print-config")
            self.assertEqual((done.returncode, done.stderr), (0, ""), engine)
            self.assertIn("job.yaml:2: max-restarts", done.stdout, engine)

    def test_what_is_skipped_is_said_once(self):
        done = self.run_with("backend: local\ntrainer: {}\ncombiner: {}\n", "--config=job.yaml", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("leaves these sections of Ludwig's to the program: trainer, combiner"), 1)

    def test_not_for_torchrun(self):
        words = ["--config=job.yaml", "true"]
        self.assertIn("--config needs the name dtrain", self.run_with("nproc: 2\n", *words, name="torchrun").stderr)
        done = self.run_with("nproc: 2\n", "--no-python", "true", name="torchrun", env={"DTRAIN_CONFIG": "none.yaml"})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_files_that_are_refused(self):
        self.refuses("job.yaml:1: nprox: unknown key; did you mean nproc?", "nprox: 2\n")
        self.refuses("job.yaml:2: nproc '0': expected a whole number", "\nnproc: 0\n")
        self.refuses("job.yaml: it is not UTF-8", b"nproc: \xff\n")
        self.refuses("job.yaml: it has a byte of 0", b"nproc: 2\0\n")
        self.refuses("the file is larger than 1 MiB", "#" * ((1 << 20) + 1))
        self.refuses("job.yaml:1: nested deeper than 32 levels", "[" * (1 << 20))
        self.refuses("job.yaml: expected keys with values", "")
        self.refuses("--config '.': the file cannot be read: it is not a regular file", "", "--config=.")
        self.refuses("--config 'none': the file cannot be read: No such file", "", "--config=none")
        self.refuses("--config '-': standard input is the workers'; name a file", "", "--config=-")


if __name__ == "__main__":
    unittest.main()
