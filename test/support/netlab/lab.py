"""A lab: hosts in namespaces of their own on one switch, and what can go wrong between them.

Nothing has a name outside: no `ip netns`, no interface on the machine's own network, no file. So labs cannot meet, all
use the same addresses, and whatever dies leaves nothing (holder.py says how).
"""
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import uuid

from netlab import faults
from netlab import namespaces as ns

HOSTS_MAX = 1000
DEADLINE = 60  # seconds, for what takes milliseconds on a machine that is not overloaded


def _batch(tool, lines):
    """Give `lines` to ip or tc in one go, in the calling thread's network."""
    done = subprocess.run([tool, "-batch", "-"], input="\n".join(lines) + "\n", text=True, capture_output=True,
                          timeout=DEADLINE, env={**os.environ, "PATH": ns.search_path()})
    if done.returncode != 0:
        said = done.stderr.strip()
        if "not supported" in said or "Unknown" in said or "No such file" in said:
            raise ns.Unavailable(f"this kernel lacks what the lab needs of {tool}: {said}")
        raise ns.LabError(f"{tool} failed: {said}")


class Host:
    """One host: its names and addresses, and how to run something on it. Made by Lab."""

    def __init__(self, lab, number):
        self.number, self.name = number, f"host{number}"
        self.ipv4 = f"10.77.{number // 256}.{number % 256}"
        self.ipv6 = f"fd77::{number:x}" if lab.ipv6 else None
        self.mac = f"02:00:00:77:{number // 256:02x}:{number % 256:02x}"
        self.port = f"port{number}"  # the switch's end of this host's cable
        self.plugged = True
        self.fds = {}  # by the names of namespaces.OF_A_HOST; empty while the host is down
        self._lab = lab

    @property
    def up(self):
        return bool(self.fds)

    def _need_up(self):
        if not self.up:
            raise ns.LabError(f"{self.name} is down; boot it first")

    def environment(self, base=None):
        return {**(os.environ if base is None else base), "HOSTNAME": self.name, "TMPDIR": "/run/tmp",
                "XDG_RUNTIME_DIR": "/run"}

    def popen(self, args, env=None, preexec_fn=None, **options):
        """subprocess.Popen on this host: a child of ours, with our files and descriptors and the host's everything
        else. It dies with the host. `cwd` is a folder of ours; /run and /dev/shm are the host's.
        """
        self._need_up()
        with ns.children_in(self.fds["pid"]):
            child = subprocess.Popen(args, env=self.environment(env),
                                     preexec_fn=ns.entering(self.fds, preexec_fn), **options)
        self._lab.remember(child)
        return child

    def run(self, args, timeout=DEADLINE, check=False, input=None, **options):  # the names are subprocess.run's
        """subprocess.run on this host, with both outputs captured as text; killed at the timeout."""
        options = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        options.setdefault("stdin", subprocess.DEVNULL if input is None else subprocess.PIPE)
        with self.popen(args, **options) as child:
            try:
                out, err = child.communicate(input, timeout)
            except BaseException:
                child.kill()
                raise
        done = subprocess.CompletedProcess(args, child.returncode, out, err)
        if check:
            done.check_returncode()
        return done

    def network(self):
        """`with host.network():` puts the calling thread on this host's network: sockets made there stay there."""
        self._need_up()
        return ns.network_of(self.fds["net"])

    @property
    def init(self):
        """The PID of the host's first process, as we see it."""
        self._need_up()
        info = pathlib.Path(f"/proc/self/fdinfo/{self.fds['init']}").read_text()
        return int(next(line.split()[1] for line in info.splitlines() if line.startswith("Pid:")))

    def path(self, name):
        """Where we find a file of this host, e.g. path("/run/tmp/log")."""
        return pathlib.Path(f"/proc/{self.init}/root") / name.lstrip("/")

    def pids(self):
        """Every process on this host but its first, as we see them."""
        own, init, found = os.fstat(self.fds["pid"]).st_ino, self.init, []
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and int(entry) != init and os.stat(f"/proc/{entry}/ns/pid").st_ino == own:
                    found.append(int(entry))
            except OSError:  # it ended meanwhile
                pass
        return found

    def crash(self):
        """The power fails: nobody hears a farewell, every process is gone. boot() brings an empty host back."""
        self._need_up()
        self._lab.switch(f"link set {self.port} nomaster")
        signal.pidfd_send_signal(self.fds["init"], signal.SIGKILL)
        self._lab.reap(self)
        self._lab.remove_port(self)
        self.close()

    def boot(self):
        if self.up:
            raise ns.LabError(f"{self.name} is up")
        self._lab.start([self])

    def close(self):
        for fd in self.fds.values():
            os.close(fd)
        self.fds = {}


class Lab:
    """`hosts` hosts, host1 to hostN, on one switch. Leave it with close() or `with`; it ends with this process anyway.

    `names`: whether the hosts know each other's names (/etc/hosts); without it they have addresses only.
    Where a host is asked for, its Host, its name or its index from 0 will do.
    """

    def __init__(self, hosts=2, names=True):
        if not 1 <= hosts <= HOSTS_MAX:
            raise ns.LabError(f"a lab has 1 to {HOSTS_MAX} hosts, not {hosts}")
        ns.become_able()
        self.ipv6 = os.path.exists("/proc/sys/net/ipv6")
        self.hosts = [Host(self, number) for number in range(1, hosts + 1)]
        self._names, self._children, self._losses, self._filtered = names, [], {}, set()
        self._switch = self._holder = self._channel = None
        try:
            self._start_holder()
            self.switch("link add lan type bridge", "link set lan up")
            self.start(self.hosts)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def host(self, which):
        if isinstance(which, Host):
            return which
        if isinstance(which, int) and 0 <= which < len(self.hosts):
            return self.hosts[which]
        for host in self.hosts:
            if host.name == which:
                return host
        raise ns.LabError(f"no host '{which}'; there are host1 to host{len(self.hosts)}")

    # -- making it

    def _start_holder(self):
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(DEADLINE)
        ourselves = os.pidfd_open(os.getpid())
        program = pathlib.Path(__file__).with_name("holder.py")
        try:
            with ns.children_in():
                self._holder = subprocess.Popen(
                    [sys.executable, "-SEsB", str(program), str(theirs.fileno()), str(ourselves)],
                    pass_fds=[theirs.fileno(), ourselves], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    start_new_session=True)
            theirs.close()
            self._switch, = self._answer(1)
        except OSError as error:
            raise ns.Unavailable(f"this machine allows no namespaces: {error}") from error
        finally:
            theirs.close()
            os.close(ourselves)

    def _answer(self, count):
        message, fds, _, _ = socket.recv_fds(self._channel, 65536, count)
        problem = json.loads(message)["error"] if message else "the lab's holder died"
        if problem:
            raise ns.Unavailable(f"this machine cannot make a host: {problem}")
        return fds

    def start(self, hosts):
        """Boot hosts that are down and plug them in."""
        known = [f"{address}\t{host.name}" for host in self.hosts if self._names
                 for address in (host.ipv4, host.ipv6) if address]
        for host in hosts:
            names = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost", *known]
            self._channel.sendall(json.dumps({"name": host.name, "names": "\n".join(names) + "\n",
                                              "boot_id": str(uuid.uuid4())}).encode())
            host.fds = dict(zip(ns.OF_A_HOST, self._answer(len(ns.OF_A_HOST))))
        lines = []
        for host in hosts:
            lines += [f"link add {host.port} type veth peer name eth0 address {host.mac} "
                      f"netns /proc/{os.getpid()}/fd/{host.fds['net']}", f"link set {host.port} master lan up"]
        self.switch(*lines)
        for host in hosts:
            lines = ["link set lo up", f"addr add {host.ipv4}/16 dev eth0", "link set eth0 up"]
            with host.network():
                _batch("ip", lines + ([f"addr add {host.ipv6}/64 dev eth0 nodad"] if host.ipv6 else []))
            host.plugged = True
        self._filter(host for host in hosts if any(receiver is host for _, receiver in self._losses))

    # -- what can go wrong; none of it tells the hosts, unless it says so

    def drop(self, sender, receiver, loss=1.0, above=0):
        """Lose this part of what `sender` sends to `receiver`; the other direction stays as it is. `above`: only frames
        of more than so many bytes, as on a path with a smaller MTU that nobody tells of."""
        if not 0 <= loss <= 1:
            raise ns.LabError(f"a loss is a part of 1, from 0 to 1, not {loss}")
        self._lose([(self.host(sender), self.host(receiver))], loss, above)

    def cut(self, *hosts):
        """Lose everything between these hosts and all others, both ways (and among these hosts)."""
        chosen = [self.host(which) for which in hosts]
        self._lose([pair for host in chosen for other in self.hosts for pair in ((host, other), (other, host))], 1.0)

    def partition(self, *groups):
        """Lose everything between hosts of different groups; within a group nothing changes."""
        sides = [[self.host(which) for which in group] for group in groups]
        self._lose([(a, b) for side in sides for a in side for other in sides if other is not side for b in other], 1.0)

    def heal(self, *hosts):
        """End losses to and from these hosts, or everybody's; plug in their cables."""
        chosen = [self.host(which) for which in hosts] or self.hosts
        self._lose([pair for pair in self._losses if pair[0] in chosen or pair[1] in chosen], 0)
        for host in chosen:
            if host.up and not host.plugged:
                self._set_link(host, True)

    def unplug(self, which):
        """Pull the host's cable: its interface loses the carrier, which the host can see."""
        self._set_link(self.host(which), False)

    def plug(self, which):
        self._set_link(self.host(which), True)

    def _set_link(self, host, up):
        if not host.up:
            raise ns.LabError(f"{host.name} is down; boot it first")
        self.switch(f"link set {host.port} {'up' if up else 'down'}")
        host.plugged = up

    def _lose(self, pairs, loss, above=0):
        for sender, receiver in list(pairs):
            self._losses[sender, receiver] = (loss, above)
        self._filter({receiver for _, receiver in pairs})
        self._losses = {pair: what for pair, what in self._losses.items() if what[0] > 0}

    def _filter(self, receivers):
        lines = []
        for host in (host for host in receivers if host.up):
            if host not in self._filtered:
                lines.append(f"qdisc add dev {host.port} clsact")
                self._filtered.add(host)
            lines.append(faults.tc_command(host.port, {a.number: what for (a, b), what in self._losses.items()
                                                       if b is host and a is not host}))
        if lines:
            with ns.network_of(self._switch):
                _batch("tc", lines)

    def remove_port(self, host):
        self._filtered.discard(host)
        self.switch(f"link del {host.port}")

    def switch(self, *lines):
        """Give lines to `ip` where the switch is."""
        with ns.network_of(self._switch):
            _batch("ip", lines)

    def status(self):
        """What there is and what is wrong with it, as plain data."""
        losses = {}
        for (sender, receiver), (part, _) in sorted(self._losses.items(), key=lambda item: item[0][0].number):
            if sender is not receiver:
                losses.setdefault(sender.name, {})[receiver.name] = part
        return [{"name": host.name, "ipv4": host.ipv4, "ipv6": host.ipv6, "up": host.up, "plugged": host.plugged,
                 "loses_to": losses.get(host.name, {}), "processes": len(host.pids()) if host.up else 0}
                for host in self.hosts]

    # -- ending it

    def remember(self, child):
        self._children = [known for known in self._children if known.poll() is None] + [child]

    def reap(self, host):
        """Wait until the killed host is empty. A PID namespace ends only when whoever started a process there has
        collected it, so ours are collected meanwhile."""
        ended = select.poll()
        ended.register(host.fds["init"], select.POLLIN)
        for _ in range(DEADLINE * 100):
            self._children = [child for child in self._children if child.poll() is None]
            if ended.poll(10):
                return
        raise ns.LabError(f"{host.name} did not end within {DEADLINE} s")

    def close(self):
        """End every process of the lab and take it down."""
        if self._holder:
            self._holder.kill()
            for child in self._children:
                child.wait(DEADLINE)
            self._holder.wait(DEADLINE)
        for host in self.hosts:
            host.close()
        if self._switch is not None:
            os.close(self._switch)
        if self._channel:
            self._channel.close()
        self._children, self._switch, self._holder, self._channel = [], None, None, None
