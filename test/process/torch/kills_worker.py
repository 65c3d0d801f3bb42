"""DDP on gloo that counts its steps: a weight grows by one in each, a checkpoint is written every five. For
kills_soak.py and ddp_faults_test.py. Argument: a folder. Each rank notes its steps in FOLDER/steps-<host>-<pid>; after
a checkpoint it ends if FOLDER/end is there."""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

folder = sys.argv[1]
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world, number = dist.get_rank(), dist.get_world_size(), int(os.environ["DTRAIN_ROUND"])
model = torch.nn.Linear(1, 1, bias=False)
checkpoint = os.path.join(folder, "checkpoint")
with torch.no_grad():
    model.weight.fill_(float(open(checkpoint).read()) if os.path.exists(checkpoint) else 0.0)
model = DistributedDataParallel(model)  # the weight of rank 0 is everybody's
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
name = os.path.join(folder, f"steps-{os.uname().nodename}-{os.getpid()}")


def is_end(done):
    """Of all ranks at once: what rank 0 sees."""
    if done % 5:
        return False
    there = torch.tensor([os.path.exists(os.path.join(folder, "end"))], dtype=torch.int32)
    dist.broadcast(there, 0)
    return bool(there.item())


with open(name, "a", buffering=1) as notes:
    while not is_end(done := round(model.module.weight.item())):
        optimizer.zero_grad()
        (-model(torch.ones(1, 1))).sum().backward()  # the gradient is -1 on all: the mean too
        optimizer.step()
        notes.write(f"{number} {done + 1} {rank} {world} {time.monotonic()}\n")
        if rank == 0 and (done + 1) % 5 == 0:
            with open(checkpoint + ".new", "w") as f:
                f.write(str(done + 1))
            os.rename(checkpoint + ".new", checkpoint)
        time.sleep(0.02)  # tidy: allow sleep, because training takes its time
print("trained", flush=True)
dist.barrier()
sys.stdout.flush()
os._exit(0)  # see ddp_worker.py
