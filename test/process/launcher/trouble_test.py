"""What the system refuses: one clear line, the documented exit code, nothing left."""
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
import unittest

from support import *


class Trouble(ProcessTest):
    def complaint(self, job):
        """dtrain's own lines, without the ones that only inform."""
        lines = [x for x in job.said.splitlines() if not re.match(r"dtrain: (OMP_NUM_THREADS|\d+ workers of)", x)]
        return lines

    @unittest.skipUnless(SLOW == 1, "a sanitizer needs descriptors of its own")
    def test_every_low_limit_of_descriptors_either_works_or_is_one_clear_line(self):
        worked = []
        for limit in range(4, 40):  # with 3 not even the C library can be opened
            with self.subTest(limit=limit):
                job = run("--nproc", 2, "echo", "hello", preexec_fn=limit_descriptors(limit))
                self.assertIn(job.code, (0, 125), job.said)
                self.assertEqual(job.left, [])
                if job.code == 0:
                    worked.append(limit)
                    self.assertEqual(sorted(job.output.splitlines()), [b"[0] hello", b"[1] hello"])
                else:
                    about = [x for x in self.complaint(job) if re.search("Too many open files|ulimit -n", x)]
                    self.assertEqual(len(about), 1, job.said)
        self.assertEqual(worked, list(range(worked[0], 40)), "once it works it works with more")

    def test_descriptors_run_out_among_many_workers(self):
        job = self.assert_run(125, "--nproc", 200, "echo", "hello", preexec_fn=limit_descriptors(100))
        self.assertEqual(len([x for x in self.complaint(job) if "ulimit -n" in x]), 1, job.said)

    def test_soft_limit_is_raised_for_dtrain_and_given_back_to_workers(self):
        def soft():
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096))
        job = self.assert_run(0, "--nproc", 100, "sh", "-c", "ulimit -n", preexec_fn=soft)
        self.assertEqual(job.output.count(b"] 64\n"), 100)

    @unittest.skipUnless(SLOW == 1, "LeakSanitizer needs a process of its own at the end")
    @needs_root
    def test_processes_run_out(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        job = self.assert_run(125, "--nproc", 2, "true", user=NOBODY, preexec_fn=few)
        self.assertEqual(len(self.complaint(job)), 1, job.said)
        self.assertIn("Resource temporarily unavailable", job.said)

    def test_log_folder_that_cannot_be_made(self):
        with tempfile.NamedTemporaryFile() as file:
            # Below a file it makes no sense (2); below /proc only the kernel knows (125).
            for code, path in ((2, file.name + "/logs"), (125, "/proc/logs")):
                with self.subTest(path=path):
                    job = self.assert_run(code, "-t", 3, "--log-dir", path, "echo", "hello")
                    self.assertEqual(len(self.complaint(job)), 1, job.said)
                    self.assertIn("--log-dir", job.said)
                    self.assertEqual(job.output, b"")

    @needs_root
    def test_log_folder_without_the_right_to_write(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            job = self.assert_run(125, "-t", 3, "--log-dir", folder + "/logs", "echo", "hello", user=NOBODY)
        self.assertEqual(len(self.complaint(job)), 1, job.said)
        self.assertIn("not writable", job.said)

    def test_tmpdir_that_is_not_there(self):
        job = self.assert_run(125, "echo", "hello", env={"TMPDIR": "/no/such/folder"})
        self.assertEqual(len(self.complaint(job)), 1, job.said)
        self.assertIn("/no/such/folder", job.said)

    @needs_root
    def test_no_port_for_the_store(self):
        # A network of its own with two ports, both taken.
        take = ("import os, socket, sys\n"
                "with open('/proc/sys/net/ipv4/ip_local_port_range', 'w') as f: f.write('60000 60001')\n"
                "taken = [socket.create_server(('127.0.0.1', port)) for port in (60000, 60001)]\n"
                "for s in taken: s.set_inheritable(True)\n"
                "os.execv(sys.argv[1], sys.argv[1:])")
        job = self.assert_run(125, "--nproc", 2, "echo", "hello",
                              prefix=["unshare", "--net", sys.executable, "-c", take])
        self.assertEqual(len([x for x in self.complaint(job) if "Address already in use" in x]), 1, job.said)
        self.assertEqual(job.output, b"")

    def test_working_directory_that_is_gone(self):
        folder = tempfile.mkdtemp()
        job = self.assert_run(0, "--nproc", 2, "echo", "hello",
                              prefix=["sh", "-c", f'cd {folder} && rmdir {folder} && exec "$0" "$@"'])
        self.assertEqual(job.output.count(b"hello"), 2)


class LateTrouble(ProcessTest):
    def test_worker_that_closes_its_output_still_counts(self):
        with Job("--nproc", 2, "sh", "-c", "exec >&- 2>&-; exec $HOSTILE plain", env={"HOSTILE": HOSTILE}) as job:
            until(lambda: len(tagged(job.tag)) == 2, DEADLINE)
            self.assertIsNone(job.lifeline.wait_broken(0.5))
            self.assertIsNone(job.process.poll())
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)

    def test_closing_its_output_does_not_cost_time(self):
        start = time.monotonic()
        with Job("--failure-grace", 60, "sh", "-c", "exec >&- 2>&-; exec sleep 0.5") as job:
            self.assertEqual(job.wait(), 0)
        self.assertLess(time.monotonic() - start, 0.5 + WITHIN)

    def test_error_file_of_a_launcher_that_is_itself_a_worker(self):
        """Wherever TORCHELASTIC_ERROR_FILE points: the job ends with its own code, and says what it could not write."""
        with tempfile.TemporaryDirectory() as folder:
            fifo = os.path.join(folder, "fifo")
            os.mkfifo(fifo)
            for path, why in ((fifo, "nobody reads from it"), ("/dev/full", "No space left on device"),
                              (folder, "Is a directory"), (folder + "/none/e", "No such file or directory")):
                with self.subTest(path=path):
                    job = self.assert_run(3, "--quiet", "sh", "-c", "exit 3", env={"TORCHELASTIC_ERROR_FILE": path})
                    self.assertIn(f"dtrain: cannot write the error file {path}: {why}\n", job.said)
            path = os.path.join(folder, "error.json")
            write = ("import json, os, sys\n"
                     "with open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w') as f:\n"
                     "  json.dump({'message': {'message': 'x' * int(sys.argv[1]), 'extraInfo': {}}}, f)\n"
                     "sys.exit(3)")
            for size in (10, 300_000, 1_000_000, 3_000_000):
                with self.subTest(size=size):
                    run("--quiet", "--log-dir", folder + "/logs", sys.executable, "-c", write, size,
                        env={"TORCHELASTIC_ERROR_FILE": path})
                    with open(path) as f:
                        told = json.load(f)["message"]
                    self.assertEqual(told["message"], "x" * size)
                    self.assertEqual(told.get("errorCode"), 3 if size < 2**20 else None)
            self.assertEqual(sorted(os.listdir(folder)), ["error.json", "fifo", "logs"])

    def test_log_folder_that_vanishes_between_rounds(self):
        with tempfile.TemporaryDirectory() as folder:
            job = self.assert_run(125, "--max-restarts", 3, "-t", 3, "--log-dir", folder, "sh", "-c",
                                  f"rm -rf {folder}/*; exit 1")
        self.assertIn("cannot make the log", job.said)


if __name__ == "__main__":
    unittest.main()
