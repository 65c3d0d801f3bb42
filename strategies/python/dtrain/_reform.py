"""dtrain.reform(): the ranks that are left go on when one has died. See docs/training/survivors.md."""
import datetime
import os

import torch
import torch.distributed as dist

from . import _extension

_survivors = None  # of this process, once it has met the others
_forms = False  # reform() is forming the group


def _known():
    """The others, by the launcher's store."""
    global _survivors
    member = os.environ.get("DTRAIN_MEMBER", "")
    if not member:
        raise RuntimeError("dtrain: reform() needs a launcher that lets ranks go on when one dies; start the program "
                           "by dtrain run --survivors N")
    if _survivors is None:
        node, local_rank, ranks, port = (int(os.environ[name]) for name in
                                         ("GROUP_RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT"))
        store = dist.TCPStore(os.environ["MASTER_ADDR"], port, is_master=False, wait_for_workers=False)
        _survivors = _extension.load().Survivors(store, member, node, local_rank, ranks)
    return _survivors


def refuse_outside():
    """A process in the place of another one is in none of the groups that the first ranks form."""
    member = os.environ.get("DTRAIN_MEMBER", "")
    if member and not member.endswith(".0") and not _forms and _survivors is None:
        raise RuntimeError("dtrain: this process takes the place of a rank that has died; call dtrain.reform() in "
                           "place of init_process_group(), on all ranks")


def reform(timeout=datetime.timedelta(minutes=30)):
    """Form the group of all ranks that live, in place of every group of this process.

    Collective of all ranks that live; one that still computes is waited for. Call it in place of init_process_group(),
    after an error of a collective, and when joiner_waits() says so. The ranks that were there before keep their order,
    and new ones follow; RANK, WORLD_SIZE and LOCAL_WORLD_SIZE in os.environ say the new numbers. The group is for CPU
    tensors. Make DistributedDataParallel anew, and give all ranks the same weights, optimizer and step: a step may be
    done on some ranks and not on others. `timeout`: for the ranks to come, and of the group's collectives.
    """
    global _forms
    others = _known()
    _extension.load().leave_all()
    if dist.is_initialized():
        dist.destroy_process_group()

    def form(store, rank, size, local_size):
        # torch counts the groups of a process and puts the number into their keys; here each world has keys of its own.
        dist.distributed_c10d._world.group_count = 0
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(local_size))
        dist.init_process_group("dtrain", store=store, rank=rank, world_size=size, timeout=timeout)

    _forms = True
    try:
        others.meet(timeout, int(os.environ["GROUP_RANK"]), form)
    finally:
        _forms = False


def joiner_waits():
    """Collective. Whether a process waits to join, so that it is time for reform(). It asks the store on rank 0."""
    others = _known()
    waits = torch.zeros(1, dtype=torch.uint8)
    if dist.get_rank() == 0:
        waits[0] = others.joiners_wait()
    dist.broadcast(waits, 0)
    return bool(waits.item())
