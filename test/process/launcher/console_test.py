"""What the console shows of whom, and how: as torchrun, on a terminal, filtered, copied, with times, folded."""
import datetime
import fcntl
import glob
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from support import *

TORCHRUN = "torchrun"
DTRAIN_RUN = "dtrain"


def command(name, *args):
    """The words of a job that is called `name`, for Popen(executable=DTRAIN)."""
    return [name, *(["run"] if name == DTRAIN_RUN else []), *map(str, args)]


def python(code):
    return ["--no-python", sys.executable, "-c", code]


def environment(tmp, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DTRAIN_", "PET_", "TORCHELASTIC_", "LC_"))}
    return {**env, "TMPDIR": tmp, "TERM": "xterm", "LANG": "C.UTF-8", **more}


def piped(name, *args, env=None, timeout=DEADLINE):
    """Run a job to its end: the finished process with .stdout and .stderr."""
    with tempfile.TemporaryDirectory() as tmp:
        return subprocess.run(command(name, *args), executable=DTRAIN, stdin=subprocess.DEVNULL, capture_output=True,
                              env=environment(tmp, **(env or {})), timeout=timeout)


def on_terminal(name, *args, env=None, timeout=DEADLINE, stderr=None):
    """Run a job with its stdout and stderr on a terminal of its own: (exit code, what the terminal was sent)."""
    master, slave = pty.openpty()
    settings = termios.tcgetattr(slave)
    settings[1] &= ~termios.OPOST  # no "\r" of the terminal's own
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    with tempfile.TemporaryDirectory() as tmp:
        process = subprocess.Popen(command(name, *args), executable=DTRAIN, stdin=subprocess.DEVNULL, stdout=slave,
                                   stderr=slave if stderr is None else stderr, start_new_session=True,
                                   env=environment(tmp, **(env or {})))
        os.close(slave)
        shown, end = b"", time.monotonic() + timeout
        while select.select([master], [], [], max(0, end - time.monotonic()))[0]:
            try:
                chunk = os.read(master, 1 << 16)
            except OSError:  # nobody has the terminal any more
                break
            shown += chunk
        code = process.wait(max(1, end - time.monotonic()))
    os.close(master)
    return code, shown


# Says what its stdout and stderr are.
WHAT = ("sh", "-c", "[ -t 1 ] && echo out-tty || echo out-pipe; [ -t 2 ] && echo err-tty >&2 || echo err-pipe >&2")


class AsTorchrun(ProcessTest):
    def test_lines_have_no_prefix_but_stay_whole(self):
        done = piped(TORCHRUN, "--nproc-per-node", 4, "--no-python", "sh", "-c",
                     "i=0; while [ $i -lt 100 ]; do echo line $i of $RANK; i=$((i+1)); done; echo err >&2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(b"line %d of %d" % (i, r) for i in range(100)
                                                                  for r in range(4)))
        self.assertEqual(done.stderr.splitlines().count(b"err"), 4)

    def test_only_what_is_teed_has_the_prefix(self):
        with tempfile.TemporaryDirectory() as logs:
            done = piped(TORCHRUN, "--nproc-per-node", 2, "--role", "trainer", "-t", "0:3,1:1", "--log-dir", logs,
                         "--no-python", *WHAT)
            files = sorted(os.path.relpath(p, logs).split("/", 1)[1] for p in glob.glob(f"{logs}/*/*/*/*.log"))
        self.assertEqual(sorted(done.stdout.splitlines()), [b"[trainer0]:out-pipe", b"[trainer1]:out-pipe"])
        self.assertEqual(sorted(x for x in done.stderr.splitlines() if x.endswith(b"err-pipe")),
                         [b"[trainer0]:err-pipe", b"err-pipe"])
        self.assertEqual(files, ["attempt_0/0/stderr.log", "attempt_0/0/stdout.log", "attempt_0/1/stdout.log"])

    def test_the_worker_has_the_terminal_itself(self):
        code, shown = on_terminal(TORCHRUN, "--nproc-per-node", 2, "--no-python", *WHAT)
        self.assertEqual(code, 0, shown)
        lines = [x for x in shown.splitlines() if not x.startswith(b"dtrain:")]
        self.assertEqual(sorted(lines), [b"err-tty"] * 2 + [b"out-tty"] * 2)

    def test_only_the_stream_that_goes_to_the_terminal(self):
        with tempfile.TemporaryFile() as errors:
            code, shown = on_terminal(TORCHRUN, "--no-python", *WHAT, stderr=errors)
            errors.seek(0)
            self.assertIn(b"err-pipe\n", errors.read())
        self.assertEqual((code, shown), (0, b"out-tty\n"))

    def test_what_is_teed_or_redirected_has_no_terminal(self):
        with tempfile.TemporaryDirectory() as logs:
            code, shown = on_terminal(TORCHRUN, "--no-python", "-t", 1, "-r", 2, "--log-dir", logs, *WHAT)
            (errors,) = glob.glob(f"{logs}/*/*/0/stderr.log")
            self.assertEqual(contents(errors), b"err-pipe\n")
        self.assertEqual(code, 0, shown)
        self.assertRegex(shown, rb"\[default0\]:(\x1b\[0m)?out-pipe\n")

    def test_restarts_with_the_terminal(self):
        code, shown = on_terminal(TORCHRUN, "--nproc-per-node", 2, "--max-restarts", 1, "--no-python", "sh", "-c",
                                  "echo round $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ]")
        self.assertEqual(code, 0, shown)
        self.assertEqual(shown.count(b"round 1\n"), 2)

    def test_dtrain_run_keeps_prefixes_and_pipes_for_several_workers(self):
        code, shown = on_terminal(DTRAIN_RUN, "--color", "never", "--nproc", 2, *WHAT)
        self.assertEqual(code, 0)
        for rank in (b"0", b"1"):
            self.assertIn(b"[%s] out-pipe\n" % rank, shown)
            self.assertIn(b"[%s] err-pipe\n" % rank, shown)


# Draws a bar as tqdm does, without a line end, and then says no more.
BAR = ("import os, signal, sys\nfd = int(sys.argv[1])\n"
       "for i in (1, 2, 3): os.write(fd, b'\\r%3d%%|%-5s|' % (i * 20, b'#' * i))\n"
       "if os.environ['RANK'] == '0': signal.pause()")
# Which local ranks are seen on the console: one of one, and one of two.
ONE_SEEN = (("--nproc", 1), ("--nproc", 2, "--local-ranks-filter", 0), ("--nproc", 2, "--ranks", 0),
            ("--nproc", 2, "-r", "1:3"))


def screen(shown):
    """The lines that a terminal shows which was sent these bytes; only what a bar needs."""
    lines = [""]
    column = 0
    for text, escape in re.findall(r"([^\x1b])|\x1b\[([\d;]*[A-Za-z])", shown.decode()):
        if text == "\n":
            lines.append("")
            column = 0
        elif text == "\r":
            column = 0
        elif escape == "K":
            lines[-1] = lines[-1][:column]
        elif text:
            lines[-1] = lines[-1][:column].ljust(column) + text + lines[-1][column + 1:]
            column += 1
    return lines


class Bars(ProcessTest):
    def bar(self, name, *args, fd, until):
        """What a terminal was sent by the time that `until` was there; the worker still runs."""
        master, slave = pty.openpty()
        with tempfile.TemporaryDirectory() as tmp:
            job = subprocess.Popen(command(name, "--quiet", *args, *python(BAR), fd), executable=DTRAIN,
                                   stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, start_new_session=True,
                                   # A signal that comes just before signal.pause() is lost to Python.
                                   env={**environment(tmp), "DTRAIN_SHUTDOWN_TIMEOUT": "2"})
            os.close(slave)
            shown, end = b"", time.monotonic() + DEADLINE
            try:
                while until not in shown:
                    self.assertTrue(select.select([master], [], [], max(0, end - time.monotonic()))[0], shown)
                    shown += os.read(master, 1 << 16)
            finally:
                job.send_signal(signal.SIGINT)
                job.send_signal(signal.SIGINT)
                job.wait(DEADLINE)
                os.close(master)
        return shown

    def test_of_one_worker_is_drawn_in_place_at_once(self):
        for where in ONE_SEEN:
            for fd in (1, 2):
                shown = self.bar(DTRAIN_RUN, "--color", "never", *where, fd=fd, until=b" 60%|###  |")
                self.assertEqual(screen(shown), ["[0]  60%|###  |"], (where, fd, shown))
                for state in (b"[0]  20%|#    |", b"[0]  40%|##   |"):
                    self.assertIn(state, shown)

    def test_with_colours_times_and_another_prefix(self):
        for more, before in ((("--color=always",), r"\[0\] "), (("--timestamps",), r"\d{4}-.{24} \[0\] "),
                             (("--log-line-prefix-template", "é${rank}: "), "é0: ")):
            shown = self.bar(DTRAIN_RUN, *more, fd=2, until=b" 60%|###  |")
            self.assertEqual(len(screen(shown)), 1, shown)
            self.assertRegex(screen(shown)[0], "^" + before + r" 60%\|###  \|$")

    def test_as_torchrun(self):
        for fd in (1, 2):
            shown = self.bar(TORCHRUN, "--nproc-per-node", 2, "--local-ranks-filter", 0, fd=fd, until=b" 60%|###  |")
            self.assertEqual(screen(shown), [" 60%|###  |"], shown)

    def test_of_several_workers_shows_whole_states(self):
        code = BAR.replace("if os", "os.write(fd, b'\\n')\nif 0 and os")
        code, shown = on_terminal(DTRAIN_RUN, "--quiet", "--color", "never", "--nproc", 2, *python(code), 2)
        self.assertEqual(code, 0)
        self.assertEqual(sorted(x for x in screen(shown) if x), ["[0]  60%|###  |", "[1]  60%|###  |"])

    def test_stdout_of_one_worker_is_a_terminal_as_wide_as_what_is_left(self):
        size = ("import os\nfor fd in (1, 2): print(os.isatty(fd), os.get_terminal_size(fd) if os.isatty(fd) else '')")
        for more, before in (((), 4), (("--log-line-prefix-template", "é: "), 3), (("--timestamps",), 34)):
            for where in ONE_SEEN:
                with self.subTest(more=more, where=where):
                    shown = self.sized(*more, *where, *python(size))
                    self.assertIn(f"True os.terminal_size(columns={100 - before}, lines=30)".encode(), shown)
                    self.assertIn(b"False \r\n", shown)

    def sized(self, *args):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        with tempfile.TemporaryDirectory() as tmp:
            subprocess.run(command(DTRAIN_RUN, "--color", "never", *args), executable=DTRAIN, stdin=subprocess.DEVNULL,
                           stdout=slave, stderr=subprocess.DEVNULL, start_new_session=True, env=environment(tmp),
                           timeout=DEADLINE, check=True)
        os.close(slave)
        shown = os.read(master, 1 << 16)
        os.close(master)
        return shown

    def test_every_byte_of_a_terminal_arrives(self):
        code = ("import os\nblock = bytes(i for i in range(256) if i not in (10, 13)) * 40 + b'\\n'\n"
                "for i in range(200):\n v = memoryview(block)\n while v: v = v[os.write(1, v):]\n"
                "os.write(1, b'the end')")
        code, shown = on_terminal(DTRAIN_RUN, "--quiet", "--color", "never", *python(code))
        block = bytes(i for i in range(256) if i not in (10, 13)) * 40 + b"\n"
        self.assertEqual(code, 0)
        self.assertTrue(shown == (b"[0] " + block) * 200 + b"[0] the end\n", len(shown))

    def test_what_is_teed_is_a_pipe(self):
        with tempfile.TemporaryDirectory() as logs:
            code, shown = on_terminal(DTRAIN_RUN, "--color", "never", "-t", 3, "--log-dir", logs, *WHAT)
        self.assertIn(b"[0] out-pipe\n", shown)

    def test_restarts(self):
        code, shown = on_terminal(DTRAIN_RUN, "--color", "never", "--max-restarts", 2, "sh", "-c",
                                  "[ -t 1 ] && echo round $TORCHELASTIC_RESTART_COUNT; "
                                  "[ $TORCHELASTIC_RESTART_COUNT = 2 ]")
        self.assertEqual(code, 0, shown)
        for n in range(3):
            self.assertIn(b"[0] round %d\n" % n, shown)


class Filters(ProcessTest):
    def test_ranks(self):
        done = piped(DTRAIN_RUN, "--nproc", 8, "--ranks", "0,5-7", "sh", "-c", "echo out; echo err >&2; exit 0")
        self.assertEqual(sorted(done.stdout.splitlines()), [b"[%d] out" % r for r in (0, 5, 6, 7)])
        self.assertEqual(sorted(x for x in done.stderr.splitlines() if x.endswith(b"err")),
                         [b"[%d] err" % r for r in (0, 5, 6, 7)])
        self.assertNotIn(b"not written", done.stderr)

    def test_a_filtered_rank_fails_with_its_last_lines(self):
        done = piped(DTRAIN_RUN, "--nproc", 2, "--ranks", "0", "sh", "-c",
                     '[ $RANK = 0 ] && exec sleep 30; echo the reason >&2; exit 7')
        self.assertEqual(done.returncode, 7)
        self.assertIn(b"the reason", done.stderr)
        self.assertNotIn(b"[1] the reason", done.stderr)

    def test_filtered_and_teed_goes_to_the_file_only(self):
        for name, option in ((DTRAIN_RUN, "--ranks"), (DTRAIN_RUN, "--local-ranks-filter"),
                             (TORCHRUN, "--local-ranks-filter")):
            with tempfile.TemporaryDirectory() as logs:
                done = piped(name, "--nproc-per-node", 2, option, "1", "-t", 1, "--log-dir", logs, "--no-python",
                             "sh", "-c", "echo out; echo err >&2")
                files = {p.split("/")[-2]: contents(p) for p in glob.glob(f"{logs}/*/*/*/stdout.log")}
            self.assertEqual(files, {"0": b"out\n", "1": b"out\n"})
            self.assertRegex(done.stdout, rb"^\[(default)?1\]:? ?out\n$")
            self.assertEqual(done.stderr.count(b"err\n"), 1)


class Copies(ProcessTest):
    WRITER = ("sh", "-c", "echo loss $RANK; echo other; echo an error >&2; printf 'loss at the end'")
    FILTERS = ("--duplicate-stdout-filters", "loss", "--duplicate-stderr-filters", "error,x")

    def copies(self, name, *args):
        with tempfile.TemporaryDirectory() as logs:
            done = piped(name, "--nproc-per-node", 3, "--log-dir", logs, *self.FILTERS, *args)
            found = {os.path.relpath(p, logs).split("/", 1)[1]: sorted(contents(p).splitlines(keepends=True))
                     for p in glob.glob(f"{logs}/*/*/filtered_*.log")}
        return done, found

    def test_lines_of_all_workers_in_one_file(self):
        for name, prefix in ((DTRAIN_RUN, b"[%d] "), (TORCHRUN, b"[default%d]:")):
            done, found = self.copies(name, "-t", 3, "--no-python", *self.WRITER)
            self.assertEqual(done.returncode, 0, done.stderr)
            p = [prefix % rank for rank in range(3)]
            self.assertEqual(found, {
                "attempt_0/filtered_stdout.log": [line for r in range(3) for line in
                                                  (p[r] + b"loss %d\n" % r, p[r] + b"loss at the end\n")],
                "attempt_0/filtered_stderr.log": [p[r] + b"an error\n" for r in range(3)]})

    def test_only_of_teed_streams_that_are_shown(self):
        _, found = self.copies(DTRAIN_RUN, "-t", "0:1,1:2", "-r", "2:3", *self.WRITER)
        self.assertEqual(found["attempt_0/filtered_stdout.log"], [b"[0] loss 0\n", b"[0] loss at the end\n"])
        self.assertEqual(found["attempt_0/filtered_stderr.log"], [b"[1] an error\n"])
        _, found = self.copies(DTRAIN_RUN, "-t", 3, "--local-ranks-filter", 2, *self.WRITER)
        self.assertEqual(found["attempt_0/filtered_stderr.log"], [b"[2] an error\n"])

    def test_each_round_has_its_own(self):
        done, found = self.copies(DTRAIN_RUN, "-t", 1, "--max-restarts", 1, "sh", "-c", "echo loss; exit 3")
        self.assertEqual(done.returncode, 3)
        lines = [b"[%d] loss\n" % r for r in range(3)]
        self.assertTrue(set(found["attempt_1/filtered_stdout.log"]) <= set(lines))
        self.assertEqual(set(found), {f"attempt_{n}/filtered_std{s}.log" for n in (0, 1) for s in ("out", "err")})

    def test_without_files_there_is_no_copy(self):
        done = piped(DTRAIN_RUN, "-t", 1, "--log-dir", "/dev/null", *self.FILTERS, *self.WRITER)
        self.assertEqual((done.returncode, done.stdout), (0, b"[0] loss 0\n[0] other\n[0] loss at the end\n"))

    def test_every_byte_of_many_lines(self):
        lines = 20000
        code = ("import os\nr = int(os.environ['RANK'])\nw = open(1, 'wb')\n"
                f"for i in range({lines}): w.write(b'%d loss \\xff\\0 %d\\n' % (i, r) if i % 3 else b'no %d\\n' % i)")
        _, found = self.copies(DTRAIN_RUN, "-t", 1, "--no-python", sys.executable, "-c", code)
        self.assertEqual(found["attempt_0/filtered_stdout.log"],
                         sorted(b"[%d] %d loss \xff\0 %d\n" % (r, i, r) for i in range(lines) if i % 3
                                for r in range(3)))


STAMP = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d "


class Times(ProcessTest):
    def test_each_line_has_its_time_in_the_zone_of_tz(self):
        start = time.time()
        done = piped(DTRAIN_RUN, "--nproc", 2, "--timestamps", "sh", "-c", "echo a; echo b; echo c >&2",
                     env={"TZ": "IST-5:30"})
        lines = done.stdout.splitlines() + [x for x in done.stderr.splitlines() if x.endswith(b"c")]
        self.assertEqual(len(lines), 6)
        for line in lines:
            self.assertRegex(line, rb"^" + STAMP + rb"\[[01]\] [abc]$")
            self.assertIn(b"+05:30 ", line)
            then = datetime.datetime.fromisoformat(line.split()[0].decode()).timestamp()
            self.assertLessEqual(start - 1, then)
            self.assertLessEqual(then, time.time() + 1)

    def test_dtrains_own_lines_too_but_not_the_report(self):
        done = piped(DTRAIN_RUN, "--timestamps", "false")
        lines = done.stderr.splitlines()
        self.assertRegex(lines[0], rb"^" + STAMP + rb"dtrain: 1 worker of false")
        self.assertTrue([x for x in lines if x.startswith(b"first failure")], lines)

    def test_as_torchrun_on_a_terminal(self):
        code, shown = on_terminal(TORCHRUN, "--timestamps", "--no-python", "echo", "x")
        self.assertRegex(shown, rb"(^|\n)" + STAMP + rb"x\n$")


class Folding(ProcessTest):
    def folded(self, env):
        done = piped(DTRAIN_RUN, "--nproc", 4, "--fold", "sh", "-c", "echo same; echo err >&2; exit 0", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def ranks(self, lines, text, sign):
        """The ranks that `lines` show with `text`, however they were folded."""
        found = []
        for line in lines:
            match = re.fullmatch(rb"\[([\d,-]+)\] (?:" + sign + rb"(\d+) )?" + text, line)
            self.assertTrue(match, line)
            ranks = [r for part in match[1].decode().split(",")
                     for r in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)]
            self.assertEqual(len(ranks), int(match[2] or 1), line)
            found += ranks
        return found

    def test_every_rank_is_shown_once(self):
        for env, sign in ((None, "×".encode()), ({"LANG": "C"}, b"x")):
            done = self.folded(env)
            self.assertEqual(sorted(self.ranks(done.stdout.splitlines(), b"same", sign)), [0, 1, 2, 3])
            errors = [x for x in done.stderr.splitlines() if x.endswith(b"err")]
            self.assertEqual(sorted(self.ranks(errors, b"err", sign)), [0, 1, 2, 3])

    def test_a_lone_line_comes_without_any_other_event(self):
        with Job("--nproc", 2, "--fold", "sh", "-c", "[ $RANK = 1 ] || echo alone; exec sleep 60") as job:
            job.expect(rb"\[0\] alone\n")
            job.signal(signal.SIGTERM)
            job.wait()

    def test_order_bars_and_long_lines(self):
        code = ("import os, sys\nw = sys.stdout.buffer\nr = os.environ['RANK'].encode()\n"
                "for i in range(200):\n w.write(b'%s line %d\\n' % (b'same' if i % 3 else r, i))\n"
                " if i % 50 == 7: w.write(b'x' * 70000 + b' %d\\n' % i)\n if i % 50 == 9: w.write(b'bar %d\\r' % i)\n"
                "w.write(b'no end')")
        done = piped(DTRAIN_RUN, "--nproc", 4, "--fold", "--no-python", sys.executable, "-c", code)
        want = []
        for i in range(200):
            want += [b"line %d" % i] + ([b"x %d" % i] if i % 50 == 7 else []) + ([b"bar %d" % i] if i % 50 == 9 else [])
        want += [b"no end"]
        seen = {rank: [] for rank in range(4)}
        for line in re.split(rb"[\r\n]", done.stdout)[:-1]:
            match = re.fullmatch(rb"\[([\d,-]+)\] (?:\xc3\x97\d+ )?(?:same |\d |x+(?=x))?(.*)", line)
            self.assertTrue(match, line[:200])
            for part in match[1].decode().split(","):
                for rank in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1):
                    seen[rank].append(match[2])
        for rank in range(4):
            self.assertEqual(seen[rank], want)


if __name__ == "__main__":
    unittest.main()
