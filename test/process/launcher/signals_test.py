"""Signals, job control, standard input, and dtrain as the first process of a container."""
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from support import *
from terminal import Terminal

# Tells what it gets, and ends with 0 on TERM.
LISTENER = "trap 'echo usr1' USR1; trap 'echo usr2' USR2; trap 'echo hup' HUP; trap 'exit 0' TERM; echo ready; " \
           "while :; do read -t 0.1 x <&3 || :; done 3<>$FIFO"


class Listeners:
    """Shell workers that wait at a FIFO nobody writes to. They look up now and then: a shell sees a signal that comes
    between its last trap and read() only when that read ends."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp()
        os.chmod(self.folder, 0o755)
        self.fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(self.fifo)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def job(self, *args, **kwargs):
        return Job("--nproc", 2, *args, "bash", "-c", LISTENER, env={"FIFO": self.fifo}, **kwargs)


class Passed(ProcessTest):
    def test_usr1_and_usr2_are_passed_on_and_the_job_goes_on(self):
        with Listeners() as listeners, listeners.job() as job:
            job.ready(2)
            job.signal(signal.SIGUSR1)
            job.expect(rb"usr1\n", 2)
            job.signal(signal.SIGUSR2)
            job.expect(rb"usr2\n", 2)
            job.signal(signal.SIGUSR1)
            job.expect(rb"usr1\n", 4)
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)
            self.assert_gone(job)

    def test_a_signal_to_the_whole_job_is_passed_on_once(self):
        with Listeners() as listeners, listeners.job() as job:
            job.ready(2)
            job.signal(signal.SIGUSR1, job.agent, job.guard, job.front)
            job.expect(rb"usr1\n", 2)
            job.signal(signal.SIGUSR2)
            job.expect(rb"usr2\n", 2)
            self.assertEqual(job.output.count(b"usr1\n"), 2)
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)

    def test_a_chosen_signal_is_passed_on(self):
        with Listeners() as listeners, listeners.job("--signals-to-handle", "TERM", "--pass-signals", "HUP") as job:
            job.ready(2).signal(signal.SIGHUP)
            job.expect(rb"hup\n", 2).signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)

    def test_stop_signal_sent_to_the_agent_itself_counts(self):
        with Listeners() as listeners, listeners.job() as job:
            job.ready(2)
            job.signal(signal.SIGTERM, job.agent)
            self.assertEqual(job.wait(), 143)
            self.assert_gone(job)

    def test_the_guard_shrugs_at_signals(self):
        with Listeners() as listeners, listeners.job() as job:
            job.ready(2)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
                job.signal(number, job.guard)
            job.signal(signal.SIGUSR1)
            job.expect(rb"usr1\n", 2).signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)

    def test_nohup_survives_a_hangup(self):
        with Listeners() as listeners, listeners.job(prefix=["nohup"]) as job:
            job.ready(2)
            job.signal(signal.SIGHUP)
            job.signal(signal.SIGUSR1)  # handled after the hang-up: once it is answered, the other did nothing
            job.expect(rb"usr1\n", 2)
            self.assertNotIn(b"hup", job.output)
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)

    def test_a_worker_that_ends_well_in_time_does_not_make_a_stop_a_success(self):
        with Listeners() as listeners, listeners.job() as job:
            job.ready(2)
            start = time.monotonic()
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)
            self.assertLess(time.monotonic() - start, 10)


class StandardInput(ProcessTest):
    ECHO = ["sh", "-c", 'echo "$RANK got $(cat)"']

    def run_with(self, text, *args):
        reader, writer = os.pipe()
        os.write(writer, text)
        os.close(writer)
        done = subprocess.run([DTRAIN, "run", "--quiet", "--nproc", "3", *args, *self.ECHO], stdin=reader,
                              capture_output=True, timeout=DEADLINE)
        os.close(reader)
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted(done.stdout.splitlines())

    def test_all_share_it(self):
        got = self.run_with(b"one line\n")
        self.assertEqual(sorted(line.partition(b"got ")[2] for line in got), [b"", b"", b"one line"])

    def test_one_rank_has_it(self):
        self.assertEqual(self.run_with(b"hello\n", "--stdin", "1"), [b"[0] 0 got ", b"[1] 1 got hello", b"[2] 2 got "])

    def test_nobody_has_it(self):
        self.assertEqual(self.run_with(b"hello\n", "--stdin", "none"), [b"[0] 0 got ", b"[1] 1 got ", b"[2] 2 got "])

    def test_closed_standard_descriptors(self):
        done = subprocess.run(["sh", "-c", f"exec {DTRAIN} run --quiet --nproc 2 sh -c 'cat; exit 5' <&- >&- 2>&-"],
                              timeout=DEADLINE)
        self.assertEqual(done.returncode, 5)


class JobControl(ProcessTest):
    def setUp(self):
        self.shell = Terminal("bash", "--norc", "--noprofile", "--noediting", "-i")
        self.shell.expect(rb"\$ ")
        self.tag = "h" + secrets.token_hex(6)
        self.shell.type(f"export HOSTILE_TAG={self.tag}; echo set\n".encode())
        self.shell.expect(rb"\nset\r\n")

    def tearDown(self):
        self.shell.close()
        until(lambda: not tagged(self.tag), DEADLINE, "the end of the workers when the terminal closes")

    def start(self, worker=f"{HOSTILE} daemon"):
        self.shell.type(f"{DTRAIN} run --quiet --color never --shutdown-timeout 1 --nproc 2 {worker}\n".encode())
        self.shell.expect(rb"ready\r\n[^$]*ready\r\n")

    def states(self):
        return {stat_of(pid)[0] for pid in tagged(self.tag)}

    def test_ctrl_z_stops_everything_and_fg_continues_it(self):
        self.start()
        self.assertEqual(len(tagged(self.tag)), 4)
        self.shell.type(b"\x1a")
        self.shell.expect(rb"Stopped")
        until(lambda: self.states() == {"T"}, DEADLINE, "the stop of every worker")
        self.shell.type(b"fg\n")
        until(lambda: self.states() == {"S"}, DEADLINE, "every worker going on")
        self.shell.type(b"\x1a")
        self.shell.expect(rb"Stopped")
        until(lambda: self.states() == {"T"}, DEADLINE, "the second stop")
        self.shell.type(b"bg\n")
        self.shell.expect(rb"daemon &\r\n")
        until(lambda: self.states() == {"S"}, DEADLINE, "every worker going on in the background")
        self.shell.type(b"fg\n")
        self.shell.expect(rb"dtrain run[^\r]*daemon\r\n")
        # The shell says so before the job has the terminal, and ^C goes to whoever has it.
        until(lambda: os.tcgetpgrp(self.shell.fd) != self.shell.pid, DEADLINE, "dtrain in the foreground")
        self.shell.type(b"\x03")
        self.shell.expect(rb"send it again")
        # tidy: allow sleep, because fingers are not faster
        time.sleep(0.3)
        self.shell.type(b"\x03")
        self.shell.expect(rb"\$ ")
        self.shell.type(b"echo code=$?\n")
        self.assertEqual(self.shell.expect(rb"\ncode=(\d+)").group(1), b"130")
        self.assertEqual(tagged(self.tag), [])

    def test_stopped_job_can_be_killed(self):
        self.start()
        self.shell.type(b"\x1a")
        self.shell.expect(rb"Stopped")
        self.shell.type(b"kill -9 %1; wait %1; echo over\n")
        self.shell.expect(rb"\nover\r\n")
        until(lambda: not tagged(self.tag), WITHIN, "the end of the workers")

    def test_closing_the_terminal_ends_the_job(self):
        self.start()
        self.assertEqual(len(tagged(self.tag)), 4)
        # tearDown closes the terminal: SIGHUP to the shell, which hands it to its jobs.

    def test_colour_on_a_terminal_only(self):
        self.shell.type(f"{DTRAIN} run --quiet --nproc 2 echo shown\n".encode())
        self.shell.expect(rb"\x1b\[[0-9;]*m\[[01]\] ?\x1b\[[0-9;]*m ?shown")
        self.shell.type(f"{DTRAIN} run --quiet --nproc 2 echo piped | cat -v\n".encode())
        self.shell.expect(rb"[\n ]\[[01]\] piped\r\n\[[01]\] piped\r\n")
        self.shell.type(f"NO_COLOR=1 {DTRAIN} run --quiet echo plain\n".encode())
        self.shell.expect(rb"[\n ]\[0\] plain\r\n")


class Container(ProcessTest):
    """dtrain as PID 1: nobody above it, every orphan comes to it."""

    NEW = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]

    @needs_root
    def test_exit_code_and_orphans(self):
        script = "(sleep 0.05; exit 7) & (setsid sh -c 'exit 9' &) ; sleep 0.2; ps -eo stat,comm > $OUT; exit 41"
        with tempfile.TemporaryDirectory() as folder:
            listing = os.path.join(folder, "ps")
            with Job("sh", "-c", script, prefix=self.NEW, env={"OUT": listing}) as job:
                self.assertEqual(job.wait(), 41)
            with open(listing) as f:
                text = f.read()
        self.assertIn("dt-guard", text)
        self.assertNotRegex(text, r"(?m)^Z")

    @needs_root
    def test_term_to_pid_1(self):
        for level in levels():
            with self.subTest(level=level), Job("--nproc", 2, "--contain", level, HOSTILE, "plain",
                                                prefix=self.NEW) as job:
                job.expect(rb"ready\n", 2)
                init = children_of(job.front)[0]
                os.kill(init, signal.SIGTERM)
                self.assertEqual(job.wait(), 143)
                self.assert_gone(job)

    @needs_root
    def test_ctrl_z_cannot_stop_pid_1_and_so_does_not_stop_the_workers(self):
        with Job("--nproc", 2, HOSTILE, "plain", prefix=self.NEW) as job:
            job.expect(rb"ready\n", 2)
            init = children_of(job.front)[0]
            os.kill(init, signal.SIGTSTP)
            # TERM is read after TSTP, and stopped workers are continued for it: so look at how they are in between.
            # tidy: allow sleep, because nothing is to happen, and nothing tells that
            time.sleep(0.3)
            self.assertEqual({stat_of(pid)[0] for pid in tagged(job.tag)}, {"S"})
            os.kill(init, signal.SIGTERM)
            self.assertEqual(job.wait(), 143)


if __name__ == "__main__":
    unittest.main()
