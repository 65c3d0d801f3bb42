#!/usr/bin/env python3
"""examples/gpt in Python under DDP or FSDP2 on gloo: the same model, first weights, batches, loss, AdamW, learning
rates and clipping. Prints the lines of gpt's --loss-file: a step's number, its seconds, the loss of the global batch.
run.py starts it under torchrun."""
import argparse
import os
import time

import gpt_data

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

SEED, LR = 1, 3e-3  # gpt's defaults


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        stretches, characters, width = x.shape
        q, k, v = (each.view(stretches, characters, self.heads, width // self.heads).transpose(1, 2)
                   for each in self.mixed(self.norm1(x)).split(width, -1))
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = x + self.out(seen.transpose(1, 2).reshape(stretches, characters, width))
        return y + self.narrow(functional.gelu(self.wide(self.norm2(y))))


class Gpt(nn.Module):
    def __init__(self, characters, context, width, depth, heads):
        super().__init__()
        self.embed, self.place = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, characters):
        x = self.embed(characters) + self.place(torch.arange(characters.shape[1]))
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.embed.weight)


def sharded(model, way):
    if way == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def adamw(model):
    decayed = [{"params": [each for each in model.parameters() if (each.dim() > 1) == matrices],
                "weight_decay": 0.1 if matrices else 0.0} for matrices in (True, False)]
    return torch.optim.AdamW(decayed, lr=LR, betas=(0.9, 0.95), fused=True)


def train(args):
    text, characters = gpt_data.text_of(args.data)
    model = Gpt(characters, args.context, args.width, args.depth, args.heads)
    model.load_state_dict(gpt_data.weights_of(args.weights))  # strict: the same names and shapes, no fewer and no more
    model = sharded(model, args.way)
    optimizer = adamw(model)
    rows, rank = args.global_batch // dist.get_world_size(), dist.get_rank()
    mine = range(rank * rows, (rank + 1) * rows)
    begins = [gpt_data.begins_of(SEED, step, mine, len(text) - args.context) for step in range(args.steps)]
    for step in range(args.steps):
        began = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = gpt_data.rate_of(step, args.steps, LR)
        stretches = torch.stack([text[begin:begin + args.context + 1] for begin in begins[step]])
        optimizer.zero_grad()
        scores = model(stretches[:, :-1])
        loss = functional.cross_entropy(scores.flatten(0, 1), stretches[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = loss.detach().double()
        dist.all_reduce(mean)
        mean = mean.item() / dist.get_world_size()
        if rank == 0:
            print(step, time.perf_counter() - began, mean, flush=True)


def main():
    parser = argparse.ArgumentParser()
    for flag in ("steps", "global-batch", "context", "width", "depth", "heads"):
        parser.add_argument(f"--{flag}", type=int, required=True)
    parser.add_argument("--data", required=True, help="a text file")
    parser.add_argument("--weights", required=True, help="a file of safetensors with the first weights")
    parser.add_argument("--way", choices=("ddp", "fsdp2"), required=True)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    train(args)
    dist.barrier()
    os._exit(0)  # gloo's threads end the process with SIGABRT now and then (torch 2.15)


if __name__ == "__main__":
    main()
