"""torchrun's flags that other tests do not reach, with real workers. usage: surface_test.py path/to/dtrain"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

DTRAIN = str(pathlib.Path(sys.argv.pop(1)).resolve())
DEADLINE_S = 30


class Surface(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def call(self, *words, env=None, name="dtrain"):
        clean = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "TMPDIR": str(self.folder)}
        return subprocess.run([str(pathlib.Path(DTRAIN).with_name(name)), *words], cwd=self.folder,
                              env={**clean, **(env or {})}, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=DEADLINE_S)

    def script(self, name, text):
        (self.folder / name).write_text(text)
        return name

    def events(self, stderr):
        return [json.loads(line) for line in stderr.splitlines() if line.startswith("{")]

    def test_run_path(self):
        shown = self.script("show", "import sys; print(sys.argv, __file__, __name__)\n")
        done = self.call("run", "--quiet", "--run-path", shown, "-x", "a b")
        self.assertEqual((done.returncode, done.stdout), (0, "[0] ['show', '-x', 'a b'] show __main__\n"), done.stderr)

    def test_run_path_leaves_its_exception(self):
        self.script("boom.py", "raise RuntimeError('boom')\n")
        done = self.call("run", "--quiet", "--run-path", "boom.py")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"exception:\n    Traceback(.|\n)*RuntimeError: boom")
        self.script("end.py", "import sys; sys.exit(3)\n")
        self.assertEqual(self.call("run", "--run-path", "end.py").returncode, 3)

    def test_launch(self):
        self.script("show.py", "import sys; print(sys.argv)\n")
        done = self.call("launch", "--nproc_per_node=2", "show.py", "x")
        self.assertEqual(sorted(line.partition("['")[2] for line in done.stdout.splitlines()),
                         [f"show.py', '--local-rank={i}', 'x']" for i in (0, 1)])
        self.assertIn("launch passes --local-rank", done.stderr)
        self.assertNotIn("local-rank", self.call("launch", "--use-env", "show.py").stdout)

    def test_events_of_a_good_job(self):
        done = self.call("run", "--quiet", "--nproc=2", "--event-log-handler=console", "--role=r", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        events = self.events(done.stderr)
        self.assertEqual([(e["metadata"]["state"], e["source"], e["metadata"]["global_rank"]) for e in events],
                         [("RENDEZVOUS", "AGENT", None), ("ASSIGN_WORKER_RANKS", "AGENT", None),
                          ("START", "WORKER", 0), ("START", "WORKER", 1),
                          ("SUCCEEDED", "WORKER", 0), ("SUCCEEDED", "WORKER", 1), ("SUCCEEDED", "AGENT", None)])
        self.assertEqual({e["metadata"]["role"] for e in events}, {"r"})
        self.assertEqual(len({e["metadata"]["worker_id"] for e in events}), 3)

    def test_events_of_a_restart_and_a_failure(self):
        script = "[ $RANK = 1 ] && exit 3; exec sleep 60"
        done = self.call("run", "--quiet", "--nproc=2", "--max-restarts=1", "--event-log-handler=console",
                         "sh", "-c", script)
        self.assertEqual(done.returncode, 3, done.stderr)
        events = [(e["metadata"]["state"], e["source"], e["metadata"]["agent_restarts"])
                  for e in self.events(done.stderr)]
        self.assertEqual(events, [(state, source, restarts) for restarts in (0, 1) for state, source in
                                  (("RENDEZVOUS", "AGENT"), ("ASSIGN_WORKER_RANKS", "AGENT"), ("START", "WORKER"),
                                   ("START", "WORKER"))] +
                         [("FAILED", "WORKER", 1), ("FAILED", "WORKER", 1), ("FAILED", "AGENT", 1)])
        ends = [json.loads(e["metadata"]["metadata"])["exit_code"] for e in self.events(done.stderr)[-3:-1]]
        self.assertEqual(ends, [[-15], [3]])

    def test_called_as_torchrun_the_report_has_its_layout_and_the_code_is_1(self):
        done = self.call("--nproc-per-node=2", "--no-python", "sh", "-c",
                         "[ $RANK = 0 ] && exec sleep 60; echo out of luck >&2; exit 7", name="torchrun")
        self.assertEqual(done.returncode, 1)
        report = done.stderr[done.stderr.index("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "):]
        self.assertRegex(report, r"""\A.*ChildFailedError:\x20
={60}
sh FAILED
-{60}
Failures:
\[1\]:
  time      : \d{4}-\d\d-\d\d_\d\d:\d\d:\d\d
  host      : \S+
  rank      : 0 \(local_rank: 0\)
  exitcode  : -15 \(pid: \d+\)  \(SIGTERM\)
  error_file: <N/A>
  traceback : Signal 15 \(SIGTERM\) received by PID \d+
-{60}
Root Cause \(first observed failure\):
\[0\]:
  time      : \S+
  host      : \S+
  rank      : 1 \(local_rank: 1\)
  exitcode  : 7 \(pid: \d+\)\x20
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
  last lines of stderr:
    out of luck
={60}
\Z""")
        self.assertEqual(self.call("run", "sh", "-c", "exit 7").returncode, 7)

    def test_a_launcher_that_is_a_worker_tells_its_parent(self):
        path = self.folder / "error.json"
        for script, code in (("exit 3", 3), ("kill -9 $$", -9)):
            self.call("run", "--quiet", "sh", "-c", script, env={"TORCHELASTIC_ERROR_FILE": str(path)})
            message = json.loads(path.read_text())["message"]
            self.assertEqual(message["errorCode"], code)
            path.unlink()
        self.script("boom.py", "raise ValueError('boom')\n")
        self.call("run", "--quiet", "--run-path", "boom.py", env={"TORCHELASTIC_ERROR_FILE": str(path)})
        message = json.loads(path.read_text())["message"]
        self.assertEqual((message["message"], message["errorCode"]), ("ValueError: boom", 1))
        self.assertIn("boom.py", message["extraInfo"]["py_callstack"])

    def test_numa_binding_reaches_the_workers(self):
        allowed = sorted(os.sched_getaffinity(0))
        synthetic = {"HWLOC_THISSYSTEM": "1", "HWLOC_SYNTHETIC": f"numa:1 core:{allowed[-1] + 1} pu:1"}
        show = ("grep", "Cpus_allowed_list", "/proc/self/status")
        both = self.call("run", "--quiet", "--nproc=2", "--numa-binding=node", *show, env=synthetic)
        self.assertEqual(both.returncode, 0, both.stderr)
        self.assertEqual(len(set(line.split(":")[1] for line in both.stdout.splitlines())), 1)
        if len(allowed) < 2:
            self.skipTest("one CPU cannot be shared out")
        each = self.call("run", "--quiet", f"--nproc={len(allowed)}", "--numa-binding=exclusive", *show, env=synthetic)
        self.assertEqual(sorted(int(line.split(":")[1]) for line in each.stdout.splitlines()), allowed, each.stderr)
        shown = self.call("run", "--dry-run", f"--nproc={len(allowed)}", "--numa-binding=exclusive", "true",
                          env=synthetic)
        self.assertIn(f"  CPUs {allowed[0]}\n", shown.stdout)
        refused = self.call("--numa-binding=node", "true", name="torchrun", env=synthetic)
        if refused.returncode:  # a machine with GPUs binds
            self.assertIn("no GPU is visible", refused.stderr)

    def test_unknown_signals(self):
        done = self.call("--signals-to-handle=TERM,SIGFOO", "true", name="torchrun")
        self.assertEqual(done.returncode, 0)
        self.assertIn("no such signal: SIGFOO", done.stderr)
        self.assertEqual(self.call("run", "--signals-to-handle=TERM,SIGFOO", "true").returncode, 2)


if __name__ == "__main__":
    unittest.main()
