"""survivors_worker.cc in Python: goes on when ranks die. The argument is a folder; all end with the first step after a
file "done" is there. Rank 0 prints where a world begins, and each rank where it goes on (CLOCK_MONOTONIC)."""
import os
import pathlib
import sys
import time

import dtrain
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FOLDER = pathlib.Path(sys.argv[1])


def say(text):
    print(text, flush=True)


def share(weight, steps):
    for tensor in weight, steps:
        dist.broadcast(tensor, 0)


def main():
    torch.set_num_threads(1)
    say(f"member {os.environ['DTRAIN_MEMBER']} is process {os.getpid()}")
    model = torch.nn.Linear(1000, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    steps = torch.zeros(2, dtype=torch.int64)  # done so far, and whether that was the last one
    while not steps[1]:
        try:
            dtrain.reform()
            share(model.weight.data, steps)
            parallel = DistributedDataParallel(model)
            say(f"rank {dist.get_rank()} of {dist.get_world_size()} goes on at {time.monotonic_ns()}")
            if dist.get_rank() == 0:
                say(f"world {os.environ['WORLD_SIZE']} step {steps[0]}")
            while not steps[1] and not dtrain.joiner_waits():
                model.zero_grad()
                parallel(torch.full((1, 1000), -1.0)).sum().backward()
                with torch.no_grad():
                    model.weight -= model.weight.grad
                steps[0] += 1
                if dist.get_rank() == 0 and (FOLDER / "done").exists():
                    steps[1] = 1
                dist.broadcast(steps, 0)
        except RuntimeError as error:
            say(f"rank {os.environ['RANK']}: {error}")
    say(f"rank {dist.get_rank()} ends: weight {model.weight.max().item():.0f} after {steps[0]} steps")
    dist.barrier()
    dist.destroy_process_group()


main()
