"""One trial: a containment level, a kind of hostile worker, a way to end the job. For contain_test.py and soak.py."""
import contextlib
import os
import random
import signal
import time
from dataclasses import dataclass
from typing import Callable, Optional

from support import HOSTILE, WITHIN, Job, as_user, children_of, comm_of, tagged, until, until_it_counts

KINDS = ("plain", "stubborn", "grandchild", "daemon", "closed", "tree", "bomb")
GRACE = 0.2  # seconds, of both graces in a trial
LEASE = 3.0  # how long a stopped agent or guard is waited for


@dataclass
class End:
    act: Callable[[Job], None] = lambda job: None
    worker: str = "wait"         # how the workers themselves end
    code: Optional[int] = None   # exit code of dtrain; None: it was killed itself
    after: float = 0.0           # seconds that this end takes by design
    slow: bool = False


def send(number, *names):
    def act(job):
        job.signal(number, *[getattr(job, name) for name in names or ("front",)])
    return act


def twice(number):
    def act(job):
        job.signal(number)
        until(lambda: "send it again" in job.stderr(), WITHIN * 10, "the answer to the first signal")
        until_it_counts()
        job.signal(number)
    return act


def group_killed(job):
    os.killpg(job.front, signal.SIGKILL)


def front_and_guard_in_turn(job):
    first, second = random.sample((job.front, job.guard), 2)
    job.signal(signal.SIGKILL, first)
    # How far the agent has come by then differs: no moment may be a bad one.
    time.sleep(random.uniform(0, 0.005))  # tidy: allow sleep, because the pause is the fault itself
    with contextlib.suppress(ProcessLookupError):  # by then it may have ended by itself
        job.signal(signal.SIGKILL, second)


ENDS = {
    "success": End(worker="exit:0", code=0, after=GRACE),
    "failure": End(worker="exit:3", code=3, after=GRACE),
    "crash": End(worker="kill:11", code=139, after=GRACE),
    "int": End(send(signal.SIGINT), code=130, after=GRACE),
    "int twice": End(twice(signal.SIGINT), code=130),
    "term": End(send(signal.SIGTERM), code=143, after=GRACE),
    "hup": End(send(signal.SIGHUP), code=129, after=GRACE),
    "quit": End(send(signal.SIGQUIT), code=131, after=GRACE),
    "term to all three": End(send(signal.SIGTERM, "front", "agent", "guard"), code=143, after=GRACE),
    "front killed": End(send(signal.SIGKILL)),
    "group killed": End(group_killed),
    "agent killed": End(send(signal.SIGKILL, "agent"), code=125),
    "guard killed": End(send(signal.SIGKILL, "guard"), code=125),
    "front and guard killed": End(send(signal.SIGKILL, "front", "guard")),
    "front and guard killed in turn": End(front_and_guard_in_turn),
    "front and agent killed": End(send(signal.SIGKILL, "front", "agent")),
    "agent and guard killed": End(send(signal.SIGKILL, "agent", "guard"), code=125),
    "guard stopped": End(send(signal.SIGSTOP, "guard"), code=125, after=LEASE, slow=True),
    "agent stopped": End(send(signal.SIGSTOP, "agent"), code=125, after=LEASE, slow=True),
}
ALL_KILLED = End(send(signal.SIGKILL, "front", "agent", "guard"))


class Trial:
    WORKERS = 2

    def __init__(self, level, kind, end, user=None):
        self.level, self.kind, self.user = level, kind, user
        self.end = ALL_KILLED if end == "all killed" else ENDS[end]

    def run(self, test=None):
        """Seconds from the end's cause to the last process. Raises AssertionError when something is left."""
        # A bomb and a big tree by one worker are as hard as by two, and kinder to the machine.
        workers = 1 if self.kind in ("tree", "bomb") else self.WORKERS
        with Job("--nproc", workers, "--contain", self.level, "--failure-grace", GRACE, "--shutdown-timeout",
                 0 if self.end.code is None else 60 if self.end.after == 0 else GRACE, HOSTILE, self.kind,
                 self.end.worker, user=self.user) as job:
            if self.end.worker == "wait":
                job.ready(workers)
            else:
                # The first failure stops the other worker, ready or not.
                job.expect(rb"ready\n", workers if self.end.code == 0 else 1)
            job.folders_may_stay = self.end is ALL_KILLED
            self.end.act(job)
            # A bomb takes the cores from those who end it: from dtrain, and from tests beside this one.
            took = job.time_to_nothing(self.end.after + WITHIN * (4 if self.kind == "bomb" else 1))
            code = job.wait()
            if self.end.code is not None and code != self.end.code:
                raise AssertionError(f"exit code {code} instead of {self.end.code}: {job.stderr()}")
            left = job.traces()
            if left:
                until(lambda: not job.traces(), WITHIN, f"the end of {left}")
            return took - self.end.after
