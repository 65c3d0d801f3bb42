#!/usr/bin/env python3
"""Stands in the place of the Python with Ray: starts the relays of a job on this host, and does what $STRANGE names."""
import json
import os
import socket
import subprocess
import sys
import time

WHAT = os.environ["STRANGE"]
DTRAIN = os.environ["DTRAIN_HERE"]


def say(**word):
    print(json.dumps(word), flush=True)


def relay(order, agent, **changes):
    process = subprocess.Popen([DTRAIN, "agent", "--relay"], stdin=subprocess.PIPE, text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process.stdin.write(json.dumps({**order, "agent": agent, **changes}) + "\n")
    process.stdin.flush()
    return process


def main():
    sys.stdin.readline()  # the code of the real one
    request = json.loads(sys.stdin.readline())
    order, count = request["order"], request["most"]
    placed = [{"host": f"node{i}", "workers": 1} for i in range(count)]
    if WHAT == "silent":
        return sys.stdin.read()
    if WHAT == "gone":
        sys.exit("no more of this")
    if WHAT == "nonsense":
        print("hello", flush=True)
        return sys.stdin.read()
    if WHAT == "slow":
        touch("asked")
        while not os.path.exists("go"):
            time.sleep(0.01)  # tidy: allow sleep, because the test makes the file
    if WHAT == "lost":
        both = {"placed": placed}, {"lost": count - 1, "why": "its rack burns"}
        print("\n".join(map(json.dumps, both)), flush=True)
        count -= 1
    elif WHAT == "error":
        say(placed=placed)
        say(error="the cluster burns", kind="system")
        return sys.stdin.read()
    if WHAT == "strangers":
        address = order["addresses"][-1], order["port"]
        guests = [socket.create_connection(address) for _ in range(3)]
        guests[0].sendall(b"GET / HTTP/1.0\r\n\r\n")
        guests[1].sendall(bytes(range(256)))
        relay(order, 0, secret="dtrain-" + "A" * 48)
    # The first comes last.
    relays = [relay(order, agent) for agent in reversed(range(1, count))]
    if WHAT == "late":
        time.sleep(1)  # tidy: allow sleep, because nothing tells that the others wait
    relays.append(relay(order, 0))
    if WHAT != "lost":
        say(placed=placed)
    if WHAT == "strangers":
        relay(order, 0)
        relay(order, count + 5)
    sys.stdin.read()
    for each in relays:
        each.stdin.close()
        each.wait()


def touch(name):
    with open(name, "w"):
        pass


main()
