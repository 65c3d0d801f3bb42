"""Whatever the workers are and whatever ends the job: nothing is left.

Every kind of worker meets every way to end, and every containment level this machine gives meets both; soak.py runs the
same trials by the thousand.
"""
import ctypes
import fcntl
import glob
import itertools
import os
import signal
import subprocess
import unittest

from support import *
from trials import ENDS, KINDS, LEASE, Trial

PR_SET_CHILD_SUBREAPER = 36
TOGETHER = ("front and guard killed", "front and guard killed in turn", "front and agent killed",
            "agent and guard killed")


class Containment(ProcessTest):
    def trial(self, level, kind, end, user=None):
        with self.subTest(level=level, kind=kind, end=end, user=user):
            Trial(level, kind, end, user).run(self)

    def test_every_kind_meets_every_end(self):
        available = levels()
        self.assertIn("subreaper", available)
        turn = itertools.cycle(available)
        for kind, end in itertools.product(KINDS, ENDS):
            if ENDS[end].slow and kind not in ("daemon", "stubborn") or end in TOGETHER:
                continue
            self.trial(next(turn), kind, end)

    def test_every_level_holds_every_kind_when_the_agent_is_killed(self):
        for level, kind in itertools.product(levels(), KINDS):
            self.trial(level, kind, "agent killed")

    def test_every_level_holds_when_two_of_the_three_are_killed(self):
        for level, kind in itertools.product(levels(), ("plain", "grandchild", "daemon", "closed", "tree")):
            for end in TOGETHER:
                self.trial(level, kind, end)

    @needs_root
    def test_ordinary_user(self):
        for level, kind in itertools.product(levels(NOBODY), ("daemon", "closed", "bomb")):
            for end in ("success", "int twice", "agent killed", "guard killed"):
                self.trial(level, kind, end, NOBODY)

    @unittest.skipUnless("pidns" in levels(), "needs the right to make a PID namespace")
    def test_pid_namespace_holds_even_when_all_three_are_killed(self):
        for kind in ("daemon", "closed", "tree", "bomb"):
            self.trial("pidns", kind, "all killed")

    def test_workers_die_with_the_guard_when_all_three_are_killed(self):
        self.trial("subreaper", "stubborn", "all killed")

    @unittest.skipUnless("cgroup" in levels(), "needs a writable cgroup v2")
    def test_what_is_left_when_all_three_are_killed_goes_with_the_next_job(self):
        # The agent comes to us when it is an orphan: how soon the machine's init reaps is not the question.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.addCleanup(ctypes.CDLL(None).prctl, PR_SET_CHILD_SUBREAPER, 0)
        with Job("--contain", "cgroup", HOSTILE, "daemon") as job:
            job.folders_may_stay = True
            job.ready(1).signal(signal.SIGKILL, job.front, job.agent, job.guard)
            job.process.wait()
            os.waitpid(job.agent, 0)
            self.assert_run(0, "--contain", "cgroup", "true")
            job.time_to_nothing()
            self.assert_run(0, "--contain", "cgroup", "true")
            self.assert_gone(job)

    @unittest.skipUnless("cgroup" in levels(), "needs a writable cgroup v2")
    def test_empty_cgroups_of_dead_jobs_go_whatever_their_namespace(self):
        folders = [os.path.join(cgroup2_folder(), f"dtrain-{name}-1-{os.getpid()}") for name in ("dead", "living")]
        for folder in folders:
            os.mkdir(folder)
            self.addCleanup(lambda gone=folder: os.path.isdir(gone) and os.rmdir(gone))
        held = os.open(folders[1], os.O_RDONLY | os.O_DIRECTORY)
        self.addCleanup(os.close, held)
        fcntl.flock(held, fcntl.LOCK_SH)
        self.assert_run(0, "--contain", "cgroup", "true")
        self.assertEqual([os.path.isdir(folder) for folder in folders], [False, True])

    @unittest.skipUnless("cgroup" in levels(), "needs a writable cgroup v2")
    def test_a_cgroup_that_nobody_holds_is_emptied_whoever_has_the_number_of_its_agent(self):
        namespace = os.stat("/proc/self/ns/pid").st_ino
        folder = os.path.join(cgroup2_folder(), f"dtrain-dead-{namespace}-{os.getpid()}")
        os.mkdir(folder)
        self.addCleanup(lambda: os.path.isdir(folder) and os.rmdir(folder))
        left = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(left.wait)
        self.addCleanup(left.kill)
        with open(folder + "/cgroup.procs", "w") as procs:
            procs.write(str(left.pid))
        self.assert_run(0, "--contain", "cgroup", "true")
        self.assertEqual(left.wait(DEADLINE), -signal.SIGKILL)
        self.assert_run(0, "--contain", "cgroup", "true")  # the first one may have found it still dying
        self.assertFalse(os.path.isdir(folder))

    def test_folders_of_logs_go_with_the_next_job_when_all_three_are_killed(self):
        with Job(HOSTILE, "plain") as job:
            job.ready(1).signal(signal.SIGKILL, job.front, job.agent, job.guard)
            job.time_to_nothing()
            job.process.wait()
            until(lambda: (stat_of(job.guard) or "Z")[0] in "ZX", DEADLINE)
            self.assertEqual(len(os.listdir(job.tmp)), 1)
            self.assert_run(0, "true", env={"TMPDIR": job.tmp})
            self.assertEqual(os.listdir(job.tmp), [])

    @unittest.skipUnless(SLOW == 1, "a sanitizer needs /proc itself")
    @needs_root
    def test_without_proc_it_says_that_it_cannot_look(self):
        blind = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"')
        foreign = ("unshare", "--pid", "--fork")  # /proc shows the numbers of another PID namespace
        for prefix in (blind, foreign):
            refused = run("--contain", "subreaper", "true", prefix=prefix)
            self.assertEqual(refused.code, 125, refused.said)
            self.assertIn("--contain subreaper is not possible here: /proc does not show the processes", refused.said)
        with Job("--failure-grace", 0.2, HOSTILE, "daemon", "exit:0", prefix=blind) as job:
            job.wait()
            self.assertIn("/proc does not show the processes here", job.stderr())
            self.assertIn("processes are left, and /proc does not show which", job.stderr())
        with Job("--failure-grace", 0.2, "--contain", "pidns", HOSTILE, "daemon", "exit:0", prefix=blind) as job:
            self.assertEqual(job.wait(), 0, job.stderr())
            self.assert_gone(job)

    def test_level_that_cannot_be_had_is_an_error(self):
        missing = [x for x in ("cgroup", "pidns") if x not in levels()]
        for level in missing:
            done = run("--contain", level, "true")
            self.assertEqual(done.code, 125)
            self.assertEqual(done.said.count("\n"), 1, done.said)


class StoppedAndContinued(ProcessTest):
    def test_agent_stopped_for_less_than_its_lease_goes_on(self):
        with Job("--nproc", 2, HOSTILE, "plain") as job:
            job.ready(2)
            job.stop(job.agent)
            job.signal(signal.SIGCONT, job.agent)
            self.assertIsNone(job.lifeline.wait_broken(LEASE + 0.5))
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)
            self.assert_gone(job)

    def test_guard_stopped_for_less_than_its_lease_goes_on(self):
        with Job("--nproc", 2, HOSTILE, "plain") as job:
            job.ready(2).stop(job.guard)
            job.signal(signal.SIGCONT, job.guard)
            self.assertIsNone(job.lifeline.wait_broken(LEASE + 0.5))
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)
            self.assert_gone(job)

    def test_first_to_die_is_the_first_failure_even_if_nobody_looked(self):
        # The guard is held still while they die, youngest first: it finds both dead at once.
        with Job("--nproc", 3, HOSTILE, "plain") as job:
            first, second, third = sorted(job.ready(3).workers())
            job.stop(job.guard)
            for pid, number in ((third, signal.SIGSEGV), (first, signal.SIGKILL)):
                job.signal(number, pid)
                until(lambda: stat_of(pid)[0] == "Z", DEADLINE)
            job.signal(signal.SIGCONT, job.guard)
            self.assertEqual(job.wait(), 128 + signal.SIGSEGV)
            self.assertIn("first failure: rank 2: signal 11 (SIGSEGV)", job.stderr())
            self.assert_gone(job)

    def test_stopped_workers_act_on_a_stop_signal(self):
        with Job("--nproc", 2, "--shutdown-timeout", 60, HOSTILE, "plain") as job:
            for pid in job.ready(2).workers():
                job.signal(signal.SIGSTOP, pid)
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)
            self.assert_gone(job)


if __name__ == "__main__":
    unittest.main()
