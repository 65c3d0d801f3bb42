"""The status of a job, posted to Kubeflow Trainer."""
import os
import subprocess
import tempfile
import unittest

from support import *

from trainer_server import PATH, SECRET, TrainerServer, make_credentials, variables

class Trainer(ProcessTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="dtrain-trainer-"))
        make_credentials(cls.folder)

    def server(self, **options):
        server = TrainerServer(self.folder, **options)
        self.addCleanup(server.close)
        return server

    def run_job(self, variables, script, *words, code=0):
        with tempfile.TemporaryDirectory(prefix="dtrain-tmp-") as temporary:
            done = subprocess.run([DTRAIN, "run", "--nproc", "2", *words, "sh", "-c", script], text=True,
                                  env={**os.environ, **variables, "TMPDIR": temporary}, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE)
            left = os.listdir(temporary)
        self.assertEqual(done.returncode, code, done.stdout)
        if code == 0:  # else the report is there
            self.assertEqual(left, [], done.stdout)
        return done.stdout

    def test_the_progress_that_a_program_tells_is_posted(self):
        server = self.server()
        said = self.run_job(server.variables(),
                            'case $RANK in 0) echo \'{"step": 3, "steps": 4, "metrics": {"loss": 0.5}}\' '
                            '> "$DTRAIN_PROGRESS_FILE";; *) echo "other <$DTRAIN_PROGRESS_FILE>";; esac')
        self.assertIn("other <>", said)
        last = server.all_posts()[-1]
        self.assertEqual(last, {"loss": "0.5", "step": "3", "steps": "4", "dtrain_state": "succeeded",
                                "dtrain_restarts": "0", "dtrain_nodes": "1", "dtrain_world_size": "2",
                                "progressPercentage": 100, "estimatedRemainingSeconds": 0})

    def test_posts_come_while_the_job_runs(self):
        server = self.server()
        fifo = os.path.join(self.folder, "go-on")
        os.mkfifo(fifo)
        with Job("--nproc", 1, "sh", "-c", 'echo \'{"percent": 12.5}\' > "$DTRAIN_PROGRESS_FILE"; echo ready; '
                 f"read line < {fifo}", env=server.variables()) as job:
            while server.posts.get(timeout=DEADLINE)[2].get("progressPercentage") != 12:
                pass
            with open(fifo, "w") as go_on:
                go_on.write("\n")
            self.assertEqual(job.wait(), 0)

    def test_a_failure_and_restarts_are_posted(self):
        server = self.server()
        self.run_job(server.variables(), "[ $RANK = 0 ] || exit 7; exec sleep 100", "--max-restarts", "1",
                     "--failure-grace", "0", code=7)
        last = server.all_posts()[-1]
        self.assertEqual((last["dtrain_state"], last["dtrain_restarts"]), ("failed", "1"))
        self.assertIn("rank 1", last["dtrain_reason"])
        self.assertNotIn("progressPercentage", last)

    def test_of_several_nodes_the_one_of_rank_0_posts(self):
        server = self.server()
        port = free_port()
        nodes = [self.enterContext(Job(
            "--rdzv-id", f"trainer-{port}", "--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1",
            "--master-port", port, "--nproc", 1, "sh", "-c",
            '[ -z "$DTRAIN_PROGRESS_FILE" ] || echo \'{"step": 1}\' > "$DTRAIN_PROGRESS_FILE"',
            env=server.variables())) for node in range(2)]
        self.assertEqual([node.wait() for node in nodes], [0, 0])
        last = [post for post in server.all_posts() if post["dtrain_state"] == "succeeded"]
        self.assertEqual([(post["step"], post["dtrain_nodes"], post["dtrain_world_size"]) for post in last],
                         [("1", "2", "2")])

    def test_a_program_that_posts_itself_keeps_the_last_word(self):
        server = self.server()
        self.run_job(server.variables(), "true")
        states = [post["dtrain_state"] for post in server.all_posts()]
        self.assertIn("running", states)
        self.assertNotIn("succeeded", states)

    def test_a_job_within_a_job_has_no_word_there(self):
        server = self.server()
        self.run_job(server.variables(), f"exec {DTRAIN} run --nproc 1 sh -c 'exit 0'")
        self.assertEqual({post["dtrain_world_size"] for post in server.all_posts()}, {"2"})

    def test_what_keeps_posts_back_is_told_once_and_ends_nothing(self):
        server = self.server(answers=[503])
        nobody = f"https://127.0.0.1:{free_port()}{PATH}"
        tell = '[ $RANK = 1 ] || echo "{}" > "$DTRAIN_PROGRESS_FILE"'
        with open(os.path.join(self.folder, "no-token"), "w") as token:
            token.write("two words\n")
        for what, given in {
            "the answer is 503: no": server.variables(),  # to the first post
            "Connection refused": variables(self.folder, nobody),
            "certificate": server.variables(ca="stranger.pem"),
            "missing.pem": server.variables(ca="missing.pem"),
            "missing: No such file": server.variables(token="missing"),
            "no-token has no token in it": server.variables(token="no-token"),
            "'http://x/' is no https://HOST[:PORT]/PATH": variables(self.folder, "http://x/"),
        }.items():
            with self.subTest(what=what):
                said = self.run_job(given, tell)
                self.assertEqual(len([line for line in said.splitlines() if "progress" in line and what in line]), 1,
                                 said)
                self.assertNotIn(SECRET, said)
        for text in "[]}", "450/1000":
            said = self.run_job(server.variables(), f'[ $RANK = 1 ] || echo "{text}" > "$DTRAIN_PROGRESS_FILE"')
            self.assertIn("the file that tells of the progress cannot be read: it is no object of JSON", said)

    def test_a_server_that_never_answers_keeps_the_job_for_seconds(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"https://127.0.0.1:{silent.getsockname()[1]}{PATH}"
            said = self.run_job(variables(self.folder, url), '[ $RANK = 1 ] || echo "{}" > "$DTRAIN_PROGRESS_FILE"')
            self.assertIn("the end of the job was not posted", said)
            self.assertIn("no answer within 5 s", said)

    def test_without_a_server_there_is_no_file(self):
        self.assertIn("<>", self.run_job({}, 'echo "<$DTRAIN_PROGRESS_FILE>"'))


if __name__ == "__main__":
    unittest.main()
