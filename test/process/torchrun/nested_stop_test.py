"""A stop is one request with torch's own torchrun above dtrain and below: each program gets one signal, and its time.

usage: python nested_stop_test.py path/to/python [unittest's arguments]; that python's torch is the other side."""
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "launcher")]

import support  # noqa: E402
import stop_test  # noqa: E402

TORCHRUN = str(pathlib.Path(sys.argv.pop(1)).with_name("torchrun"))
ONE_REQUEST = 1.0  # seconds in which what comes again is a copy
support.DEADLINE = stop_test.DEADLINE = 120 * support.SLOW  # until torch is imported


class Torchrun(stop_test.Stop):
    def test_below_dtrain(self):
        with self.job("--nproc", 1, "--shutdown-timeout", 60, TORCHRUN, "--nproc-per-node", 2, self.saver) as job:
            self.assertEqual(self.signals(lambda: job.signal(signal.SIGTERM), 2), [self.TERM_ONCE] * 2, job.stderr())
            self.assertNotEqual(job.wait(support.DEADLINE), 0)
            self.assertNotIn("did not end in time", job.stderr())
            job.time_to_nothing()  # torchrun leaves its folder of logs

    def test_above_dtrain(self):
        """It is told twice, as by a `timeout` above, and so it tells its worker's group twice."""
        for _ in range(3):
            self.setUp()
            got, said, again_after = self.stopped_twice()
            if "again:" not in said:
                self.assertEqual(got, [self.TERM_ONCE] * 2, said)
                self.assertNotIn("did not end in time", said)
                return
            self.assertGreater(again_after, ONE_REQUEST, said)
        self.skipTest("torchrun's signals came too far apart to be one request")

    def stopped_twice(self):
        """What savers got, what was said, and in how many seconds at most dtrain took a copy for a second request."""
        command = [TORCHRUN, "--no-python", "--nproc-per-node", "1", support.DTRAIN, "run", "--nproc-per-node", "2",
                   "--shutdown-timeout", "60", self.saver]  # torchrun's own parser stumbles over --nproc
        with open(self.path("said"), "w+") as said, subprocess.Popen(
                command, env={**os.environ, **self.environment()}, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                start_new_session=True) as outer:
            again_after = None

            def told():
                return support.contents(said.name).decode()

            def ask():
                nonlocal again_after
                start = time.monotonic()
                for count in (1, 2):
                    outer.send_signal(signal.SIGTERM)
                    support.until(lambda: told().count("closing signal SIGTERM") >= count or "again:" in told(),
                                  support.DEADLINE, "torchrun's signal")
                support.until(lambda: "again:" in told() or time.monotonic() > start + ONE_REQUEST, support.DEADLINE)
                again_after = time.monotonic() - start
            try:
                self.await_told("up", 2)
                ask()
                support.until(lambda: self.let_go(self.go) or outer.poll() is not None, support.DEADLINE, "the end")
                self.assertNotEqual(outer.returncode, 0)
            finally:
                outer.kill()
            return [line.split()[1:] for line in self.told("saved")], told(), again_after


if __name__ == "__main__":
    unittest.main()
