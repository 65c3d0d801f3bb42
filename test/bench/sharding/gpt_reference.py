#!/usr/bin/env python3
"""examples/gpt in Python: the same model, batch size, loss and AdamW, under DDP or FSDP2 on gloo. Prints the seconds of
each step. run.py starts it under torchrun."""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional


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


def main():
    parser = argparse.ArgumentParser()
    for flag in ("steps", "global-batch", "context", "width", "depth", "heads", "characters"):
        parser.add_argument(f"--{flag}", type=int, required=True)
    parser.add_argument("--way", choices=("ddp", "fsdp2"), required=True)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Gpt(args.characters, args.context, args.width, args.depth, args.heads)
    if args.way == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=args.way == "ddp")
    rows = args.global_batch // dist.get_world_size()
    for _ in range(args.steps):
        began = time.perf_counter()
        text = torch.randint(args.characters, (rows, args.context + 1))
        optimizer.zero_grad()
        scores = model(text[:, :-1])
        loss = functional.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        mean.item()
        if os.environ["RANK"] == "0":
            print(time.perf_counter() - began, flush=True)
    dist.barrier()
    os._exit(0)  # gloo's threads end the process with SIGABRT now and then (torch 2.15)


if __name__ == "__main__":
    main()
