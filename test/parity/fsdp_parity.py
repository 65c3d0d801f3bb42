#!/usr/bin/env python3
"""Parallel with fsdp makes the updates of Python's FSDP2 (fully_shard): the same model, weights and batches, with AdamW
and clipping of the global norm. Here over gloo, there over dtrain.

usage: fsdp_parity.py FSDP_STEPS
"""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

STEPS = 20
# Ranks, type, whether blocks are computed again in backward; and how far losses and weights (around 4 and 0.1 to 1) may
# be apart after all steps. Both add numbers in another order. AdamW divides by the root of the squared gradients: where
# those are near 0, a difference of rounding becomes one of the whole step. In float32 few weights are so. In bfloat16,
# in which the blocks compute, rounding is 65536 times as coarse, so the mean is what can be compared there.
CASES = [(2, "float64", 0, 1e-9), (2, "float64", 1, 1e-9), (2, "float32", 0, 1e-5), (2, "bfloat16", 0, 0.02),
         (3, "float64", 0, 1e-9), (4, "float64", 0, 1e-9)]
WORDS, WIDE, LENGTH = 37, 24, 9  # as in fsdp_steps.cc
DEADLINE = time.monotonic() + 270


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDE), nn.Linear(WIDE, 3 * WIDE)
        self.down = nn.Linear(3 * WIDE, WIDE, bias=False)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDE)
        self.layer0, self.layer1, self.layer2 = Layer(), Layer(), Layer()
        self.head = nn.Linear(WIDE, WORDS)

    def layers(self):
        return [self.layer0, self.layer1, self.layer2]

    def forward(self, words):
        x = self.embed(words)
        for layer in self.layers():
            x = layer(x)
        return self.head(x)


def train(saved, dtype):
    """One rank with torch's own; its weights, and the mean of all ranks' losses."""
    torch.set_default_dtype(torch.float64 if dtype == "float64" else torch.float32)
    model = Stack()
    model.load_state_dict({name: saved["before " + name] for name in model.state_dict()})
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    policy = MixedPrecisionPolicy()
    if dtype == "bfloat16":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers():
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    adamw = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    losses = torch.zeros(STEPS, dtype=torch.float64)
    for step in range(STEPS):
        adamw.zero_grad()
        mine = saved["words"][step][torch.distributed.get_rank()]
        scores = model(mine[:, :LENGTH]).flatten(0, 1).to(torch.get_default_dtype())
        loss = nn.functional.cross_entropy(scores, mine[:, 1:].flatten())
        losses[step] = loss.detach()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
    torch.distributed.all_reduce(losses)
    return {name: each.full_tensor() for name, each in model.state_dict().items()}, losses / mesh.size()


def train_rank(folder, ranks):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    for number, case in enumerate(CASES):
        if case[0] != ranks:
            continue
        trained = train(loaded(folder / f"ours{number}"), case[1])
        if torch.distributed.get_rank() == 0:
            torch.save(trained, folder / f"theirs{number}")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def loaded(file):
    return torch.load(file, weights_only=False)  # what LibTorch saved tells its types, which the other way refuses


def on_ranks(ranks, command):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    world = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
             "CUDA_VISIBLE_DEVICES": "", "DTRAIN_STRATEGY": ""}
    workers = [subprocess.Popen([str(word) for word in command], env=os.environ | world | {"RANK": str(rank)})
               for rank in range(ranks)]
    try:
        codes = [worker.wait(DEADLINE - time.monotonic()) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert codes == [0] * ranks, f"{command[0]}: ranks ended with {codes}"


def compare(ours, trained, case):
    ranks, dtype, again, bound = case
    weights, losses = trained
    assert {"after " + name for name in weights} == {name for name in ours if name.startswith("after ")}
    apart = {name: (ours["after " + name] - each).abs() for name, each in weights.items()}
    largest = max(each.max().item() for each in apart.values())
    mean = max(each.mean().item() for each in apart.values())
    moved = max((ours["after " + name] - ours["before " + name]).abs().max().item() for name in weights)
    of_losses = (ours["losses"] - losses).abs().max().item()
    print(f"{ranks} ranks, {dtype}, {'computed again' if again else 'plain'}: weights {largest:.2g} apart, "
          f"{mean:.2g} in the mean, losses {of_losses:.2g}", flush=True)
    assert of_losses <= bound, f"losses: {of_losses} is above {bound}"
    of_weights = mean if dtype == "bfloat16" else largest
    assert of_weights <= bound, f"weights: {of_weights} is above {bound}"
    assert moved > 0.05 and losses[-1] < losses[0], "nothing was learnt"


def main():
    if sys.argv[1] == "--rank":
        return train_rank(pathlib.Path(sys.argv[2]), int(sys.argv[3]))
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for number, (ranks, dtype, again, _) in enumerate(CASES):
            on_ranks(ranks, [program, folder / f"ours{number}", STEPS, dtype, again])
        for ranks in sorted({case[0] for case in CASES}):
            on_ranks(ranks, [sys.executable, "-W", "ignore", __file__, "--rank", folder, ranks])
        for number, case in enumerate(CASES):
            compare(loaded(folder / f"ours{number}"), loaded(folder / f"theirs{number}"), case)
    return 0


if __name__ == "__main__":
    sys.exit(main())
