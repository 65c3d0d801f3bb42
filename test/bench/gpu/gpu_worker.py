"""gpu_worker.py STEPS LAYERS WIDTH BATCH: what gpu_bench.cc does, by torch: DistributedDataParallel, FSDP2,
collectives over NCCL (over gloo where there is no GPU). Prints JSON: microseconds, and bytes."""
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

rows, layers, width, batch = map(int, sys.argv[1:])
torch.set_num_threads(1)
gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if gpu else "gloo")
device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count()) if gpu else torch.device("cpu")
if gpu:
    torch.cuda.set_device(device)


def wait():
    if gpu:
        torch.cuda.synchronize()


def measure(calls, call):
    for _ in range(calls):
        call()
    times = []
    for _ in range(rows):
        wait()
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        times.append((time.perf_counter() - begin) * 1e6 / calls)
    return statistics.median(times)


result = {}
for views in (False, True):
    net = nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU()))).to(device)
    model = DistributedDataParallel(net, device_ids=[device] if gpu else None, gradient_as_bucket_view=views)
    sgd = torch.optim.SGD(net.parameters(), lr=0.01)
    x = torch.randn(batch, width, device=device)

    def step():
        sgd.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        sgd.step()

    result["ddp step, views" if views else "ddp step"] = round(measure(10, step), 2)
    if not views:
        result["peak bytes"] = torch.cuda.max_memory_allocated() if gpu else 0
    del model, net, sgd


def fsdp():
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    net = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers))).to(device)
    mesh = dist.init_device_mesh(device.type, (dist.get_world_size(),))
    for part in net:
        fully_shard(part, mesh=mesh)
    fully_shard(net, mesh=mesh)
    adam = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    x = torch.randn(batch, width, device=device)

    def step():
        adam.zero_grad()
        net(x).square().mean().backward()
        adam.step()

    result["fsdp step"] = round(measure(10, step), 2)
    result["fsdp peak bytes"] = torch.cuda.max_memory_allocated() if gpu else 0


fsdp()
for size in (1 << 10, 1 << 20, 1 << 26):
    tensor = torch.zeros(size // 4, device=device)
    result[f"all_reduce {size}"] = round(measure(20, lambda: dist.all_reduce(tensor)), 2)
if dist.get_rank() == 0:
    print(json.dumps(result), flush=True)
dist.destroy_process_group()
