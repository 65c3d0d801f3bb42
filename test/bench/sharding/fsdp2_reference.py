#!/usr/bin/env python3
"""What memory_bench.cc and unshard_bench.cc measure, of Python's FSDP2. Rank 0 prints a line of JSON. run.py starts it
under torchrun.

    fsdp2_reference.py memory WIDTH DEPTH TYPE    the type in which the module computes: float32 or bfloat16; or ddp,
                                                  for DDP in float32 whose gradients are views of its buckets
    fsdp2_reference.py gather MEGABYTES COUNT
    fsdp2_reference.py groups GROUPS STEPS        collectives do nothing here: torch's fake process group
"""
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

STEPS = 3
LOOKS = 8  # blocks from one look to the next


def pss():
    with open("/proc/self/smaps_rollup") as f:
        return 1024 * sum(int(line.split()[1]) for line in f if line.startswith(("Pss_Anon:", "Pss_Shmem:")))


class Residual(nn.Module):
    look = None  # called in backward with the gradient of what a block returns

    def __init__(self, width, number):
        super().__init__()
        self.looks = number % LOOKS == 0
        self.linear = nn.Linear(width, width, bias=False)

    def forward(self, x):
        y = x + torch.tanh(self.linear(x))
        if self.looks and Residual.look:
            y.register_hook(Residual.look)
        return y


def sharded(model, **options):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model:
        fully_shard(block, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    return model


def train(width, depth, share):
    before = pss()
    model = share(nn.Sequential(*[Residual(width, i) for i in range(depth)]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    peak = [0]

    def look(gradient):
        peak[0] = max(peak[0], pss() - before)
        return gradient

    for step in range(STEPS):
        Residual.look = look if step == STEPS - 1 else None
        optimizer.zero_grad()
        model(torch.ones(1, width)).pow(2).mean().backward()
        dist.barrier()
        if step == STEPS - 1:
            held = pss() - before
            dist.barrier()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return {"pss_held": held, "pss_peak": max(peak[0], pss() - before)}


def memory(width, depth, precision):
    share = {
        "ddp": lambda model: nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True),
        "float32": sharded,
        "bfloat16": lambda model: sharded(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16)),
    }[precision]
    train(16, 2, share)
    dist.barrier()
    found = train(int(width), int(depth), share)
    mean = torch.tensor(list(found.values()), dtype=torch.float64)
    dist.all_reduce(mean)
    return dict(zip(found, (mean / dist.get_world_size()).tolist()))


def gather(megabytes, count):
    rows = int(megabytes) * 1024
    model = nn.ParameterList([nn.Parameter(torch.ones(rows, 64)) for _ in range(4)])
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    taken = []
    for _ in range(int(count)):
        dist.barrier()
        began = time.perf_counter()
        model.unshard()
        taken.append(time.perf_counter() - began)
        assert model[3].view(-1)[-1].item() == 1
        model.reshard()
    slowest = torch.tensor(taken, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return {"gather": 1e6 * slowest.median().item()}


def groups(count, steps):
    def net():
        return nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)) for _ in range(int(count))])
    models, x = {"sharded": sharded(net()), "plain": net()}, torch.ones(4, 8)
    clocks = {"thread": time.thread_time, "wall": time.perf_counter, "process": time.process_time}
    taken = {name: {clock: [] for clock in clocks} for name in models}
    for _ in range(int(steps)):
        for name, model in models.items():
            began = {clock: now() for clock, now in clocks.items()}
            model.zero_grad()
            model(x).sum().backward()
            for clock, now in clocks.items():
                taken[name][clock].append(now() - began[clock])
    return {clock: 1e6 * (statistics.median(taken["sharded"][clock]) - statistics.median(taken["plain"][clock]))
            / int(count) for clock in clocks}


def main():
    what, *words = sys.argv[1:]
    torch.set_num_threads(1)
    if what == "groups":
        from torch.testing._internal.distributed.fake_pg import FakeStore
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    else:
        dist.init_process_group("gloo")
    found = {"memory": memory, "gather": gather, "groups": groups}[what](*words)
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    if what != "groups":
        dist.barrier()
    os._exit(0)  # gloo's threads end the process with SIGABRT now and then (torch 2.15)


if __name__ == "__main__":
    main()
