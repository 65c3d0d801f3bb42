"""DDP and FSDP2 on one kind of device, the first argument, while the group's CPU tensors go through dtrain: the weights
of a single process on the batches of all ranks."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

STEPS, SAMPLES = 20, 6
kind = sys.argv[1]
dist.init_process_group({"cpu": "cpu:dtrain", "cuda": "cpu:dtrain,cuda:nccl"}[kind])
rank, world = dist.get_rank(), dist.get_world_size()
if kind == "cuda":
    torch.cuda.set_device(rank % torch.cuda.device_count())
device = torch.device(kind, torch.cuda.current_device() if kind == "cuda" else None)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 33), nn.Tanh(), nn.Linear(33, 4)).double().to(device)


def trained(net, ranks):
    """The weights, after steps on the batches of these ranks."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        batches = []
        for owner in ranks:
            torch.manual_seed(1000 * step + owner)
            batches.append(torch.randn(SAMPLES, 8, dtype=torch.double))
        optimizer.zero_grad()
        net(torch.cat(batches).to(device)).pow(2).mean().backward()
        optimizer.step()
    return [p.full_tensor() if isinstance(p, DTensor) else p.detach() for p in net.parameters()]


for place in [torch.device("cpu"), device]:
    tensor = torch.full((1000,), rank + 1.0, device=place)
    dist.all_reduce(tensor)
    assert tensor.unique().tolist() == [world * (world + 1) / 2], (place, tensor)
assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "dtrain"

alone = trained(model(), range(world))
sharded = model()
fully_shard(sharded, mesh=init_device_mesh(kind, (world,)))
for name, net in {"DDP": DistributedDataParallel(model()), "FSDP2": sharded}.items():
    apart = max((one - other).abs().max().item() for one, other in zip(alone, trained(net, [rank])))
    assert apart < 1e-9, (name, apart)
    print(f"{name} on {kind}: {apart:.1e} apart", flush=True)
dist.destroy_process_group()
