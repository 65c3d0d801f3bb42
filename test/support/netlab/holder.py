"""The process that a lab hangs from. It is the first process of the lab's PID namespace: when it ends, for whatever
reason, the kernel kills every process of every host, and with the last of them the networks go.

It ends when the program that made the lab ends (a pidfd tells) or closes its channel. Each message on the channel asks
for a host; the answer comes from the host's own first process and carries the host's namespaces.

usage (by lab.py only): holder.py CHANNEL_FD OWNER_PIDFD
"""
import json
import os
import select
import signal
import socket
import sys

import namespaces as ns

OF_HOSTS = ns.NEWNET | ns.NEWUTS | ns.NEWIPC | ns.NEWNS | ns.NEWPID
MESSAGE_MAX = 65536


def answer(channel, problem="", fds=()):
    socket.send_fds(channel, [json.dumps({"error": problem}).encode()], fds)


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def give_own_files(spec):
    """The host's own /proc, /run and /dev/shm, and its names for the others. The rest of the file system is
    everybody's, as a shared one on a cluster is."""
    ns.mount(None, "/", None, ns.MS_REC | ns.MS_PRIVATE)
    ns.mount("proc", "/proc", "proc")
    for folder in ("/run", "/dev/shm"):
        ns.mount("tmpfs", folder, "tmpfs")
    os.mkdir("/run/tmp")
    os.chmod("/run/tmp", 0o1777)
    for name, over, text in (("hosts", "/etc/hosts", spec["names"]),
                             ("boot_id", "/proc/sys/kernel/random/boot_id", spec["boot_id"] + "\n")):
        write(f"/run/{name}", text)
        if os.path.exists(over):
            ns.mount(f"/run/{name}", over, None, ns.MS_BIND)
    for interfaces in ("all", "default"):  # addresses may be used at once, nobody else has them
        setting = f"/proc/sys/net/ipv6/conf/{interfaces}/accept_dad"
        if os.path.exists(setting):
            write(setting, "0")


def be_a_host(channel, spec):
    """The first process of a host: makes it, says so, and adopts whatever loses its parent there."""
    try:
        # Before /proc changes: this one still shows us.
        fds = [ns.open_namespace(name) for name in ns.OF_A_HOST[:-1]] + [os.pidfd_open(os.getpid())]
        socket.sethostname(spec["name"])
        give_own_files(spec)
        answer(channel, fds=fds)
    except OSError as error:
        answer(channel, str(error))
        return
    os.closerange(3, 1024)
    os.chdir("/")
    while True:
        signal.pause()


def start_host(channel, spec):
    if os.fork() != 0:
        return
    try:
        ns.unshare(OF_HOSTS)
        if os.fork() == 0:
            be_a_host(channel, spec)
    except OSError as error:
        answer(channel, str(error))
    finally:
        os._exit(0)


def main():
    channel, owner = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    # Ended processes need no reaping; hosts inherit this, the commands that run on them do not.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        ns.unshare(ns.NEWNET)
        answer(channel, fds=[ns.open_namespace("net")])
    except OSError as error:
        answer(channel, str(error))
        return
    events = select.poll()
    events.register(channel, select.POLLIN)
    events.register(owner, select.POLLIN)
    while True:
        ready = [fd for fd, _ in events.poll()]
        message = b"" if owner in ready else channel.recv(MESSAGE_MAX)
        if not message:
            return
        start_host(channel, json.loads(message))


if __name__ == "__main__":
    main()
