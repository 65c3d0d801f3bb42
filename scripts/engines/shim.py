"""What the shims of all engines have in common: their first part. dtrain runs them with the user's Python.

What a shim hears and says is in launcher/engine_wire/shim_wire.h. It carries nothing of the job: each agent dials back
to dtrain.
"""
import json
import os
import signal
import socket
import sys
import threading

KNOCK_SECONDS = 5
LOCK = threading.Lock()
# Where dtrain is: two files that a Python program has set which runs this code inside itself (dtrain.spark), or none.
HEARS = globals().get("HEARS")
SAYS = globals().get("SAYS")
IS_INSIDE = HEARS is not None


def say(**word):
    with LOCK:
        try:
            SAYS.write(json.dumps(word) + "\n")
            SAYS.flush()
        except (OSError, ValueError):
            if not IS_INSIDE:
                os._exit(1)  # nobody is there


class Refused(Exception):
    def __init__(self, message, kind="system"):
        super().__init__(message)
        self.kind = kind


def first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def cannot_import(package, error):
    return Refused(f"{sys.executable} cannot import {package} ({error}): install it there, or name another Python with "
                   "DTRAIN_ENGINE_PYTHON", "usage")


def knock(host, port, seconds=KNOCK_SECONDS):
    """Engines ask for minutes at an address where nobody is. Returns what is wrong."""
    try:
        socket.create_connection((host.strip("[]"), port), seconds).close()
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


def run_relay(program, order, env, started=lambda pid: None):
    """In a process of the engine on a node: the relay of an agent, until the agent ends. The end of this process
    ends the relay's standard input, and so the agent. Returns its exit code, and why there was no agent."""
    import shutil
    import subprocess
    if not os.access(program, os.X_OK) or not program.endswith("/dtrain"):
        program = shutil.which("dtrain")
    if not program:
        return 127, "dtrain must be installed there, in PATH or where it is here"
    relay = subprocess.Popen([program, "agent", "--relay"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True, env=env)
    started(relay.pid)
    try:
        relay.stdin.write(json.dumps(order) + "\n")
        relay.stdin.flush()
    except OSError:
        pass  # it has said why
    said = relay.stderr.read().splitlines()
    return relay.wait(), said[-1] if said else ""


def serve(engine, start, vacate=lambda agent: None):
    """start(request) has said where the nodes are when it returns what ends all that it has started. vacate(agent) ends
    what is left of this agent: another one may come in its place."""
    global HEARS, SAYS
    if not IS_INSIDE:
        # Engines, and whatever they import, may print.
        HEARS, SAYS = sys.stdin, os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
    request = json.loads(HEARS.readline())
    try:
        end = start(request)
        if not IS_INSIDE:
            # Whoever ends all processes of a group means the job, which has more to say. dtrain ends this process.
            for number in signal.SIGHUP, signal.SIGINT, signal.SIGTERM:
                signal.signal(number, signal.SIG_IGN)
    except Refused as error:
        return say(error=str(error), kind=error.kind)
    except Exception as error:
        return say(error=f"{engine}: {first_line(error)}", kind="system")
    for line in HEARS:  # until dtrain closes it
        vacate(json.loads(line)["vacant"])
    end()
