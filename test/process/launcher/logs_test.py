"""`dtrain logs` reads what workers wrote to files, as they write it too."""
import os
import re
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
        self.assertEqual(self.said, "dtrain: no line has 'nobody wrote this'\n")
        self.assertEqual(self.logs("--rank", 7, code=1), b"")
        self.assertEqual(self.said, "dtrain: the files that you asked for are empty\n")

    def test_the_last_round_unless_asked(self):
        self.job("--max-restarts", 2, "-t", 1, "sh", "-c",
                 "echo round $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 2 ]")
        self.assertEqual(self.logs(), b"[0] round 2\n")
        self.assertIn("the last of 3 rounds", self.said)
        self.assertEqual(self.logs("--attempt", 1), b"[0] round 1\n")
        self.assertEqual(self.logs("--attempt", 7, code=1), b"")
        self.assertEqual(self.said, "dtrain: no round after 7 restarts; the last one came after 2\n")

    def test_the_newest_of_several_jobs(self):
        for name in ("b", "a"):
            self.job("-t", 1, "--rdzv-id", name, "echo", name)
        for folder in os.listdir(self.base):
            os.utime(os.path.join(self.base, folder), (0, 1e9 + folder.startswith("a")))
        self.assertEqual(self.logs(), b"[0] a\n")
        self.assertRegex(self.said, r"showing .*/a_[a-z0-5]{8}, the newest of 2 folders; a job has one folder for each "
                                    "node")

    def test_since(self):
        self.job("--nproc", 2, "-t", 1, "echo", "x")
        (job,) = os.listdir(self.base)
        os.utime(os.path.join(self.base, job, "attempt_0/0/stdout.log"), (0, time.time() - 7200))
        self.assertEqual(self.logs("--since", "1h"), b"[1] x\n")
        self.assertEqual(self.said, "dtrain: --since: the lines do not begin with times, so these are whole files, "
                                    "judged by the time of their last write\n")
        self.assertEqual(self.logs("--since", "3h"), b"[0] x\n[1] x\n")
        self.assertEqual(self.logs("--since", "0s", "--rank", 0, code=1), b"")
        self.assertEqual(self.said, "dtrain: --since: no file was written to since then\n")

    def stamped(self, *ranks):
        for rank in ranks:
            write(f"{self.base}/job_abcdefgh/attempt_0/{rank}/stdout.log", b"".join(
                b"2026-11-21T13:00:%02d.%d00+01:00 line\n  of %d\n" % (second, rank, rank) for second in range(3)))

    def test_since_goes_by_the_time_of_each_line(self):
        self.stamped(0, 1)
        last = 1795262402  # the last second
        since = ("--since", time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(last)))
        late = b"".join(b"[%d] 2026-11-21T13:00:02.%d00+01:00 line\n[%d]   of %d\n" % (r, r, r, r) for r in (0, 1))
        self.assertEqual(self.logs(*since), late)
        self.assertEqual(self.said, "dtrain: --since: judged by the time at the start of each line\n")
        plain = f"{self.base}/job_abcdefgh/attempt_0/2/stderr.log"
        write(plain, b"no time\n")
        os.utime(plain, (0, last))
        self.assertEqual(self.logs(*since), late + b"[2] no time\n")
        self.assertEqual(self.said, "dtrain: --since: 2 files judged by the time at the start of each line, 1 as a "
                                    "whole by the time of the last write\n")
        os.utime(plain, (0, last - 1))
        self.assertEqual(self.logs(*since), late)

    def test_lines_with_times_are_merged(self):
        self.stamped(1, 0)
        self.assertEqual(self.logs(), b"".join(
            b"[%d] 2026-11-21T13:00:%02d.%d00+01:00 line\n[%d]   of %d\n" % (r, second, r, r, r)
            for second in range(3) for r in (0, 1)))
        write(f"{self.base}/job_abcdefgh/attempt_0/0/stderr.log", b"no time\n")
        self.assertEqual([line[:3] for line in self.logs().splitlines()], [b"[0]"] * 7 + [b"[1]"] * 6)

    def test_torchruns_tree_and_any_bytes(self):
        write(f"{self.base}/none_zx81/attempt_0/11/stdout.log", b"\0\xff\r\n1%\r2%\rend\n")
        self.assertEqual(self.logs(), b"[11] \0\xff\r\n[11] 1%\n[11] 2%\n[11] end\n")

    def test_mistakes(self):
        self.logs(folder="/nonexistent", code=2)
        self.assertEqual(self.said, "dtrain: /nonexistent is not a folder\n")
        self.logs(code=2)
        self.assertIn("has no logs of a job", self.said)
        self.logs("--since", "whenever", code=2)
        self.logs("--wat", code=2)
        self.assertEqual(self.said, "dtrain: unknown flag --wat; `dtrain help logs` lists them\n")

    def test_output_that_cannot_be_written(self):
        self.job("-t", 1, "echo", "x")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([DTRAIN, "logs", self.base], stdout=full, stderr=subprocess.PIPE, timeout=DEADLINE)
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"No space left", done.stderr)


class Follow(ProcessTest):
    def start(self, *args, before=()):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.job = folder.name + "/job_abcdefgh"
        write(f"{self.job}/attempt_0/0/stdout.log", b"first\nhal")
        follower = subprocess.Popen([*before, DTRAIN, "logs", "-f", self.job, *args], stdin=subprocess.DEVNULL,
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

    # The folder may be another user's.
    def test_links_and_fifos_that_come_later_lead_nowhere(self):
        follower = self.start()
        self.expect(b"[0] first\n[0] hal")
        elsewhere = os.path.dirname(self.job) + "/elsewhere"
        for path in ("1/stdout.log", "attempt_1/1/stdout.log", "secret"):
            write(f"{elsewhere}/{path}", b"not for us\n")
        attempt = f"{self.job}/attempt_1"
        os.makedirs(attempt + "/3")
        os.mkfifo(attempt + "/3/stdout.log")
        os.mkdir(attempt + "/4")
        os.symlink(elsewhere + "/secret", attempt + "/4/stdout.log")
        os.symlink(elsewhere + "/1", attempt + "/5")
        os.symlink(elsewhere + "/attempt_1", f"{self.job}/attempt_2")
        write(f"{attempt}/0/stdout.log", b"next round\n")
        self.expect(b"[0] next round\n")
        # It comes in order: what lies elsewhere would be there by now.
        write(f"{attempt}/0/stdout.log", b"and more\n")
        self.expect(b"[0] and more\n")
        self.assertEqual(self.got, b"[0] first\n[0] hal\n[0] next round\n[0] and more\n")
        self.assertEqual(self.watched(follower) & self.inodes_below(elsewhere), set())
        self.assertLessEqual(self.inodes_below(attempt + "/4"), self.watched(follower))

    @staticmethod
    def watched(follower):
        """Inodes of the folders that inotify watches for it."""
        found = set()
        for name in os.listdir(f"/proc/{follower.pid}/fdinfo"):
            text = proc_file(follower.pid, f"fdinfo/{name}").decode()
            found |= {int(inode, 16) for inode in re.findall(r"(?m)^inotify wd:\w+ ino:(\w+)", text)}
        return found

    @staticmethod
    def inodes_below(folder):
        return {os.stat(path).st_ino for path, _, _ in os.walk(folder)}

    def test_an_unfinished_line(self):
        self.start()
        self.expect(b"[0] first\n[0] hal")
        write(f"{self.job}/attempt_0/1/stdout.log", b"other\n>")
        self.expect(b"[0] hal\n[1] other\n[1] >")
        write(f"{self.job}/attempt_0/1/stdout.log", b" yes\n")
        self.expect(b"[1] > yes\n")
        write(f"{self.job}/attempt_0/0/stdout.log", b"f a line\n")
        self.expect(b"[1] > yes\n[0] f a line\n")

    def test_no_byte_is_lost_or_shown_twice(self):
        self.start()
        self.expect(b"[0] first\n[0] hal")
        said = [b"%d-%s" % (i, b"\n" if i % 3 == 0 else b"") for i in range(3000)]
        for part in said:
            write(f"{self.job}/attempt_0/0/stdout.log", part)
        self.expect(b"2999-")
        self.assertEqual(self.got, b"[0] first\n[0] hal" + b"".join(said).replace(b"\n", b"\n[0] "))

    # What the kernel drops because the follower does not run is found by looking at the files.
    def test_more_events_than_the_kernel_keeps(self):
        follower = self.start()
        self.expect(b"[0] hal")
        os.kill(follower.pid, signal.SIGSTOP)
        self.assertEqual(os.waitpid(follower.pid, os.WUNTRACED)[0], follower.pid)
        with open("/proc/sys/fs/inotify/max_queued_events") as file:
            most = int(file.read())
        paths = [f"{self.job}/attempt_0/{rank}/stdout.log" for rank in (0, 1)]
        for path in paths:
            write(path, b"")
        files = [open(path, "ab", buffering=0) for path in paths]
        for _ in range(min(most, 100000) // 2 + 100):  # the same event twice in a row would count once
            for f in files:
                f.write(b"x")
        for f in files:
            f.write(b"end\n")
            f.close()
        os.makedirs(f"{self.job}/attempt_1/5")
        write(f"{self.job}/attempt_1/5/stdout.log", b"a new round\n")
        os.kill(follower.pid, signal.SIGCONT)
        self.expect(b"[5] a new round\n")
        self.assertEqual(self.got.count(b"xend\n"), 2)

    # In a user namespace of its own, whose limits are nobody else's.
    def limited(self, limit, number):
        script = f"echo {number} >/proc/sys/user/{limit} && exec \"$0\" \"$@\""
        limit = ["unshare", "--user", "--map-root-user", "sh", "-c", script]
        if subprocess.run([*limit, "true"], capture_output=True, timeout=DEADLINE).returncode != 0:
            self.skipTest("no user namespaces here")
        self.start(before=limit)
        self.expect(b"[0] first\n[0] hal")
        write(f"{self.job}/attempt_0/0/stdout.log", b"f a line\n")
        write(f"{self.job}/attempt_1/3/stdout.log", b"next round\n")
        self.expect(b"[3] next round\n")
        self.assertEqual(self.got, b"[0] first\n[0] half a line\n[3] next round\n")
        self.follower.terminate()
        self.follower.wait(DEADLINE)
        return self.follower.stderr.read().decode()

    def test_no_inotify_left(self):
        self.assertEqual(self.limited("max_inotify_instances", 0),
                         "dtrain: cannot watch all files (Too many open files; fs.inotify.max_user_instances): looking "
                         "at them every 1 s instead\n")

    def test_too_few_watches(self):
        self.assertEqual(self.limited("max_inotify_watches", 2),
                         "dtrain: cannot watch all files (No space left on device; fs.inotify.max_user_watches): "
                         "looking at them every 1 s instead\n")

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
