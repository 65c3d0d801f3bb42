"""A worker that the kernel kills for want of memory is told apart from one that somebody kills."""
import contextlib
import os
import signal
import unittest

from support import *

LIMIT = 200 << 20
# Rank 1 takes memory for ever; every page is written to.
EATER = "import os, signal\nx = []\nwhile os.environ['RANK'] == '1': x.append(b'x' * (4 << 20))\nsignal.pause()"
V1 = "/sys/fs/cgroup/memory"
V2 = "/sys/fs/cgroup"


def limit_file():
    """Name of the file with the limit in a new memory cgroup below `parent`, or None: (parent, file)."""
    if os.path.isdir(V1) and os.access(V1, os.W_OK):
        return V1, "memory.limit_in_bytes"
    with contextlib.suppress(OSError), open(V2 + "/cgroup.subtree_control") as f:
        if "memory" in f.read().split() and os.access(V2, os.W_OK):
            return V2, "memory.max"
    return None


@unittest.skipUnless(ROOT and limit_file(), "needs root and a writable cgroup with a memory controller")
@unittest.skipUnless(SLOW == 1, "a sanitizer takes more memory than the limit")
class OutOfMemory(ProcessTest):
    def setUp(self):
        parent, name = limit_file()
        self.folder = os.path.join(parent, f"dtrain-test-memory-{os.getpid()}")
        os.mkdir(self.folder)
        # The last process leaves the cgroup a moment after it is reaped.
        self.addCleanup(until, self.remove, WITHIN, "the end of the memory cgroup")
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(str(LIMIT))

    def remove(self):
        with contextlib.suppress(OSError):
            os.rmdir(self.folder)
        return not os.path.exists(self.folder)

    def enter(self):
        with open(os.path.join(self.folder, "cgroup.procs"), "w") as f:
            f.write("0")

    def test_the_report_names_the_limit(self):
        job = self.assert_run(128 + signal.SIGKILL, "--nproc", 2, "/usr/bin/python3", "-c", EATER,
                              preexec_fn=self.enter)
        self.assertIn("first failure: rank 1: signal 9 (SIGKILL), out of memory", job.said)
        self.assertIn("limit 200.0 MiB", job.said)

    def test_a_plain_kill_is_not_mistaken_for_it(self):
        job = self.assert_run(128 + signal.SIGKILL, "--nproc", 2, "sh", "-c", "[ $RANK = 0 ] || kill -9 $$; sleep 60",
                              preexec_fn=self.enter)
        self.assertIn("first failure: rank 1: signal 9 (SIGKILL)\n", job.said)
        self.assertNotIn("out of memory", job.said)


if __name__ == "__main__":
    unittest.main()
