"""`dtrain status`: what a user's jobs on this host are doing, whoever asks, and what is left when they are gone."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import unittest

from support import *

FOLDER = f"/tmp/dtrain-{os.geteuid()}"


def status(*args, user=None):
    return subprocess.run([DTRAIN, "status", *map(str, args)], capture_output=True, text=True, timeout=DEADLINE,
                          user=user, env={k: v for k, v in os.environ.items() if k != "XDG_RUNTIME_DIR"})


def jobs(job):
    return json.loads(status("--json", "--job", job).stdout)["jobs"]


def sockets():
    return set(os.listdir(FOLDER)) if os.path.isdir(FOLDER) else set()


class Status(ProcessTest):
    def setUp(self):
        self.port = free_port()
        self.name = f"status-{self.port}"
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def node(self, *args):
        return self.stack.enter_context(Job("--rdzv-id", self.name, *args, HOSTILE, "plain"))

    def test_a_node_alone(self):
        job = self.node("--nproc", 2, "--max-restarts", 1).ready(2)
        (answer,) = jobs(self.name)
        self.assertEqual((answer["agent"], answer["phase"], answer["round"], answer["max_restarts"]),
                         (job.agent, "running", 0, 1))
        self.assertEqual(sorted(w["pid"] for w in answer["workers"]), sorted(job.workers()))
        self.assertEqual([w["rank"] for w in answer["workers"]], [0, 1])
        self.assertNotIn("rounds", answer)
        victim = answer["workers"][1]["pid"]
        job.signal(signal.SIGKILL, victim)
        until(lambda: jobs(self.name)[0]["round"] == 1, DEADLINE)
        job.ready(4)
        (answer,) = jobs(self.name)
        self.assertEqual((answer["restarts"], answer["worker_count"]), (1, 2))
        self.assertIn("round 1 begins with 2 workers on this node", [d["text"] for d in answer["decisions"]])
        self.assertTrue(any("SIGKILL" in d["text"] for d in answer["decisions"]), answer["decisions"])
        text = status("--job", self.name)
        self.assertEqual(text.returncode, 0)
        self.assertIn(f"job {self.name}: running, round 1", text.stdout)
        job.signal(signal.SIGTERM)
        self.assertEqual(job.wait(), 143)
        self.assert_gone(job)
        self.assertEqual(status("--job", self.name).returncode, 1)

    def test_workers_that_stand_still(self):
        job = self.node("--nproc", 2).ready(2)
        stopped, waits = sorted(job.workers())

        def worker(pid):
            return next(w for w in jobs(self.name)[0]["workers"] if w["pid"] == pid)
        job.stop(stopped)
        self.assertEqual(worker(stopped)["state"], "stopped (T)")
        self.assertRegex(status("--job", self.name).stdout, rf"pid {stopped} +stopped \(T\), ")
        job.signal(signal.SIGCONT, stopped)
        until(lambda: worker(waits)["state"] != "running", DEADLINE, "the word that a worker is idle")
        found = worker(waits)
        self.assertRegex(found["state"], r"^idle .* s \(no CPU, no output\)$")
        self.assertGreaterEqual(found["idle_s"], 5)
        self.assertLess(found["cpu_s"], 5)
        self.assertEqual(worker(stopped)["state"][:4], "idle")

    def test_a_worker_that_waits_in_the_kernel(self):
        job = self.stack.enter_context(Job("--rdzv-id", self.name, HOSTILE, "plain", "busy")).ready(1)
        until(lambda: jobs(self.name)[0]["workers"][0]["state"] == "disk wait (D)", DEADLINE)

    def test_a_worker_that_works_or_writes_is_not_idle(self):
        job = self.stack.enter_context(Job(
            "--rdzv-id", self.name, "--nproc", 2, "bash", "-c",
            'if [ "$RANK" = 0 ]; then echo ready; while :; do :; done; else exec 3<> <(:); '
            'while read -r -t 0.5 <&3; [ $? -gt 128 ]; do echo ready; done; fi'))
        job.expect(rb"ready\n", 3)
        until(lambda: min(w["age_s"] for w in jobs(self.name)[0]["workers"]) > 6, DEADLINE)
        self.assertEqual([w["state"] for w in jobs(self.name)[0]["workers"]], ["running", "running"])

    def test_several_nodes_and_who_is_missing(self):
        def node(rank):
            return self.node("--nnodes", 3, "--node-rank", rank, "--master-port", self.port)
        late = node(2)
        until(lambda: "waiting: nobody" in late.stderr(), DEADLINE)
        (answer,) = jobs(self.name)  # nobody hosts the rounds yet, and nobody is waited for
        self.assertIsNone(answer["rounds"])
        self.assertIn("nobody at", answer["waiting"])
        host = node(0)
        until(lambda: "missing node 1" in late.stderr() and "missing node 1" in host.stderr(), DEADLINE)
        for answer in jobs(self.name):  # the same from both
            self.assertEqual(answer["rounds"]["missing"], "missing node 1")
            self.assertEqual([n["node_rank"] for n in answer["rounds"]["nodes"]], [0, 2])
            self.assertGreater(answer["rounds"]["left_s"], 1)
        last = node(1)
        for job in (host, late, last):
            job.ready(1)
        answers = jobs(self.name)
        self.assertEqual(sorted(a["agent"] for a in answers), sorted(j.agent for j in (host, late, last)))
        self.assertEqual([a["hosts_rounds"] for a in answers].count(True), 1)
        for answer in answers:
            rounds = answer["rounds"]
            self.assertEqual((rounds["phase"], rounds["round"], rounds["nodes_here"]), ("running", 0, 3))
            self.assertEqual([(n["node_rank"], n["agent"], n["first_rank"]) for n in rounds["nodes"]],
                             [(0, host.agent, 0), (1, last.agent, 1), (2, late.agent, 2)])
            self.assertEqual(rounds["decisions"][-1]["text"], "round 0 opens with 3 nodes: all nodes are there")
        host.stop(host.agent)  # the others have no word from it; nobody waits long
        self.assertEqual([a["rounds"] for a in jobs(self.name)], [None, None])
        host.signal(signal.SIGCONT, host.agent)
        until(lambda: all(a["rounds"] for a in jobs(self.name)), DEADLINE)
        host.signal(signal.SIGTERM)
        self.assertEqual([job.wait() for job in (host, late, last)], [143, 143, 143])

    def test_whatever_dies_no_socket_stays(self):
        job = self.node().ready(1)
        own = next(name for name in sockets() if name.startswith(f"{job.agent}-"))
        self.assertEqual(stat.S_IMODE(os.stat(FOLDER).st_mode), 0o700)
        job.signal(signal.SIGKILL, job.agent)
        self.assertEqual(job.wait(), 125)
        self.assertNotIn(own, sockets())  # by the front
        job = self.node().ready(1)
        own = next(name for name in sockets() if name.startswith(f"{job.agent}-"))
        job.stop(job.front)
        job.signal(signal.SIGKILL, job.agent, job.front, job.guard)
        job.process.wait()
        self.assertIn(own, sockets())
        other = self.node().ready(1)  # the next one to start sweeps
        self.assertNotIn(own, sockets())
        other.signal(signal.SIGTERM)
        other.wait()

    def test_a_socket_of_the_dead_is_swept_by_who_asks_and_a_living_one_stays(self):
        os.makedirs(FOLDER, mode=0o700, exist_ok=True)
        gone = subprocess.Popen(["true"])
        gone.wait()
        dead, alive = f"{FOLDER}/{gone.pid}-0", f"{FOLDER}/{gone.pid}-1"  # as of another pid namespace
        with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
            one.bind(dead)
            two.bind(alive)
            two.listen()
        # `two` is closed as well now: make one that lives.
        os.unlink(alive)
        with socket.socket(socket.AF_UNIX) as living:
            living.bind(alive)
            living.listen()
            answer = status("--json")
            self.assertFalse(os.path.exists(dead))
            self.assertTrue(os.path.exists(alive))
            self.assertIn("does not answer", answer.stderr)
        status()
        self.assertFalse(os.path.exists(alive))

    @needs_root
    def test_other_users_see_and_reach_nothing(self):
        job = self.node().ready(1)
        path = os.path.join(FOLDER, next(name for name in sockets() if name.startswith(f"{job.agent}-")))
        other = status(user=NOBODY)
        self.assertEqual((other.returncode, other.stdout), (1, ""))
        # Even where the folder lets him in.
        os.chmod(FOLDER, 0o711)
        os.chmod(path, 0o777)
        try:
            script = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
                      "print(len(s.recv(99999)))")
            got = subprocess.run(["python3", "-c", script, path], user=NOBODY, capture_output=True, text=True,
                                 timeout=DEADLINE)
            self.assertEqual(got.stdout, "0\n", got.stderr)
            own = status("--json")
            self.assertIn("open to other users", own.stderr)  # and so it is not believed either
        finally:
            os.chmod(FOLDER, 0o700)
        self.assertEqual(len(jobs(self.name)), 1)
        job.signal(signal.SIGTERM)
        job.wait()

    def test_without_a_folder_a_job_runs_all_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            runtime = os.path.join(folder, "runtime")
            os.mkdir(runtime, mode=0o700)
            env = dict(os.environ, XDG_RUNTIME_DIR=runtime)
            # A folder that is not ours alone: a job takes the other one.
            ours = FOLDER
            if os.path.isdir(ours):
                self.skipTest("other jobs are running")
            os.mkdir(ours, mode=0o777)
            os.chmod(ours, 0o777)
            try:
                subprocess.run([DTRAIN, "run", "--quiet", "bash", "-c", f"[ -S {runtime}/dtrain/*-* ]"], env=env,
                               check=True, timeout=DEADLINE)
                os.rmdir(runtime)
                subprocess.run([DTRAIN, "run", "--quiet", "true"], env=env, check=True, timeout=DEADLINE)
            finally:
                shutil.rmtree(ours)

    @needs_root
    def test_a_folder_that_another_user_has_taken(self):
        user = 54321
        taken = f"/tmp/dtrain-{user}"
        os.mkdir(taken, mode=0o700)  # root's
        self.addCleanup(os.rmdir, taken)
        env = {"XDG_RUNTIME_DIR": ""}
        with Job(HOSTILE, "plain", user=user, env=env) as job:
            job.ready(1)
            note = re.search(rf"dtrain: {taken} belongs to user 0, not to you: the socket for `dtrain status` is "
                             rf"({taken}-......)/{job.agent}-", job.stderr())
            self.assertTrue(note, job.stderr())
            folder = note.group(1)
            self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
            shown = json.loads(status("--json", user=user).stdout)["jobs"]
            self.assertEqual([one["agent"] for one in shown], [job.agent])
            # The next one finds it, and nobody else's.
            stranger = f"{taken}-abcdef"
            os.mkdir(stranger, mode=0o700)
            self.addCleanup(os.rmdir, stranger)
            with Job(HOSTILE, "plain", user=user, env=env) as second:
                second.ready(1)
                self.assertIn(f" is {folder}/{second.agent}-", second.stderr())
                second.signal(signal.SIGTERM)
                second.wait()
            job.signal(signal.SIGTERM)
            job.wait()
        self.assertFalse(os.path.exists(folder))

    def test_usage(self):
        for args, text in ((["--job"], "--job needs the job's id"), (["x"], "takes --job ID, --json and nothing else")):
            got = status(*args)
            self.assertEqual(got.returncode, 2)
            self.assertIn(text, got.stderr)


if __name__ == "__main__":
    unittest.main()
