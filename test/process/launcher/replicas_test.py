"""Replica groups: each is a job of its own, and a failure of one leaves the others alone."""
import json
import os
import re
import secrets
import signal
import sys
import unittest

from support import *
from terminal import Terminal

# Tells who it is, and then waits for signals. USR1 ends it well.
WORKER = """
import ctypes, os, signal
e = os.environ
ctypes.CDLL(None).prctl(15, e["HOSTILE_TAG"].encode())
signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
def stopped(number, frame):
    print("told", number, flush=True)
    os._exit(0)
for each in (signal.SIGTERM, signal.SIGINT): signal.signal(each, stopped)
print("ready", e["REPLICA_GROUP_ID"], e["RANK"], os.getpid(), e["TORCHELASTIC_RESTART_COUNT"], flush=True)
while True: signal.pause()
"""
PRINT_ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)), flush=True)"
LONG = 9000  # bytes of a line: more than a pipe takes in one piece
WRITER = f"""
import os
for i in range(300): print(os.environ["REPLICA_GROUP_ID"] * {LONG}, flush=i % 7 == 0)
"""


def python(code):
    return ["--no-python", sys.executable, "-c", code]


class Groups(Job):
    """Two groups of two workers."""

    def __init__(self, *args, worker=WORKER, **kwargs):
        super().__init__("--nproc", 4, "--replica-groups", 2, *args, *python(worker), **kwargs)

    def members(self, count=4):
        """{(group, rank): (pid, restart count)} of the workers that have said so last, once so many lines have come."""
        self.expect(rb"ready \d \d \d+ \d\n", count)
        found = re.findall(rb"(?m)^\[g(\d):(\d)\] ready (\d) (\d) (\d+) (\d+)$", self.output)
        for line in found:
            assert line[:2] == line[2:4], line
        return {(int(g), int(r)): (int(pid), int(restarts)) for g, r, _, _, pid, restarts in found}

    def fronts(self):
        return [pid for pid in children_of(self.front) if comm_of(pid) == "dtrain"]

    def finish(self, code=0):
        self.signal(signal.SIGUSR1)
        got = self.wait()
        assert got == code, f"{got}: {self.stderr()}"
        return self.stderr()


class EachIsAJob(ProcessTest):
    def test_environment(self):
        with Groups("--max-restarts", 3, worker=PRINT_ENVIRONMENT, env={"OMP_NUM_THREADS": ""}) as job:
            self.assertEqual(job.wait(), 0, job.stderr())
            self.assert_gone(job)
        found = re.findall(rb"(?m)^\[g(\d):(\d)\] (\{.*\})$", job.output)
        self.assertEqual(sorted((g, r) for g, r, _ in found), [(b"0", b"0"), (b"0", b"1"), (b"1", b"0"), (b"1", b"1")])
        ports = set()
        for group, rank, text in found:
            group, rank, env = group.decode(), rank.decode(), json.loads(text)
            expected = {"REPLICA_GROUP_ID": group, "NUM_REPLICA_GROUPS": "2", "RANK": rank, "LOCAL_RANK": rank,
                        "ROLE_RANK": rank, "GROUP_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                        "ROLE_WORLD_SIZE": "2", "GROUP_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
                        "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0",
                        "TORCHELASTIC_MAX_RESTARTS": "3", "TORCHELASTIC_RUN_ID": f"{job.tag}-g{group}",
                        "DTRAIN_JOB_ID": f"{job.tag}-g{group}", "DTRAIN_ROUND": "0"}
            self.assertEqual({name: env.get(name) for name in expected}, expected)
            ports.add((group, env["MASTER_PORT"]))
        self.assertEqual(len(ports), 2, "a store for each group")
        self.assertEqual(len({port for _, port in ports}), 2, "a store for each group")

    def test_nodes_have_whole_groups(self):
        seen = set()
        for node in (0, 1):
            with Job("--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1", "--nproc", 2,
                     "--replica-groups", 4, "--quiet", *python(PRINT_ENVIRONMENT)) as job:
                self.assertEqual(job.wait(), 0, job.stderr())
                self.assert_gone(job)
            for group, text in re.findall(rb"(?m)^\[g(\d):0\] (\{.*\})$", job.output):
                env = json.loads(text)
                self.assertEqual(env["REPLICA_GROUP_ID"], group.decode())
                self.assertEqual((env["NUM_REPLICA_GROUPS"], env["WORLD_SIZE"]), ("4", "1"))
                seen.add((node, int(group)))
        self.assertEqual(seen, {(0, 0), (0, 1), (1, 2), (1, 3)})

    def test_a_dead_rank_restarts_its_group_alone(self):
        with Groups("--max-restarts", 1) as job:
            before = job.members()
            self.assertEqual({restarts for _, restarts in before.values()}, {0})
            os.kill(before[1, 0][0], signal.SIGKILL)
            after = job.members(6)
            for rank in (0, 1):
                self.assertEqual(after[0, rank], before[0, rank], "the other group was disturbed")
                self.assertNotEqual(after[1, rank][0], before[1, rank][0])
                self.assertEqual(after[1, rank][1], 1)
            said = job.finish()
            self.assert_gone(job)
        self.assertRegex(said, r"dtrain: group 0: done: 2 workers, [^,]*\n")
        self.assertRegex(said, r"dtrain: group 1: done: 2 workers, [^,]*, 1 restart\n")

    def test_a_group_without_restarts_ends_alone_and_gives_the_exit_code(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        with Groups("--report", os.path.join(folder, "out.json")) as job:
            before = job.members()
            os.kill(before[1, 1][0], signal.SIGKILL)
            until(lambda: "goes on" in job.stderr(), DEADLINE, "the end of group 1")
            self.assertEqual(len(job.fronts()), 1)
            for rank in (0, 1):
                self.assertTrue(os.path.exists(f"/proc/{before[0, rank][0]}"))
                self.assertFalse(os.path.exists(f"/proc/{before[1, rank][0]}"))
            said = job.finish(137)
            self.assert_gone(job)
        self.assertIn(f"dtrain: job {job.tag}-g1 failed, exit code 137\n", said)
        self.assertIn("dtrain: group 1 has failed, exit code 137; 1 other group goes on\n", said)
        self.assertRegex(said, r"dtrain: group 0: done: 2 workers")
        self.assertTrue(said.endswith("dtrain: 1 of 2 groups failed (1), exit code 137\n"), said)
        self.assertEqual(os.listdir(folder), ["out.g1.json"])
        with open(os.path.join(folder, "out.g1.json")) as report:
            self.assertEqual(json.load(report)["job"], f"{job.tag}-g1")

    def test_lines_of_groups_stay_whole(self):
        with Groups("--quiet", worker=WRITER) as job:
            self.assertEqual(job.wait(), 0, job.stderr())
        lines = job.output.splitlines()
        self.assertEqual(len(lines), 4 * 300)
        for line in lines:
            self.assertRegex(line, rb"\A\[g(\d):\d\] \1{%d}\Z" % LONG)


class Stopping(ProcessTest):
    def test_a_request_is_one_for_each_worker_whoever_gets_it(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            with self.subTest(number), Groups() as job:
                job.members()
                os.killpg(job.front, number)  # as Ctrl-C, and timeout: the fronts of the groups get it too
                self.assertEqual(job.wait(), code)
                self.assertEqual(len(re.findall(rb"told %d\n" % number, job.output)), 4, job.output)
                self.assert_gone(job)
                self.assertNotIn("failed", job.stderr())
        self.assertEqual(job.process.returncode, -signal.SIGINT, "a shell loop would go on")

    def test_a_second_request_kills(self):
        deaf = WORKER.replace("    os._exit(0)\nfor", "for")
        one = lambda job, number: job.signal(number)
        for number, code, send in ((signal.SIGTERM, 143, one),
                                   (signal.SIGINT, 130, lambda job, number: os.killpg(job.front, number))):
            with self.subTest(number), Groups("--shutdown-timeout", 600, worker=deaf) as job:
                job.members()
                send(job, number)
                job.expect(rb"told %d\n" % number, 4)
                until_it_counts()
                send(job, number)
                self.assertEqual(job.wait(), code)
                self.assert_gone(job)

    def test_a_group_whose_dtrain_is_stopped_ends_too(self):
        with Groups() as job:
            job.members()
            front = job.fronts()[0]
            os.kill(front, signal.SIGSTOP)

            def ask(words):
                job.signal(signal.SIGTERM)
                return words in job.stderr()
            until(lambda: ask(f"its dtrain (pid {front}) does not run; continue it"), DEADLINE, "the second request")
            until(lambda: ask(f"its dtrain (pid {front}) does not run: it is killed"), DEADLINE, "a later one")
            self.assertEqual(job.wait(), 143)
            self.assert_gone(job)

    def test_whatever_is_killed_nothing_is_left(self):
        with Groups() as job:
            before = job.members()
            front = job.fronts()[1]
            group = 1 if any(stat_of(pid)[1] == guard for agent in children_of(front) for guard in children_of(agent)
                             for pid in (before[1, 0][0],)) else 0
            os.kill(front, signal.SIGKILL)
            gone, left = [[before[g, r][0] for r in (0, 1)] for g in (group, 1 - group)]
            until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in gone), DEADLINE, "the end of its workers")
            self.assertTrue(all(stat_of(pid)[0] == "S" for pid in left))
            said = job.finish(125)
            self.assertIn(f"group {group} has ended: its dtrain was killed by SIGKILL; 1 other group goes on", said)
            self.assert_gone(job)
        with Groups() as job:
            job.folders_may_stay = True
            job.members()
            os.kill(job.front, signal.SIGKILL)
            job.wait()
            self.assert_gone(job)

    def test_ctrl_z_stops_all_groups_and_fg_continues_them(self):
        tag = "h" + secrets.token_hex(6)
        shell = Terminal("bash", "--norc", "--noprofile", "--noediting", "-i")
        try:
            shell.expect(rb"\$ ")
            shell.type(f"export HOSTILE_TAG={tag}; echo set\n".encode())
            shell.expect(rb"\nset\r\n")
            shell.type(f"{DTRAIN} run --quiet --color never --shutdown-timeout 1 --nproc 2 --replica-groups 2 "
                       f"{HOSTILE} daemon\n".encode())
            shell.expect(rb"ready\r\n[^$]*ready\r\n")
            states = lambda: [stat_of(pid)[0] for pid in tagged(tag)]
            count = len(states())
            self.assertGreaterEqual(count, 2)
            shell.type(b"\x1a")
            shell.expect(rb"Stopped")
            until(lambda: states() == ["T"] * count, DEADLINE, "the stop of every worker")
            shell.type(b"fg\n")
            until(lambda: len(states()) == count and set(states()) <= set("RS"), DEADLINE, "every worker's going on")
            # The job is stopped no sooner than a group that is slow to stop. So `fg` continues that too, and its front
            # ends the agent that stays stopped.
            [first] = [pid for pid in children_of(shell.pid) if comm_of(pid) == "dtrain"]
            [agent] = children_of(children_of(first)[0])
            os.kill(agent, signal.SIGSTOP)
            shell.type(b"\x1a")
            shell.expect(rb"Stopped")
            shell.type(b"fg\n")
            until(lambda: not os.path.exists(f"/proc/{agent}"), DEADLINE, "the front's going on")
            shell.type(b"\x03")
            until(lambda: not tagged(tag), DEADLINE, "the end of the workers")
        finally:
            shell.close()


class Refusals(ProcessTest):
    def test_what_cannot_be_had_is_one_line_and_exit_code_2(self):
        for flags, words in ((["--nproc", "3"], "3 workers of this node cannot be divided into 2 equal groups"),
                             (["--nproc", "4", "--survivors", "1"], "leave out one of the two"),
                             (["--nproc", "2", "--nnodes", "1:2"], "without a MIN:MAX")):
            done = subprocess.run([DTRAIN, "run", "--replica-groups", "2", *flags, "true"], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
