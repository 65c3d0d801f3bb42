"""One system call of dtrain's fails: the job ends as it should, in time and with a word, or just works.

Another sample each time; soak_syscalls.py tries them all.
"""
import errno
import os
import random
import time
import unittest

from support import *
import syscall_trials

BUDGET = 20.0  # seconds for the sample
MOST = 60      # trials in it


@unittest.skipUnless(SLOW == 1, "a sanitizer's own calls would fail as well")
@unittest.skipUnless(syscall_trials.available(), "needs seccomp's user notification")
class Syscalls(ProcessTest):
    def trial(self, level, *fault):
        with self.subTest(fault=syscall_trials.describe(level, fault)):
            ended = syscall_trials.run(level, fault)
            self.assertEqual(syscall_trials.complaints(ended, fault), [], ended.said)
            return ended

    def test_sample(self):
        seed = int(os.environ.get("DTRAIN_SIM_SEED", random.randrange(1 << 32)))
        print(f"DTRAIN_SIM_SEED={seed}", flush=True)  # ctest shows it when the test fails
        chance = random.Random(seed)
        level = chance.choice(levels())
        faults = chance.sample(plan := syscall_trials.plan(level), min(MOST, len(plan)))
        end = time.monotonic() + BUDGET
        for number, fault in enumerate(faults):
            if time.monotonic() > end and number > 0:
                break
            self.trial(level, *fault)

    def test_a_guard_that_cannot_watch_is_no_guard(self):
        watch = "the guard cannot watch the agent and the workers (epoll): "
        hear = "the guard cannot be told of the death of workers (signalfd): "
        for call, number, error, words in (("epoll_create1", 1, errno.EMFILE, watch + "Too many open files"),
                                           ("epoll_create1", 1, errno.ENOMEM, watch + "Cannot allocate memory"),
                                           ("epoll_ctl", 1, errno.ENOSPC, watch + "No space left on device"),
                                           ("epoll_ctl", 2, errno.ENOMEM, watch + "Cannot allocate memory"),
                                           ("signalfd4", 1, errno.EMFILE, hear + "Too many open files")):
            ended = self.trial("subreaper", "guard", call, number, error)
            self.assertEqual((ended.report.code, ended.output), (125, b""), ended.said)
            self.assertIn(words, ended.said)

    def test_a_guard_that_hears_nothing_ends_the_job(self):
        for number in (1, 3):
            ended = self.trial("subreaper", "guard", "epoll_wait", number, errno.EINVAL)
            self.assertIn(ended.report.code, (1, 125), ended.said)  # 1: the worker's own failure came before
            self.assertIn("the guard cannot wait for news of the workers (epoll_wait): Invalid argument", ended.said)

    def test_a_worker_that_cannot_be_watched_does_not_run(self):
        for number in (3, 4):
            ended = self.trial("subreaper", "guard", "epoll_ctl", number, errno.ENOMEM)
            self.assertEqual(ended.report.code, 125, ended.said)
            self.assertIn("not started: watch: Cannot allocate memory", ended.said)

    def test_whoever_cannot_be_a_subreaper_says_so(self):
        for role, words in (("front", "cannot be a subreaper"), ("agent", "cannot be a subreaper"),
                            ("guard", "cannot become the parent of what workers leave behind")):
            # Which prctl it is depends on what comes before; one of the first is.
            all_said = ""
            for number in range(1, 5):
                ended = self.trial("subreaper", role, "prctl", number, errno.EPERM)
                all_said += ended.said
                if words in ended.said:
                    self.assertEqual(ended.report.code, 125, ended.said)
                    break
            self.assertIn(words, all_said)

    def test_what_cannot_be_used_is_removed(self):
        """The next job would remove it too: alone on the machine, this finds whoever leaves that to the next job."""
        self.trial(levels()[-1], "agent", "listen", 1, errno.EADDRINUSE)
        for fault in syscall_trials.plan(levels()[0]):
            if fault[:2] == ("agent", "openat") and fault[3] == errno.EACCES:
                self.trial(levels()[0], *fault)

    def test_the_store_refuses_whom_it_cannot_watch(self):
        plan = [fault for fault in syscall_trials.plan("subreaper") if fault[:2] == ("agent", "epoll_ctl")]
        for fault in random.sample(plan, 6):
            ended = self.trial("subreaper", *fault)
            self.assertNotIn("terminate", ended.said)


if __name__ == "__main__":
    unittest.main()
