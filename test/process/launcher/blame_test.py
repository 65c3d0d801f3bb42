"""Who fails because of another rank ends first, and says so as dtrain's training layer does: that rank is the headline.

The workers wait for each other's end, so the order is the wrong one in every run."""
import contextlib
import json
import os
import tempfile
import unittest

from support import Job, ProcessTest, free_port

# `victim`: needs rank 1, which has gone. `after RANK...`: returns when these have ended, `after_one` when one has.
WORKER = r"""
echo "$$" > "$FOLDER/$RANK.new" && mv "$FOLDER/$RANK.new" "$FOLDER/$RANK"
victim() {
  [ -z "$DTRAIN_ROUND_DIR" ] ||
    echo "{\"because_of\": 1, \"what\": \"left the job\", \"ends\": $1}" > "$DTRAIN_ROUND_DIR/blame_rank$RANK.json"
  exit 6
}
pause() { read -r -t 0.02 <> <(:); }
lives() { [ ! -s "$FOLDER/$1" ] || kill -0 "$(cat "$FOLDER/$1")" 2>/dev/null; }
after() { for rank; do while lives "$rank"; do pause; done; done; }
after_one() { while lives "$1" && lives "$2"; do pause; done; }
forever() { while :; do pause; done; }
"""
# As long as a busy machine may need to end a worker.
GRACE = 60
GONE = "ended with code 0 while others were in a collective"


class Blame(ProcessTest):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def run_workers(self, code, script, *flags):
        return self.assert_run(code, "--nproc", 3, "--failure-grace", GRACE, *flags, "bash", "-c", WORKER + script,
                               env={"FOLDER": self.folder}, timeout=GRACE)

    def headline(self, job, text):
        self.assertIn(f"\nfirst failure: rank 1: {text}\n", job.said)
        self.assertIn("\n  ranks 0,2: failed because of rank 1 (exit code 6)\n", job.said)

    def test_who_ends_later_with_an_error(self):
        job = self.run_workers(3, '[ $RANK = 1 ] || victim true; after 0 2; echo "no shard" >&2; exit 3')
        self.headline(job, "exit code 3")
        self.assertIn("\n    no shard\n", job.said)

    def test_who_ends_later_with_0(self):
        job = self.run_workers(6, '[ $RANK = 1 ] || victim true; after 0 2; echo "no more data" >&2')
        self.headline(job, GONE)
        self.assertIn("\n    no more data\n", job.said)

    def test_who_has_ended_with_0_before(self):
        job = self.run_workers(6, '[ $RANK = 1 ] && exit 0; after 1; victim true')
        self.assertIn(f"\nfirst failure: rank 1: {GONE}\n", job.said)

    def test_who_does_not_end(self):
        for ends in ("true", "false"):
            with self.subTest(ends=ends):
                job = self.run_workers(6, f"[ $RANK = 1 ] || victim {ends}; forever", "--failure-grace", 1)
                text = "left the job; stopped by dtrain (signal 15 (SIGTERM))"
                self.assertIn(f"\nfirst failure: rank 1: {text}\n", job.said)

    def test_the_line_of_a_restart_says_the_same(self):
        script = '[ $DTRAIN_ROUND = 0 ] || exit 0; [ $RANK = 1 ] || victim true; after 0 2; exit 3'
        job = self.run_workers(0, script, "--max-restarts", 1)
        self.assertIn("dtrain: local rank 1: exit code 3: restarting all workers", job.said)

    def test_without_a_folder_of_logs_the_exception_tells(self):
        says = "RuntimeError: dtrain: collective 3 (barrier): rank 1 (pid 9) left the job (its session ended)"
        script = f'[ $RANK = 1 ] || {{ printf "Traceback (most recent call last):\\n  File\\n{says}\\n" >&2; ' \
                 'exit 1; }; after 0 2; exit 3'
        job = self.run_workers(3, script, "--log-dir", "/dev/null")
        self.assertIn("\nfirst failure: rank 1: exit code 3\n", job.said)
        self.assertIn("\n  ranks 0,2: failed because of rank 1 (exit code 1)\n", job.said)

    def test_a_stop_by_the_user_does_not_wait_for_the_cause(self):
        script = WORKER + '[ $RANK = 1 ] || victim true; after 0; echo gone; forever'
        with Job("--nproc", 2, "--failure-grace", GRACE, "bash", "-c", script, env={"FOLDER": self.folder}) as job:
            job.expect(rb"gone")
            job.signal(15)
            self.assertEqual(job.wait(), 6, job.stderr())
            self.assertIn("first failure: rank 1: left the job", job.stderr())

    def test_other_nodes(self):
        """Rank 1 is on a node of its own; the others end before it, and their news come first."""
        stopped = "left the job; stopped by dtrain (signal 15 (SIGTERM))"
        for last, grace, code, text in (("exit 3", GRACE, 3, "exit code 3"), ("exit 0", GRACE, 6, GONE),
                                        ("forever", 1, 6, stopped)):
            with self.subTest(last), contextlib.ExitStack() as stack:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                script = WORKER + f'[ $RANK = 1 ] || victim true; after_one 0 2; {last}'
                port = free_port()
                path = os.path.join(folder, "report.json")
                jobs = [stack.enter_context(
                    Job("--rdzv-id", f"blame-{port}", "--nnodes", 3, "--node-rank", rank, "--master-addr", "127.0.0.1",
                        "--master-port", port, "--report", path, "--failure-grace", grace,
                        "bash", "-c", script, env={"FOLDER": folder}))
                        for rank in range(3)]
                self.assertEqual([job.wait(GRACE) for job in jobs], [code] * 3, "".join(job.stderr() for job in jobs))
                for rank, job in enumerate(jobs):
                    where = "" if rank == 1 else r"node 1 \(host \S+, agent \d+\): "
                    self.assertRegex(job.stderr(), f"\nfirst failure: {where}rank 1\\b")
                self.assertIn(f"\nfirst failure: rank 1: {text}\n", jobs[1].stderr())
                self.assertRegex(jobs[0].stderr() + jobs[2].stderr(), r"\n  rank [02]: failed because of rank 1 \(")
                with open(path) as report:
                    self.assertEqual(json.load(report)["first_failure"]["rank"], 1)

    def test_a_node_that_has_ended_well(self):
        port, script = free_port(), WORKER + '[ $RANK = 1 ] && exit 0; after 1; victim true'
        with contextlib.ExitStack() as stack:
            jobs = [stack.enter_context(
                Job("--rdzv-id", f"blame-{port}", "--nnodes", 2, "--node-rank", rank, "--master-addr", "127.0.0.1",
                    "--master-port", port, "bash", "-c", script, env={"FOLDER": self.folder})) for rank in range(2)]
            self.assertEqual([job.wait(GRACE) for job in jobs], [6, 6], "".join(job.stderr() for job in jobs))
            self.assertIn(f"\nfirst failure: rank 1: {GONE}\n", jobs[1].stderr())
            self.assertRegex(jobs[0].stderr(), rf"\nfirst failure: node 1 .*: rank 1\b.*{GONE}")


if __name__ == "__main__":
    unittest.main()
