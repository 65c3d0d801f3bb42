"""dtrain plan: the layout of a job, and nothing else. usage: plan_test.py path/to/dtrain [unittest's arguments]"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

DTRAIN = str(pathlib.Path(sys.argv.pop(1)).resolve())


class PlanTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="dtrain-plan-")
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def plan(self, *words, code=0):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DTRAIN_", "PET_"))}
        done = subprocess.run([DTRAIN, "plan", *words], cwd=self.folder, text=True, capture_output=True, timeout=60,
                              stdin=subprocess.DEVNULL, env={**kept, "TMPDIR": self.folder, "CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(done.returncode, code, done)
        return done.stderr if code else done.stdout

    def test_this_node(self):
        layout = json.loads(self.plan("--nproc=2", "--json", "sh", "-c", "touch started"))
        node, = layout["layout"]
        self.assertEqual((node["workers"], node["first_rank"], node["gpus"], node["own_gpus"]), (2, 0, 0, []))
        self.assertEqual(node["cpus"], len(os.sched_getaffinity(0)))
        self.assertEqual(node["memory"], os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        self.assertEqual(layout["settings"]["program"]["value"], shutil.which("sh"))
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_config_file_and_hosts(self):
        pathlib.Path(self.folder, "job.yaml").write_text(
            "hosts: ['nohost1:4', 'nohost2:4']\nbackend:\n  trainer: {num_workers: 6, max_retries: 3}\n")
        said = self.plan("--config=job.yaml", "./train", "--json")  # the latter is the program's
        self.assertTrue(said.startswith("6 workers on 2 nodes; nothing was started\n"), said)
        self.assertRegex(said, r"(?m)^  nohost2 +2 +4-5 +\? ")
        self.assertRegex(said, r"(?m)^  workers +6 in all +job\.yaml:3: backend\.trainer\.num_workers$")
        self.assertRegex(said, r"(?m)^  restarts +3 +job\.yaml:3: backend\.trainer\.max_retries$")
        self.assertEqual(os.listdir(self.folder), ["job.yaml"])

    def test_what_cannot_start(self):
        pathlib.Path(self.folder, "text").write_text("no program\n")
        for code, message, words in [
            (127, "nosuchprogram", ["nosuchprogram"]),
            (126, "text", ["./text"]),
            (2, "--nproc '0'", ["--nproc=0", "true"]),
            (2, "no program", ["--nproc=1"]),
            (2, "these are no equal parts", ["-np", "3", "-H", "a,b", "true"]),
            (2, "--dry-run is for dtrain run", ["--dry-run", "true"]),
            (2, "unknown flag --jsno", ["--jsno", "true"]),
            (75, "this node has 0 usable GPUs for 2 workers", ["--use-gpu=yes", "--nproc=2", "true"]),
        ]:
            with self.subTest(words=words):
                self.assertIn(message, self.plan(*words, code=code))

    def test_what_a_node_would_refuse(self):
        for flag, value in ("strategy", "zero9"), ("max-restarts", "x"), ("shutdown-timeout", "x"):
            with self.subTest(flag=flag):
                self.assertIn(f"--{flag} '{value}'", self.plan("-H", "a,b", f"--{flag}", value, "true", code=2))

    def test_the_flag_of_plan_is_no_value_of_another(self):
        self.assertIn("--role needs a value", self.plan("--role", "--json", "true", code=2))


if __name__ == "__main__":
    unittest.main()
