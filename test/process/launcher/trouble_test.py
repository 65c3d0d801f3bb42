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

    def test_no_name_steers_the_terminal(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            program = os.path.join(folder, "a\x1b[31mb\nc")
            with open(program, "w") as file:
                file.write("#!/bin/sh\nexit 3\n")
            os.chmod(program, 0o755)
            job = self.assert_run(3, program)
            self.assertIn("1 worker of", job.said)
            self.assertNotIn("\x1b", job.said)
            self.assertIn("a\\x1b[31mb\\x0ac", job.said)

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
            for path in (file.name + "/logs", "/proc/logs"):  # of /proc only the kernel knows
                with self.subTest(path=path):
                    job = self.assert_run(2, "-t", 3, "--log-dir", path, "echo", "hello")
                    self.assertEqual(len(self.complaint(job)), 1, job.said)
                    self.assertIn("--log-dir", job.said)
                    self.assertEqual(job.output, b"")

    @needs_root
    def test_log_folder_without_the_right_to_write(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            job = self.assert_run(2, "-t", 3, "--log-dir", folder + "/logs", "echo", "hello", user=NOBODY)
        self.assertEqual(len(self.complaint(job)), 1, job.said)
        self.assertIn("not writable", job.said)

    def test_tmpdir_that_is_not_there(self):
        job = self.assert_run(0, "--quiet", "sh", "-c", "dirname $(dirname $DTRAIN_ROUND_DIR)",
                              env={"TMPDIR": "/no/such/folder"})
        self.assertEqual(job.said, "dtrain: no place for temporary files: /no/such/folder (No such file or directory); "
                                   "using /tmp\n")
        folder = job.output.decode().split()[1]
        self.assertRegex(folder, "^/tmp/dtrain_")
        self.assertFalse(os.path.exists(folder))

    def without_places(self, code, *args):
        """A job where neither TMPDIR, nor /tmp, /var/tmp or the working folder, can be written."""
        read_only = "for d in /tmp /var/tmp; do mount --bind $d $d && mount -o remount,bind,ro $d || exit; done"
        return self.assert_run(code, "--quiet", *args, prefix=[
            "unshare", "--mount", "sh", "-c", read_only + ' && cd /proc && exec "$0" "$@"'])

    @needs_root
    def test_no_place_for_temporary_files(self):
        """Nobody asked for files, so a job goes on without them, through its restarts; it says so once."""
        show = "echo $TORCHELASTIC_RESTART_COUNT ${TORCHELASTIC_ERROR_FILE-unset}, ${DTRAIN_ROUND_DIR-unset}."
        job = self.without_places(0, "--nproc", 2, "--max-restarts", 1, "sh", "-c",
                                  f"{show}; [ $TORCHELASTIC_RESTART_COUNT = 1 ]")
        lines = sorted(job.output.splitlines())
        # In the first round the failure of one may come before the other has said anything.
        self.assertEqual([line for line in lines if b"] 1 " in line], [b"[0] 1 , .", b"[1] 1 , ."])
        first = [line for line in lines if b"] 0 " in line]
        self.assertTrue(first and set(first) <= {b"[0] 0 , .", b"[1] 0 , ."}, job.output)
        (line,) = [x for x in job.said.splitlines() if "temporary" in x]
        self.assertRegex(line, r"^dtrain: no place for temporary files: /tmp/\S+ \(Read-only file system\), "
                               r"/tmp \(.*\), /var/tmp \(.*\), /proc \(.*\); workers have no error file$")

    @needs_root
    def test_no_place_for_files_that_were_asked_for(self):
        for flags in (("-t", 1), ("-r", "0:2")):
            with self.subTest(flags=flags):
                job = self.without_places(125, *flags, "echo", "hello")
                self.assertRegex(job.said, "^dtrain: no place for log files: .*; name one with --log-dir\n$")
                self.assertEqual(job.output, b"")

    @needs_root
    def test_disk_that_is_full_at_a_restart(self):
        disk = 'mount -t tmpfs -o nr_inodes=40 tmpfs "$TMPDIR" && exec "$0" "$@"'
        fill = ("i=0; while touch $TMPDIR/$RANK-$i; do i=$((i+1)); done 2>/dev/null; "
                "echo [$TORCHELASTIC_ERROR_FILE]; [ $TORCHELASTIC_RESTART_COUNT = 2 ]")
        args = ("--quiet", "--max-restarts", 2, "sh", "-c", fill)
        job = self.assert_run(0, *args, prefix=["unshare", "--mount", "sh", "-c", disk])
        self.assertEqual(job.output.count(b"[]\n"), 2, job.output)
        said = re.findall("(?m)^dtrain: workers have no error file: .*No space left", job.said)
        self.assertEqual(len(said), 1, job.said)
        job = self.assert_run(125, "-t", 1, *args, prefix=["unshare", "--mount", "sh", "-c", disk])
        self.assertIn("No space left on device", job.said)

    def test_limit_of_file_sizes(self):
        """A worker's environment does not fit into it; this is no reason to die."""
        job = self.assert_run(125, "echo", "hello", env={"LONG": "x" * 5000},
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
        self.assertIn("cannot write a worker's arguments (see `ulimit -f`): File too large", job.said)

    @needs_root
    def test_no_dev_and_no_standard_input(self):
        bare = 'mount -t tmpfs tmpfs /dev && exec "$0" "$@" <&-'
        for flags in ((), ("--stdin", "none")):
            with self.subTest(flags=flags):
                job = self.assert_run(0, "--nproc", 2, *flags, "sh", "-c", "cat && echo end",
                                      prefix=["unshare", "--mount", "sh", "-c", bare])
                self.assertEqual(sorted(job.output.splitlines()), [b"[0] end", b"[1] end"])

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
