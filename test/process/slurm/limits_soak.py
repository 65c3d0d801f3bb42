"""What SLURM does by the clock: the signal before a job's time is over, KillWait, and jobs that are requeued.

Its shortest time limit is a minute, so this takes two or three, and runs by hand only:
DTRAIN_BIN_DIR=build/bin python3 test/process/slurm/limits_soak.py
"""
import os
import re
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launcher"))
from cluster import Cluster, missing  # noqa: E402
from slurm_test import RUN, UNWILLING  # noqa: E402
from support import until  # noqa: E402

LONG = 200  # seconds
SAVES = """
save() {
  echo saved $RANK; : > $SAVED/$RANK
  until [ $(ls $SAVED | wc -l) = 6 ]; do read -t 0.05 _ <> <(:); done  # the barrier
  exit 75
}
trap save USR1
echo ready $RANK restart $SLURM_RESTART_COUNT
[ -z "$SLURM_RESTART_COUNT" ] || exit 0
while :; do read -t 0.05 _ <> <(:); done
"""


@unittest.skipIf(missing(), f"not installed: {', '.join(missing())}")
class Limits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(nodes=3, kill_wait=30)
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)

    def tearDown(self):
        until(lambda: not self.cluster.jobs(), LONG, "the end of the last job")
        until(lambda: not self.cluster.left(), LONG, "the end of all that the jobs started")

    def test_all_is_over_before_slurms_sigkill(self):
        job = self.cluster.start("srun", "-N3", *RUN, "--nproc", "2", "bash", "-c", UNWILLING)
        self.cluster.wait_for(job, "ready\n", 6)
        self.cluster.run("scancel", *self.cluster.jobs())
        said = job.communicate(timeout=LONG)[1]
        self.assertEqual(job.returncode, 128 + signal.SIGTERM, said)
        self.assertIn("SIGKILL in 25 s", said)
        self.assertIn("did not end in time: killing them", said)

    def test_a_job_saves_before_its_time_is_over_and_runs_again(self):
        """The script of docs/slurm.md."""
        script, output = (os.path.join(self.cluster.folder, name) for name in ("job.sh", "job.out"))
        workers, saved = (os.path.join(self.cluster.folder, name) for name in ("workers.sh", "saved"))
        os.mkdir(saved)
        with open(workers, "w") as f:
            f.write(SAVES)
        with open(script, "w") as f:
            f.write("#!/bin/bash\n"
                    "#SBATCH --nodes=3 --ntasks-per-node=1 --time=2 --requeue --signal=USR1@60\n"
                    f"srun {' '.join(RUN)} --nproc 2 bash {workers}\n"
                    "code=$?; echo step $code\n"
                    '[ $code -ne 75 ] || scontrol requeue "$SLURM_JOB_ID"\n')
        done = self.cluster.run("sbatch", f"--export=ALL,SAVED={saved}", "-o", output, "--open-mode=append", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        until(lambda: not self.cluster.jobs(), LONG, "the end of the job")
        with open(output) as f:
            said = f.read()
        self.assertEqual(re.findall(r"^step \d+", said, re.M), ["step 75", "step 0"], said)
        self.assertEqual({r for r in re.findall(r"saved (\d)", said)}, set("012345"), said)
        self.assertEqual(len(re.findall(r"ready \d restart 1", said)), 6, said)


if __name__ == "__main__":
    unittest.main()
