"""How a Python process with a dtrain group may end, and what must not stop it. Each case runs in a child of its own,
which ends as Python programs do: the interpreter is finalized, handlers of atexit run. Run it on two ranks.
"""
import ctypes
import os
import select
import signal
import sys

import torch
import torch.distributed as dist

import dtrain  # noqa: F401

RANK = int(os.environ["RANK"])
PIPE = sys.argv[1]  # a FIFO
DEADLINE = 40
KEPT = []  # alive when the interpreter goes


def reduced(size=1000, **options):
    tensor = torch.full((size,), RANK + 1.0)
    return tensor, dist.all_reduce(tensor, **options)


def plain_end():
    """No destroy_process_group, and Works, futures and tensors still alive."""
    tensor, work = reduced(async_op=True)
    KEPT.extend([tensor, work, work.get_future(), dist.new_group(), dist.group.WORLD])
    work.wait()


def pending_at_the_end():
    """A Work that the other rank never joins is not waited for; its callback runs while Python still can."""
    pids = [None] * 2
    dist.all_gather_object(pids, os.getpid())
    if RANK == 0:
        future = reduced(async_op=True)[1].get_future()
        KEPT.extend([future, future.then(lambda done: os.mkdir(PIPE + ".called"))])
    else:
        select.select([os.pidfd_open(pids[0])], [], [])
        os.rmdir(PIPE + ".called")


def messages_at_the_end():
    """Neither does anybody wait for messages that the other rank never takes or sends."""
    other = 1 - RANK
    KEPT.extend([dist.irecv(torch.zeros(1000), other), dist.isend(torch.zeros(1_000_000), other, tag=1)])
    KEPT.append(KEPT[0].get_future().then(lambda future: future.value()))


def callback_at_the_end():
    """A callback needs Python's lock while the main thread ends."""
    tensor, work = reduced(async_op=True)
    work.get_future().then(lambda future: sum(range(1_000_000)))


def destroyed():
    reduced()
    dist.destroy_process_group()


def exits():
    reduced()
    sys.exit(3)


def raises():
    KEPT.append(reduced(async_op=True))
    sys.stderr = open(os.devnull, "w")
    raise ValueError("on purpose")


def exits_at_once():
    KEPT.append(reduced(async_op=True))
    os._exit(4)


def forks():
    """DataLoader's workers inherit the group and end; so does a plain fork, in which the group is of no use."""
    loader = torch.utils.data.DataLoader(torch.arange(8), batch_size=2, num_workers=2, multiprocessing_context="fork")
    for batch in loader:
        dist.all_reduce(batch)
    if os.fork() == 0:
        try:
            reduced()
        except RuntimeError as error:
            sys.exit(0 if "forked" in str(error) else 5)
        sys.exit(6)
    assert os.wait()[1] == 0
    reduced()
    dist.destroy_process_group()


def interrupted():
    """Ctrl-C: a signal's handler runs, and raises, while the main thread waits for the other rank."""
    if RANK == 1:
        hear()  # until rank 0 was interrupted
        return
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        reduced()
    except KeyboardInterrupt:
        tell()


def locked():
    """Rank 0 holds Python's lock until rank 1 has seen all operations: no progress may need that lock."""
    works = [reduced(async_op=True)[1] for _ in range(3)]
    if RANK == 0:
        works.clear()  # the last references to the tensors are now the backend's
        hear()
    else:
        for work in works:
            work.wait()
        tell()
    dist.barrier()


def tell():
    with open(PIPE, "w") as pipe:
        pipe.write("!")


def hear():
    """Wait for the other rank's tell() with Python's lock held."""
    pipe = os.open(PIPE, os.O_RDWR)
    assert ctypes.PyDLL(None).read(pipe, ctypes.create_string_buffer(1), 1) == 1


CASES = {plain_end: 0, pending_at_the_end: 0, messages_at_the_end: 0, callback_at_the_end: 0, destroyed: 0, exits: 3,
         raises: 1, exits_at_once: 4, forks: 0, interrupted: 0, locked: 0}


def child(case):
    signal.alarm(DEADLINE)  # its end is then 128 + SIGALRM
    tcp = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    dist.init_process_group("dtrain", store=dist.PrefixStore(case.__name__, tcp), rank=RANK, world_size=2)
    case()


def main():
    for case, expected in CASES.items():
        pid = os.fork()
        if pid == 0:
            return case
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if ended != expected:
            sys.exit(f"{case.__name__}: ended with {ended}, not {expected}")
    print(f"{len(CASES)} ends", flush=True)
    return None


if __name__ == "__main__":
    case = main()
    if case:
        child(case)
