"""Rounds, exit codes, graces, and what a worker finds in its environment."""
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

# torchrun's list (docs/worker-contract.md), and dtrain's own.
CONTRACT = {
    "RANK", "LOCAL_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE", "GROUP_RANK",
    "GROUP_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_ERROR_FILE",
    "TORCHELASTIC_SIGNALS_TO_HANDLE", "OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "DTRAIN_JOB_ID",
    "DTRAIN_MEMBER", "DTRAIN_ROUND", "DTRAIN_PROGRESS_FILE", "DTRAIN_ROUND_DIR", "DTRAIN_STATE_COPY_FD",
    "DTRAIN_STATE_FD",
}

# A worker says which round it is in, where its store is, and how often its rank has added to a key of its own there.
# Two rounds may have one port by chance, but not one store.
COUNT_IN_STORE = """
import os, socket, struct, sys
e = os.environ
key = b"times/" + e["RANK"].encode()
with socket.create_connection((e["MASTER_ADDR"], int(e["MASTER_PORT"])), 20) as s:
    s.sendall(struct.pack("<BI", 0, 0x3C85F7CE) + struct.pack("<BQ", 4, len(key)) + key + struct.pack("<q", 1))
    times, = struct.unpack("<q", s.recv(8, socket.MSG_WAITALL))
print(e["TORCHELASTIC_RESTART_COUNT"], e["DTRAIN_ROUND"], e["MASTER_PORT"], times, flush=True)
"""


class Environment(ProcessTest):
    def test_contract_is_complete_and_the_rest_is_ours(self):
        # env(1) -0 twice at once: each worker's block is found by its prefix.
        job = self.assert_run(0, "--nproc", 2, "--role", "trainer", "--max-restarts", 3, "sh", "-c", "exec env",
                              env={"MY_OWN": "kept", "RANK": "77"})
        for rank in ("0", "1"):
            lines = re.findall(rb"(?m)^\[%s\] ([A-Z_a-z0-9]+)=(.*)$" % rank.encode(), job.output)
            env = {k.decode(): v.decode() for k, v in lines}
            self.assertEqual(CONTRACT - set(env), set())
            # What the shell adds of itself is not dtrain's.
            self.assertEqual({k for k in env if k not in os.environ} -
                             CONTRACT - {"MY_OWN", "TMPDIR", "HOSTILE_TAG", "_", "PWD", "SHLVL", "OLDPWD"}, set())
            expected = {"RANK": rank, "LOCAL_RANK": rank, "ROLE_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                        "ROLE_WORLD_SIZE": "2", "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "ROLE_NAME": "trainer",
                        "MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_USE_AGENT_STORE": "True",
                        "TORCHELASTIC_RUN_ID": job.tag, "DTRAIN_JOB_ID": job.tag, "TORCHELASTIC_RESTART_COUNT": "0",
                        "TORCHELASTIC_MAX_RESTARTS": "3", "DTRAIN_ROUND": "0", "MY_OWN": "kept"}
            self.assertEqual({k: env[k] for k in expected}, expected)
            self.assertGreater(int(env["MASTER_PORT"]), 0)

    def test_process_is_clean(self):
        def dirty():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])
            signal.signal(signal.SIGUSR2, signal.SIG_IGN)
            os.dup2(1, 77)  # not close-on-exec

        see = ("import os, resource, signal; print(sorted(os.listdir('/proc/self/fd'))[:-1], "
               "signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getsignal(signal.SIGUSR2).name, "
               "resource.getrlimit(resource.RLIMIT_NOFILE)[0], os.getsid(0) == os.getpgid(0) == os.getpid())")
        job = self.assert_run(0, "--no-python", sys.executable, "-c", see, preexec_fn=dirty, close_fds=False)
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.assertEqual(job.output.decode(), f"[0] ['0', '1', '2'] set() SIG_DFL {soft} True\n")

    def test_local_rank_in_arguments(self):
        job = self.assert_run(0, "--nproc", 2, "echo", "a$local_rank", "${local_rank}b", "$other", "$$")
        self.assertEqual(sorted(job.output.splitlines()), [b"[0] a0 0b $other $$", b"[1] a1 1b $other $$"])


class Rounds(ProcessTest):
    def test_restarts_until_it_works_each_round_with_a_fresh_store(self):
        job = self.assert_run(0, "--nproc", 2, "--max-restarts", 5, "--no-python", sys.executable, "-c",
                              COUNT_IN_STORE + 'sys.exit(0 if os.environ["DTRAIN_ROUND"] == "2" else 9)')
        rounds = {}
        for count, number, port, times in re.findall(rb"\] (\d) (\d) (\d+) (\d+)\n", job.output):
            self.assertEqual(count, number)
            self.assertEqual(times, b"1", "a round met another's store")
            rounds.setdefault(int(count), set()).add(int(port))
        self.assertEqual(sorted(rounds), [0, 1, 2])
        self.assertTrue(all(len(ports) == 1 for ports in rounds.values()), rounds)

    def test_budget_is_kept_and_the_last_failure_is_the_code(self):
        job = self.assert_run(12, "--max-restarts", 2, "sh", "-c",
                              'echo round; exit 1$TORCHELASTIC_RESTART_COUNT')
        self.assertEqual(job.output.count(b"round"), 3)

    def test_next_round_waits_for_the_last_process_of_the_one_before(self):
        for level in levels():
            with self.subTest(level=level):
                # The daemon ignores TERM; a worker of round 1 that met it alive would say so.
                script = ('if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then exec $HOSTILE daemon exit:1; fi; '
                          'for p in /proc/[0-9]*/comm; do read c 2>/dev/null < $p && [ "$c" = $HOSTILE_TAG ] && '
                          'echo "met $p"; done; echo clean')
                start = time.monotonic()
                job = self.assert_run(0, "--nproc", 2, "--contain", level, "--max-restarts", 1, "--failure-grace", 0.3,
                                      "sh", "-c", script,
                                      env={"HOSTILE": HOSTILE})
                self.assertGreater(time.monotonic() - start, 0.3)
                self.assertNotIn(b"met", job.output)
                self.assertEqual(job.output.count(b"clean"), 2, job.output)

    def test_program_that_never_started_is_not_retried(self):
        start = time.monotonic()
        job = self.assert_run(127, "--nproc", 2, "--max-restarts", 100, "/nowhere/train")
        self.assertLess(time.monotonic() - start, 2 * SLOW)
        self.assertIn("/nowhere/train", job.said)

    def test_stop_signal_ends_the_restarting(self):
        with Job("--max-restarts", 10**6, "sh", "-c", "echo ready; exit 1") as job:
            job.expect(rb"ready\n", 3)
            job.signal(signal.SIGTERM)
            self.assertIn(job.wait(), (143, 1))
            self.assert_gone(job)

    def test_hundred_rounds_leave_no_descriptor_and_no_process_behind(self):
        # The first and the last round count what guard and agent hold.
        script = ('agent=$(sed -n "s/^PPid:.//p" /proc/$PPID/status); '
                  'case $TORCHELASTIC_RESTART_COUNT in 0|100) ls /proc/$PPID/fd /proc/$agent/fd | wc -l;; esac; '
                  '[ $TORCHELASTIC_RESTART_COUNT = 100 ]')
        job = self.assert_run(0, "--contain", "subreaper", "--max-restarts", 100, "sh", "-c", script, timeout=60 * SLOW)
        first, last = re.findall(rb"\] (\d+)\n", job.output)
        # Descriptors of a spawn may still be about to be closed.
        self.assertLess(abs(int(last) - int(first)), 20)


class ExitCodes(ProcessTest):
    def test_own_codes(self):
        for code in (0, 1, 2, 42, 124, 125, 126, 127, 128, 200, 255):
            with self.subTest(code=code):
                self.assert_run(code, "--nproc", 2, "sh", "-c", f"exit {code}")

    def test_signals(self):
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGBUS, signal.SIGTERM, signal.SIGUSR1,
                       signal.SIGHUP, signal.SIGPIPE):
            with self.subTest(signal=number):
                job = self.assert_run(128 + number, "--nproc", 2, "sh", "-c",
                                      f"[ $RANK = 0 ] && kill -{int(number)} $$; sleep 60")
                self.assertIn(number.name, job.said)

    def test_first_failure_counts(self):
        job = self.assert_run(7, "--nproc", 4, "sh", "-c",
                              "trap 'exit 99' TERM; [ $RANK = 2 ] && exit 7; while :; do sleep 0.05; done")
        self.assertIn("rank 2: exit code 7", job.said)

    def test_bad_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)

            def program(name, text, mode):
                path = os.path.join(folder, name)
                with open(path, "w") as f:
                    f.write(text)
                os.chmod(path, mode)
                return path

            for code, path in ((127, "no-such-program-anywhere"), (127, os.path.join(folder, "missing")),
                               (126, program("plain", "#!/bin/sh\n", 0o644)),
                               (126, program("interpreter", "#!/no/such/interpreter\n", 0o755)),
                               (126, program("format", "hello\n", 0o755)), (126, folder)):
                with self.subTest(program=path):
                    start = time.monotonic()
                    job = self.assert_run(code, "--nproc", 2, "--no-python", path)
                    self.assertIn(os.path.basename(path), job.said)
                    self.assertLess(time.monotonic() - start, 2 * SLOW)

    def test_usage(self):
        for arguments in (["--nproc", "0", "true"], ["--nproc", "x", "true"], ["--no-such-flag", "true"], []):
            with self.subTest(arguments=arguments):
                job = self.assert_run(2, *arguments)
                self.assertNotEqual(job.said, "")

    def test_report_as_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            self.assert_run(3, "--nproc", 2, "--report", path, "sh", "-c",
                            "[ $RANK = 1 ] || sleep 60; echo last words >&2; exit 3")
            with open(path) as f:
                text = f.read()
        report = json.loads(text)
        self.assertEqual(report["exit_code"], 3)
        self.assertIn("last words", text)


class Graces(ProcessTest):
    def stop_time(self, *args, act, worker=("stubborn",)):
        with Job("--nproc", 2, *args, HOSTILE, *worker) as job:
            job.ready(2)
            start = time.monotonic()
            act(job)
            job.wait()
            took = time.monotonic() - start
            self.assert_gone(job)
        return took

    def test_shutdown_timeout_is_for_a_stop(self):
        took = self.stop_time("--shutdown-timeout", 0.8, "--failure-grace", 30,
                              act=lambda job: job.signal(signal.SIGTERM))
        self.assertGreater(took, 0.75)
        self.assertLess(took, 0.8 + WITHIN)

    def test_failure_grace_is_for_a_failure(self):
        took = self.stop_time("--shutdown-timeout", 30, "--failure-grace", 0.5,
                              act=lambda job: job.signal(signal.SIGKILL, job.workers()[0]))
        self.assertGreater(took, 0.45)
        self.assertLess(took, 0.5 + WITHIN)

    def test_failure_grace_is_5_seconds(self):
        took = self.stop_time(act=lambda job: job.signal(signal.SIGKILL, job.workers()[0]))
        self.assertGreater(took, 4.9)
        self.assertLess(took, 5 + WITHIN)

    def test_second_signal_kills_at_once(self):
        def act(job):
            job.signal(signal.SIGINT)
            until(lambda: "send it again" in job.stderr(), DEADLINE)
            until_it_counts()
            job.signal(signal.SIGINT)
        self.assertLess(self.stop_time("--shutdown-timeout", 30, act=act), 1.1 + WITHIN)

    def test_zero_kills_at_once(self):
        took = self.stop_time("--shutdown-timeout", 0, act=lambda job: job.signal(signal.SIGTERM))
        self.assertLess(took, WITHIN)


if __name__ == "__main__":
    unittest.main()
