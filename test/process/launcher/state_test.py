"""--keep-state: a worker finds the memory of the one before it, and no other; nothing is left of it.
--state-dir: the job's next run finds the memory too, if it was written whole, and the files go when the job ends."""
import os
import shlex
import sys
import unittest

from support import *

# What a worker finds: which rounds have written into its memory. Then it writes its own, and ends or waits.
WORKER = r"""
import fcntl, mmap, os, signal, sys
fd, rank, round = int(os.environ["DTRAIN_STATE_FD"]), os.environ["RANK"], os.environ["DTRAIN_ROUND"]
assert set(map(int, os.listdir("/proc/self/fd"))) == {0, 1, 2, 3, fd}, "3 is the folder's own"
assert fcntl.fcntl(fd, 1034) & 7 == 3, "F_GET_SEALS: F_SEAL_SEAL and F_SEAL_SHRINK, not F_SEAL_GROW"
before = os.pread(fd, 4096, 0).rstrip(b"\0").decode()
sys.stdout.write(f"{rank} found {before or 'nothing'};\n")
sys.stdout.flush()
os.ftruncate(fd, 1 << 20)
with mmap.mmap(fd, 1 << 20) as memory:
    text = f"{before} {rank}.{round}".strip().encode()
    memory[:len(text)] = text
    if sys.argv[1:] == ["wait"]:
        print("ready", flush=True)
        signal.pause()
    if int(round) < 2 and rank == "1":
        os.kill(os.getpid(), signal.SIGKILL)
"""

# Adds one to the number in its memory, and waits or ends with the code that it is given.
COUNTS = r"""
import os, signal, sys
fd = int(os.environ["DTRAIN_STATE_FD"])
number = int(os.pread(fd, 8, 0) or 0)
sys.stdout.write(f"rank {os.environ['RANK']} found {number}\n")
sys.stdout.flush()
if sys.argv[1:]:
    sys.exit(int(sys.argv[1]))
os.ftruncate(fd, 5 << 20)
os.pwrite(fd, b"%8d" % (number + 1), 0)
print("ready", flush=True)
signal.pause()
"""


def memories(who):
    """{process: the memories of workers' states that it has open}"""
    found = {}
    for pid in who:
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                path = f"/proc/{pid}/fd/{fd}"
                if "dtrain-state" in os.readlink(path):
                    found.setdefault(pid, set()).add(os.stat(path).st_ino)
        except OSError:
            continue
    return found


class State(ProcessTest):
    def test_each_round_finds_what_the_one_before_has_left(self):
        job = self.assert_run(0, "--nproc", 2, "--keep-state", "--max-restarts", 2, "--no-python", sys.executable, "-c",
                              WORKER)
        for found in ("nothing", "1.0", "1.0 1.1"):
            self.assertIn(f"1 found {found};", job.output.decode())
        # Rank 0 may be told to end before it has written, but it never finds what rank 1 has written.
        of_first = re.findall("] 0 found (.*);", job.output.decode())
        self.assertTrue(of_first)
        for found in of_first:
            self.assertRegex(found, r"^(nothing|0\.[01]( 0\.1)?)$")

    def test_programs_in_between_pass_it_on(self):
        command = [sys.executable, "-c", WORKER]
        shell = ["bash", "-c", shlex.join(command) + "; exit $?"]
        for wrapper in (shell, ["env", "A=1", *command], ["nice", *command]):
            job = self.assert_run(0, "--keep-state", "--max-restarts", 1, *wrapper)
            self.assertIn(b"0 found nothing;", job.output)

    def test_nobody_else_has_it_and_nothing_is_left(self):
        for who in ("agent", "guard", "front", "worker"):
            with Job("--nproc", 2, "--keep-state", "--max-restarts", 0, "--no-python", sys.executable, "-c", WORKER,
                     "wait") as job:
                job.ready(2)
                # The agent has both; each worker has its own; the guard and the front have none.
                workers, has = job.workers(), memories(pids())
                everybody = {job.agent, job.guard, job.front, *workers}
                self.assertEqual({pid for pid in has if pid in everybody}, {job.agent, *workers})
                self.assertEqual([len(has[pid]) for pid in (job.agent, *workers)], [2, 1, 1])
                self.assertEqual(has[job.agent], has[workers[0]] | has[workers[1]])
                job.signal(signal.SIGKILL, workers[0] if who == "worker" else getattr(job, who))
                self.assert_gone(job)
                job.wait()
                left = [pid for pid, those in memories(pids()).items() if those & has[job.agent]]
                self.assertEqual(left, [])
                self.assertEqual(glob.glob("/dev/shm/*dtrain-state*"), [])

    def test_without_the_flag_there_is_none(self):
        see = "import os; print(repr(os.environ['DTRAIN_STATE_FD']), sorted(os.listdir('/proc/self/fd')))"
        job = self.assert_run(0, "--no-python", sys.executable, "-c", see, env={"DTRAIN_STATE_FD": "100"})
        self.assertEqual(job.output.decode(), "[0] '' ['0', '1', '2', '3']\n")

    def test_too_few_descriptors_are_one_clear_error(self):
        job = self.assert_run(125, "--keep-state", "--max-restarts", 1, "true", preexec_fn=limit_descriptors(90))
        self.assertIn("the descriptor of its state has the number 100, and `ulimit -n` must be 101 or more", job.said)


class StateFiles(ProcessTest):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="dtrain-states-")
        self.addCleanup(shutil.rmtree, self.folder)

    def words(self, *more, workers=2, name="a/b"):
        return ("--rdzv-id", name, "--nproc", workers, "--state-dir", self.folder, *more, "--no-python", sys.executable,
                "-c", COUNTS)

    def file(self, worker):
        return os.path.join(self.folder, f"dtrain-state.a%2Fb.n0.w{worker}")

    def stopped(self, *more, **popen):
        """A job that is stopped when its workers wait; what each had found."""
        with Job(*self.words(*more), **popen) as job:
            job.ready(2)
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 128 + signal.SIGTERM, job.stderr())
            self.assert_gone(job)
            self.said = job.stderr()
            return self.found(job)

    def found(self, job):
        return {int(rank): int(number) for rank, number in re.findall(r"rank (\d) found (\d+)", job.output.decode())}

    def test_a_job_that_was_stopped_goes_on_from_its_state_until_it_ends_well(self):
        for number in range(3):
            self.assertEqual(self.stopped(), {0: number, 1: number})
            self.assertRegex(self.said, rf"the state of 2 workers \(10.0 MiB\) is in {self.folder} for the job's ")
            self.assertEqual(sorted(os.listdir(self.folder)), [os.path.basename(self.file(w)) for w in (0, 1)])
            self.assertEqual({os.stat(self.file(w)).st_mode & 0o7777 for w in (0, 1)}, {0o600})
        job = self.assert_run(3, *self.words(), 3)  # a failure is no end of the job
        self.assertLessEqual(set(self.found(job).items()), {(0, 3), (1, 3)})
        job = self.assert_run(0, *self.words(name="another"), 0)
        self.assertEqual(self.found(job), {0: 0, 1: 0})
        self.assertEqual(len(os.listdir(self.folder)), 2)
        job = self.assert_run(0, *self.words(), 0)
        self.assertEqual(self.found(job), {0: 3, 1: 3})
        self.assertEqual(os.listdir(self.folder), [])

    def test_what_is_not_this_workers_state_is_told_and_not_used(self):
        self.assertEqual(self.stopped(), {0: 0, 1: 0})
        with open(self.file(0), "r+b") as f:
            f.seek(5000)
            f.write(b"x")
        os.rename(self.file(1), os.path.join(self.folder, "elsewhere"))
        os.symlink("elsewhere", self.file(1))
        self.assertEqual(self.stopped(), {0: 0, 1: 0})
        self.assertRegex(self.said, rf"a state in {self.folder} is not used: dtrain-state.a%2Fb.n0.w0: it is damaged: "
                         r"its CRC-32C is \w+, and should be \w+ \(and 1 more\)")
        self.assertFalse(os.path.islink(self.file(1)))
        # Now both are whole again; one is lost.
        os.remove(self.file(1))
        self.assertEqual(self.stopped(), {0: 1, 1: 0})
        self.assertNotIn("is not used", self.said)
        job = self.assert_run(0, *self.words(workers=1), 0)
        self.assertEqual(self.found(job), {0: 0})
        self.assertIn("it was written by a node with 2 workers in a job of 1 node; this node has 1 worker, and the job "
                      "has 1 node", job.said)
        self.assertEqual(os.listdir(self.folder), ["elsewhere"])

    def test_a_state_that_cannot_be_written_leaves_nothing_and_is_told(self):
        """In time, or because the disk is full."""
        self.stopped("--shutdown-timeout", 0)
        self.assertIn("dtrain-state.a%2Fb.n0.w0: the time was too short to write it (and 1 more)", self.said)
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        with Job(*self.words()) as job:
            job.ready(2)
            resource.prlimit(job.agent, resource.RLIMIT_FSIZE, (1 << 20, limit))
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 128 + signal.SIGTERM, job.stderr())
            self.assertIn(f"the state is not kept in {self.folder} for the job's next run: dtrain-state.a%2Fb.n0.w0: "
                          "File too large (and 1 more)", job.stderr())
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_node_that_cannot_write_one_state_leaves_all_that_it_had(self):
        self.assertEqual(self.stopped(), {0: 0, 1: 0})
        in_the_way = self.file(1) + ".part"
        os.mkdir(in_the_way)
        self.assertEqual(self.stopped(), {0: 1, 1: 1})
        self.assertIn("for the job's next run: dtrain-state.a%2Fb.n0.w1: File exists", self.said)
        self.assertNotIn("is in", self.said)
        os.rmdir(in_the_way)
        self.assertEqual(len(os.listdir(self.folder)), 2)
        self.assertEqual(self.stopped(), {0: 1, 1: 1})
        self.assertEqual(self.stopped(), {0: 2, 1: 2})

    def test_whatever_is_killed_leaves_no_file(self):
        for who in ("agent", "front", "guard"):
            with Job(*self.words()) as job:
                job.ready(2)
                job.signal(signal.SIGKILL, getattr(job, who))
                self.assert_gone(job)
                job.wait()
            left = os.listdir(self.folder)
            self.assertEqual([name for name in left if name.endswith(".part")], [])
            # A guard that is lost is a failure of dtrain's, and the workers are dead: the state is whole.
            self.assertEqual(len(left), 2 if who == "guard" else 0, who)

    def test_programs_that_keep_nothing_leave_nothing(self):
        with Job("--rdzv-id", "a/b", "--state-dir", self.folder, "sh", "-c", "echo ready; exec sleep 60") as job:
            job.ready(1)
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 128 + signal.SIGTERM)
            self.assertIn("for the job's next run: no worker has kept any", job.stderr())
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
