"""Processes that end as on a host that loses its power: none of them has the time to tell anybody."""
import contextlib
import os
import signal

from support import DEADLINE, comm_of, stat_of, until


def hold(pid):
    """SIGSTOP, and wait until every thread of the process has stopped."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: all((stat_of(f"{pid}/task/{thread}") or "T")[0] == "T" for thread in os.listdir(f"/proc/{pid}/task")),
          DEADLINE, "a process that has stopped")


def end_at_once(found):
    """dtrain's own go first, and so none of them has the time to say that another process has ended."""
    order = ["dtrain", "dtrain-agent", "dt-guard"]
    names = {pid: comm_of(pid) for pid in found}
    for pid in sorted(found, key=lambda pid: order.index(names[pid]) if names[pid] in order else len(order)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def end_step_at_once(pid, descendants):
    """The step daemon of SLURM above this process, and all below it."""
    while not comm_of(pid).startswith("slurmstepd"):
        pid = stat_of(pid)[1]
    hold(pid)  # else it may tell srun in its last moment that its task was killed
    end_at_once([pid, *descendants(pid)])
