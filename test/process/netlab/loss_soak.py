#!/usr/bin/env python3
"""No node is given up by mistake: a job of two hosts whose links lose packets, are slow and stall, for MINUTES.

    test/process/netlab/loss_soak.py --minutes 60 [--loss 10] [--delay 0.1] [--stall 1] [--every 20]

The second node reaches the first through a proxy on a third host: `--delay` seconds each way, and from time to time
(about every `--every` seconds) nothing moves for `--stall` seconds; between the node and the proxy `--loss` percent of
all packets are lost, each way. Prints what came of it; ends with 1 if a node was given up or gave up.
"""
import argparse
import random
import re
import sys
import tempfile
import time

from lab import HERE, netlab, new_token
from hosts_test import Node
from support import DTRAIN

PORT = 29400


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--loss", type=float, default=10, help="percent of packets, each way")
    parser.add_argument("--delay", type=float, default=0.1, help="seconds each way")
    parser.add_argument("--stall", type=float, default=1.0, help="seconds")
    parser.add_argument("--every", type=float, default=20.0, help="seconds between stalls, on average")
    parser.add_argument("--attempts", type=int, default=3, help="keep_alive_max_attempt of the job")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def node(host, rank, endpoint, token, attempts):
    return Node(host, ["run", "--token-file", token, "--nnodes", 2, "--node-rank", rank, "--master-addr", endpoint,
                       "--master-port", PORT, "--rdzv-conf", f"keep_alive_max_attempt={attempts}", sys.executable,
                       HERE / "steps_worker.py", "key", "value"])


def steps(node):
    found = re.findall(r"step (\d+) round", node.text)
    node.text = node.text[-2000:]  # of an hour of steps only the last
    node.times.clear()
    return int(found[-1]) if found else 0


def watch(nodes, proxy, args):
    """Seconds until something went wrong, or until the time was over."""
    chance, begin = random.Random(args.seed), time.monotonic()
    stalls = 0
    while (now := time.monotonic()) < begin + args.minutes * 60:
        wait = chance.uniform(0.5, 1.5) * args.every
        try:
            nodes[1].process.wait(min(wait, begin + args.minutes * 60 - now))
        except Exception:  # still there: as it should be
            pass
        if any(n.process.poll() is not None or re.search(r"round [1-9]|lost|is gone", n.text) for n in nodes):
            return time.monotonic() - begin, stalls, False
        made = [steps(n) for n in nodes]
        proxy.freeze()
        try:
            nodes[1].process.wait(args.stall)
        except Exception:
            pass
        proxy.thaw()
        stalls += 1
        if stalls % 10 == 0:
            print(f"{now - begin:6.0f} s: {stalls} stalls, steps {made}", flush=True)
    return time.monotonic() - begin, stalls, True


def main():
    args = arguments()
    try:
        lab = netlab.Lab(3)
    except netlab.Unavailable as error:
        print(error)
        return 77
    with lab, tempfile.TemporaryDirectory() as folder:
        token = new_token(DTRAIN, folder)
        with lab.host(2).network():
            proxy = netlab.Proxy((lab.host(0).ipv4, PORT), listen=(lab.host(2).ipv4, PORT), delay=args.delay)
        for one, other in (("host2", "host3"), ("host3", "host2")):
            lab.drop(one, other, loss=args.loss / 100)
        nodes = [node(lab.host(i), i, at, token, args.attempts) for i, at in enumerate(("host1", "host3"))]
        try:
            for n in nodes:
                n.expect(r"step \d+ round 0")
            took, stalls, well = watch(nodes, proxy, args)
        finally:
            for n in nodes:
                n.process.kill()
        print(f"{took:.0f} s with {args.loss:g} % loss, {2000 * args.delay:g} ms round trip and {stalls} stalls of "
              f"{args.stall:g} s: " + ("no node was given up" if well else "a node was given up"))
        for n in nodes:
            if not well:
                print(n.text[-400:])
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
