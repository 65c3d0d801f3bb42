"""Rank 1 dies in the middle, and the others form their group anew and go on: `ProcessGroup.reconfigure`."""
import datetime
import os
import signal
import sys

import torch
import torch.distributed as dist

import dtrain  # noqa: F401

dist.init_process_group("dtrain", timeout=datetime.timedelta(seconds=60))
rank, ranks = dist.get_rank(), dist.get_world_size()
store = dist.distributed_c10d._get_default_store()
dist.all_reduce(torch.ones(10))
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
pending = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(3)]
try:
    pending[0].wait()
    print("nothing was said", flush=True)
except RuntimeError as error:
    print(f"told: {error}", flush=True)
others = [r for r in range(ranks) if r != 1]
store.set(f"handle/{rank}", dist.distributed_c10d._get_reconfigure_handle())
handles = [store.get(f"handle/{r}").decode() for r in others]
dist.distributed_c10d._reconfigure(1, handles, timeout=datetime.timedelta(seconds=60)).wait()
dist.all_reduce(total := torch.tensor([rank + 1.0]))
failed = 0
for work in pending:
    try:
        work.wait()
    except RuntimeError:
        failed += 1
world = dist.group.WORLD
print(f"now rank {world.rank()} of {world.size()}: {total.item()}, {failed} had failed", flush=True)
dist.monitored_barrier(timeout=datetime.timedelta(seconds=60))
sys.stdout.flush()
os._exit(0)
