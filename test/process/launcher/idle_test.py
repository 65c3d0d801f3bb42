"""A quiet job costs nothing: no process of dtrain runs for even a moment, and they are small."""
import os
import re
import signal
import tempfile
import time
import unittest

from support import *

WINDOW = 10.0


def context_switches(pid):
    """Of all threads of a process together: each time one was put on a core or taken off."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        counts = re.findall(rb"(?m)^(?:non)?voluntary_ctxt_switches:\s*(\d+)", proc_file(pid, f"task/{task}/status"))
        total += sum(map(int, counts))
    return total


@unittest.skipUnless(SLOW == 1, "ThreadSanitizer's own thread wakes up")
class Idle(ProcessTest):
    def test_no_context_switch_in_a_quiet_while_and_small(self):
        # A round is over (its grace is short: a timer that was called off may still go off once); output went to files
        # and console.
        script = ('[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 1; echo out; echo err >&2; '
                  'exec $HOSTILE plain')
        with tempfile.TemporaryDirectory() as folder, \
             Job("--nproc", 2, "--max-restarts", 1, "--failure-grace", 0.1, "-t", 3, "--log-dir", folder,
                 "sh", "-c", script, env={"HOSTILE": HOSTILE}) as job:
            job.ready(2)
            processes = {"front": job.front, "agent": job.agent, "guard": job.guard}
            self.settle(processes.values())
            self.quiet(processes)
            for name, pid in processes.items():
                shared = status_of(pid, "RssFile")
                print(f"{name}: {status_of(pid, 'VmRSS')} kB resident, {shared} kB of it file pages, "
                      f"{private_kb(pid)} kB of its own")
            if SLOW == 1:
                self.assertLess(status_of(job.agent, "VmRSS"), 10 * 1024)
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)
            self.assert_gone(job)

    def quiet(self, processes, window=WINDOW):
        """Another test's `dtrain status` asks every agent of this user: one of three whiles must be without."""
        for _ in range(3):
            before = {name: context_switches(pid) for name, pid in processes.items()}
            time.sleep(window)  # tidy: allow sleep, because that nothing happens is the test
            after = {name: context_switches(pid) for name, pid in processes.items()}
            print(f"context switches in {window:g} s:", {n: after[n] - before[n] for n in processes})
            if before == after:
                return
        self.assertEqual(before, after)

    def test_several_nodes_are_as_quiet(self):
        port = free_port()
        node = ("--nnodes", 2, "--master-port", port, "--max-restarts", 1, "--failure-grace", 0.1)
        script = '[ $TORCHELASTIC_RESTART_COUNT = 1 ] || [ $RANK = 0 ] || exit 1; exec $HOSTILE plain'
        command = ("sh", "-c", script)
        name = f"idle-{port}"
        with Job(*node, "--rdzv-id", name, *command, env={"HOSTILE": HOSTILE}) as host, \
             Job(*node, "--rdzv-id", name, "--node-rank", 1, *command, env={"HOSTILE": HOSTILE}) as other:
            other.ready(1)
            host.ready(1)
            processes = {f"{name} of {which}": pid for which, job in (("host", host), ("other", other))
                         for name, pid in (("front", job.front), ("agent", job.agent), ("guard", job.guard))}
            # The time that a connection has for its greeting is over, too.
            self.settle(processes.values(), quiet=4)
            self.quiet(processes, WINDOW / 2)
            host.signal(signal.SIGTERM)
            self.assertEqual((host.wait(), other.wait()), (143, 143))
            self.assert_gone(host)
            self.assert_gone(other)

    def settle(self, pids, quiet=0.5):
        """Until nothing has run for `quiet` seconds."""
        last, since, end = None, time.monotonic(), time.monotonic() + DEADLINE
        while time.monotonic() - since < quiet:
            now = [context_switches(pid) for pid in pids]
            if now != last:
                last, since = now, time.monotonic()
            self.assertLess(time.monotonic(), end, "dtrain does not come to rest")
            time.sleep(0.02)  # tidy: allow sleep, because /proc sends no events; the deadline is above


def private_kb(pid):
    return sum(map(int, re.findall(rb"(?m)^Private_(?:Clean|Dirty):\s*(\d+)", proc_file(pid, "smaps_rollup"))))


if __name__ == "__main__":
    unittest.main()
