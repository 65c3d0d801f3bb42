"""--attach: one worker has the terminal. Everything here happens on a real pseudoterminal, in a session of its own,
with a shell between it and dtrain as for a user."""
import contextlib
import errno
import fcntl
import os
import pty
import re
import secrets
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import unittest

from support import *

PROMPT = b"SHELL> "
ARROWS = b"(Pdb) "

# Rank 0 reads a line, and fails in round 0. It leaves a file when it is continued. Rank 1 does not end by itself.
READER = """
import os, signal
if os.environ["RANK"] == "1":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while os.environ["DTRAIN_ROUND"] == "0":
        signal.pause()
    os._exit(0)
signal.signal(signal.SIGCONT, lambda *_: open(os.path.join(os.environ["TMPDIR"], "continued"), "w").close())
os.write(1, b"round " + os.environ["DTRAIN_ROUND"].encode() + b"\\n")
os.write(1, b"read " + os.read(0, 99))
os._exit(3 if os.environ["DTRAIN_ROUND"] == "0" else 0)
"""

STEPS = """
import os
x = 41
if os.environ["RANK"] == "0":
    breakpoint()
y = x + 1
print("y is", y)
"""

# Puts the terminal into a state that nobody wants to be left with, says so, and obeys.
RAW = """
import os, signal, sys, tty
if "STUBBORN" in os.environ:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
if os.environ["RANK"] == "1":
    sys.stdin.read()
    while True:
        signal.pause()
tty.setraw(0)
os.write(1, b"raw in round " + os.environ["DTRAIN_ROUND"].encode() + b"\\n")
word = os.read(0, 1)
os._exit(3 if word == b"3" else 0)
"""


def state_of(pid):
    return (stat_of(pid) or "-")[0]


def ignores(pid, number):
    ignored = re.search(rb"(?m)^SigIgn:\s*(\w+)", proc_file(pid, "status"))
    return ignored and int(ignored.group(1), 16) >> (number - 1) & 1


class Terminal:
    """A pseudoterminal with a shell as its session's leader. `script`: a shell that runs it and then stays; without
    one an interactive shell, which has job control."""

    def __init__(self, script=None, files=()):
        self.folder = tempfile.mkdtemp(prefix="dtrain-test-")
        self.id = "t" + secrets.token_hex(6)
        self.seen = b""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("DTRAIN_", "PET_", "TORCHELASTIC_"))}
        environment.update({"PS1": PROMPT.decode(), "TMPDIR": self.folder, "TERM": "dumb", "DTRAIN_RDZV_ID": self.id,
                            "PATH": os.path.dirname(DTRAIN) + ":" + os.environ["PATH"]})
        for name, text in files:
            self.write(name, text)
        self.shell, self.fd = pty.fork()
        if self.shell == 0:
            words = ["bash", "--norc", "--noprofile", "-i"]
            if script:
                words = ["sh", "-c", script + "; echo code $?; exec sleep 1000"]
            os.execvpe(words[0], words, environment)
        self.first_modes = termios.tcgetattr(self.fd)
        if script is None:
            self.expect(PROMPT)
            self.first_modes = None  # the shell's line editing has its own

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in [*self.processes(), self.shell]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.waitpid(self.shell, 0)
        os.close(self.fd)
        shutil.rmtree(self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def type(self, text):
        os.write(self.fd, text)
        return self

    def expect(self, what):
        """Read until `what` was shown; returns everything shown since the last call, up to it."""
        end = time.monotonic() + DEADLINE
        while what not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            try:
                if not ready:
                    raise AssertionError(f"{what!r} was not shown in {DEADLINE:g} s, but {self.seen!r}")
                self.seen += os.read(self.fd, 65536)
            except OSError as e:
                if e.errno != errno.EIO:
                    raise
                raise AssertionError(f"the terminal was closed before {what!r}: {self.seen!r}") from None
        before, _, self.seen = self.seen.partition(what)
        return before

    def processes(self):
        """Living processes of the job: front, agent and guard by their variable, workers by theirs."""
        found = []
        for pid in pids():
            names = proc_file(pid, "environ").split(b"\0")
            stat = stat_of(pid)
            if f"DTRAIN_RDZV_ID={self.id}".encode() in names and pid != self.shell and stat and stat[0] not in "ZX":
                found.append(pid)
        return found

    def named(self, name):
        return until(lambda: [pid for pid in self.processes() if comm_of(pid) == name], DEADLINE, name)[0]

    def foreground(self):
        return os.tcgetpgrp(self.fd)

    def is_clean(self):
        """Nothing is left of the job, and the terminal is the shell's and as it was."""
        until(lambda: not self.processes(), DEADLINE, "the end of all processes")
        until(lambda: self.foreground() == self.shell, DEADLINE, "the shell in the foreground")
        if self.first_modes is not None:
            until(lambda: termios.tcgetattr(self.fd) == self.first_modes, DEADLINE, "the terminal's first modes")


class Debugger(ProcessTest):
    def test_pdb(self):
        with Terminal() as t:
            t.type(f"dtrain run --nproc 2 --attach 0 {t.write('steps.py', STEPS)}; echo code $?\n".encode())
            t.expect(b"rank 0 has the terminal")
            t.expect(b"breakpoint()" if os.sys.version_info >= (3, 13) else b"y = x + 1")
            t.expect(ARROWS)
            t.type(b"p x * 1000\n").expect(b"41000")
            t.expect(ARROWS)
            until(lambda: stat_of(t.foreground())[0] == "S", DEADLINE, "pdb waiting for its user")
            t.type(b"\x03").expect(ARROWS)  # Ctrl-C is pdb's, and ends nothing
            t.type(b"n\n").expect(ARROWS)
            t.type(b"c\n").expect(b"y is 42")
            t.expect(b"code 0")
            t.expect(PROMPT)
            t.is_clean()
            logs = subprocess.run(["grep", "-rh", "y is", t.folder, "--include=stdout.log"], capture_output=True)
            self.assertEqual(logs.stdout, b"y is 42\n")  # rank 1's

    def test_suspended_and_continued(self):
        with Terminal() as t:
            t.type(f"dtrain run --nproc 2 --attach 0 {t.write('steps.py', STEPS)}; echo code $?\n".encode())
            t.expect(ARROWS)
            t.type(b"\x1a").expect(b"Stopped")
            t.expect(PROMPT)
            until(lambda: all(stat_of(pid)[0] == "T" for pid in self.workers(t)), DEADLINE, "stopped workers")
            t.type(b"fg\n").expect(b"dtrain run")
            until(lambda: t.foreground() in self.workers(t), DEADLINE, "the worker in the foreground")
            t.type(b"p x * 1000\n").expect(b"41000")
            t.expect(ARROWS)
            t.type(b"\x1a").expect(b"Stopped")
            t.expect(PROMPT)
            front = t.named("dtrain")
            t.type(b"bg\n").expect(PROMPT)
            until(lambda: stat_of(front)[0] == "T", DEADLINE, "dtrain stopped again, as a debugger in the background")
            t.type(b"fg\n").expect(b"dtrain run")
            until(lambda: t.foreground() in self.workers(t), DEADLINE, "the worker in the foreground")
            t.type(b"p x * 2000\n").expect(b"82000")
            t.expect(ARROWS)
            t.type(b"c\n").expect(b"y is 42")
            t.expect(PROMPT)
            t.is_clean()

    def test_suspended_and_killed(self):
        for before in (b"", b"bg\n"):
            with self.subTest(before=before), Terminal() as t:
                t.type(b"set -b\n").expect(PROMPT)  # says at once what has ended
                t.type(f"dtrain run --nproc 2 --attach 0 {t.write('steps.py', STEPS)}\n".encode()).expect(ARROWS)
                front = t.named("dtrain")
                t.type(b"\x1a").expect(b"Stopped")
                t.expect(PROMPT)
                if before:
                    t.type(before).expect(PROMPT)
                    until(lambda: stat_of(front)[0] == "T", DEADLINE, "dtrain stopped again")
                t.type(b"kill %1\n").expect(b"SIGTERM: passing it to the workers")
                until(lambda: not t.processes(), DEADLINE, "the end of all processes")
                t.expect(b"Exit 143")
                t.is_clean()

    def test_killed_while_it_is_put_into_the_background(self):
        """The shell's SIGCONT of `bg` and its SIGTERM come while the front hands terminal and workers over."""
        with Terminal() as t:
            for i in range(30):
                t.type(f"dtrain run --attach 0 {t.write('steps.py', STEPS)}\n".encode()).expect(ARROWS)
                t.type(b"\x1a").expect(b"Stopped")
                t.expect(PROMPT)
                # One line, so that nothing but the shell's own work lies between the two.
                t.type(b"bg %1; kill %1; wait %1; echo co''de $?\n" if i % 2 else
                       b"kill %1; bg %1 2>&-; wait %1; echo co''de $?\n")
                t.expect(b"co''de")
                with self.subTest(repetition=i):
                    t.expect(b"code 143")
                    t.expect(PROMPT)
                    t.is_clean()

    def test_killed_in_the_moment_in_which_it_stops(self):
        """Ctrl-Z stops the worker; the news of it and a request to end, as of `kill %1`, are under way together."""
        for i in range(30):
            with self.subTest(repetition=i), Terminal() as t:
                t.type(f"dtrain run --attach 0 {t.write('steps.py', STEPS)}\n".encode()).expect(ARROWS)
                front = t.named("dtrain")
                t.type(b"\x1a")
                for number in (signal.SIGTERM, signal.SIGCONT):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(front, number)
                until(lambda: not t.processes(), DEADLINE, "the end of all processes")
                t.expect(PROMPT)
                t.is_clean()

    def test_suspended_between_two_rounds(self):
        with Terminal() as t:
            t.type(b"set -b\n").expect(PROMPT)  # says at once what has stopped
            script = t.write("reader.py", READER)
            t.type(f"dtrain run --nproc 2 --attach 0 --max-restarts 1 --failure-grace 60 {script}\n".encode())
            t.expect(b"round 0")
            front, first = t.named("dtrain"), t.foreground()
            other = until(lambda: [pid for pid in self.workers(t) if pid != first], DEADLINE, "rank 1")[0]
            until(lambda: ignores(other, signal.SIGTERM), DEADLINE, "a rank 1 that does not listen")
            t.type(b"one\n").expect(b"read one")
            until(lambda: t.foreground() == os.getpgid(front), DEADLINE, "dtrain in the foreground")
            t.type(b"\x1a").expect(b"Stopped")
            t.expect(PROMPT)
            t.type(b"bg\n").expect(PROMPT)
            t.expect(b"Stopped")  # again
            os.kill(other, signal.SIGKILL)  # round 1 begins in the background
            until(lambda: "T" in map(state_of, set(self.workers(t)) - {other}), DEADLINE, "a worker that may not read")
            t.type(b"fg\n").expect(b"dtrain run")
            until(lambda: t.foreground() in self.workers(t), DEADLINE, "the worker in the foreground")
            t.type(b"two\n").expect(b"read two")
            t.expect(PROMPT)
            t.is_clean()

    def test_a_worker_that_wanted_to_read_while_suspended(self):
        with Terminal() as t:
            t.type(f"dtrain run --attach 0 {t.write('reader.py', READER)}; echo code $?\n".encode())
            t.expect(b"round 0")
            worker = t.foreground()
            t.type(b"\x1a").expect(b"Stopped")
            t.expect(PROMPT)
            # Again, as the guard's SIGSTOP may come between.
            until(lambda: os.kill(worker, signal.SIGCONT) or os.path.exists(f"{t.folder}/continued"), DEADLINE,
                  "a worker that was continued")
            until(lambda: state_of(worker) == "T", DEADLINE, "a worker that may not read")
            t.type(b"fg\n").expect(b"dtrain run")
            until(lambda: t.foreground() == worker, DEADLINE, "the worker in the foreground")
            t.type(b"one\n").expect(b"read one")
            t.expect(PROMPT)
            t.is_clean()

    @staticmethod
    def workers(t):
        guard = t.named("dt-guard")
        return children_of(guard)

    def test_gdb(self):
        if not shutil.which("gdb") or subprocess.run(["gdb", "-batch", "-ex", "run", "true"], capture_output=True,
                                                     stdin=subprocess.DEVNULL).stdout.find(b"exited normally") < 0:
            self.skipTest("needs gdb and the right to trace")
        with Terminal() as t:
            t.type(b"dtrain run --attach 0 --no-python gdb -q -nx --args sleep 1000\n")
            t.expect(b"(gdb) ")
            t.type(b"set startup-with-shell off\n").expect(b"(gdb) ")
            t.type(b"run\n")
            until(lambda: [pid for pid in t.processes() if comm_of(pid) == "sleep" and pid == t.foreground()], DEADLINE,
                  "gdb's program in the foreground")
            t.type(b"\x03").expect(b"SIGINT")  # stops the program, and neither gdb nor dtrain
            t.expect(b"(gdb) ")
            t.type(b"print 6*7\n").expect(b"$1 = 42")
            t.type(b"kill\n").expect(b"y or n")
            t.type(b"y\n").expect(b"(gdb) ")
            t.type(b"quit\n").expect(PROMPT)
            t.is_clean()

    def test_lldb(self):
        if not shutil.which("lldb") or subprocess.run(["lldb", "-b", "-x", "-o", "run", "--", "/bin/true"],
                                                      capture_output=True, stdin=subprocess.DEVNULL,
                                                      timeout=DEADLINE).stdout.find(b"exited with status = 0") < 0:
            self.skipTest("needs lldb and the right to trace")
        with Terminal() as t:
            t.type(b"dtrain run --attach 0 --no-python lldb -x -- sleep 1000\n")
            t.expect(b"(lldb) ")
            t.expect(b"Current executable set to")
            t.type(b"process launch\n").expect(b"launched:")
            # Earlier, while it is being loaded, lldb is still at work on it.
            until(lambda: [pid for pid in t.processes() if comm_of(pid) == "sleep" and state_of(pid) == "S"
                           and b"nanosleep" in proc_file(pid, "wchan")], DEADLINE, "the program's sleep")
            t.type(b"\x03").expect(b"SIGSTOP")  # stops the program, and neither lldb nor dtrain
            t.expect(b"(lldb) ")
            t.type(b"print 6*7\n").expect(b"= 42")
            t.expect(b"(lldb) ")
            t.type(b"quit\n").expect(b"[Y/n]")  # it has a process
            t.type(b"y\n").expect(PROMPT)
            t.is_clean()

    def test_a_shell_has_job_control(self):
        with Terminal() as t:
            t.type(b"PS1='inner> ' dtrain run --attach 0 --no-python bash --norc --noprofile -i\n").expect(b"inner> ")
            t.type(b"sleep 1000\n").expect(b"\n")
            until(lambda: [pid for pid in t.processes() if comm_of(pid) == "sleep" and pid == t.foreground()], DEADLINE,
                  "sleep in the foreground")
            t.type(b"\x1a").expect(b"Stopped")
            t.expect(b"inner> ")
            t.type(b"fg\n")
            until(lambda: [pid for pid in t.processes() if comm_of(pid) == "sleep" and pid == t.foreground()], DEADLINE,
                  "sleep in the foreground")
            t.type(b"\x03").expect(b"inner> ")
            t.type(b"echo code $?\n").expect(b"code 130")
            t.expect(b"inner> ")
            t.type(b"exit 7\n").expect(PROMPT)
            t.is_clean()


class Window(ProcessTest):
    def test_size_and_its_changes_reach_the_worker(self):
        with Terminal() as t:
            self.resize(t, 33, 99)
            script = t.write("size.py", "import os, signal\n"
                             "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})\n"
                             "print('size', *os.get_terminal_size(), flush=True)\nsignal.sigwait({signal.SIGWINCH})\n"
                             "print('size', *os.get_terminal_size(), flush=True)\n")
            t.type(f"dtrain run --attach 0 {script}\n".encode())
            t.expect(b"size 99 33")
            self.resize(t, 50, 120)
            t.expect(b"size 120 50")
            t.expect(PROMPT)

    @staticmethod
    def resize(t, rows, columns):
        fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Ends(ProcessTest):
    """Whatever ends the job, the terminal is left as it was found, and nothing runs."""

    def raw(self, *flags, variables=""):
        t = Terminal(f"{variables} dtrain run --nproc 2 --failure-grace 1 {' '.join(flags)} --attach 0 $TMPDIR/raw.py",
                     [("raw.py", RAW)])
        t.expect(b"raw in round 0")
        self.assertNotEqual(termios.tcgetattr(t.fd), t.first_modes)
        self.assertNotEqual(t.foreground(), t.shell)
        return t

    def ends_with(self, code, t):
        t.expect(b"code %d" % code)
        t.is_clean()

    def test_worker_fails(self):
        with self.raw() as t:
            self.ends_with(3, t.type(b"3"))

    def test_worker_ends_before_the_others(self):
        with self.raw() as t:
            t.type(b"0")
            until(lambda: t.foreground() == t.shell, DEADLINE, "the shell's group in the foreground")
            until(lambda: termios.tcgetattr(t.fd) == t.first_modes, DEADLINE, "the terminal's first modes")
            t.type(b"\x03")  # dtrain's again
            until(lambda: not t.processes(), DEADLINE, "the end of all processes")

    def test_worker_is_killed(self):
        with self.raw() as t:
            os.kill(t.foreground(), signal.SIGKILL)
            self.ends_with(137, t)

    def test_dtrain_is_asked_to_end(self):
        with self.raw() as t:
            os.kill(t.named("dtrain"), signal.SIGTERM)
            self.ends_with(143, t)

    def test_dtrain_is_asked_twice(self):
        with self.raw(variables="STUBBORN=1") as t:
            front = t.named("dtrain")
            os.kill(front, signal.SIGINT)
            t.expect(b"SIGINT")
            until_it_counts()
            os.kill(front, signal.SIGINT)
            t.is_clean()

    def test_agent_is_killed(self):
        with self.raw() as t:
            os.kill(t.named("dtrain-agent"), signal.SIGKILL)
            self.ends_with(125, t)

    def test_guard_is_killed(self):
        with self.raw() as t:
            os.kill(t.named("dt-guard"), signal.SIGKILL)
            self.ends_with(125, t)

    def test_front_is_killed(self):
        with self.raw() as t:
            os.kill(t.named("dtrain"), signal.SIGKILL)
            self.ends_with(137, t)

    def test_front_and_agent_are_killed(self):
        for level in levels():
            with self.subTest(level=level), self.raw("--contain", level) as t:
                both = [t.named("dtrain"), t.named("dtrain-agent")]
                for number in (signal.SIGSTOP, signal.SIGKILL):
                    for pid in both:
                        os.kill(pid, number)
                if level != "pidns":
                    self.ends_with(137, t)
                until(lambda: not t.processes(), DEADLINE, "the end of all processes")
                until(lambda: termios.tcgetattr(t.fd) == t.first_modes, DEADLINE, "the terminal's first modes")

    def test_next_round_has_the_terminal_again(self):
        with self.raw("--max-restarts", "1") as t:
            first = t.foreground()
            t.type(b"3").expect(b"raw in round 1")
            self.assertNotEqual(t.foreground(), first)
            self.ends_with(3, t.type(b"3"))

    def test_at_every_level_of_containment(self):
        for level in levels():
            with self.subTest(level=level), self.raw("--contain", level) as t:
                self.ends_with(3, t.type(b"3"))

    def test_hangup(self):
        t = self.raw()
        try:
            os.close(t.fd)
            until(lambda: not t.processes(), DEADLINE, "the end of all processes")
        finally:
            t.fd = os.open("/dev/null", os.O_RDONLY)
            t.__exit__()


class Refused(ProcessTest):
    def refuses(self, t, why):
        t.expect(why)
        t.expect(b"code 2")
        self.assertFalse(t.processes())

    def test_without_a_terminal(self):
        done = subprocess.run([DTRAIN, "run", "--attach", "0", "true"], stdin=subprocess.DEVNULL, capture_output=True)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count(b"\n"), 1)
        self.assertIn(b"--attach needs a terminal", done.stderr)

    def test_a_terminal_that_is_not_ours(self):
        with Terminal("setsid -w dtrain run --attach 0 true") as t:
            self.refuses(t, b"another session's")

    def test_in_the_background(self):
        with Terminal() as t:
            t.type(b"dtrain run --attach 0 true & wait $!; echo code $?\n")
            self.refuses(t, b"in the background")

    def test_ranks_and_standard_input(self):
        with Terminal("dtrain run --nproc 2 --attach 2 true") as t:
            self.refuses(t, b"expected a local rank from 0 to 1")
        with Terminal("dtrain run --attach 0 --stdin none true") as t:
            self.refuses(t, b"leave out --stdin")


if __name__ == "__main__":
    unittest.main()
