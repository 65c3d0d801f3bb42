"""What the tests of data sets in stores have in common: a process that is told which loaders to make, and says what
they give."""
import json
import os
import subprocess
import unittest

WORKER = os.path.join(os.environ["DTRAIN_TEST_BIN_DIR"], "loader_worker")
DEADLINE_S = 60


class LoaderCase(unittest.TestCase):
    """Its tests have .worker, which start_worker() has made, .env of all processes, .server with .env of its own, and
    .secret, which no message has."""
    maxDiff = 2000

    @classmethod
    def start_worker(cls):
        return subprocess.Popen([WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=cls.env)

    @staticmethod
    def end_worker(worker):
        """It ends well, whatever its loaders did."""
        assert (worker.communicate(timeout=DEADLINE_S)[1], worker.returncode) == ("", 0), worker.returncode

    @classmethod
    def tell(cls, paths, env=(), job=(), worker=None, **options):
        options = {"paths": [paths] if isinstance(paths, str) else paths, "columns": ["id"], **options}
        env = {"DTRAIN_STORE_CREDENTIALS": "", "DTRAIN_STORE_TIMEOUT_S": "", **cls.server.env, **dict(env)}
        cls.say(json.dumps({"options": options, "env": env, **dict(job)}), worker)

    @classmethod
    def say(cls, line, worker=None):
        worker = worker or cls.worker
        worker.stdin.write(line + "\n")
        worker.stdin.flush()

    def answer(self, worker=None):
        told = json.loads((worker or self.worker).stdout.readline())
        return {key: told[key] for key in told if key not in ("end_s", "memory")}

    def loader(self, paths, **how):
        self.tell(paths, **how)
        return self.answer(how.get("worker"))

    def error(self, paths, *words, kind="data_error", **how):
        self.refused(self.loader(paths, **how), kind, *words)

    def refused(self, answer, kind, *words):
        message = answer.get(kind, "no error")
        for word in words:
            self.assertIn(word, message)
        self.assertNotIn("\n", message)
        self.assertNotIn(self.secret, message)
