"""A plain FSDP2 script on gloo: a sharded model learns, is saved with torch.distributed.checkpoint, and goes on from
what it has loaded as if it had not stopped. usage: fsdp2_checkpoint.py FOLDER"""
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss

import ending


def make(seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def losses_of(model, optimizer, steps):
    """Each rank has its own part of a step's batch; the loss is that of the whole batch."""
    losses = []
    for step in steps:
        torch.manual_seed(step)
        batch = torch.randn(16, 8).tensor_split(dist.get_world_size())[dist.get_rank()]
        loss = mse_loss(model(batch), batch[:, :4].sin())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(f"{mean.item() / dist.get_world_size():.7f}")
    return losses


def main():
    folder = sys.argv[1]
    dist.init_process_group("gloo")
    model, optimizer = make(seed=0)
    before = losses_of(model, optimizer, range(4))
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=folder)
    after = losses_of(model, optimizer, range(4, 7))
    other, its_optimizer = make(seed=1)
    weights, moments = get_state_dict(other, its_optimizer)
    dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=folder)
    set_state_dict(other, its_optimizer, model_state_dict=weights, optim_state_dict=moments)
    again = losses_of(other, its_optimizer, range(4, 7))
    own = sum(p.to_local().numel() for p in model.parameters())
    every = sum(p.numel() for p in model.parameters())
    total = sum(p.detach().full_tensor().double().sum().item() for p in model.parameters())
    rank = f"result rank {dist.get_rank()} of {dist.get_world_size()}:"
    print(f"{rank} losses {' '.join(before + after)}", flush=True)
    print(f"{rank} has {own} of {every} parameters, whose sum is {total:.6f}", flush=True)
    print(f"{rank} went on as before: {again == after}", flush=True)
    print(f"{rank} saved to {' '.join(sorted(p.name for p in pathlib.Path(folder).glob('*.distcp')))}", flush=True)
    dist.destroy_process_group()


ending.run(main)
