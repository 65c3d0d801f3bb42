"""Nodes of one job on several hosts: real agents in a lab of network namespaces, links with TLS between them."""
import base64
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from support import DEADLINE, DTRAIN, STORE_CLIENT, comm_of, proc_file, until

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "support")]

from lab_case import LabCase, new_token  # noqa: E402

# Says where it is, meets the others at a barrier of the store (opcode 18), then does what its arguments say.
WORKER = r"""
trap 'echo "got TERM"; exit 3' TERM
echo "at R=$RANK G=$GROUP_RANK/$GROUP_WORLD_SIZE W=$WORLD_SIZE M=$MASTER_ADDR R0=$DTRAIN_RANK0_ADDR \
IF=$GLOO_SOCKET_IFNAME,$NCCL_SOCKET_IFNAME N=$DTRAIN_ROUND RC=$TORCHELASTIC_RESTART_COUNT SECRET=$DTRAIN_TOKEN."
exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT"
printf '\x00\xce\xf7\x85\x3c' >&3
printf "\x12\x01\0\0\0\0\0\0\0b\\x$(printf %02x "$WORLD_SIZE")\0\0\0\0\0\0\0" >&3
[ "$(head -c1 <&3 | od -An -tx1)" = " 00" ] || exit 99
echo "met $RANK in $DTRAIN_ROUND."
wait_for_end() { while :; do read -r -t 60 <&3; done; }
"""
# Goes on until the file $END is there.
END = 'while [ ! -e "$END" ]; do read -r -t 0.1 <&3; done; exit 0'
PORT = 29400


class Node:
    """One agent on a host of the lab; its output, stderr too, as it comes."""

    def __init__(self, host, args, env=None, before=()):
        """`before`: words in front of the command line, e.g. a shell that sets a limit."""
        self.host = host
        self.process = host.popen([*before, DTRAIN, *map(str, args)], env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.text = ""
        self.times = []  # (when, line)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        with self.process.stdout as lines:
            for line in lines:
                text = line.decode(errors="replace")
                self.times.append((time.monotonic(), text))
                self.text += text

    def expect(self, pattern):
        try:
            until(lambda: re.search(pattern, self.text) or self.process.poll() is not None, DEADLINE)
        except AssertionError:
            pass  # told below, with the text
        if self.process.poll() is not None:
            self.reader.join(DEADLINE)  # what it said last may still have to be read
        if not re.search(pattern, self.text):
            raise AssertionError(f"no {pattern} in:\n{self.text}")
        return self

    def when(self, pattern):
        return next(t for t, line in self.times if re.search(pattern, line))

    def wait(self):
        try:
            code = self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.text}") from None
        self.reader.join(DEADLINE)
        return code

    def agent(self):
        """Of the processes of this host, the agent."""
        return self.named("dtrain-agent")

    def named(self, name):
        return next(pid for pid in self.host.pids() if comm_of(pid) == name)

    def workers(self):
        return [pid for pid in self.host.pids() if proc_file(pid, "cmdline").startswith(b"bash\0-c\0")]


class HostsCase(LabCase):
    """A folder with a token, and the ends of nodes. Workers that do END end when finish() makes the file `end`."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.token = self.new_token("token")
        self.end = os.path.join(self.folder, "end")

    def new_token(self, name):
        return new_token(DTRAIN, self.folder, name)

    def lab(self, hosts=3):
        return super().lab(hosts)

    def ends(self, codes, nodes):
        for code, node in zip(codes, nodes):
            self.assertEqual(node.wait(), code, node.text)

    def finish(self, *nodes):
        pathlib.Path(self.end).touch()
        self.ends([0] * len(nodes), nodes)

    def pass_by(self, seconds, since=None):
        """So long, from now on or from `since`: for what shows in nothing that happens."""
        begin = time.monotonic() if since is None else since
        until(lambda: time.monotonic() >= begin + seconds, DEADLINE)

    def host_is_lost(self, host, others, number):
        """With it the host of the job, which is why round `number` begins at the others."""
        lost = time.monotonic()
        host.crash()
        for node in others:
            node.expect(rf"met \d in {number}\.")
        again = max(node.when(rf"met \d in {number}\.") for node in others) - lost
        print(f"the host of the job is lost: {again:.2f} s later all others run again", flush=True)

    def halves_never_run_at_once(self, lab, first, others, besides=()):
        """One node of three is cut off from the others and from `besides`, and each half could go on alone."""
        lab.partition([first.host], [*(node.host for node in others), *besides])
        # When the others begin it has no workers any more.
        others[0].expect(r"at R=\d G=\d/2 W=2 .* N=1 ")
        self.assertEqual(first.workers(), [])
        self.assertNotIn("N=1", first.text)
        lab.heal()
        first.expect(r"at R=\d G=\d/3 W=3 .* N=2 ")
        self.finish(first, *others)


class Hosts(HostsCase):
    def node(self, host, script, *flags, token=True, env=None, before=()):
        given = ("--token-file", token if isinstance(token, str) else self.token) if token else ()
        return Node(host, ["run", *given, "--rdzv-id", "hosts-test", *flags, "bash", "-c", WORKER + script], env,
                    before)

    def status(self, host):
        return json.loads(host.run([DTRAIN, "status", "--json", "--job", "hosts-test"], check=True).stdout)["jobs"]

    def c10d(self, host, script, *flags, nnodes="3", endpoint="host1", **more):
        return self.node(host, script, "--nnodes", nnodes, "--rdzv-backend", "c10d", "--rdzv-endpoint",
                         f"{endpoint}:{PORT}", *flags, **more)

    def static(self, host, rank, script, *flags, nnodes=3, endpoint="host1", **more):
        return self.node(host, script, "--nnodes", nnodes, "--node-rank", rank, "--master-addr", endpoint,
                         "--master-port", PORT, *flags, **more)

    def test_c10d(self):
        lab = self.lab()
        nodes = [self.c10d(lab.host(i), "", "--nproc", 2) for i in (2, 1, 0)]  # the host of the job may come last
        self.ends([0, 0, 0], nodes)
        text = "".join(n.text for n in nodes)
        places = re.findall(r"R=(\d) G=(\d)/3 W=6 M=127\.0\.0\.1 R0=host1 IF=eth0,eth0 N=0 RC=0 SECRET=\.", text)
        self.assertEqual(sorted(places), [(str(r), str(r // 2)) for r in range(6)])
        self.assertEqual(len(re.findall(r"met \d in 0\.", text)), 6)
        self.assertIn("G=0/3", nodes[2].text)

    def test_a_name_that_is_known_later(self):
        lab = self.lab(2)
        nodes = [self.c10d(lab.host(i), "", nnodes="2", endpoint="late-host") for i in (0, 1)]
        for node in nodes:
            node.expect("waiting: there is no host late-host: .*, 600 s left")
        for node in nodes:
            node.host.run(["sh", "-c", f"echo {lab.host(0).ipv4} late-host >> /etc/hosts"], check=True)
        self.ends([0, 0], nodes)
        self.assertIn("G=0/2", nodes[0].text)
        # Not known in time, and never.
        last = self.c10d(lab.host(0), "", "--rdzv-conf", "join_timeout=1.5", nnodes="2", endpoint="no-host")
        never = self.c10d(lab.host(0), "", nnodes="2", endpoint="host.invalid")
        self.ends([124, 2], [last, never])
        self.assertRegex(last.text, "there is no host no-host: .*; given up after 1.5 s .--rdzv-conf join_timeout.")

    def test_pods_of_an_indexed_job(self):
        lab = self.lab(2)
        lines = [f"{lab.host(i).ipv4} train-{i}.train.team.svc train-{i}" for i in (0, 1)]
        nodes = []
        for i in (1, 0):
            host = lab.host(i)
            host.run(["sh", "-c", f"echo 127.0.0.1 localhost > /etc/hosts; echo {lines[i]} >> /etc/hosts"], check=True)
            nodes.append(self.node(host, "", "--nnodes", "2", env={**os.environ, "JOB_COMPLETION_INDEX": str(i)},
                                   before=["unshare", "-u", "sh", "-c", 'hostname "$0"; exec "$@"', f"train-{i}"]))
        nodes[0].expect("waiting: there is no host train-0.train.team.svc: ")
        nodes[0].host.run(["sh", "-c", f"echo {lines[0]} >> /etc/hosts"], check=True)
        self.ends([0, 0], nodes)
        self.assertIn("R=1 G=1/2", nodes[0].text)

    def test_a_list_names_one_host_in_several_ways(self):
        lab = self.lab(2)
        # Nobody has the last address, and the others go on to the next one.
        lab.host(0).run(["ip", "address", "add", "10.77.0.1/32", "dev", "eth0"], check=True)
        endpoint = f"10.77.0.1:{PORT},{lab.host(0).ipv4}"
        nodes = [self.c10d(lab.host(i), "", nnodes="2", endpoint=endpoint) for i in (1, 0)]
        self.ends([0, 0], nodes)
        self.assertIn("G=0/2", nodes[1].text)
        # Two hosts would be two jobs.
        node = self.c10d(lab.host(0), "", nnodes="2", endpoint=f"host1:{PORT},host2")
        self.assertEqual(node.wait(), 2)
        self.assertIn("host1 is an address of this host, host2 is not", node.text)

    def test_static_by_address_of_each_family(self):
        lab = self.lab(2)
        for endpoint in (lab.host(0).ipv4, lab.host(0).ipv6):
            if not endpoint:
                continue
            with self.subTest(endpoint=endpoint):
                nodes = [self.static(lab.host(i), i, "", nnodes=2, endpoint=endpoint) for i in (1, 0)]
                self.ends([0, 0], nodes)
                self.assertIn(f"R0={endpoint} ", nodes[0].text)

    def test_failure_is_everybodys_and_a_restart_too(self):
        lab = self.lab()
        script = '[ $RANK = 2 ] && [ $DTRAIN_ROUND = 0 ] && exit 7; [ $DTRAIN_ROUND = 0 ] && wait_for_end; ' \
                 '[ $RANK = 1 ] && exit 8; wait_for_end'
        nodes = [self.c10d(lab.host(i), script, "--max-restarts", 1) for i in range(3)]
        self.ends([8, 8, 8], nodes)
        text = "".join(n.text for n in nodes)
        for number in (0, 1):
            self.assertEqual(len(re.findall(f"N={number} RC={number} ", text)), 3)

    def test_a_killed_agent_is_noticed_at_once(self):
        lab = self.lab()
        # By its connection: silence would take minutes here.
        conf = "keep_alive_interval=100,rejoin=0"
        nodes = [self.c10d(lab.host(i), "wait_for_end", "--rdzv-conf", conf) for i in range(3)]
        for node in nodes:
            node.expect(r"met \d in 0")
        agent, killed = nodes[1].agent(), time.monotonic()
        os.kill(agent, signal.SIGKILL)
        others, line = (nodes[0], nodes[2]), "was lost: the connection to its agent is gone"
        for node in others:
            node.expect(line)
        known = max(node.when(line) for node in others) - killed
        print(f"an agent is killed: {known:.3f} s later all others know", flush=True)
        self.assertLess(known, 2)
        self.ends([125, 125, 125], nodes)

    def test_a_workers_death_is_known_everywhere_at_once(self):
        lab = self.lab()
        nodes = [self.c10d(lab.host(i), "wait_for_end", "--rdzv-conf", "keep_alive_interval=100") for i in range(3)]
        for node in nodes:
            node.expect(r"met \d in 0")
        (worker,), killed = nodes[2].workers(), time.monotonic()
        os.kill(worker, signal.SIGKILL)
        for node in nodes:
            node.expect(r"signal 9 \(SIGKILL\)")
        known = max(node.when(r"signal 9 \(SIGKILL\)") for node in nodes) - killed
        print(f"a worker dies: {known:.3f} s later all nodes know", flush=True)
        self.assertLess(known, 1)
        self.ends([137, 137, 137], nodes)

    def test_the_token_is_in_no_log(self):
        """Nor in what the agents say, in reports, in the worker's environment, or in any command line."""
        lab = self.lab()
        token = pathlib.Path(self.token).read_text().strip()
        raw = base64.urlsafe_b64decode(token.removeprefix("dtrain-"))[:32]
        logs = os.path.join(self.folder, "logs")
        os.mkdir(logs)
        script = 'env; tr "\\0" "\\n" < /proc/$PPID/cmdline; [ $RANK = 1 ] || wait_for_end; ' + \
                 END.replace("exit 0", "exit 7")
        nodes = [self.c10d(lab.host(i), script, "--max-restarts", 1, "--log-dir", logs, "--tee", 3, "--report",
                           os.path.join(logs, f"report{i}"), "--event-log-handler", "console", token=i != 1,
                           env={**os.environ, "END": self.end, **({"DTRAIN_TOKEN": token} if i == 1 else {})})
                 for i in range(3)]
        for node in nodes:
            node.expect(r"met \d in 0")
        said = [line.encode() for host in lab.hosts for pid in host.pids() for line in self.words_of(pid)]
        said.append(lab.host(0).run([DTRAIN, "status", "--json", "--job", "hosts-test"]).stdout.encode())
        pathlib.Path(self.end).touch()
        self.ends([7, 7, 7], nodes)
        files = [path for path in pathlib.Path(logs).rglob("*") if path.is_file()]
        self.assertGreaterEqual(len(files), 3 + 6)  # reports, and what the workers of two rounds wrote
        said += [path.read_bytes() for path in files] + [node.text.encode() for node in nodes]
        self.assertIn(b"TORCHELASTIC_RUN_ID", b"".join(said))
        for secret in (token.encode(), token[7:23].encode(), token[-16:].encode(), raw, raw[:16], raw.hex().encode(),
                       base64.b64encode(raw)):
            self.assertFalse([words for words in said if secret in words])

    @staticmethod
    def words_of(pid):
        return proc_file(pid, "cmdline").decode(errors="replace").split("\0")

    def test_a_stopped_agent_is_killed_before_the_others_go_on(self):
        lab = self.lab()
        script = 'trap "" TERM; [ $WORLD_SIZE = 3 ] && wait_for_end; exit 0'  # it takes a SIGKILL
        nodes = [self.c10d(lab.host(i), script, nnodes="2:3") for i in range(3)]
        for node in nodes:
            node.expect(r"met \d in 0")
        os.kill(nodes[2].agent(), signal.SIGSTOP)
        until(lambda: not nodes[2].workers(), DEADLINE)
        dead = time.monotonic()
        for node in nodes[:2]:
            node.expect("N=1 RC=0")
        self.assertLess(dead, min(node.when("N=1 RC=0") for node in nodes[:2]), "the halves overlap")
        self.ends([0, 0, 125], nodes)
        self.assertIn("was stopped (SIGSTOP) for 1.5 s", nodes[2].text)

    def test_short_stops_disturb_nobody(self):
        lab = self.lab(2)
        # Longer times, so that the machine may be busy: only what is in the sockets is of interest here.
        nodes = [self.c10d(lab.host(i), END, "--rdzv-conf", "keep_alive_interval=2", nnodes="2",
                           env={**os.environ, "END": self.end}) for i in range(2)]
        for node in nodes:
            node.expect(r"met \d in 0")
        for stopped in ([nodes[0]], [nodes[1]], nodes):
            agents = [node.agent() for node in stopped]
            begin = time.monotonic()
            for pid in agents:
                os.kill(pid, signal.SIGSTOP)
            self.pass_by(1, since=begin)
            for pid in agents:
                os.kill(pid, signal.SIGCONT)
        self.finish(*nodes)
        for node in nodes:
            self.assertNotIn("N=1", node.text)

    def test_a_host_that_is_cut_off(self):
        lab = self.lab()
        script = 'trap "" TERM; [ $WORLD_SIZE = 3 ] && wait_for_end; exit 0'  # it takes a SIGKILL
        nodes = [self.c10d(lab.host(i), script, "--rdzv-conf", f"join_timeout={600 if i < 2 else 5}", nnodes="2:3")
                 for i in range(3)]
        for node in nodes:
            node.expect(r"met \d in 0")
        cut = nodes[2]
        lab.cut("host3")
        begin = time.monotonic()
        until(lambda: not cut.workers(), DEADLINE)
        dead = time.monotonic()
        nodes[0].expect("was lost")
        for node in nodes[:2]:
            node.expect(r"at R=\d G=\d/2 W=2 .* N=1 RC=0")
        opened = min(node.when("N=1 RC=0") for node in nodes[:2])
        self.assertLess(dead, opened, "the halves overlap")
        print(f"cut off: its workers are dead after {dead - begin:.2f} s, the next round opens after "
              f"{opened - begin:.2f} s")
        self.ends([0, 0, 125], nodes)
        self.assertRegex(cut.text, r"no word from it for 2 s; nobody was found at host1:29400 for 5 s")

    def test_a_node_that_was_cut_off_joins_again(self):
        lab = self.lab()
        script = '[ $DTRAIN_ROUND -lt 2 ] && wait_for_end; exit 0'
        # By the endpoint alone; the other nodes would tell it sooner where the host is.
        nodes = [self.c10d(lab.host(i), script, "--rdzv-conf", "succession=0", nnodes="2:3") for i in range(3)]
        for node in nodes:
            node.expect(r"met \d in 0")
        place = re.search(r"G=(\d)", nodes[2].text)[1]
        lab.cut("host3")
        begin = time.monotonic()
        for node in nodes[:2]:
            node.expect(r"at R=\d G=\d/2 W=2 .* N=1 RC=0")
        self.pass_by(6, since=begin)
        lab.heal()
        healed = time.monotonic()
        self.ends([0, 0, 0], nodes[::-1])
        for node in nodes:
            self.assertRegex(node.text, r"at R=\d G=\d/3 W=3 .* N=2 RC=0")
        self.assertIn("waiting: cannot connect to", nodes[2].text)
        print(f"healed: {nodes[2].when('N=2 RC=0') - healed:.2f} s later it works again (node {place})")

    def test_a_lost_node_is_replaced(self):
        lab = self.lab(4)
        script = '[ $DTRAIN_ROUND = 0 ] && wait_for_end; exit 0'
        nodes = [self.c10d(lab.host(i), script, nnodes="3") for i in range(3)]
        for node in nodes:
            node.expect(r"met \d in 0")
        lab.host(2).crash()
        for node in nodes[:2]:
            node.expect(r"waiting: 2/3 nodes, for node \d \(host host3, agent \d+\) was lost: .*, 600 s left")
        spare = self.c10d(lab.host(3), script, nnodes="3")
        self.ends([0, 0, 0], [*nodes[:2], spare])
        for node in [*nodes[:2], spare]:
            self.assertRegex(node.text, r"at R=\d G=\d/3 W=3 .* N=1 RC=0")

    def test_nobody_replaces_it(self):
        lab = self.lab(2)
        nodes = [self.c10d(lab.host(i), "wait_for_end", "--rdzv-conf", "join_timeout=7", nnodes="2") for i in range(2)]
        for node in nodes:
            node.expect(r"met \d in 0")
        os.kill(nodes[1].agent(), signal.SIGKILL)
        self.ends([125], nodes[:1])
        self.assertRegex(nodes[0].text, "was lost: .*; 1 of 2 nodes are left, and no other came within 7 s")

    def test_scale_down_costs_no_restart(self):
        """A node is stopped by its user. Workers of the others fail of that at once, before it is known."""
        lab = self.lab()
        # Rank 2 is killed by the signal, and the others hear of it by a channel that is faster than the agents'.
        flag = os.path.join(self.folder, "gone")
        script = f'trap - TERM; [ $WORLD_SIZE = 2 ] && exit 0; [ $RANK = 2 ] && {{ trap "touch {flag}; exit 1" TERM; ' \
                 f'wait_for_end; }}; while [ ! -e {flag} ]; do read -r -t 0.01 <&3; done; exit 9'
        nodes = [self.c10d(lab.host(i), script, nnodes="2:3").expect("waiting|met") for i in range(3)]
        for node in nodes:
            node.expect(r"met \d in 0")
        lab.drop("host3", "host1")  # what the agent there says comes late, not too late
        os.kill(nodes[2].process.pid, signal.SIGTERM)
        until(lambda: os.path.exists(flag), DEADLINE)
        until(lambda: not nodes[0].workers(), DEADLINE)
        lab.heal()
        self.ends([0, 0, 143], nodes)
        for node in nodes[:2]:
            self.assertRegex(node.text, r"at R=\d G=\d/2 W=2 .* N=1 RC=0")

    def test_one_way_silence_fences_too(self):
        for sender, receiver in (("host3", "host1"), ("host1", "host3")):  # it is not heard, it hears nothing
            with self.subTest(sender=sender):
                lab = self.lab()
                nodes = [self.c10d(lab.host(i), 'trap "" TERM; [ $WORLD_SIZE = 3 ] && wait_for_end; exit 0',
                                   "--rdzv-conf", "rejoin=0", nnodes="2:3") for i in range(3)]
                for node in nodes:
                    node.expect(r"met \d in 0")
                lab.drop(sender, receiver)
                until(lambda: not nodes[2].workers(), DEADLINE)
                dead = time.monotonic()
                for node in nodes[:2]:
                    node.expect(r"N=1 RC=0")
                self.assertLess(dead, min(node.when("N=1 RC=0") for node in nodes[:2]), "the halves overlap")
                self.ends([0, 0, 125], nodes)

    def test_a_wrong_token_and_none(self):
        lab = self.lab(2)
        host = self.static(lab.host(0), 0, "", nnodes=2).expect("waiting")
        stranger = self.static(lab.host(1), 1, "", nnodes=2, token=self.new_token("other"))
        self.ends([125], [stranger])
        self.assertRegex(stranger.text, r"cannot join the job at host1:29400: the token differs")
        line = rf"turned away a connection from {re.escape(lab.host(1).ipv4)}: the token differs"
        self.assertEqual(len(re.findall(line, host.expect(line).text)), 1)
        none = self.static(lab.host(1), 1, "", nnodes=2, token=None,
                           env={**os.environ, "XDG_CONFIG_HOME": self.folder})
        self.ends([2], [none])
        self.assertIn("dtrain token --new", none.text)
        plain = self.static(lab.host(1), 1, "", "--insecure", nnodes=2, token=None)
        self.ends([125], [plain])
        self.assertIn("--insecure: anybody who reaches", plain.text)
        friend = self.static(lab.host(1), 1, "", nnodes=2)
        self.ends([0, 0], [host, friend])

    def test_status_tells_of_all_hosts_on_each(self):
        lab = self.lab()
        nodes = [self.c10d(lab.host(i), "wait_for_end", "--nproc", 2) for i in range(3)]
        for node in nodes:
            node.expect(r"met \d in 0")
        # The sockets are files, and the hosts of a lab have the same: each answers for itself.
        jobs = self.status(lab.host(1))
        self.assertEqual(sorted(job["host"] for job in jobs), ["host1", "host2", "host3"])
        for job in jobs:
            self.assertEqual(sorted(worker["rank"] - 2 * job["node_rank"] for worker in job["workers"]), [0, 1])
            places = sorted((n["host"], n["first_rank"] - 2 * n["node_rank"]) for n in job["rounds"]["nodes"])
            self.assertEqual(places, [("host1", 0), ("host2", 0), ("host3", 0)])
        lab.cut("host3")
        until(lambda: not nodes[2].workers(), DEADLINE)
        self.assertEqual([job["host"] for job in self.status(lab.host(1)) if job["rounds"] is None], ["host3"])
        for node in nodes:
            node.process.send_signal(signal.SIGTERM)
        self.ends([143, 143, 143], nodes)

    def test_master_addr_real(self):
        """Workers come to the store by themselves; nobody else does."""
        lab = self.lab(4)
        nodes = [self.c10d(lab.host(i), "wait_for_end", "--master-addr", "real") for i in range(3)]
        for node in nodes:
            address = "host1" if node.host is lab.host(0) else re.escape(lab.host(0).ipv4)
            node.expect(rf"M={address} R0=host1 [\s\S]*met \d in 0\.")
            self.assertIn("--master-addr real: the workers' traffic with the store is not", node.text)
        other = ["setpriv", "--reuid", "65534", "--clear-groups"]
        for host, before in (lab.host(1), []), (lab.host(0), other), (lab.host(1), other), (lab.host(3), []):
            with self.subTest(host=host.name, before=before):
                done = host.run([*before, "/usr/bin/python3", "-c", STORE_CLIENT, "host1", str(PORT)], check=True)
                allowed = host is lab.host(1) and not before
                self.assertEqual(done.stdout.strip(), "served" if allowed else "refused")
        nodes[0].expect("no agent of this job vouches for it")
        nodes[0].process.send_signal(signal.SIGTERM)
        self.ends([143, 143, 143], nodes)

    def test_master_addr_real_is_everybodys(self):
        lab = self.lab(2)
        flags = "--rdzv-conf", "join_timeout=20"
        nodes = [self.c10d(lab.host(0), "", *flags, nnodes="2"),
                 self.c10d(lab.host(1), "", *flags, "--master-addr", "real", nnodes="2")]
        self.assertEqual(nodes[1].wait(), 125, nodes[1].text)
        self.assertIn("--master-addr real here, but not at the node that hosts the job", nodes[1].text)
        nodes[0].process.send_signal(signal.SIGTERM)
        nodes[0].wait()

    def test_insecure(self):
        lab = self.lab(2)
        self.ends([0, 0], [self.static(lab.host(i), i, "", "--insecure", nnodes=2, token=None) for i in (0, 1)])

    def test_strangers_at_the_port_disturb_nobody(self):
        lab = self.lab(2)
        with lab.host(1).network():
            host = self.static(lab.host(0), 0, "wait_for_end", nnodes=2).expect("waiting")
            strangers = []
            for _ in range(300):  # more than may be there at a time; they say nothing
                strangers.append(socket.create_connection((lab.host(0).ipv4, PORT), DEADLINE))
            slow = socket.create_connection((lab.host(0).ipv4, PORT), DEADLINE)
            slow.sendall(b"\x16\x03\x01")  # a TLS record that never ends
            garbage = socket.create_connection((lab.host(0).ipv4, PORT), DEADLINE)
            garbage.sendall(b"GET / HTTP/1.1\r\n\r\n" + os.urandom(4096))
        other = self.static(lab.host(1), 1, "exit 7", nnodes=2)
        self.ends([7, 7], [host, other])
        slow.settimeout(DEADLINE)
        with garbage, slow:
            for stranger in strangers:
                stranger.close()

    def test_slow_strangers_are_closed(self):
        lab = self.lab(2)
        self.static(lab.host(0), 0, "", nnodes=2).expect("waiting")
        with lab.host(1).network():
            slow = socket.create_connection((lab.host(0).ipv4, PORT), DEADLINE)
        slow.settimeout(DEADLINE)
        with slow:
            slow.sendall(b"\x16\x03\x01\x02\x00\x01")
            self.assertEqual(slow.recv(1), b"")

    def test_the_port_is_taken(self):
        lab = self.lab(2)
        with lab.host(0).network():
            taken = socket.create_server((lab.host(0).ipv4, PORT))
        with taken:
            node = self.static(lab.host(0), 0, "", nnodes=2)
            self.ends([125], [node])
            self.assertIn("the port is taken", node.text)

    def test_node_0_must_be_at_the_address(self):
        lab = self.lab(2)
        node = self.static(lab.host(0), 0, "", nnodes=2, endpoint="host2")
        self.ends([2], [node])
        self.assertIn(f"this host has {lab.host(0).ipv4} (eth0)", node.text)
        self.assertIn("is this node really --node-rank 0?", node.text)


if __name__ == "__main__":
    unittest.main()
