"""Several nodes of one job on this host: real agents, real workers, a real store between them."""
import contextlib
import json
import os
import re
import signal
import socket
import unittest

from support import DEADLINE, NOBODY, Job, free_port, needs_root, until

# Prints its place; then meets the others at a barrier of the store (opcode 18), whose key is the same in every round,
# so that a store which is not fresh would let them through too early; then does what its arguments say.
WORKER = r"""
trap 'echo "got TERM"; exit 3' TERM
trap 'echo "got INT"; exit 3' INT
echo "at R=$RANK L=$LOCAL_RANK G=$GROUP_RANK/$GROUP_WORLD_SIZE W=$WORLD_SIZE/$LOCAL_WORLD_SIZE \
RR=$ROLE_RANK/$ROLE_WORLD_SIZE M=$MASTER_ADDR:$MASTER_PORT N=$DTRAIN_ROUND RC=$TORCHELASTIC_RESTART_COUNT."
exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT"
printf '\x00\xce\xf7\x85\x3c' >&3
printf "\x12\x01\0\0\0\0\0\0\0b\\x$(printf %02x "$WORLD_SIZE")\0\0\0\0\0\0\0" >&3
[ "$(head -c1 <&3 | od -An -tx1)" = " 00" ] || exit 99
echo "met $RANK in $DTRAIN_ROUND."
# A trap runs once read is back, and a signal just before it blocks does not interrupt it: it waits a second at most.
wait_for_end() { while :; do read -r -t 1 <&3; done; }
"""


class Nodes(unittest.TestCase):
    def setUp(self):
        self.port = free_port()
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def node(self, script, *flags, worker=WORKER, job="nodes-test", **kwargs):
        return self.stack.enter_context(
            Job("--rdzv-id", f"{job}-{self.port}", *flags, "bash", "-c", worker + script, **kwargs))

    def static(self, rank, script, *flags, nnodes=2, **kwargs):
        return self.node(script, "--nnodes", nnodes, "--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port",
                         self.port, *flags, **kwargs)

    def c10d(self, script, *flags, nnodes="2", **kwargs):
        return self.node(script, "--nnodes", nnodes, "--rdzv-backend", "c10d", "--rdzv-endpoint",
                         f"localhost:{self.port}", *flags, **kwargs)

    def assert_nothing_left(self, *jobs):
        for job in jobs:
            job.time_to_nothing()
            self.assertEqual(job.traces(), [])
        with socket.socket() as probe:
            self.assertNotEqual(probe.connect_ex(("127.0.0.1", self.port)), 0, "the port is still open")

    def ends(self, codes, *jobs):
        for job, code in zip(jobs, codes):
            self.assertEqual(job.wait(), code, job.stderr())
        self.assert_nothing_left(*jobs)

    def test_static_places(self):
        second = self.static(1, "", "--nproc", 3)  # node 0 may come later
        until(lambda: "waiting: nobody at" in second.stderr(), DEADLINE)
        first = self.static(0, "", "--nproc", 2)
        self.ends([0, 0], first, second)
        places = sorted(re.findall(rb"at (.*)\.\n", first.output + second.output))
        master = f"M=127.0.0.1:{self.port} N=0 RC=0"
        self.assertEqual([p.decode() for p in places], [
            f"R={rank} L={local} G={node}/2 W=5/{count} RR={rank}/5 {master}"
            for rank, (local, node, count) in enumerate([(0, 0, 2), (1, 0, 2), (0, 1, 3), (1, 1, 3), (2, 1, 3)])])
        self.assertEqual(len(re.findall(rb"met", first.output + second.output)), 5)

    def test_roles(self):
        jobs = [self.static(0, "", "--role", "a", "--nproc", 1, nnodes=3),
                self.static(1, "", "--role", "b", "--nproc", 2, nnodes=3),
                self.static(2, "", "--role", "a", "--nproc", 1, nnodes=3)]
        self.ends([0, 0, 0], *jobs)
        self.assertEqual(sorted(re.findall(rb"R=(\d) .* RR=(\S+) ", b"".join(j.output for j in jobs))),
                         [(b"0", b"0/2"), (b"1", b"0/2"), (b"2", b"1/2"), (b"3", b"1/2")])

    def test_c10d_whoever_comes_first_hosts(self):
        jobs = [self.c10d("", "--nproc", 2, nnodes="3") for _ in range(3)]
        self.ends([0, 0, 0], *jobs)
        ranks = re.findall(rb"R=(\d) .* G=(\d)/3 W=6/2", b"".join(j.output for j in jobs))
        self.assertEqual(sorted(ranks), [(b"%d" % r, b"%d" % (r // 2)) for r in range(6)])

    def test_one_node_with_a_port(self):
        one = self.node("", "--master-port", self.port)
        self.ends([0], one)
        self.assertIn(f"M=127.0.0.1:{self.port} ".encode(), one.output)

    def test_restart_of_all(self):
        script = '[ $RANK = 2 ] && [ $DTRAIN_ROUND = 0 ] && exit 7; [ $DTRAIN_ROUND = 0 ] && wait_for_end; exit 0'
        jobs = [self.c10d(script, "--nproc", 2, "--max-restarts", 1) for _ in range(2)]
        self.ends([0, 0], *jobs)
        output = b"".join(j.output for j in jobs)
        self.assertEqual(len(re.findall(rb"N=0 RC=0\.", output)), 4)
        self.assertEqual(len(re.findall(rb"N=1 RC=1\.", output)), 4)
        self.assertEqual(len(re.findall(rb"met \d in 1\.", output)), 4)

    def test_failure_is_everybodys(self):
        script = '[ $RANK = 3 ] && exit 7; wait_for_end'
        first, second = self.static(0, script, "--nproc", 2), self.static(1, script, "--nproc", 2)
        self.ends([7, 7], first, second)
        self.assertRegex(first.stderr(), r"first failure: node 1 \(host .*, agent \d+\): rank 3 \(local rank 1\): "
                                         r"exit code 7; the report is on that node\n")
        self.assertIn("first failure: rank 3: exit code 7\n", second.stderr())
        self.assertIn("stopped by dtrain", first.stderr())

    def test_one_report_file_for_all(self):
        path = os.path.join(self.stack.enter_context(Job("true")).folder, "report.json")
        script = '[ $RANK = 1 ] && exit 7; wait_for_end'
        with open(path, "w") as old:
            old.write("of a job before")
        self.ends([7, 7], *[self.static(rank, script, "--report", path) for rank in (0, 1)])
        with open(path) as report:
            self.assertEqual(json.load(report)["first_failure"]["rank"], 1)

    def test_a_spare_does_not_take_the_failure_for_its_own(self):
        go = os.path.join(self.stack.enter_context(Job("true")).folder, "go")
        os.mkfifo(go)
        script = '[ $RANK = 0 ] && read -r < "$GO" && exit 7; wait_for_end'
        jobs = [self.c10d(script, env={"GO": go}) for _ in range(2)]
        for job in jobs:
            job.expect(rb"met")
        spare = self.c10d(script)
        until(lambda: "spare" in spare.stderr(), DEADLINE)
        with open(go, "w") as pipe:  # opens when the worker of node 0 reads
            pipe.write("\n")
        self.ends([7, 7, 7], *jobs, spare)
        self.assertRegex(spare.stderr(), "first failure: node 0 .*; the report is on that node")

    def test_a_node_that_has_ended_well_can_be_stopped(self):
        go = os.path.join(self.stack.enter_context(Job("true")).folder, "go")
        os.mkfifo(go)
        script = '[ $RANK = 1 ] || read -r < "$GO"'
        host, other = [self.static(rank, script, env={"GO": go}) for rank in (0, 1)]
        for job in (host, other):
            job.expect(rb"met").find_processes()
        until(lambda: not other.workers(), DEADLINE)
        other.signal(signal.SIGTERM)
        self.assertEqual(other.wait(), 143, other.stderr())
        with open(go, "w") as pipe:  # opens when the worker of node 0 reads
            pipe.write("\n")
        self.ends([0], host)

    def test_killed_agent(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                self.port = free_port()
                jobs = [self.static(0, "wait_for_end"), self.static(1, "wait_for_end")]
                for job in jobs:
                    job.expect(rb"met").find_processes()
                jobs[victim].signal(signal.SIGKILL, jobs[victim].agent)
                self.ends([125, 125], *jobs)
                told = "node 1 .* was lost" if victim else "the agent that hosts .* is gone"
                self.assertRegex(jobs[1 - victim].stderr(), told)

    def test_killed_front_and_guard(self):
        for victim, code in (("front", 137), ("guard", 125)):
            with self.subTest(victim=victim):
                self.port = free_port()
                jobs = [self.static(0, "wait_for_end"), self.static(1, "wait_for_end")]
                for job in jobs:
                    job.expect(rb"met").find_processes()
                jobs[1].signal(signal.SIGKILL, getattr(jobs[1], victim))
                self.ends([125, code], *jobs)
                self.assertRegex(jobs[0].stderr(), "node 1 .* was lost")

    def test_stopped_agent(self):
        jobs = [self.static(0, "wait_for_end"), self.static(1, "wait_for_end")]
        for job in jobs:
            job.expect(rb"met").find_processes()
        jobs[1].stop(jobs[1].agent)
        self.ends([125, 125], *jobs)

    def test_elastic_job_goes_on_without_a_killed_agent(self):
        script = '[ $WORLD_SIZE = 2 ] && wait_for_end; exit 0'
        host = self.c10d(script, nnodes="1:2")
        until(lambda: "up to 1 more" in host.stderr(), DEADLINE)
        other = self.c10d(script, nnodes="1:2")
        for job in (host, other):
            job.expect(rb"met").find_processes()
        other.signal(signal.SIGKILL, other.agent)
        self.ends([0, 125], host, other)
        self.assertIn(b"at R=0 L=0 G=0/1 W=1/1 RR=0/1", host.output)
        self.assertIn(b"N=1 RC=0.", host.output)

    def test_late_node_joins_in_a_new_round(self):
        script = '[ $WORLD_SIZE = 1 ] && wait_for_end; exit 0'
        host = self.c10d(script, "--rdzv-conf", "last_call_timeout=0.1", nnodes="1:2")
        host.expect(rb"met 0 in 0")
        late = self.c10d(script, "--rdzv-conf", "last_call_timeout=0.1", nnodes="1:2")
        self.ends([0, 0], host, late)
        self.assertIn(b"at R=0 L=0 G=0/2", host.output)
        self.assertIn(b"at R=1 L=0 G=1/2", late.output)
        self.assertIn("a new node", host.stderr())

    def test_a_third_node_joins_two_and_one_of_them_is_killed(self):
        script = '[ $DTRAIN_ROUND = 2 ] || wait_for_end; exit 0'
        flags = ("--nproc", 2, "--rdzv-conf", "last_call_timeout=0.1")
        host = self.c10d(script, *flags, nnodes="2:3")
        until(lambda: "1/2 nodes" in host.stderr(), DEADLINE)
        second = self.c10d(script, *flags, nnodes="2:3")
        for job in (host, second):
            job.expect(rb"met \d in 0").find_processes()
        third = self.c10d(script, *flags, nnodes="2:3")
        for job in (host, second, third):
            job.expect(rb"met \d in 1")
        second.signal(signal.SIGKILL, second.agent)
        self.ends([0, 125, 0], host, second, third)
        places = [(job, place) for job in (host, second, third) for place in
                  re.findall(rb"R=(\d) .* G=(\d)/(\d) W=(\d)/2 .* N=(\d) RC=(\d)\.", job.output)]
        node_rank = {0: [host, second], 1: [host, second, third], 2: [host, third]}
        self.assertCountEqual(places, [
            (job, tuple(b"%d" % n for n in (2 * node + local, node, len(nodes), 2 * len(nodes), number, 0)))
            for number, nodes in node_rank.items() for node, job in enumerate(nodes) for local in (0, 1)])
        self.assertRegex(host.stderr(), "a new node .* joins")
        self.assertRegex(host.stderr(), "node 1 .* was lost")

    def test_one_node_takes_a_free_port_and_another_finds_it(self):
        script = '[ $WORLD_SIZE = 2 ] || wait_for_end; exit 0'
        self.port = 0
        host = self.c10d(script, nnodes="1:2", job="free")
        until(lambda: "nodes meet at" in host.stderr(), DEADLINE)
        port = int(re.search(r"nodes meet at 127\.0\.0\.1:(\d+)\n", host.stderr())[1])
        other = self.node(script, "--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}",
                          job="free")
        self.port = port
        self.ends([0, 0], host, other)
        self.assertIn(f"M=localhost:{port} N=0 RC=0.".encode(), host.output + other.output)

    def test_stop_of_one_node_stops_the_job(self):
        for who in (0, 1):
            with self.subTest(who=who):
                self.port = free_port()
                jobs = [self.static(0, "wait_for_end"), self.static(1, "wait_for_end")]
                for job in jobs:
                    job.expect(rb"met")
                jobs[who].signal(signal.SIGINT)
                self.ends([130, 130], *jobs)
                for job in jobs:
                    self.assertIn(b"got INT", job.output)

    def test_store_stays_until_all_have_ended(self):
        go = os.path.join(self.stack.enter_context(Job("true")).folder, "go")
        os.mkfifo(go)
        slow = ('[ $RANK = 1 ] || exit 0; read -r < "$GO"; exec 4<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT"; '
                'printf "\\x00\\xce\\xf7\\x85\\x3c\\x0d\\x07\\0\\0\\0" >&4; '
                '[ "$(head -c4 <&4 | od -An -tx1)" = " 07 00 00 00" ] && echo "still there"')
        host = self.static(0, slow, env={"GO": go})
        other = self.static(1, slow, env={"GO": go})
        host.expect(rb"met")
        host.find_processes()
        other.expect(rb"met")
        until(lambda: not host.workers(), DEADLINE)
        with open(go, "w") as pipe:  # opens when the worker of node 1 reads
            pipe.write("\n")
        self.ends([0, 0], host, other)
        self.assertIn(b"still there", other.output)

    def test_waiting(self):
        alone = self.c10d("", "--rdzv-conf", "join_timeout=0.5")
        self.ends([124], alone)
        here = os.uname().nodename.split(".")[0]
        self.assertIn(f"waiting: 1/2 nodes, here: {here}; localhost is only this host, 0 s left",
                      alone.stderr().replace(", 1 s", ", 0 s"))
        self.assertIn("only 1 of 2 nodes came within 0.5 s (--rdzv-conf join_timeout); localhost is only this host",
                      alone.stderr())
        lost = self.static(1, "", "--rdzv-conf", "timeout=0.5")
        self.ends([124], lost)
        self.assertIn(f"nobody has opened the job at 127.0.0.1:{self.port} within 0.5 s (--rdzv-conf timeout); "
                      "127.0.0.1 is only this host", lost.stderr())

    def test_interrupt_while_waiting(self):
        for start in (lambda: self.c10d(""), lambda: self.static(1, "")):
            job = start()
            until(lambda: "waiting: " in job.stderr(), DEADLINE)
            job.signal(signal.SIGINT)
            self.ends([130], job)

    def test_host_that_leaves_while_others_wait(self):
        host = self.c10d("", nnodes="3")
        until(lambda: "1/3" in host.stderr(), DEADLINE)
        other = self.c10d("", nnodes="3")
        until(lambda: "2/3" in other.stderr(), DEADLINE)
        host.signal(signal.SIGTERM)
        self.ends([143, 143], host, other)

    def test_jobs_do_not_mix(self):
        first = self.c10d("", job="one")
        until(lambda: "1/2" in first.stderr(), DEADLINE)
        stranger = self.c10d("", job="two")
        self.assertEqual(stranger.wait(), 125)
        self.assertRegex(stranger.stderr(),
                         rf"127.0.0.1:{self.port}: job one-\d+ has this endpoint; choose another port")
        disagrees = self.c10d("", job="one", nnodes="3")
        self.assertEqual(disagrees.wait(), 125)
        self.assertIn("--nnodes 3 here, but 2 at the node that hosts the job", disagrees.stderr())
        self.ends([0, 0], first, self.c10d("", job="one"))

    def test_taken_port(self):
        with socket.create_server(("127.0.0.1", self.port)):
            taken = f"127.0.0.1:{self.port}: the port is taken by .* \\(pid {os.getpid()}\\); choose another one"
            for job in (self.static(0, ""), self.node("", "--master-port", self.port)):
                self.assertEqual(job.wait(), 125)
                self.assertRegex(job.stderr(), taken)
            joins = self.c10d("")
            self.assertEqual(joins.wait(), 125)
            self.assertRegex(joins.stderr(), rf"127.0.0.1:{self.port} is not this job's: it is .* "
                                             rf"\(pid {os.getpid()}\), it does not answer")

    @needs_root
    def test_other_users_are_turned_away(self):
        host = self.c10d("")
        until(lambda: "1/2" in host.stderr(), DEADLINE)
        foreign = self.c10d("", user=NOBODY)
        self.assertEqual(foreign.wait(), 125)
        self.assertIn("it closes the connection", foreign.stderr())
        self.ends([0, 0], host, self.c10d(""))


if __name__ == "__main__":
    unittest.main()
