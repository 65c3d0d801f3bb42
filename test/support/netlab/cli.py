"""scripts/netlab: a lab for the shell. A server process owns it; every other command asks that server.

The server listens on an abstract socket, which has no file: it is there exactly as long as the lab.
"""
import argparse
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

from netlab import namespaces as ns
from netlab.lab import Lab
from netlab.proxy import Proxy

DEADLINE = 120
MESSAGE_MAX = 1 << 18

EXAMPLES = """\
examples:
  scripts/netlab up 3                                 three hosts: host1, host2, host3
  scripts/netlab exec host1 -- ip -br address         a command on one of them; without one, a shell
  scripts/netlab cut host2                            silence: nothing to or from host2
  scripts/netlab drop host1 host3 --loss 10           one way: a tenth of what host1 sends to host3
  scripts/netlab partition host1,host2 host3          two halves
  scripts/netlab heal                                 all is well again
  scripts/netlab crash host2; scripts/netlab boot host2
  scripts/netlab down

docs/netlab.md has more, and the Python module for tests.
"""


def address_of(name):
    return f"\0dtrain-netlab/{os.environ.get('NETLAB_UID', os.getuid())}/{name}"


# -- the server

def serve(hosts, names, listening, companion):
    """Own the lab and answer until told to end, or until the process ends whose pidfd `companion` is (-1: nobody's).
    Says on stdout, in one line of JSON, how the start went."""
    started = time.monotonic()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 2)  # the lab outlives whoever reads our errors
    try:
        lab = Lab(hosts, names=names)
    except (ns.LabError, OSError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    with lab:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: sys.exit(0))
        print(json.dumps({"hosts": lab.status(), "seconds": time.monotonic() - started}), flush=True)
        os.dup2(null, 1)
        events = select.poll()
        for fd in (fd for fd in (listening.fileno(), companion) if fd >= 0):
            events.register(fd, select.POLLIN)
        while companion not in [fd for fd, _ in events.poll()]:
            client, _ = listening.accept()
            with client:
                client.settimeout(5)
                if not answer(lab, client):
                    break
    return 0


def answer(lab, client):
    """One request. False when it was the last."""
    _, uid, _ = peer_of(client)
    if uid not in (0, os.getuid()):
        return True
    try:
        request = json.loads(client.recv(MESSAGE_MAX) or b"{}")
        command, arguments = request.get("command"), request.get("arguments", [])
        if command == "exec":
            host = lab.host(arguments[0])
            fds = [*(host.fds[name] for name in ns.OF_A_HOST), os.open("/proc/self/ns/user", os.O_RDONLY)] \
                if host.up else []
            reply = {"environment": host.environment({})} if fds else {"error": f"{host.name} is down; boot it first"}
            socket.send_fds(client, [json.dumps(reply).encode()], fds)
            if fds:
                os.close(fds[-1])
            return True
        if command in ("cut", "heal", "drop", "partition", "unplug", "plug"):
            getattr(lab, command)(*arguments)
        elif command in ("crash", "boot"):
            getattr(lab.host(arguments[0]), command)()
        elif command == "down":
            lab.close()
        elif command != "status":
            raise ns.LabError(f"unknown command '{command}'")
        client.sendall(json.dumps({"hosts": [] if command == "down" else lab.status()}).encode())
        return command != "down"
    except (ns.LabError, ValueError, IndexError, TypeError) as error:
        client.sendall(json.dumps({"error": str(error)}).encode())
    except OSError:  # the client is gone
        pass
    return True


def peer_of(client):
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return tuple(int.from_bytes(credentials[at:at + 4], sys.byteorder, signed=True) for at in (0, 4, 8))


# -- the commands

def ask(name, command, *arguments, fds=0):
    """The server's answer, and the descriptors that came with it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.settimeout(DEADLINE)
        try:
            server.connect(address_of(name))
        except ConnectionRefusedError:
            raise ns.LabError(f"there is no lab '{name}'; scripts/netlab up makes one") from None
        server.sendall(json.dumps({"command": command, "arguments": arguments}).encode())
        message, received, _, _ = socket.recv_fds(server, MESSAGE_MAX, fds)
    reply = json.loads(message) if message else {"error": f"the lab '{name}' ended meanwhile"}
    if "error" in reply:
        raise ns.LabError(reply["error"])
    return reply, received


def up(options):
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listening.bind(address_of(options.lab))
    except OSError:
        raise ns.LabError(f"the lab '{options.lab}' is up already; scripts/netlab down ends it") from None
    listening.listen(64)
    fds = [listening.fileno()] + ([os.pidfd_open(options.ends_with)] if options.ends_with else [])
    program = [sys.executable, os.path.abspath(sys.argv[0]), "--lab", options.lab, "serve", str(options.hosts),
               *map(str, fds), *(["--no-names"] if options.no_names else [])]
    server = subprocess.Popen(program, pass_fds=fds, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              text=True, start_new_session=True, env={**os.environ, "NETLAB_UID": str(os.getuid())})
    reply = json.loads(server.stdout.readline() or '{"error": "the lab did not start"}')
    if "error" in reply:
        raise ns.Unavailable(reply["error"])
    show(reply)
    print(f"{options.hosts} hosts up in {reply['seconds']:.3f} s")
    server.returncode = 0  # it stays; nobody waits for it
    return 0


def show(reply):
    for host in reply["hosts"]:
        troubles = [f"loses {part:.0%} to {other}" for other, part in host["loses_to"].items()]
        if not host["plugged"]:
            troubles.append("unplugged")
        state = f"{host['processes']} processes" if host["up"] else "down"
        columns = f"{host['name']:<8} {host['ipv4']:<12} {host['ipv6'] or '-':<10} {state:<14}"
        print(f"{columns} {', '.join(troubles)}".rstrip())


def execute(options):
    """Run a command on a host as our child, and end as it ends. Its terminal, files and signals are ours."""
    reply, received = ask(options.lab, "exec", options.host, fds=len(ns.OF_A_HOST) + 1)
    fds, user = dict(zip(ns.OF_A_HOST, received)), received[-1]
    if os.fstat(user).st_ino != os.stat("/proc/self/ns/user").st_ino:
        ns.setns(user, ns.NEWUSER)
    ns.setns(fds["pid"], ns.NEWPID)
    command = options.command or [os.environ.get("SHELL", "/bin/sh")]
    # The terminal sends these to the command itself, once is enough; the others reach it only through us.
    theirs, forwarded = (signal.SIGINT, signal.SIGQUIT), (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
    for number in theirs:
        signal.signal(number, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, forwarded)  # until there is somebody to forward them to

    def as_before():
        for number in theirs:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        child = subprocess.Popen(command, env={**os.environ, **reply["environment"]},
                                 preexec_fn=ns.entering(fds, as_before))
    except OSError as error:
        print(f"netlab: {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    for number in forwarded:
        signal.signal(number, lambda number, _: child.send_signal(number))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    code = child.wait()
    return code if code >= 0 else 128 - code


def list_labs(_):
    mark = "@dtrain-netlab/"
    with open("/proc/net/unix", encoding="utf-8") as f:
        for name in sorted({line.split(mark)[1].strip() for line in f if mark in line}):
            uid, _, lab = name.partition("/")
            print(f"{lab}" + ("" if uid == str(os.getuid()) else f" (of uid {uid})"))
    return 0


def proxy(options):
    """Stand between until interrupted."""
    def endpoint(text):
        host, _, port = text.rpartition(":")
        return host.strip("[]") or "127.0.0.1", int(port)
    with Proxy(endpoint(options.target), endpoint(options.listen), options.delay, options.jitter, options.bandwidth,
               options.stall_chance, options.stall, options.seed) as running:
        print(f"{running.address[0]}:{running.address[1]}", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
    return 0


def asking(command, *names):
    def run(options):
        values = []
        for name in names:
            value = getattr(options, name)
            values += value if isinstance(value, list) else [value]
        show(ask(options.lab, command, *values)[0])
        return 0
    return run


def parser():
    top = argparse.ArgumentParser(prog="netlab", description="Many hosts on one machine, and what can go wrong between "
                                  "them.", epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--lab", default=os.environ.get("NETLAB", "lab"), help="which lab ($NETLAB, or 'lab')")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name, run, text, *arguments):
        sub = commands.add_parser(name, **({"help": text, "description": text} if text else {}))
        for argument, settings in arguments:
            sub.add_argument(argument, **settings)
        sub.set_defaults(run=run)

    host, some = ("host", {}), ("hosts", {"nargs": "*", "metavar": "HOST"})
    add("up", up, "make a lab", ("hosts", {"type": int, "nargs": "?", "default": 2}),
        ("--no-names", {"action": "store_true", "help": "the hosts do not know each other's names"}),
        ("--ends-with", {"type": int, "metavar": "PID", "help": "end the lab when this process ends, e.g. $$"}))
    add("down", asking("down"), "end it and every process in it")
    add("status", asking("status"), "its hosts and what is wrong")
    add("list", list_labs, "the labs on this machine")
    add("exec", execute, "run a command (a shell) on a host", host, ("command", {"nargs": argparse.REMAINDER}))
    add("cut", asking("cut", "hosts"), "lose everything to and from hosts",
        ("hosts", {"nargs": "+", "metavar": "HOST"}))
    add("heal", asking("heal", "hosts"), "end losses to and from hosts, or all; plug them in", some)
    add("drop", asking("drop", "sender", "receiver", "loss", "above"), "lose what one host sends to another",
        ("sender", {}), ("receiver", {}),
        ("--loss", {"type": lambda text: float(text) / 100, "default": 1.0, "metavar": "PERCENT"}),
        ("--above", {"type": int, "default": 0, "metavar": "BYTES"}))
    add("partition", asking("partition", "groups"), "lose everything between groups of hosts",
        ("groups", {"nargs": "+", "metavar": "HOST,HOST…", "type": lambda text: text.split(",")}))
    for name, text in (("unplug", "pull a host's cable"), ("plug", "put it back"),
                       ("crash", "a host loses its power: every process is gone, nothing is sent"),
                       ("boot", "it is back, empty")):
        add(name, asking(name, "host"), text, host)
    number = {"type": float, "default": 0.0, "metavar": "NUMBER"}
    add("proxy", proxy, "forward TCP badly until interrupted; prints where it listens",
        ("listen", {"metavar": "HOST:PORT"}), ("target", {"metavar": "HOST:PORT"}),
        ("--delay", {**number, "help": "seconds"}), ("--jitter", {**number, "help": "seconds more, at random"}),
        ("--bandwidth", {**number, "default": None, "help": "bytes per second"}),
        ("--stall-chance", {**number, "help": "part of the chunks"}),
        ("--stall", {**number, "default": 0.2, "help": "that take these seconds more"}),
        ("--seed", {"type": int, "default": 0}))
    add("serve", lambda options: serve(options.hosts, not options.no_names, socket.socket(fileno=options.socket),
                                       options.companion), None,
        ("hosts", {"type": int}), ("socket", {"type": int}), ("companion", {"type": int, "nargs": "?", "default": -1}),
        ("--no-names", {"action": "store_true"}))
    return top


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parser().parse_args(arguments)
    if getattr(options, "command", None) == ["--"]:
        options.command = []
    try:
        return options.run(options)
    except ns.Unavailable as error:
        print(f"netlab: {error}", file=sys.stderr)
        return 77  # what test runners take for skipped
    except (ns.LabError, OSError, subprocess.TimeoutExpired) as error:
        print(f"netlab: {error}", file=sys.stderr)
        return 1
