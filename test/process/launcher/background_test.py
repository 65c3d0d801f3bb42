"""A job in the background of an interactive shell leaves what is typed to the shell. On a real pseudoterminal."""
import os
import signal
import unittest

from attach_test import PROMPT, Terminal
from support import *

# Reads a line in each round. Round 0 then waits until somebody writes to the pipe, and fails.
READER = """
import os, sys
print("ready", flush=True)
print("read", repr(sys.stdin.readline()), flush=True)
if os.environ["DTRAIN_ROUND"] == "0" and len(sys.argv) > 1:
    open(sys.argv[1]).read()
    os._exit(3)
"""
KEPT_BACK = b"dtrain: another job has the terminal: workers read /dev/null"
SHARED = (b"dtrain: another job has the terminal, but workers may still read what is typed there (--stdin none "
          b"prevents this)")


class Background(ProcessTest):
    def test_what_is_typed_is_the_shells(self):
        for flags in ("", "--stdin 0", "--nproc 2"):
            with self.subTest(flags=flags), Terminal() as t:
                t.type(f"dtrain run {flags} {t.write('reader.py', READER)} &\n".encode())
                t.expect(KEPT_BACK)
                t.expect(b"read ''")
                t.type(b"echo ty''ped\n").expect(b"\ntyped")
                t.is_clean()

    def test_a_round_that_begins_after_fg_has_the_terminal(self):
        with Terminal() as t:
            pipe = t.folder + "/pipe"
            os.mkfifo(pipe)
            t.type(f"dtrain run --max-restarts 1 {t.write('reader.py', READER)} {pipe} &\n".encode())
            t.expect(b"read ''")
            front = t.named("dtrain")
            t.type(b"fg\n")
            until(lambda: t.foreground() == os.getpgid(front), DEADLINE, "dtrain in the foreground")
            open(pipe, "w").close()
            t.expect(b"ready")
            t.type(b"two\n").expect(rb"read 'two\n'")
            t.expect(PROMPT)
            t.is_clean()

    def test_bg_after_ctrl_z_is_said(self):
        with Terminal() as t:
            t.type(f"dtrain run {t.write('reader.py', READER)}\n".encode())
            t.expect(b"ready")
            t.type(b"\x1a").expect(b"Stopped")
            t.expect(PROMPT)
            front = t.named("dtrain")
            t.type(b"bg\n").expect(SHARED)
            os.kill(front, signal.SIGTERM)  # what would be typed now might be the worker's
            until(lambda: not t.processes(), DEADLINE, "the end of all processes")

    def test_the_shell_has_the_terminal_only_when_the_workers_are_stopped(self):
        with Terminal() as t:
            t.type(f"dtrain run {t.write('reader.py', READER)}\n".encode())
            t.expect(b"ready")
            front, guard = t.named("dtrain"), t.named("dt-guard")
            workers = children_of(guard)
            os.kill(guard, signal.SIGSTOP)  # as slow as a guard can be
            t.type(b"\x1a")
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                self.assertNotEqual(stat_of(front)[0], "T", "the front has stopped before the workers")
            os.kill(guard, signal.SIGCONT)
            t.expect(b"Stopped")
            until(lambda: all(stat_of(pid)[0] == "T" for pid in workers), DEADLINE, "stopped workers")
            t.expect(PROMPT)
            t.type(b"fg\n").expect(b"dtrain run")
            t.type(b"one\n").expect(rb"read 'one\n'")
            t.expect(PROMPT)
            t.is_clean()

    def test_a_worker_that_is_not_stopped_yet_may_take_what_is_typed(self):
        with Terminal() as t:
            t.type(f"dtrain run {HOSTILE} plain busy\n".encode())
            t.expect(b"ready")
            front = t.named("dtrain")
            workers = children_of(t.named("dt-guard"))
            until(lambda: [stat_of(pid)[0] for pid in workers] == ["D"], DEADLINE, "a worker in state D")
            t.type(b"\x1a")
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                self.assertNotEqual(stat_of(front)[0], "T", "the front has stopped before the worker")
            t.expect(b"Stopped")  # not for ever: nothing stops a process in state D
            t.expect(PROMPT)
            t.type(b"kill %1\n")
            t.is_clean()

    def test_a_file_is_read_in_the_background_too(self):
        with Terminal() as t:
            t.write("lines", "of a file\n")
            t.type(f"dtrain run {t.write('reader.py', READER)} < {t.folder}/lines &\n".encode())
            self.assertNotIn(b"another job", t.expect(rb"read 'of a file\n'"))
            t.is_clean()


if __name__ == "__main__":
    unittest.main()
