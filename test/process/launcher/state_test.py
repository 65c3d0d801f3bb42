"""--keep-state: a worker finds the memory of the one before it, and no other; nothing is left of it."""
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
