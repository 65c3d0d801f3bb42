#!/usr/bin/env python3
"""The worker of the comparison: writes down what it found, says two lines, then does what PROBE_DO tells its rank.

PROBE_DO: `WHO: WHAT` parts separated by `;`, the first that fits counts. WHO: a rank, `*`, or either with `@ATTEMPT`.
WHAT: exit CODE | signal NAME | raise TEXT | record TEXT (as torch's @record does) | wait | term CODE | ignore | echo
"""
import os
import signal
import sys
import time

signal.alarm(int(os.environ.get("PROBE_ALARM", "45")))  # torchrun may leave workers behind, or never end them
rank = os.environ["RANK"]
attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
folder = os.environ["PROBE_DIR"]


def note(name, value):
    with open(f"{folder}/.{name}.{os.getpid()}", "w") as f:
        f.write(repr(value))
    os.rename(f.name, f"{folder}/{name}.{attempt}.{rank}")


def say(fd, text):
    os.write(fd, f"{text}\n".encode(errors="surrogateescape"))


def until_all(name):
    """The others are as far as this one."""
    workers = int(os.environ["WORLD_SIZE"])
    end = time.monotonic() + 40
    while len([f for f in os.listdir(folder) if f.startswith(f"{name}.{attempt}.")]) < workers:
        if time.monotonic() > end:
            sys.exit("probe: the other workers did not come")
        time.sleep(0.005)  # tidy: allow sleep, because a folder sends no events; the deadline is above


def my_part():
    for part in filter(None, os.environ.get("PROBE_DO", "").split(";")):
        who, what = (text.strip() for text in part.split(":", 1))
        which, _, when = who.partition("@")
        if which in ("*", rank) and when in ("", attempt):
            return what.partition(" ")[::2]
    return "", ""


def act(what, how):
    if what in ("term", "ignore"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN if what == "ignore" else lambda *_: os._exit(int(how)))
    note("ready", 0)
    if what in ("wait", "term", "ignore"):
        while True:
            signal.pause()
    if what == "echo":
        say(1, f"probe-out {rank} read {sys.stdin.read()!r}")
    if what in ("exit", "signal", "raise", "record"):
        until_all("ready")
    if what == "exit":
        os._exit(int(how))
    if what == "signal":
        os.kill(os.getpid(), signal.Signals["SIG" + how])
    if what == "record":
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as f:
            f.write('{"message": {"message": "RuntimeError: %s", "extraInfo": {"py_callstack": "Traceback: %s", '
                    '"timestamp": "%d"}}}' % (how, how, time.time()))
    if what in ("raise", "record"):
        raise RuntimeError(f"probe-err {rank} {how}")


def ignored_signals():
    """Those that have a name: the C library keeps 32 and 33 for itself, and a torchrun with threads resets them."""
    mask = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("SigIgn"))
    return sorted(s.name for s in signal.Signals if int(mask, 16) >> (s - 1) & 1)


def origin(fd):
    target = os.readlink(f"/proc/self/fd/{fd}")
    return "pipe" if target.startswith("pipe:") else target


note("found", {
    "env": dict(os.environ), "argv": sys.argv, "command": sys.orig_argv, "cwd": os.getcwd(), "main": __name__,
    "pid": os.getpid(), "stdin": origin(0), "own session": os.getsid(0) == os.getpid(),
    "other descriptors": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if 2 < int(fd) and
                                os.path.exists(f"/proc/self/fd/{fd}")),
    "ignored signals": ignored_signals(),
    "blocked signals": next(line.split()[1] for line in open("/proc/self/status") if line.startswith("SigBlk")),
})
say(1, f"probe-out {rank} apple")
say(2, f"probe-err {rank} orange")
act(*my_part())
