#!/usr/bin/env python3
"""dtrain run --hosts --ship: the job's files go to the hosts that lack them, and nothing of them stays there."""
import contextlib
import os
import pathlib
import signal
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from ssh_case import DEADLINE, OnHosts  # noqa: E402

import netlab  # noqa: E402
from support import comm_of, until  # noqa: E402

SHIP = ["-H", "host[1-2]:1", "--ship"]
TRAIN = """#!/bin/sh
echo "$0 on $(hostname) in $PWD reads $(cat "$1")"
echo result > result
"""


class Ship(OnHosts):
    """The folder of the job is on host1 alone, as /run is each host's own."""

    HOSTS = 2
    WORK = "/run/tmp/work"

    def setUp(self):
        super().setUp()
        self.environment["TMPDIR"] = "/run/tmp"
        self.here, self.there = (host.path("/run/tmp") for host in self.net.hosts)
        self.files = self.here / "work"
        (self.files / "data").mkdir(parents=True)
        (self.files / "train").write_text(TRAIN)
        (self.files / "train").chmod(0o755)
        (self.files / "data" / "cfg").write_text("lr=0.1")
        (self.files / "data" / "copy").write_text("lr=0.1")

    def start(self, *words, **options):
        """In the folder of host1."""
        return self.start_in(self.WORK, *words, **options)

    def folders(self):
        return list(self.there.glob("dtrain-ship-*"))

    def nothing_stays(self):
        until(lambda: not self.folders() and not self.left(), 10, "the end of what was shipped")
        self.assertEqual(list(self.here.glob("dtrain-ship-*")), [])

    def test_a_host_that_lacks_files_works_in_a_folder_with_them(self):
        (self.files / "data" / ".hidden").write_text("")
        said = self.says(*SHIP, "--ship-files", "data", "./train", "data/copy")
        self.assertIn("./train on host1 in /run/tmp/work reads lr=0.1", said)
        self.assertRegex(said, r"\./train on host2 in /run/tmp/dtrain-ship-\S+ reads lr=0\.1")
        self.assertIn("dtrain: host2 got files of the job, and works in a folder that is removed", said)
        self.assertIn("1 hidden file", said)
        self.nothing_stays()
        self.assertTrue((self.files / "result").exists())
        # Where everything is, and only there, nothing goes: not even for a program by its absolute path.
        theirs = self.there / "work" / "data"
        theirs.mkdir(parents=True)
        for name in "train", "data/cfg", "data/copy":
            (self.there / "work" / name).write_bytes((self.files / name).read_bytes())
        (self.there / "work" / "train").chmod(0o755)
        said = self.says(*SHIP, "--ship-files", "data/cfg", f"{self.WORK}/train", "data/cfg")
        self.assertIn("./train on host2 in /run/tmp/work reads lr=0.1", said)
        self.assertNotIn("got files", said)
        (theirs / "cfg").write_text("lr=9.9")
        said = self.says(*SHIP, "--ship-files", "data/cfg", "./train", "data/cfg")
        self.assertRegex(said, r"\./train on host2 in /run/tmp/dtrain-ship-\S+ reads lr=0\.1")
        self.assertEqual((theirs / "cfg").read_text(), "lr=9.9")
        self.nothing_stays()

    def test_a_restart_works_in_the_same_folder(self):
        (self.files / "train").write_text("#!/bin/sh\n[ $TORCHELASTIC_RESTART_COUNT = 1 ] && [ -e mark ] && exit 0\n"
                                          "[ $RANK = 1 ] || exec sleep 50\n: > mark; exit 3\n")
        (self.files / "mark").touch()
        said = self.says(*SHIP, "--max-restarts", "1", "./train")
        self.assertIn("exit code 3", said)
        self.nothing_stays()

    def test_what_cannot_go_along_is_one_line(self):
        (self.files / "link").symlink_to("/etc/passwd")
        (self.files / "data" / "link").symlink_to("/etc/passwd")
        (self.files / "token").write_text("secret")
        self.environment["DTRAIN_TOKEN_FILE"] = f"{self.WORK}/token"
        with open(self.files / "big", "wb") as big:
            big.truncate(3 << 20)
        for flags, said in [(["--ship-files", "/etc/passwd"], "is not below /run/tmp/work"),
                            (["--ship-files", "../work2/x"], "is not below /run/tmp/work"),
                            (["--ship-files", "data"], "data/link is a link that leads out of data"),
                            (["--ship-files", "token"], "token is a secret of yours"),
                            (["--ship-files", "none"], "none: No such file"),
                            (["--ship-limit", "1", "--ship-files", "big"], "the largest is big with 3.0 MiB"),
                            (["--log-dir", "logs"], "--log-dir logs with --ship: give an absolute path"),
                            (["--state-dir", "s"], "--state-dir s with --ship: give an absolute path")]:
            with self.subTest(flags=flags):
                lines = self.says(*SHIP, *flags, "./train", code=2).splitlines()
                self.assertEqual(len(lines), 1, lines)
                self.assertIn(said, lines[0])
        self.assertIn("--ship: sh is no file", self.says(*SHIP, "sh", "-c", "true", code=2))
        self.assertIn("with SLURM use sbcast", self.says("--ship", "./train", code=2))
        self.assertEqual(self.folders(), [])

    def test_a_full_disk_names_the_host(self):
        with open(self.files / "big", "wb") as big:
            big.truncate(3 << 20)
        self.net.host(1).run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", "/run/tmp"])
        said = self.says(*SHIP, "--ship-files", "big", "./train", "big", code=125)
        self.assertRegex(said, r"^dtrain: host2: the job's file cannot be put into /run/tmp/dtrain-ship-\S+: big: "
                               r"No space left on device\n$")

    def test_nothing_stays_when_somebody_dies_meanwhile(self):
        with open(self.files / "big", "wb") as big:
            big.truncate(200 << 20)
        for victim in "agent", "submitter", "interrupted", "keeper":
            with self.subTest(victim=victim):
                job = self.start(*SHIP, "--ship-files", "big", "./train", "data/cfg")
                until(lambda: list(self.there.glob("dtrain-ship-*/big")), 10, "a file that is on its way")
                mine = {comm_of(pid): pid for pid in self.net.host(1).pids()}
                with contextlib.suppress(ProcessLookupError):
                    os.kill(mine["dtrain"], signal.SIGSTOP)
                big = next(self.there.glob("dtrain-ship-*/big"))
                self.assertLess(os.stat(big).st_size, 200 << 20)
                if victim == "submitter":
                    job.kill()
                elif victim == "interrupted":
                    job.send_signal(signal.SIGINT)
                else:
                    os.kill(mine["dtrain" if victim == "agent" else "dt-keeper"], signal.SIGKILL)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(mine["dtrain"], signal.SIGCONT)
                said = job.communicate(timeout=DEADLINE)[0]
                if victim == "agent":
                    self.assertRegex(said, r"^dtrain: host2: ")
                self.nothing_stays()

    def test_nothing_stays_when_a_process_of_the_job_is_killed(self):
        (self.files / "train").write_text("#!/bin/sh\necho ready\nexec sleep 50")
        for victim in "dtrain", "dtrain-agent", "dt-guard":
            with self.subTest(victim=victim):
                job = self.start(*SHIP, "./train")
                self.until_ready(job, 2)
                self.assertEqual(len(self.folders()), 1)
                for pid in self.net.host(1).pids():
                    if comm_of(pid) == victim:
                        os.kill(pid, signal.SIGKILL)
                job.communicate(timeout=DEADLINE)
                self.nothing_stays()


if __name__ == "__main__":
    netlab.become_able()
    unittest.main()
