"""`dtrain logs` reads what workers wrote to files, as they write it too."""
import os
import select
import signal
import subprocess
import tempfile
import time
import unittest

from support import *


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as f:
        f.write(data)


class Logs(ProcessTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.base = folder.name

    def job(self, *args, code=0):
        done = subprocess.run([DTRAIN, "run", "--quiet", "--log-dir", self.base, *map(str, args)],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, code, done.stderr)

    def logs(self, *args, code=0, folder=None):
        done = subprocess.run([DTRAIN, "logs", folder or self.base, *map(str, args)], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, code, done.stderr)
        self.said = done.stderr.decode()
        return done.stdout

    def test_by_rank_stream_and_text(self):
        self.job("--nproc", 3, "-r", 3, "sh", "-c", "echo out $RANK; echo err $RANK >&2; printf end")
        self.assertEqual(self.logs(), b"".join(b"[%d] out %d\n[%d] end\n[%d] err %d\n" % (r, r, r, r, r)
                                               for r in range(3)))
        self.assertEqual(self.logs("--rank", 1, "--stderr"), b"[1] err 1\n")
        self.assertEqual(self.logs("--ranks=0,2-9", "--grep", "out"), b"[0] out 0\n[2] out 2\n")
        self.assertEqual(self.logs("--grep", "nobody wrote this", code=1), b"")
        self.assertEqual(self.said, "")

    def test_the_last_round_unless_asked(self):
        self.job("--max-restarts", 2, "-t", 1, "sh", "-c",
                 "echo round $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 2 ]")
        self.assertEqual(self.logs(), b"[0] round 2\n")
        self.assertIn("the last of 3 rounds", self.said)
        self.assertEqual(self.logs("--attempt", 1), b"[0] round 1\n")
        self.assertEqual(self.logs("--attempt", 7, code=1), b"")

    def test_the_newest_of_several_jobs(self):
        for name in ("b", "a"):
            self.job("-t", 1, "--rdzv-id", name, "echo", name)
        for folder in os.listdir(self.base):
            os.utime(os.path.join(self.base, folder), (0, 1e9 + folder.startswith("a")))
        self.assertEqual(self.logs(), b"[0] a\n")
        self.assertRegex(self.said, r"/a_[a-z0-5]{8}, the newest of 2 jobs")

    def test_since(self):
        self.job("--nproc", 2, "-t", 1, "echo", "x")
        (job,) = os.listdir(self.base)
        os.utime(os.path.join(self.base, job, "attempt_0/0/stdout.log"), (0, time.time() - 7200))
        self.assertEqual(self.logs("--since", "1h"), b"[1] x\n")
        self.assertEqual(self.logs("--since", "3h"), b"[0] x\n[1] x\n")

    def test_torchruns_tree_and_any_bytes(self):
        write(f"{self.base}/none_zx81/attempt_0/11/stdout.log", b"\0\xff\r\n1%\r2%\rend\n")
        self.assertEqual(self.logs(), b"[11] \0\xff\r\n[11] 1%\n[11] 2%\n[11] end\n")

    def test_mistakes(self):
        self.logs(folder="/nonexistent", code=2)
        self.assertEqual(self.said, "dtrain: /nonexistent is not a folder\n")
        self.logs(code=2)
        self.assertIn("holds no logs of a job", self.said)
        self.logs("--since", "whenever", code=2)
        self.logs("--wat", code=2)

    def test_output_that_cannot_be_written(self):
        self.job("-t", 1, "echo", "x")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([DTRAIN, "logs", self.base], stdout=full, stderr=subprocess.PIPE, timeout=DEADLINE)
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"No space left", done.stderr)


class Follow(ProcessTest):
    def start(self, *args):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.job = folder.name + "/job_abcdefgh"
        write(f"{self.job}/attempt_0/0/stdout.log", b"first\nhal")
        follower = subprocess.Popen([DTRAIN, "logs", "-f", self.job, *args], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, follower)
        self.follower, self.got = follower, b""
        return follower

    def end(self, follower):
        follower.kill()
        follower.wait()
        for pipe in (follower.stdout, follower.stderr):
            pipe.close()

    def expect(self, text):
        end = time.monotonic() + DEADLINE
        fd = self.follower.stdout.fileno()
        while text not in self.got:
            left = end - time.monotonic()
            self.assertTrue(left > 0 and select.select([fd], [], [], left)[0], self.got)
            chunk = os.read(fd, 1 << 16)
            self.assertTrue(chunk, self.got)
            self.got += chunk

    def test_new_bytes_workers_and_rounds(self):
        self.start()
        self.expect(b"[0] first\n")
        write(f"{self.job}/attempt_0/0/stdout.log", b"f a line\n")
        self.expect(b"[0] half a line\n")
        write(f"{self.job}/attempt_0/7/stderr.log", b"new worker\n")
        self.expect(b"[7] new worker\n")
        write(f"{self.job}/attempt_1/0/stdout.log", b"next round\n")
        self.expect(b"[0] next round\n")
        self.assertEqual(self.got.count(b"\n"), 4)

    def test_it_sleeps_until_something_comes(self):
        follower = self.start()
        self.expect(b"first")
        until(lambda: stat_of(follower.pid)[0] == "S", DEADLINE)
        before = status_of(follower.pid, "voluntary_ctxt_switches")
        time.sleep(0.5)  # tidy: allow sleep, because that nothing happens is what is tested
        self.assertLessEqual(status_of(follower.pid, "voluntary_ctxt_switches"), before + 1)

    def test_it_ends_with_its_reader(self):
        follower = self.start()
        self.expect(b"first")
        follower.stdout.close()
        self.assertEqual(follower.wait(DEADLINE), 0)
        follower.stdout = open(os.devnull, "rb")

    def test_interrupt(self):
        follower = self.start("--grep", "first")
        self.expect(b"[0] first\n")
        follower.send_signal(signal.SIGINT)
        self.assertEqual(follower.wait(DEADLINE), -signal.SIGINT)


if __name__ == "__main__":
    unittest.main()
