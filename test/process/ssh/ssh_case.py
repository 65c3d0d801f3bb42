"""Tests with a real ssh: hosts of a lab, and jobs that are started on the first of them."""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "launcher"), str(HERE.parents[1] / "support")]

from lab_case import LabCase  # noqa: E402
from ssh_server import SshServers  # noqa: E402
from support import DTRAIN, said_by, until  # noqa: E402

DEADLINE = 60


class OnHosts(LabCase):
    HOSTS = 3

    def setUp(self):
        self.net = self.lab(self.HOSTS)
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="dtrain-ssh-"))
        self.ssh = self.enterContext(SshServers(self.net, self.folder))
        self.environment = {**os.environ, "HOME": self.folder, "XDG_CONFIG_HOME": self.folder,
                            "DTRAIN_SSH": self.ssh.command, "LR": "it's \"0.1\""}

    def tearDown(self):
        until(lambda: not self.left(), 10, "the end of all that the job started")

    def left(self):
        """What runs on the hosts but the servers."""
        return [pid for host in self.net.hosts if host.up for pid in host.pids() if pid not in self.ssh.pids()]

    def start(self, *words, **options):
        return self.start_in(self.folder, *words, **options)

    def start_in(self, folder, *words, **options):
        command = ["sh", "-c", 'cd "$0" && exec "$@"', str(folder), os.path.abspath(DTRAIN), "run", *words]
        job = self.net.host(0).popen(command, env=self.environment, cwd=self.folder,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     text=True, **options)
        self.addCleanup(job.stdout.close)
        return job

    def says(self, *words, code=0):
        return said_by(self, self.start(*words), code, DEADLINE)

    def until_ready(self, job, workers):
        while workers:
            line = job.stdout.readline()
            self.assertTrue(line, "the job has ended")
            workers -= "ready" in line
