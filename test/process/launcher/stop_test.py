"""A stop is one request: whoever sends it and however often it arrives, each process gets one signal, and its time."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

from support import *
from terminal import Terminal

# A program that counts the signals that it gets, and tells how many had come when it had saved. It saves when the test
# opens a FIFO: what the test does in between cannot come too late.
SAVER = """
    import os, signal, sys
    got = []
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(s, lambda s, f: (got.append(s), os.write(woken[1], b".")))
    woken = os.pipe()
    def tell(*words):
        os.write(told, (" ".join(map(str, words)) + chr(10)).encode())
    told = os.open(os.environ["TOLD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    tell("up", os.getpid())
    os.read(woken[0], 1)
    tell("asked", os.getpid())
    with open(os.environ["GO"]) as go:
        go.read()
    tell("saved", len(got), *[signal.Signals(s).name for s in got])
"""


class Stop(ProcessTest):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="dtrain-stop-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.go = self.path("go")
        os.mkfifo(self.go)
        self.fail_now = self.path("fail")
        os.mkfifo(self.fail_now)
        self.saver = self.script("saver.py", SAVER)

    def path(self, name):
        return os.path.join(self.folder, name)

    def script(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(textwrap.dedent(text))
        os.chmod(f.name, 0o755)
        return f.name

    def environment(self):
        return {"TOLD": self.path("told"), "GO": self.go, "FAIL": self.fail_now, "PYTHON": sys.executable,
                "SAVER": self.saver, "DTRAIN": DTRAIN}

    def job(self, *args, **kwargs):
        return Job(*args, env=self.environment(), **kwargs)

    def told(self, what):
        """The lines that savers have written and that begin so."""
        try:
            return [line for line in contents(self.path("told")).decode().splitlines() if line.startswith(what)]
        except FileNotFoundError:
            return []

    def await_told(self, what, count=1):
        until(lambda: len(self.told(what)) >= count, DEADLINE, f"{count} × {what!r}")

    @staticmethod
    def let_go(fifo):
        """Whoever waits to read it goes on."""
        try:
            os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            pass  # nobody does, yet

    def signals(self, ask, count=1, settle=0.0):
        """Ask a job whose savers are up to end; once they have been asked they save. What they then had got."""
        self.await_told("up", count)
        ask()
        self.await_told("asked", count)
        # tidy: allow sleep, because a signal too many would come of itself, and nothing tells that none does
        time.sleep(0.5 + settle)
        until(lambda: self.let_go(self.go) or len(self.told("saved")) >= count, DEADLINE, "the end of saving")
        return [line.split()[1:] for line in self.told("saved")]

    TERM_ONCE = ["1", "SIGTERM"]
    FAILING = 'if [ $RANK = 0 ]; then read x < "$FAIL"; exit 3; fi; '

    def let_rank_0_fail(self):
        with open(self.fail_now, "w"):
            pass

    def check_worker(self, *worker, count=1, number=signal.SIGTERM, expected=None, **popen):
        with self.job("--nproc", 1, *worker, **popen) as job:
            got = self.signals(lambda: job.signal(number), count)
            self.assertEqual(got, [expected or ["1", signal.Signals(number).name]] * count, job.stderr())
            self.assertEqual(job.wait(), 128 + number)
            self.assertNotIn("again:", job.stderr())
            self.assertNotIn("did not end in time", job.stderr())
            self.assert_gone(job)
            return job.stderr()


class Wrappers(Stop):
    """Workers that are wrappers, and die of the signal before the program below them has saved."""

    def test_none(self):
        self.check_worker(self.saver)

    def test_sh_and_bash_without_exec(self):
        for shell in ("sh", "bash"):
            with self.subTest(shell=shell):
                self.setUp()
                self.check_worker(shell, "-c", '"$PYTHON" "$SAVER"; echo end')

    def test_at_every_level_of_containment(self):
        for level in levels():
            with self.subTest(level=level):
                self.setUp()
                self.check_worker("--contain", level, "sh", "-c",
                                  'setsid sleep 1000 & "$PYTHON" "$SAVER"; echo end')

    def test_interrupted(self):
        self.check_worker("sh", "-c", '"$PYTHON" "$SAVER"; echo end', number=signal.SIGINT)

    def test_a_group_of_its_own_below_a_shell(self):
        """The shell waits for it, so it is told with the shell. timeout hands on what it gets: twice is right too."""
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
            for shell in ("sh", "bash"):
                with self.subTest(shell=shell, number=number):
                    self.setUp()
                    command = 'timeout --preserve-status 1000 "$PYTHON" "$SAVER"; echo end'
                    with self.job("--nproc", 1, "--shutdown-timeout", 60, shell, "-c", command) as job:
                        got = self.signals(lambda: job.signal(number))
                        self.assertEqual({*got[0][1:]}, {signal.Signals(number).name}, job.stderr())
                        self.assertNotEqual(job.wait(), 0)
                        self.assertNotIn("did not end in time", job.stderr())
                        self.assert_gone(job)

    def test_job_control(self):
        self.check_worker("bash", "-c", 'set -m; "$PYTHON" "$SAVER" | cat; echo end', number=signal.SIGINT)

    def test_python(self):
        driver = self.script("driver.py", """
            import os, subprocess, sys
            sys.exit(subprocess.run([os.environ["PYTHON"], os.environ["SAVER"]]).returncode)
        """)
        self.check_worker(driver)

    def test_make(self):
        with open(self.path("Makefile"), "w") as f:
            f.write("all:\n\t@\"$$PYTHON\" \"$$SAVER\"; echo end\n")
        # make hands SIGTERM on to its children, which have had it from us; nothing is lost by that.
        with self.job("--nproc", 1, "make", "-C", self.folder) as job:
            self.signals(lambda: job.signal(signal.SIGTERM))
            self.assertEqual(job.wait(), 143)
            self.assert_gone(job)

    def test_pipeline(self):
        self.check_worker("sh", "-c", '"$PYTHON" "$SAVER" | cat; echo end')

    def test_double_fork_in_the_group(self):
        self.check_worker("sh", "-c", '("$PYTHON" "$SAVER" &) ; sleep 1000')

    def test_when_a_peer_fails(self):
        worker = self.FAILING + '"$PYTHON" "$SAVER"; echo end'
        with self.job("--nproc", 2, "--failure-grace", 60, "sh", "-c", worker) as job:
            self.assertEqual(self.signals(self.let_rank_0_fail), [self.TERM_ONCE], job.stderr())
            self.assertEqual(job.wait(), 3)
            self.assert_gone(job)

    def test_the_time_is_what_was_announced(self):
        """Not the failure grace, which is over long before."""
        with self.job("--nproc", 1, "--failure-grace", 0.1, "--shutdown-timeout", 60, "sh", "-c",
                      '"$PYTHON" "$SAVER"; echo end') as job:
            self.assertEqual(self.signals(lambda: job.signal(signal.SIGTERM)), [self.TERM_ONCE], job.stderr())
            self.assertEqual(job.wait(), 143)


class Rest(Stop):
    """What workers have started outside of their process groups."""

    WRITER = """
        import os, signal, subprocess, sys
        got = []
        woken = os.pipe()
        signal.signal(signal.SIGTERM, lambda s, f: (got.append(s), os.write(woken[1], b".")))
        writer = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        told = os.open(os.environ["TOLD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.write(told, b"up\\n")
        os.read(woken[0], 1)
        os.write(told, b"asked\\n")
        with open(os.environ["GO"]) as go:
            go.read()
        alive = writer.poll() is None and writer.communicate(b"x")[0] == b"x"
        os.write(told, b"saved %d %s\\n" % (len(got), b"whole" if alive else b"LOST"))
    """

    def test_a_helper_that_the_worker_needs_to_save_is_there(self):
        with self.job("--nproc", 2, self.script("writer.py", self.WRITER)) as job:
            got = self.signals(lambda: job.signal(signal.SIGTERM), 2)
            self.assertEqual(got, [["1", "whole"]] * 2, job.stderr())
            self.assertEqual(job.wait(), 143)
            self.assert_gone(job)

    def test_when_a_peer_fails(self):
        with self.job("--nproc", 2, "--failure-grace", 60, "sh", "-c",
                      self.FAILING + 'exec "$PYTHON" ' + self.script("writer.py", self.WRITER)) as job:
            self.assertEqual(self.signals(self.let_rank_0_fail), [["1", "whole"]], job.stderr())
            self.assertEqual(job.wait(), 3)
            self.assert_gone(job)

    def test_it_is_asked_once_when_the_workers_are_gone(self):
        """And has the time that is left, which is more than the failure grace."""
        with self.job("--nproc", 2, "--failure-grace", 0.1, "--shutdown-timeout", 60, "sh", "-c",
                      'if [ $RANK = 0 ]; then setsid "$PYTHON" "$SAVER" & fi; sleep 1000') as job:
            self.assertEqual(self.signals(lambda: job.signal(signal.SIGTERM)), [self.TERM_ONCE], job.stderr())
            self.assertEqual(job.wait(), 143)
            self.assertRegex(job.stderr(), r"rank 0 left 1 process behind \(python3?[.\d]* pid \d+\): ending it\n")
            self.assert_gone(job)

    def test_a_daemon(self):
        """It forks twice, and is in a session of its own."""
        with self.job("--nproc", 1, "sh", "-c", '(setsid "$PYTHON" "$SAVER" & ) ; sleep 1000') as job:
            self.assertEqual(self.signals(lambda: job.signal(signal.SIGTERM)), [self.TERM_ONCE], job.stderr())
            self.assertEqual(job.wait(), 143)
            self.assert_gone(job)

    def test_who_leaves_the_group_after_the_signal_gets_no_second_one(self):
        leaver = self.script("leaver.py", "import os\nif os.fork(): os.wait()\n" + textwrap.dedent(SAVER).replace(
            'tell("asked", os.getpid())', 'os.setsid(); tell("asked", os.getpid())'))
        self.check_worker("sh", "-c", f'"$PYTHON" {leaver}; echo end')

    def test_suspended_helpers_act_on_it(self):
        with self.job("--nproc", 1, "sh", "-c", 'setsid "$PYTHON" "$SAVER" & sleep 1000') as job:
            self.await_told("up")
            helper = int(self.told("up")[0].split()[1])
            job.stop(helper)
            self.assertEqual(self.signals(lambda: job.signal(signal.SIGTERM)), [self.TERM_ONCE], job.stderr())
            self.assertEqual(job.wait(), 143)

    def test_left_behind_by_a_job_that_ended_well(self):
        for start in ("setsid sleep 1000 &", "sleep 1000 &"):
            with self.subTest(start=start):
                job = self.assert_run(0, "--nproc", 2, "sh", "-c", f'if [ $RANK = 1 ]; then {start} fi; exit 0')
                self.assertRegex(job.said, r"rank 1 left 1 process behind \(sleep pid \d+\): ending it\n")

    def test_nothing_is_said_of_what_ends_by_itself(self):
        """A helper that sees its worker's end ends too, a moment later."""
        job = self.assert_run(0, "--nproc", 1, "sh", "-c", 'mkfifo "$TMPDIR/p"; setsid cat < "$TMPDIR/p" & '
                              'exec 3> "$TMPDIR/p"; rm "$TMPDIR/p"; exit 0')
        self.assertNotIn("left", job.said)

    def test_too_late(self):
        with self.job("--nproc", 2, "--shutdown-timeout", 1, "sh", "-c",
                      "if [ $RANK = 0 ]; then trap '' TERM; setsid sleep 1000 & setsid sleep 1000 & trap - TERM; fi; "
                      "echo ready; sleep 1000") as job:
            job.ready(2).signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)
            self.assertRegex(job.stderr(), r"2 processes that workers had started \(sleep pid \d+, sleep pid \d+\) did "
                                           r"not end in time: killing them\n")
            self.assert_gone(job)


class Nested(Stop):
    """A launcher inside a worker."""

    INNER = '"$DTRAIN" run --nproc 2 "$SAVER"'

    def check(self, *worker):
        said = self.check_worker(*worker, count=2)
        self.assertEqual(said.count("SIGTERM: passing it to the workers"), 2, said)

    def test_dtrain(self):
        self.check("sh", "-c", "exec " + self.INNER)

    def test_below_a_shell(self):
        self.check("sh", "-c", self.INNER + "; echo end")

    def test_below_python(self):
        self.check(self.script("driver.py", """
            import os, subprocess, sys
            sys.exit(subprocess.run([os.environ["DTRAIN"], "run", "--nproc", "2", os.environ["SAVER"]]).returncode)
        """))

    def test_below_timeout(self):
        """Which has a process group of its own, and tells it too."""
        self.check("sh", "-c", "timeout 1000 " + self.INNER + "; echo end")

    def test_in_a_session_of_its_own(self):
        self.check("sh", "-c", "setsid " + self.INNER + " & wait")

    def test_two_levels(self):
        said = self.check_worker("sh", "-c", '"$DTRAIN" run --nproc 1 sh -c \'' + self.INNER + "; echo end'; echo end",
                                 count=2)
        self.assertEqual(said.count("SIGTERM: passing it to the workers"), 3, said)

    def test_an_outer_launcher_that_does_not_wait_leaves_nothing(self):
        with self.job("--nproc", 1, "--shutdown-timeout", 1, "sh", "-c", self.INNER + "; echo end") as job:
            self.await_told("up", 2)
            job.folders_may_stay = True  # of the inner one, which is killed as a whole
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)
            self.assert_gone(job)
            self.assertEqual(self.told("saved"), [])


class Senders(Stop):
    """The same request, from several sides."""

    def check_sender(self, ask, number, prefix=(), trials=1, worker=None, **popen):
        for trial in range(trials):
            with self.subTest(trial=trial):
                self.setUp()
                with self.job("--nproc", 2, "--quiet", worker or self.saver, prefix=prefix, **popen) as job:
                    got = self.signals(lambda: ask(job), 2)
                    self.assertEqual(got, [["1", signal.Signals(number).name]] * 2, job.stderr())
                    job.wait()
                    self.assertNotIn("again:", job.stderr())
                    self.assert_gone(job)

    def test_timeout(self):
        """It signals its child and then its group, itself too."""
        self.check_sender(lambda job: job.signal(signal.SIGTERM), signal.SIGTERM, ("timeout", "1000"), trials=10)

    def test_timeout_over_a_shell(self):
        self.check_sender(lambda job: job.signal(signal.SIGTERM), signal.SIGTERM,
                          ("timeout", "1000", "sh", "-c", '"$@"; exit', "sh"), trials=3)

    def test_a_wrapper_that_hands_it_on(self):
        """`trap 'kill $pid' TERM` in a group that gets the signal as a whole."""
        wrapper = ("sh", "-c", 'trap \'kill -TERM $pid\' TERM; "$@" & pid=$!; '
                   'while [ -d /proc/$pid ]; do wait $pid; done', "sh")
        self.check_sender(lambda job: os.killpg(job.front, signal.SIGTERM), signal.SIGTERM, wrapper, trials=3)

    def test_a_parent_that_hands_it_on_and_dies_later(self):
        """The kernel then sends the signal that the child has asked for with PR_SET_PDEATHSIG."""
        parent = self.script("parent.py", """
            import ctypes, os, signal, sys
            child = os.fork()
            if child == 0:
                ctypes.CDLL(None).prctl(1, signal.SIGTERM)
                os.execvp(sys.argv[1], sys.argv[1:])
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            signal.sigwait([signal.SIGTERM])
            os.kill(child, signal.SIGTERM)
            with open(os.environ["GO"] + ".parent") as go:
                go.read()
        """)
        os.mkfifo(self.go + ".parent")
        with self.job("--nproc", 1, self.saver, prefix=(sys.executable, parent)) as job:
            def ask():
                job.signal(signal.SIGTERM)
                self.await_told("asked")
                # tidy: allow sleep, because it has to die when a signal of its own would count
                time.sleep(1.2)
                until(lambda: self.let_go(self.go + ".parent") or job.process.poll() is not None, DEADLINE)
            self.assertEqual(self.signals(ask), [self.TERM_ONCE], job.stderr())
            self.assert_gone(job)

    def test_pkill(self):
        """By name: front and agent."""
        def ask(job):
            job.find_processes().signal(signal.SIGTERM, job.front, job.agent)
        self.check_sender(ask, signal.SIGTERM, trials=3)

    def test_a_pipeline_that_is_interrupted(self):
        """`dtrain run ... | tee log`: the reader is gone at once."""
        reader, writer = os.pipe()
        with self.job("--nproc", 1, self.saver, stdout=writer) as job:
            os.close(writer)
            def ask():
                os.close(reader)
                os.killpg(job.front, signal.SIGINT)
            self.assertEqual(self.signals(ask), [["1", "SIGINT"]], job.stderr())
            self.assertEqual(job.process.wait(DEADLINE), -signal.SIGINT)

    def test_systemd_ends_a_session(self):
        """SIGTERM and SIGHUP, one after the other; which of them comes first is the kernel's choice."""
        with self.job("--nproc", 1, self.saver) as job:
            def ask():
                job.signal(signal.SIGTERM)
                job.signal(signal.SIGHUP)
            (got,) = self.signals(ask)
            self.assertEqual(got[0], "1", job.stderr())
            job.wait()
            self.assertNotIn("again:", job.stderr())


class Again(Stop):
    """A second request is a person's, or a scheduler's."""

    def test_by_two_commands(self):
        with self.job("--nproc", 1, "--shutdown-timeout", 1000, "sh", "-c",
                      "trap '' TERM; echo ready; while :; do sleep 1000; done") as job:
            job.ready(1)
            subprocess.run(["kill", "-TERM", str(job.front)], check=True)
            until(lambda: "send it again" in job.stderr(), DEADLINE, "the answer to the first signal")
            until_it_counts()
            subprocess.run(["kill", "-TERM", str(job.front)], check=True)
            self.assertEqual(job.wait(), 143)
            self.assertIn("SIGTERM again: killing the workers now", job.stderr())
            self.assert_gone(job)


    def test_the_first_of_the_agent_alone(self):
        with self.job("--nproc", 1, "--shutdown-timeout", 1000, "sh", "-c",
                      "trap '' TERM; echo ready; while :; do sleep 1000; done") as job:
            job.ready(1).signal(signal.SIGTERM, job.agent)
            until(lambda: "send it again" in job.stderr(), DEADLINE, "the answer to the first signal")
            until_it_counts()
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)
            self.assert_gone(job)


class OnATerminal(Stop):
    def setUp(self):
        super().setUp()
        variables = [f"{name}={value}" for name, value in self.environment().items()]
        self.shell = Terminal("env", *variables, "bash", "--norc", "--noprofile", "--noediting", "-i")
        self.shell.expect(rb"\$ ")
        self.open = True
        self.addCleanup(lambda: self.open and self.shell.close())

    def start(self):
        self.shell.type(f"{DTRAIN} run --color never --shutdown-timeout 1000 \"$SAVER\"\n".encode())
        self.await_told("up")

    def hang_up(self):
        self.open = False
        self.shell.close()

    def test_a_terminal_that_closes(self):
        """The shell hands SIGHUP on, and the kernel sends it once more when the shell is gone."""
        for trial in range(5):
            with self.subTest(trial=trial):
                if not self.open:
                    self.setUp()
                self.start()
                self.assertEqual(self.signals(self.hang_up), [["1", "SIGHUP"]])

    def test_ctrl_c_twice(self):
        self.start()
        self.shell.type(b"\x03")
        self.shell.expect(rb"send it again")
        # tidy: allow sleep, because fingers are not faster
        time.sleep(0.3)
        self.shell.type(b"\x03")
        self.shell.expect(rb"SIGINT again: killing the workers now")
        self.shell.expect(rb"\$ ")
        self.assertEqual(self.told("saved"), [])

    def test_ctrl_c_once(self):
        self.start()
        self.assertEqual(self.signals(lambda: self.shell.type(b"\x03")), [["1", "SIGINT"]])
        self.shell.expect(rb"\$ ")

    def test_ctrl_c_then_the_terminal_closes(self):
        self.start()
        self.shell.type(b"\x03")
        self.shell.expect(rb"send it again")
        self.assertEqual(self.signals(self.hang_up, settle=0.7), [["1", "SIGINT"]])


if __name__ == "__main__":
    unittest.main()
