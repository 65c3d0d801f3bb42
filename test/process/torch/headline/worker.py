"""Trains with the backend of the first argument; rank CULPRIT (the third) fails in the way of the second."""
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

backend, way, culprit = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(1)
if backend == "dtrain":
    import dtrain  # noqa: F401
dist.init_process_group(backend)
rank = dist.get_rank()


def fail():
    if way == "raise":
        raise RuntimeError(f"cannot read shard {rank}")
    if way.startswith("exit"):
        sys.exit(int(way[4:]))
    os.kill(os.getpid(), getattr(signal, "SIG" + way.upper()))


outputs = 4 if way == "model" and rank == culprit else 3
model = DistributedDataParallel(torch.nn.Linear(8, outputs))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1_000_000):
    if rank == culprit and step == 5:
        fail()
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
