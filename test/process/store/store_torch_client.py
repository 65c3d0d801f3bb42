#!/usr/bin/env python3
"""torch's own clients against the worker store.

    store_torch_client.py group --serve SERVE          four gloo ranks: init_process_group by env://, collectives, DDP
    store_torch_client.py differential --serve SERVE   one random sequence of store operations on torch's server and on
                                                       ours must give the same results (--seed, --steps)
    store_torch_client.py cut --serve SERVE            clients behind a relay whose host is killed get an error at once

With --relays N there are N edges in front of the store, and clients use them in turn. SERVE is the store_serve
program. Exits 0 when all is as it should be; says what is not otherwise.
"""

import argparse
import datetime
import importlib.util
import os
import random
import subprocess
import sys
import threading
import time

WORLD_SIZE = 4
DEADLINE_S = 120


class Serve:
    """A running store_serve for processes of this user."""

    def __init__(self, program, *more):
        command = [program, "--allowed-uid", str(os.geteuid()), "--log", *more]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        stats = self.process.stdout.read().strip()
        if self.process.wait(timeout=30) != 0:
            sys.exit("store_serve failed")
        return stats


class Job:
    """A store, and the edges in front of it if there are any: what its nodes would have."""

    def __init__(self, program, relays):
        self.host = Serve(program, *(["--links", "1"] if relays else []))
        self.edges = [Serve(program, "--relay", str(self.host.port)) for _ in range(relays)]

    def port(self, client):
        return self.edges[client % len(self.edges)].port if self.edges else self.host.port

    def stop(self):
        return "\n".join(serve.stop() for serve in [*self.edges, self.host])


def expect(condition, what):
    if not condition:
        sys.exit(f"rank {os.environ.get('RANK', '-')}: {what}")


def worker():
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    total = torch.tensor([float(rank)])
    dist.all_reduce(total)
    expect(total.item() == sum(range(WORLD_SIZE)), f"all_reduce gave {total.item()}")

    if importlib.util.find_spec("numpy") is not None:
        gathered = [None] * WORLD_SIZE
        dist.all_gather_object(gathered, {"rank": rank, "text": "x" * 1000})
        expect([item["rank"] for item in gathered] == list(range(WORLD_SIZE)), f"all_gather_object gave {gathered}")
    elif rank == 0:
        print("all_gather_object left out: torch needs numpy for it, which is not installed")

    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    partner = torch.tensor([rank])
    dist.all_reduce(partner, group=pairs[rank // 2])
    expect(partner.item() == (1 if rank < 2 else 5), f"all_reduce in a group of two gave {partner.item()}")
    dist.barrier()
    dist.monitored_barrier()

    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.full((2, 4), float(rank))).sum().backward()
    optimizer.step()
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everyone = [torch.empty_like(weights) for _ in range(WORLD_SIZE)]
    dist.all_gather(everyone, weights)
    expect(all(torch.equal(weights, other) for other in everyone), "the weights differ after a DDP step")
    dist.destroy_process_group()


def group(serve, relays):
    store = Job(serve, relays)
    workers = []
    for rank in range(WORLD_SIZE):
        environment = dict(
            os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(store.port(rank)), TORCHELASTIC_USE_AGENT_STORE="True",
            RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD_SIZE), OMP_NUM_THREADS="1",
            GLOO_SOCKET_IFNAME="lo")
        workers.append(subprocess.Popen([sys.executable, "-W", "ignore", __file__, "worker"], env=environment))
    deadline = time.monotonic() + DEADLINE_S
    codes = []
    try:
        for process in workers:
            codes.append(process.wait(timeout=max(1, deadline - time.monotonic())))
    finally:
        for process in workers:
            process.kill()
    print(store.stop())
    expect(codes == [0] * WORLD_SIZE, f"exit codes of the workers: {codes}")


class Side:
    """One server and two clients of it, so that one can answer what the other waits for."""

    def __init__(self, ports, owner=None):
        import torch.distributed as dist

        timeout = datetime.timedelta(seconds=10)
        self.owner = owner
        self.clients = [dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timeout) for port in ports]


def outcome(action):
    """What an operation gave, or the kind of error it raised."""
    try:
        return action()
    except Exception as error:  # torch raises several types; a difference in type is a difference
        return f"{type(error).__name__}"


def random_step(rng, available):
    """A function of a store, and its description; both servers get the same one."""
    keys = [f"key{i}" for i in range(6)]
    numbers = [f"number{i}" for i in range(3)]
    queues = [f"queue{i}" for i in range(2)]
    key, number, queue = rng.choice(keys), rng.choice(numbers), rng.choice(queues)
    some = rng.sample(keys + queues, rng.randint(1, 3))
    value = "v" * rng.choice([0, 1, 15, 16, 100, 5000]) + str(rng.randint(0, 9))
    delta = rng.randint(-5, 5)
    brief = datetime.timedelta(milliseconds=10)
    ample = datetime.timedelta(seconds=10)
    steps = {
        "set": lambda s: s.set(key, value),
        "get": lambda s: s.get(key) if s.check([key]) else None,
        "add": lambda s: s.add(number, delta),
        "get number": lambda s: s.get(number) if s.check([number]) else None,
        "check": lambda s: s.check(some),
        # Keys that are there must be found however slow this machine is; missing ones must not take long to give up.
        "wait": lambda s: s.wait(some, ample if s.check(some) else brief),
        "num_keys": lambda s: s.num_keys(),
        "delete_key": lambda s: s.delete_key(key),
        "append": lambda s: s.append(key, value),
        "multi_set": lambda s: s.multi_set(keys[:3], [value, "", key]),
        "multi_get": lambda s: s.multi_get(keys[:3]) if s.check(keys[:3]) else None,
        "compare_set": lambda s: s.compare_set(key, rng_expected, value),
        "queue_push": lambda s: s.queue_push(queue, value),
        "queue_pop": lambda s: s.queue_pop(queue, False),
        "queue_len": lambda s: s.queue_len(queue),
        "list_keys": lambda s: sorted(s.list_keys()),
        "barrier": lambda s: s.barrier(f"gate{delta}", 1, ample),
    }
    rng_expected = rng.choice(["", "v0", value])
    name = rng.choice([step for step in steps if step in available])
    return name, steps[name]


def differential(serve, relays, seed, steps):
    import torch
    import torch.distributed as dist

    master = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ours = Job(serve, relays)
    sides = [Side([master.port] * 2, master), Side([ours.port(0), ours.port(1)])]
    # torch counts its internal join counter as a key; a server of ours is never joined through it.
    sides[1].clients[0].set("unused", "")
    sides[0].clients[0].set("unused", "")
    base = [side.clients[0].num_keys() for side in sides]
    optional = {"list_keys": "list_keys", "barrier": "barrier", "queue_push": "queue_push", "queue_pop": "queue_pop",
                "queue_len": "queue_len"}
    available = {"set", "get", "add", "get number", "check", "wait", "num_keys", "delete_key", "append", "multi_set",
                 "multi_get", "compare_set"}
    available |= {name for name, method in optional.items() if hasattr(dist.TCPStore, method)}
    rng = random.Random(seed)
    counts = {}
    for step in range(steps):
        name, action = random_step(rng, available)
        client = rng.randint(0, 1)
        results = [outcome(lambda side=side: action(side.clients[client])) for side in sides]
        for side in sides:
            side.clients[client].num_keys()  # SET has no reply: have it carried out before the other client asks
        if name == "num_keys":
            results = [result - first for result, first in zip(results, base)]
        expect(results[0] == results[1],
               f"seed {seed}, step {step}, {name}: torch's server gave {results[0]!r}, ours {results[1]!r}")
        counts[name] = counts.get(name, 0) + 1
    print(f"torch {torch.__version__}, seed {seed}: {steps} steps agree: {dict(sorted(counts.items()))}")
    print(ours.stop())


def cut(serve):
    import torch.distributed as dist

    job = Job(serve, 1)
    client, other = (dist.TCPStore("127.0.0.1", job.port(0), is_master=False,
                                   timeout=datetime.timedelta(seconds=DEADLINE_S)) for _ in range(2))
    client.set("key", "value")
    expect(client.get("key") == b"value", "the store behind the relay does not answer")
    begin = time.monotonic()
    waiting = threading.Thread(target=lambda: (other.add("waits", 1), job.host.process.kill()))
    waiting.start()
    try:
        client.wait(["never"])
    except Exception as error:  # which type is torch's affair
        print(f"after {time.monotonic() - begin:.2f} s: {type(error).__name__}")
    else:
        sys.exit("a wait for a missing key ended well")
    waiting.join()
    expect(time.monotonic() - begin < DEADLINE_S / 2, "the client found out by its own time-out only")
    job.host.process.wait()
    print(job.edges[0].stop())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["group", "differential", "cut", "worker"])
    parser.add_argument("--serve", help="the store_serve program")
    parser.add_argument("--relays", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()
    if args.mode == "worker":
        worker()
        # No finalizing of Python: before 3.13 a gloo thread that still holds a tensor may abort there
        # (https://github.com/pytorch/pytorch/issues/190489).
        sys.stdout.flush()
        os._exit(0)
    elif args.mode == "group":
        group(args.serve, args.relays)
    elif args.mode == "cut":
        cut(args.serve)
    else:
        differential(args.serve, args.relays, args.seed, args.steps)


if __name__ == "__main__":
    main()
