"""A rank that is not where the others are, in the way that the first argument names."""
import datetime
import os
import signal
import sys

import torch
import torch.distributed as dist

import dtrain  # noqa: F401

story = sys.argv[1]
timeout = datetime.timedelta(seconds=60 if story == "signal" else 4)
dist.init_process_group("dtrain", timeout=timeout)
rank, ranks = dist.get_rank(), dist.get_world_size()
pair = dist.new_group([1, 2], timeout=datetime.timedelta(seconds=60), group_desc="pair")
for _ in range(3):
    dist.all_reduce(torch.ones(4, 8))
if rank != 0:
    dist.broadcast(torch.ones(5, dtype=torch.float64), src=1, group=pair)

if story == "good":
    dist.barrier()
    dist.destroy_process_group()
    sys.exit()
if story == "mismatch":
    dist.all_reduce(torch.ones(100 + rank // 2))
if rank == 2 and story == "elsewhere":
    dist.recv(torch.zeros(6), src=1, group=pair)
if rank == 2 and story == "stopped":
    os.kill(os.getpid(), signal.SIGSTOP)
while rank == 2:
    signal.pause()  # returns for each signal that is caught
if story == "signal":
    print("waits", flush=True)
dist.all_reduce(torch.ones(1024), op=dist.ReduceOp.MAX)
