"""A job's secret on its way through a real munged: only the same user gets it, and only from the same user."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launcher"))
from cluster import Munged, missing  # noqa: E402
from support import NOBODY, as_user, needs_root, reachable_copies  # noqa: E402

PEER = reachable_copies(os.path.join(os.environ["DTRAIN_TEST_BIN_DIR"], "munge_peer"))[0]
PAYLOAD = b"dtrain secret 1\njob\ndtrain-"


@unittest.skipIf(missing("munged"), "not installed: munged")
class Munge(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.munged = Munged()
        cls.munged.__enter__()
        cls.addClassCleanup(cls.munged.__exit__)

    def peer(self, what, job="job", user=None, socket=None, **more):
        return subprocess.run([PEER, socket or self.munged.socket, what, job], capture_output=True, timeout=60,
                              **as_user(user), **more)

    def new(self, **how):
        done = self.peer("new", **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split(b"\n", 1)

    def assert_refused(self, why, credential, **how):
        done = self.peer("open", input=credential, **how)
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertRegex(done.stderr.decode(), f"^MUNGE: .*{why}.*\n$")

    def munge(self, *flags, user=None, payload=PAYLOAD):
        """A credential that somebody else makes, with munge's own command."""
        return subprocess.run(["munge", f"--socket={self.munged.socket}", *flags], input=payload, capture_output=True,
                              check=True, **as_user(user)).stdout.strip()

    def test_what_is_sealed_can_be_opened_once(self):
        fingerprint, credential = self.new()
        done = self.peer("open", input=credential)
        self.assertEqual(done.stdout.strip(), fingerprint, done.stderr)
        self.assert_refused("Replayed", credential)

    def test_every_credential_is_another(self):
        self.assertNotEqual(self.new()[1], self.new()[1])

    def test_another_job(self):
        self.assert_refused("not for this job", self.new(job="a")[1], job="b")
        self.assert_refused("not for this job", self.new(job="job2")[1])

    def test_a_credential_that_somebody_changed(self):
        credential = self.new()[1]
        self.assert_refused("Invalid", credential[:-20] + credential[-20:].swapcase())
        for junk in (b"", b"MUNGE:", b"MUNGE:!!!!:", b"\0" * 8, b"x" * 5000):
            self.assert_refused("", junk)

    def test_another_cluster(self):
        with Munged() as other:
            self.assert_refused("Invalid", self.new()[1], socket=other.socket)

    def test_munged_does_not_run(self):
        self.assert_refused("Did you start munged", self.new()[1], socket="/tmp/dtrain-no-munged")
        self.assertEqual(self.peer("new", socket="/tmp/dtrain-no-munged").returncode, 1)

    def test_a_credential_that_everybody_could_open(self):
        user = str(os.geteuid())
        self.assert_refused("alone", self.munge())
        self.assert_refused("alone", self.munge("--cipher=none", f"--restrict-uid={user}"))
        self.assert_refused("holds no secret", self.munge("--cipher=aes256", f"--restrict-uid={user}"))

    @needs_root
    def test_another_user_cannot_open_it(self):
        self.assert_refused("Unauthorized", self.new()[1], user=NOBODY)
        self.assert_refused("Unauthorized", self.new(user=NOBODY)[1])

    @needs_root
    def test_another_user_cannot_foist_a_secret_on_us(self):
        forged = self.munge("--cipher=aes256", f"--restrict-uid={os.geteuid()}", user=NOBODY)
        self.assert_refused(f"made by user {NOBODY}", forged)


if __name__ == "__main__":
    unittest.main()
