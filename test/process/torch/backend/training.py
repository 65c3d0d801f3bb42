"""Cases of the oracle that train a small model: torch's own DDP and FSDP2, unmodified. No sum is of more than two
ranks: those of more have an order, and gloo's is another one than ours.
"""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

STEPS = 6


class Branches(nn.Module):
    """Uses one of its two branches by turns, so that the other's parameters get no gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 4), nn.Linear(8, 4)
        self.turn = 0

    def forward(self, x):
        self.turn += 1
        return (self.first if self.turn % 2 else self.second)(x)


def small_model():
    return nn.Sequential(nn.Linear(8, 33), nn.BatchNorm1d(33), nn.ReLU(), nn.Linear(33, 4))


def train(model, each_step=lambda step, backward: backward()):
    """The losses of each rank, and the weights at the end."""
    torch.manual_seed(dist.get_rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(6, 8)).pow(2).mean()
        each_step(step, loss.backward)
        optimizer.step()
        losses.append(loss.item())
    whole = [p.full_tensor() if isinstance(p, DTensor) else p for p in model.parameters()]
    yield losses
    yield [p.detach().clone() for p in whole]


def ddp(module=small_model, hook=None, **options):
    def case():
        torch.manual_seed(dist.get_rank())  # DDP makes rank 0's weights everybody's
        model = DistributedDataParallel(module(), bucket_cap_mb=0.001, **options)
        if hook:
            hook(model)
        yield from train(model)
    return case


def no_sync():
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(small_model())

    def each_step(step, backward):
        if step % 2 == 0:
            with model.no_sync():
                backward()
        else:
            backward()
    yield from train(model, each_step)


def uneven_inputs():
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(8, 4))
    with model.join():
        for step in range(2 + dist.get_rank()):
            model(torch.full((2, 8), float(step))).sum().backward()
    yield [p.grad for p in model.parameters()]


def fsdp():
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3)])
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    yield from train(model)


def hsdp():
    """Sharded along one dimension of the mesh and replicated along the other."""
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3)])
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    yield from train(model)


def power_sgd(model):
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


ON_FOUR_RANKS = {"FSDP2 on a mesh of two dimensions": hsdp}
CASES = {
    "DDP": ddp(),
    "DDP, buckets are the gradients": ddp(gradient_as_bucket_view=True),
    "DDP, unused parameters": ddp(Branches, find_unused_parameters=True),
    "DDP, static graph": ddp(static_graph=True),
    "DDP, bfloat16 hook": ddp(hook=lambda model: model.register_comm_hook(None, default_hooks.bf16_compress_hook)),
    "DDP, PowerSGD hook": ddp(hook=power_sgd),
    "DDP, no_sync": no_sync,
    "DDP, uneven inputs": uneven_inputs,
    "FSDP2": fsdp,
}
