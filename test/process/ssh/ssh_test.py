#!/usr/bin/env python3
"""dtrain run --hosts: agents on the hosts of a lab, started by a real ssh."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from ssh_case import DEADLINE, OnHosts  # noqa: E402

import netlab  # noqa: E402
from data_job import SHOW, DataJob  # noqa: E402
from lab_case import new_token  # noqa: E402
from support import DTRAIN, said_by, until  # noqa: E402

DEEPSPEED = HERE.parents[2] / ".venv-peers/bin/deepspeed"

FACTS = "echo rank $RANK of $WORLD_SIZE, $LOCAL_RANK on $(hostname) which is $GROUP_RANK in $PWD with $LR"
ROW = re.compile(r"rank (\d+) of (\d+), (\d+) on (\S+) which is (\d+) in (\S+) with (.*)")


class Ssh(OnHosts):
    def rows(self, said):
        return sorted((int(rank), int(size), int(local), host, int(node))
                      for rank, size, local, host, node, *_ in ROW.findall(said))

    def test_one_command_is_a_job_on_all_hosts(self):
        said = self.says("--hosts", "host[1-3]:2", "sh", "-c", FACTS)
        self.assertEqual(self.rows(said), [(r, 6, r % 2, f"host{r // 2 + 1}", r // 2) for r in range(6)])
        self.assertEqual({row[5:] for row in ROW.findall(said)}, {(self.folder, self.environment["LR"])}, said)

    def test_as_horovodrun(self):
        said = self.says("-np", "4", "-H", "host2:2,host3:2,host1:2", "sh", "-c",
                         FACTS + "; env | grep HOROVOD_ | sort | tr '\\n' ' '; echo")
        self.assertEqual(self.rows(said), [(r, 4, r % 2, f"host{r // 2 + 2}", r // 2) for r in range(4)])
        self.assertIn("HOROVOD_CROSS_RANK=1 HOROVOD_CROSS_SIZE=2 HOROVOD_LOCAL_RANK=0 HOROVOD_LOCAL_SIZE=2 "
                      "HOROVOD_RANK=2 HOROVOD_SIZE=4", said)
        said = self.says("-np", "3", "-H", "host2:2,host3:2", "sh", "-c",
                         "env | grep HOROVOD_ | sort | tr '\\n' ' '; echo")
        self.assertIn("[2] HOROVOD_LOCAL_RANK=0 HOROVOD_LOCAL_SIZE=1 HOROVOD_RANK=2 HOROVOD_SIZE=3", said)

    def test_a_file_and_a_choice_of_its_hosts(self):
        pathlib.Path(self.folder, "hosts").write_text("host1 slots=1\nhost2 slots=2  # big\nhost3 slots=2\n")
        said = self.says("--hostfile", "hosts", "--include", "host2@host3:1", "sh", "-c",
                         FACTS + "; echo GPUs ${CUDA_VISIBLE_DEVICES-all} on $(hostname)")
        self.assertEqual(self.rows(said), [(0, 3, 0, "host2", 0), (1, 3, 1, "host2", 0), (2, 3, 0, "host3", 1)])
        self.assertIn("GPUs 1 on host3", said)
        self.assertIn("GPUs all on host2", said)

    def with_config(self, text, *words):
        """The file is gone when the command has it: nobody else can read it."""
        pathlib.Path(self.folder, "job.yaml").write_text(text)
        gone = 'exec 9<job.yaml && rm job.yaml && exec "$@"'
        return self.net.host(0).run(["sh", "-c", gone, "-", os.path.abspath(DTRAIN), "run", *words], cwd=self.folder,
                                    env={**self.environment, "DTRAIN_CONFIG": "/proc/self/fd/9", "DTRAIN_ROLE": "mine"})

    def test_the_values_of_a_config_file_go_along(self):
        job = "hosts: ['host[1-2]']\nnnodes: 2\nnum_processes: 4\nrole: file\nstrategy: {type: fsdp}\n"
        show = "[ -z \"$DTRAIN_CONFIG\" ]; echo config $? role $ROLE_NAME strategy $DTRAIN_STRATEGY;" + FACTS
        said = self.with_config(job, "--hosts", "host[2-3]", "sh", "-c", show)
        self.assertEqual(self.rows(said.stdout), [(r, 4, r % 2, f"host{r // 2 + 2}", r // 2) for r in range(4)], said)
        self.assertEqual(said.stdout.count('config 0 role mine strategy {"type":"fsdp"}'), 4, said)
        said = self.with_config(job + "tee: 9\n", "true")
        self.assertEqual(said.returncode, 2, said)
        self.assertIn("/proc/self/fd/9:6: tee '9': expected", said.stderr)

    def test_a_data_set_is_built_once_and_each_host_reads_it(self):
        job = DataJob(self.folder, DTRAIN, "hosts: ['host[1-3]:1']\n")
        for _ in range(2):
            said = self.net.host(0).run([job.dtrain, "run", "--config", job.config, "sh", "-c", SHOW],
                                        cwd=self.folder, env=self.environment)
            self.assertEqual(sorted(re.findall(r"rank \d reads abc and a", said.stdout)),
                             [f"rank {rank} reads abc and a" for rank in range(3)], said)
            self.assertEqual((said.returncode, job.builds()), (0, 1), said)

    def test_hosts_that_do_not_see_the_cache_are_named_before_it_is_filled(self):
        job = DataJob(self.folder, DTRAIN, "hosts: ['host[1-3]:1']\n")
        config = pathlib.Path(job.config)
        config.write_text(config.read_text().replace("/cache", "/shared/cache"))
        cache = pathlib.Path(self.folder, "shared/cache")
        cache.mkdir(parents=True)
        for host, hidden in (1, cache), (2, cache.parent):
            self.net.host(host).run(["mount", "-t", "tmpfs", "none", hidden], check=True)
        run = [job.dtrain, "run", "--config", job.config, "sh", "-c", SHOW]
        cure = "; choose a backend.cache_dir that all nodes have"
        said = self.net.host(0).run(run, cwd=self.folder, env=self.environment)
        self.assertEqual((said.returncode, said.stdout), (2, ""), said)
        self.assertEqual(sorted(said.stderr.splitlines()), [
            f"dtrain: host2: backend.cache_dir: {cache} on this node is another folder than on the node that builds "
            f"the data set{cure}", f"dtrain: host3: backend.cache_dir: {cache} is not there on this node{cure}"])
        self.assertFalse((job.folder / "in/builds").exists())
        self.assertEqual([path.name for path in cache.iterdir()], [".lock"])
        # The job that needs no other host is not asked. What is there need not be built, and then its reader looks.
        alone = self.net.host(0).run([*run[:4], "--hosts=host1:1", *run[4:]], cwd=self.folder, env=self.environment)
        self.assertIn("rank 0 reads abc", alone.stdout, alone)
        said = self.net.host(0).run(run, cwd=self.folder, env=self.environment)
        self.assertEqual(said.returncode, 2, said)
        self.assertRegex(said.stderr, r"host[23]: DTRAIN_DATASET: \S+ is not there on this node")

    def test_a_job_on_this_host_needs_no_ssh(self):
        self.environment["DTRAIN_SSH"] = "/nonexistent/ssh"
        said = self.says("-H", "localhost:2", "sh", "-c", FACTS)
        self.assertEqual(self.rows(said), [(0, 2, 0, "host1", 0), (1, 2, 1, "host1", 0)])

    def test_workers_here_have_the_users_limit_of_descriptors(self):
        flags = ["-H", "localhost:1", "sh", "-c", "ulimit -Sn"]
        said = subprocess.run(["bash", "-c", 'ulimit -Sn 900; exec "$@"', "-", DTRAIN, "run", *flags],
                              cwd=self.folder, env=self.environment, timeout=DEADLINE, text=True, capture_output=True)
        self.assertEqual((said.returncode, said.stdout), (0, "[0] 900\n"), said.stderr)

    def test_the_users_own_token_and_place_count(self):
        token = new_token(DTRAIN, self.folder)
        said = self.says("-H", "host1,host2", "--token-file", token, "--rdzv-endpoint", "host2:29500", "--nproc", "1",
                         "sh", "-c", FACTS)
        self.assertEqual([row[:2] for row in self.rows(said)], [(0, 2), (1, 2)])
        said = self.says("-H", "host1,host2", "--nproc", "1", "sh", "-c", "echo token ${DTRAIN_TOKEN-none}")
        self.assertEqual(said.count("token none"), 2, said)

    def test_a_backend_and_a_name_of_the_users_own(self):
        for flags in ["--rdzv-backend", "c10d"], ["--rdzv-backend", "static"], ["--rdzv-id", "mine"]:
            with self.subTest(flags=flags):
                said = self.says("-H", "host[1-2]:1", *flags, "sh", "-c", FACTS)
                self.assertEqual([row[:2] for row in self.rows(said)], [(0, 2), (1, 2)])

    def test_a_job_that_goes_on_without_a_host_is_done(self):
        job = self.start("-H", "host[1-2]:1", "--nnodes", "1:2", "--rdzv-conf", "last_call_timeout=1", "sh", "-c",
                         "echo ready; [ $WORLD_SIZE = 1 ] || exec sleep 50")
        self.until_ready(job, 2)
        self.net.host(1).crash()
        said = job.communicate(timeout=DEADLINE)[0]
        self.assertEqual(job.returncode, 0, said)

    def test_workers_here_can_save_when_the_command_is_killed(self):
        job = self.start("-H", "localhost:1", "bash", "-c",
                         "trap 'touch saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
        self.until_ready(job, 1)
        job.kill()
        job.wait()
        until(lambda: os.path.exists(os.path.join(self.folder, "saved")), 10, "the worker's end")

    def test_output_that_is_not_written_is_told(self):
        with open("/dev/full", "w") as full:
            job = self.net.host(0).run([DTRAIN, "run", "-H", "localhost:1", "echo", "lost"], env=self.environment,
                                       stdout=full)
        self.assertIn("(1 lines) of stdout were not written: No space left on device", job.stderr)

    def test_the_exit_code_is_the_jobs(self):
        said = self.says("-H", "host1:1,host2:1", "sh", "-c", "[ $RANK = 0 ] || exit 7; sleep 50", code=7)
        self.assertRegex(said, r"rank 1.*exit code 7|exit code 7.*rank 1")
        self.says("-H", "host1:1,host2:1", "sh", "-c", "[ $RANK = 0 ] || kill -SEGV $$; sleep 50", code=139)

    def test_what_one_host_lacks_is_told_before_anything_starts(self):
        program = os.path.join("/run/tmp", "train")
        shutil.copy("/usr/bin/touch", self.net.host(0).path(program))
        mark = os.path.join(self.folder, "started")
        said = self.says("-H", "host1:1,host2:1", program, mark, code=127)
        self.assertEqual(said.splitlines(), [f"dtrain: host2: {program}: no such file"])
        self.assertFalse(os.path.exists(mark))
        os.mkdir(self.net.host(0).path("/run/tmp/here"))
        job = self.net.host(0).run(["sh", "-c", f"cd /run/tmp/here && exec {DTRAIN} run -H host1,host2 true"],
                                   env=self.environment)
        self.assertEqual(job.returncode, 2, job.stderr)
        self.assertIn("host2: the job's folder cannot be entered there: /run/tmp/here", job.stderr)

    def test_a_host_that_cannot_be_reached(self):
        self.ssh.stop("host3")
        said = self.says("-H", "host[1-3]:1", "true", code=125)
        self.assertRegex(said, r"^dtrain: host3: ssh: connect to host host3 .*refused\n$")
        said = self.says("-H", "host[1-3]:1", "--nnodes", "2:3", "--rdzv-conf", "last_call_timeout=1", "sh", "-c",
                         FACTS)
        self.assertIn("refused; the job begins without it", said)
        self.assertEqual([row[:2] for row in self.rows(said)], [(0, 2), (1, 2)])
        pathlib.Path(self.folder, "known_hosts").write_text("")
        self.assertIn("dtrain: host2: Host key verification failed.", self.says("-H", "host1,host2", "true", code=125))

    def test_nothing_is_left_when_it_is_ended(self):
        for number in signal.SIGTERM, signal.SIGINT, signal.SIGKILL:
            with self.subTest(signal=number):
                job = self.start("-H", "host[1-2]:2", "--shutdown-timeout", "1", "sh", "-c",
                                 "trap '' TERM INT; echo ready; while :; do sleep 0.1; done")
                self.until_ready(job, 4)
                job.send_signal(number)
                job.communicate(timeout=DEADLINE)
                self.assertIn(job.returncode, (128 + number, -number))
                until(lambda: not self.left(), 10, "the end of all")

    def test_workers_hear_signals(self):
        job = self.start("-H", "host[1-2]:1", "bash", "-c",
                         "trap 'echo saved; exit 0' TERM; trap 'echo dumped' USR1; echo ready; "
                         "while :; do sleep 0.05; done")
        self.until_ready(job, 2)
        job.send_signal(signal.SIGUSR1)
        dumped = 0
        while dumped < 2:
            line = job.stdout.readline()
            self.assertTrue(line)
            dumped += "dumped" in line
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.communicate(timeout=DEADLINE)[0].count("saved"), 2)
        self.assertEqual(job.returncode, 143)

    def test_a_second_request_kills(self):
        job = self.start("-H", "host[1-2]:1", "sh", "-c", "trap '' INT TERM; echo ready; while :; do sleep 0.1; done")
        self.until_ready(job, 2)
        # Signals within a second are one request.
        for _ in range(10):
            job.send_signal(signal.SIGTERM)
            try:
                job.communicate(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                pass
        self.assertEqual(job.returncode, 143)

    def connections(self):
        """To the two other hosts: the processes of ssh."""
        mine = [pid for pid in self.net.host(0).pids()
                if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ssh\0")]
        self.assertEqual(len(mine), 2)
        return mine

    def test_a_connection_that_is_lost_ends_the_job_there(self):
        job = self.start("-H", "host[1-3]:1", "sh", "-c", "echo ready; exec sleep 50")
        self.until_ready(job, 3)
        os.kill(self.connections()[0], signal.SIGKILL)
        job.communicate(timeout=DEADLINE)
        self.assertNotEqual(job.returncode, 0)

    def test_a_host_that_is_lost_ends_the_job(self):
        job = self.start("-H", "host[1-3]:1", "sh", "-c", "echo ready; exec sleep 50")
        self.until_ready(job, 3)
        self.net.host(2).crash()
        said = job.communicate(timeout=DEADLINE)[0]
        self.assertNotEqual(job.returncode, 0, said)
        self.assertIn("host3", said)

    def test_replica_groups_go_on_without_a_host_that_is_lost(self):
        os.mkfifo(self.environment.setdefault("FIFO", os.path.join(self.folder, "fifo")))
        job = self.start("-H", "host[1-3]:2", "--replica-groups", "3", "bash", "-c",
                         "trap 'exit 0' USR1; echo ready $REPLICA_GROUP_ID of $NUM_REPLICA_GROUPS on $(hostname), "
                         "$RANK of $WORLD_SIZE; while :; do read -t 0.1 x <&3 || :; done 3<>$FIFO")
        said = ""
        while said.count("] ready") < 6:
            said += (line := job.stdout.readline())
            self.assertTrue(line, "the job has ended: " + said)
        self.assertNotIn("hosts the job", said)
        found = sorted(re.findall(r"\[g(\d):(\d)\] ready (\d) of 3 on host(\d), (\d) of 2\n", said))
        self.assertEqual(found, [(str(g), str(r), str(g), str(g + 1), str(r)) for g in range(3) for r in (0, 1)], said)
        os.kill(self.connections()[0], signal.SIGKILL)
        while not (lost := re.search(r"host(\d): ssh has ended", line := job.stdout.readline())):
            self.assertTrue(line, "the job has ended")
        left = [group for group in "012" if int(group) + 1 != int(lost[1])]
        job.send_signal(signal.SIGUSR1)
        rest = job.communicate(timeout=DEADLINE)[0]
        self.assertEqual(job.returncode, 125, rest)
        self.assertEqual(sorted(re.findall(r"group (\d): done: 2 workers", rest)), left, rest)

    def test_lines_stay_whole(self):
        said = self.says("-H", "host[1-3]:2", "sh", "-c",
                         "i=0; while [ $i -lt 3000 ]; do echo line $i of $RANK which is long enough to matter; "
                         "echo line $i of $RANK which is long enough to matter >&2; i=$((i+1)); done")
        lines = re.findall(r"^\[(\d)] line (\d+) of (\d) which is long enough to matter$", said, re.M)
        self.assertEqual(len(lines), 2 * 6 * 3000)
        self.assertTrue(all(prefix == rank for prefix, _, rank in lines))

    def test_no_secret_is_to_be_seen(self):
        job = self.start("-H", "host[1-2]:1", "sh", "-c", "echo ready; exec sleep 50")
        self.until_ready(job, 2)
        for pid in self.left():
            for file in "cmdline", "environ":
                with open(f"/proc/{pid}/{file}", "rb") as seen:
                    self.assertNotRegex(seen.read(), rb"dtrain-[A-Za-z0-9_-]{48}")
        job.terminate()
        job.communicate(timeout=DEADLINE)

    def test_a_dry_run_shows_the_commands(self):
        said = self.says("-H", "host[1-2]:1", "--dry-run", "true")
        self.assertRegex(said, r"(?m)^host1: /proc/self/exe agent$")
        self.assertRegex(said, r"(?m)^host2: ssh -F .* host2 '/bin/sh -c ")
        self.assertIn("each agent: -- true", said)

    @unittest.skipUnless(DEEPSPEED.exists(), "no .venv-peers: scripts/setup.sh peers")
    def test_deepspeeds_command_with_several_hosts(self):
        pathlib.Path(self.folder, "hosts").write_text("host1 slots=1\nhost2 slots=2\nhost3 slots=2\n")
        script = pathlib.Path(self.folder, "says")
        script.write_text(f'#!/bin/sh\n{FACTS}\necho $CROSS_RANK/$CROSS_SIZE $LOCAL_SIZE $1-$LOCAL_RANK "$2"\n')
        script.chmod(0o755)
        words = [DTRAIN, "shim", DEEPSPEED, "-H", "hosts", "--include", "host2@host3:1", "--no_ssh_check",
                 "--master_addr", "host2", "--no_python", "./says", "a b"]
        job = self.net.host(0).popen(list(map(str, words)), env=self.environment, cwd=self.folder, text=True,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(job.stdout.close)
        said = said_by(self, job, 0, DEADLINE)
        self.assertEqual(self.rows(said), [(0, 3, 0, "host2", 0), (1, 3, 1, "host2", 0), (2, 3, 0, "host3", 1)])
        nodes = sorted(re.findall(r"(?m)^\[\d\] (./2 .*)$", said))
        self.assertEqual(nodes, [f"{node} --local_rank={rank}-{rank} a b"
                                 for node, rank in (("0/2 2", 0), ("0/2 2", 1), ("1/2 1", 0))], said)


if __name__ == "__main__":
    netlab.become_able()
    unittest.main()
