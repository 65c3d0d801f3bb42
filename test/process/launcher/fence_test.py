"""An agent that does not run, though nobody has stopped it: its guard kills the workers before others go on without."""
import contextlib
import ctypes
import os
import time
import unittest

from hosts_test import END, PORT, WORKER, HostsCase, Node, until
from support import DEADLINE

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17  # PTRACE_...
ANY_THREAD = 0x40000000  # __WALL


@contextlib.contextmanager
def held(pid):
    """A debugger holds the process: its parent hears of no stop, and to its timers it is as on a dead file system."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long

    def ask(what):
        if libc.ptrace(what, pid, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {what} of {pid}")

    ask(SEIZE)
    ask(INTERRUPT)
    os.waitpid(pid, ANY_THREAD)
    try:
        yield
    finally:
        ask(DETACH)


class AgentHangs(HostsCase):
    def started(self, count, nnodes, *flags):
        lab = self.lab(count)
        nodes = [Node(lab.host(i), ["run", "--token-file", self.token, "--rdzv-id", "fence", "--nnodes", nnodes,
                                    "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{lab.host(0).ipv4}:{PORT}", *flags,
                                    "bash", "-c", 'trap "" TERM; ' + WORKER.replace("trap", "#") + END],
                      {**os.environ, "END": self.end}) for i in range(count)]
        for node in nodes:
            node.expect(r"met \d in 0\.")
        self.pass_by(2)  # the first round is settled
        return nodes

    def others_go_on_without(self, hung, others):
        with held(hung.agent()):
            begun = time.monotonic()
            until(lambda: not hung.workers(), DEADLINE)
            dead = time.monotonic()
            for node in others:
                node.expect(r"met \d in 1\.")
        opened = min(node.when(r" N=1 ") for node in others)
        self.assertLess(dead, opened, "the halves overlap")
        print(f"its workers are dead after {dead - begun:.2f} s, the others run after {opened - begun:.2f} s",
              flush=True)
        # By its guard, its own timers or its closed link, whichever it looks at first.
        hung.expect("this agent did not run for so long that the others may have gone on: stopping the workers")
        self.assertNotRegex(hung.text, "the agent that hosts the job .* is gone")
        # It is a node like any other then.
        hung.expect(r"met \d in 2\.")
        self.assertIn(" RC=0 ", hung.text)
        self.assertNotIn("SIGKILL", hung.text)
        self.finish(hung, *others)

    def test_of_a_node(self):
        first, *others = self.started(3, "2:3")
        self.others_go_on_without(others[1], [first, others[0]])

    def test_of_a_node_that_joins_no_more(self):
        other, hung = self.started(2, "1:2", "--rdzv-conf", "rejoin=0")
        with held(hung.agent()):
            other.expect(r"met \d in 1\.")
        self.ends([125], [hung])
        self.assertIn("this agent did not run for so long", hung.text)
        self.assertNotRegex(hung.text, "the agent that hosts the job .* is gone")
        self.finish(other)

    def test_of_the_host(self):
        first, *others = self.started(4, "2:4")
        self.others_go_on_without(first, others)


if __name__ == "__main__":
    unittest.main(verbosity=2)
