"""The flight recorder: ranks that are not where the others are, and what `dtrain flight` says of them."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
PACKAGE = os.path.join(os.path.dirname(os.environ["DTRAIN_BIN_DIR"]), "python")
WORKER = os.path.join(os.path.dirname(os.environ["DTRAIN_BIN_DIR"]), "test", "bin", "headline_worker")
PROGRAM = pathlib.Path(__file__).resolve().parent / "backend" / "flight.py"
DEADLINE = 120


def environment(folder, **more):
    return {**os.environ, "PYTHON_EXEC": sys.executable, "PYTHONPATH": PACKAGE, "PYTHONWARNINGS": "ignore",
            "TMPDIR": folder, **more}


def flight(*words):
    return subprocess.run([DTRAIN, "flight", *words], capture_output=True, text=True, timeout=DEADLINE)


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*") if not path.is_dir())


class Flight(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def run_story(self, story, *flags, **more):
        return subprocess.run([DTRAIN, "run", *flags, "--nproc", "3", PROGRAM, story],
                              env=environment(self.folder, **more), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=DEADLINE)

    def told(self, done, *paths):
        """What dtrain flight says, in the folder that the workers' errors name."""
        self.assertNotEqual(done.returncode, 0, done.stderr)
        if not paths:
            self.assertRegex(done.stderr, r"; dtrain flight \S+ says what each rank was doing")
            paths = [done.stderr.split("; dtrain flight ")[1].split()[0]]
        said = flight(*paths)
        self.assertEqual(said.returncode, 1, said.stdout + said.stderr)
        return paths[0], said.stdout

    def test_a_rank_that_does_not_call_is_named_with_what_it_does_instead(self):
        folder, text = self.told(self.run_story("elsewhere"))
        self.assertEqual(files_below(folder), [f"flight_rank{rank}.json" for rank in range(3)])
        self.assertIn("ranks 0-2 of 3\n", text)
        self.assertIn("written because: in group default_pg (0), rank 2 did not arrive in time\n", text)
        self.assertRegex(text, r"finished by all: 3 collectives, the last all_reduce #3 \(sum, float32 \[4,8\]\)")
        self.assertRegex(text, r"all_reduce #4 \(max, float32 \[1024\]\): ranks 0,1 are in it, for [4-9]\.\d s")
        self.assertRegex(text, r"rank 2 has not called it: its last one is all_reduce #3 .*, done \d.* before")
        self.assertRegex(text, r"it is in recv from rank 1 \(float32 \[6\]\) of group pair \(\S+\), for")
        # Rank 1 waits for rank 2, and that for a message of rank 1.
        self.assertRegex(text, r"rank 1 waits for rank 2 in all_reduce #4 .*\n  rank 2 waits for rank 1 in recv from")
        self.assertIn("\nrank 2 is missing in all_reduce #4 of group default_pg (0)\n", text)
        with open(os.path.join(folder, "flight_rank2.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["version"], 1)

    def test_a_stopped_rank_is_named(self):
        logs = os.path.join(self.folder, "logs")
        _, text = self.told(self.run_story("stopped", "--log-dir", logs, "--failure-grace", "1"), logs)
        self.assertIn("written because: in group default_pg (0), rank 2 did not arrive in time", text)
        if "rank 2 wrote no file" in text:
            self.assertIn("the missing ranks have no file", text)
        else:  # dtrain continues what it ends, so rank 2 sometimes has the time to write before its SIGTERM arrives
            self.assertIn("rank 2 has not called it", text)
            self.assertIn("\nrank 2 is missing in all_reduce #4 of group default_pg (0)\n", text)

    def test_calls_that_do_not_fit_are_shown_side_by_side(self):
        own = os.path.join(self.folder, "own")
        folder, text = self.told(self.run_story("mismatch", "--log-dir", "/dev/null", DTRAIN_FLIGHT_DIR=own))
        self.assertEqual(folder, own)
        self.assertIn("rank 2 made a call that does not fit\n", text)
        self.assertRegex(text, r"all_reduce #4 \(sum, float32 \[100\]\): ranks 0,1 are in it")
        self.assertRegex(text, r"all_reduce #4 \(sum, float32 \[101\]\): rank 2 is in it")
        self.assertIn("ranks differ in collective #4", text)

    def run_ddp(self, way):
        """A C++ program that knows of no collective: on two ranks, of which rank 1 does what it should not."""
        return subprocess.run([DTRAIN, "run", "--nproc", "2", WORKER, way, "1"], env=environment(self.folder),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)

    def test_of_ddp_it_is_said_what_a_collective_is_for_on_both_ranks(self):
        _, text = self.told(done := self.run_ddp("forgets"))
        self.assertRegex(done.stderr, r"dtrain: collective \d+: rank 1 \(pid \d+\) made a call that does not fit: "
                         r"rank 0 called all_reduce sum of 33 float32 \(Ddp backward, bucket 1 of 1\), "
                         r"rank 1 called broadcast 24 bytes from rank 0 \(Ddp forward: buffers\)")
        self.assertRegex(text, r"all_reduce #\d+ \(sum, float32 \[33\]; Ddp backward, bucket 1 of 1\): rank 0 is in it")
        self.assertRegex(text, r"broadcast #\d+ \(.*, root 0; Ddp forward: buffers\): rank 1 is in it")
        self.assertIn("written because: in group dtrain_world, rank 1 made a call that does not fit\n", text)

    def test_who_gave_its_part_and_went_on_is_not_in_contradiction_with_the_error(self):
        _, text = self.told(done := self.run_ddp("late"))
        late = re.search(r"dtrain: collective (\d+) \(broadcast 24 bytes from rank 0; Ddp forward: buffers\): rank 1 "
                         r"\(pid \d+\) did not arrive in time", done.stderr)
        self.assertTrue(late, done.stderr)
        given = rf"broadcast #{late[1]} \(.*; Ddp forward: buffers\): rank 0 has done its part\n    it is in "
        self.assertRegex(text, given)
        self.assertIn(f"\nrank 1 is missing in broadcast #{late[1]} of group dtrain_world\n", text)

    def test_nothing_is_written_where_nothing_is_wrong(self):
        done = self.run_story("good")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_nothing_is_written_where_it_is_switched_off(self):
        done = self.run_story("elsewhere", DTRAIN_FLIGHT_RECORDS="0")
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("dtrain flight", done.stdout + done.stderr)
        self.assertEqual(files_below(self.folder), [])

    def test_a_signal_to_dtrain_shows_a_job_that_hangs(self):
        logs = os.path.join(self.folder, "logs")
        job = subprocess.Popen([DTRAIN, "run", "--log-dir", logs, "--nproc", "3", PROGRAM, "signal"],
                               env=environment(self.folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
        try:
            waiting = 0
            while waiting < 2:
                waiting += "waits" in self.line_of(job)
            # They print it just before they call, and who waits for less than a second may go on.
            deadline = time.monotonic() + DEADLINE
            while time.monotonic() < deadline:
                job.send_signal(signal.SIGUSR2)
                written = 0
                while written < 3:
                    written += "; dtrain flight " in self.line_of(job)
                said = flight("--json", logs)
                story = json.loads(said.stdout)
                world = story["groups"][0]
                if said.returncode == 1 and world["number"] == 4 and len(world["in"]) == 2:
                    break
            self.assertEqual(said.returncode, 1, said.stdout + said.stderr)
            self.assertEqual(story["causes"], ["a signal asked for it"])
            self.assertEqual([one["rank"] for one in world["absent"]], [2])
            self.assertEqual([one["rank"] for one in world["in"]], [0, 1])
            self.assertEqual(world["in"][0]["call"]["shapes"], [[1024]])
            self.assertIsNone(job.poll(), "the job goes on")
        finally:
            job.terminate()
            job.communicate(timeout=DEADLINE)

    def line_of(self, job):
        line = job.stdout.readline()
        self.assertTrue(line, "dtrain ended")
        return line

    def test_a_file_that_is_cut_off_is_named_and_the_others_are_told(self):
        folder, _ = self.told(self.run_story("elsewhere"))
        cut = os.path.join(folder, "flight_rank1.json")
        os.truncate(cut, os.path.getsize(cut) // 2)
        said = flight(folder)
        self.assertEqual(said.returncode, 2)
        self.assertEqual(said.stderr,
                         f"dtrain: {cut} is not a file of the flight recorder: it is not JSON, or not all of it\n")
        self.assertIn("ranks 0,2 of 3; rank 1 wrote no file", said.stdout)
        nothing = flight(self.folder)
        self.assertEqual(nothing.returncode, 2)


if __name__ == "__main__":
    unittest.main()
