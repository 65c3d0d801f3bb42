"""Trains on the kind of device of the second argument until rank 1 fails in the way of the third. Timeouts are 5 s."""
import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

backend, kind, way = sys.argv[1:]
gpu = kind == "cuda"
if gpu:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
device = torch.device(kind, torch.cuda.current_device()) if gpu else torch.device("cpu")
dist.init_process_group(backend if backend == "nccl" or not gpu else "cpu:dtrain,cuda:nccl",
                        timeout=datetime.timedelta(seconds=5))
guilty = dist.get_rank() == 1
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).to(device))
tensor = torch.ones(1 << 20, device=device)


def step():
    model(torch.ones(4, 64, device=device)).sum().backward()
    dist.all_reduce(tensor)
    return tensor.sum().item()


for _ in range(3):
    step()
print("training", flush=True)
step()
if way == "inside":
    if guilty and gpu:
        torch.cuda._sleep(12_000_000_000)
    work = dist.all_reduce(tensor, async_op=True)
if guilty:
    if way == "inside":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "raise":
        raise RuntimeError("cannot read shard 7")
    if way == "exit3":
        os._exit(3)
    if way == "assert":
        print(torch.zeros(4, device=device)[torch.full((1,), 100, device=device)].sum().item())
    signal.pause()
if way == "late_cpu":
    dist.all_reduce(torch.ones(1))
until = time.monotonic() + 100
while time.monotonic() < until:
    step()
