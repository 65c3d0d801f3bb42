#!/usr/bin/env python3
"""Parallel with fsdp makes the updates of Python's FSDP2 (fully_shard): the same model, weights and batches, with AdamW
and clipping of the global norm; with tied weights, and with gradients of several batches in a step. Here over gloo,
there over dtrain. With Muon it makes the updates of torch.optim.Muon in one process: under FSDP2, which divides the
matrices by rows, those are about 1e-2 away from it themselves.

usage: fsdp_parity.py FSDP_STEPS
"""
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "support")]

from ports import free_port  # noqa: E402

STEPS = 50


@dataclasses.dataclass
class Case:
    ranks: int
    dtype: str
    bound: float  # how far losses and weights (around 4 and 0.1 to 1) may be apart after all steps
    again: bool = False  # blocks are computed again in backward
    tied: bool = False
    pieces: int = 1  # batches of a step
    algorithm: str = "adamw"

    def words(self):
        return STEPS, self.dtype, int(self.again), int(self.tied), self.pieces, self.algorithm


# Both add numbers in another order. AdamW divides by the root of the squared gradients: where those are near 0, a
# difference of rounding becomes one of the whole step. In float32 few weights are so. In bfloat16, in which the blocks
# compute, rounding is 65536 times as coarse, so the mean is what can be compared there; and losses are coarser where
# they begin at 23, with tied weights.
CASES = [Case(2, "float64", 1e-9), Case(2, "float64", 1e-9, again=True), Case(2, "float32", 1e-5),
         Case(2, "bfloat16", 0.02), Case(3, "float64", 1e-9), Case(4, "float64", 1e-9),
         Case(2, "float64", 1e-9, tied=True, pieces=3), Case(3, "float64", 1e-9, again=True, tied=True, pieces=2),
         Case(4, "float64", 1e-9, tied=True), Case(2, "float32", 1e-5, again=True, tied=True, pieces=2),
         Case(2, "bfloat16", 0.05, tied=True, pieces=2), Case(2, "float64", 1e-9, algorithm="muon"),
         Case(3, "float64", 1e-9, again=True, tied=True, pieces=2, algorithm="muon")]
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
    def __init__(self, tied):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDE)
        self.layer0, self.layer1, self.layer2 = Layer(), Layer(), Layer()
        self.head = nn.Linear(WIDE, WORDS, bias=not tied)
        if tied:
            self.head.weight = self.embed.weight

    def layers(self):
        return [self.layer0, self.layer1, self.layer2]

    def forward(self, words):
        x = self.embed(words)
        for layer in self.layers():
            x = layer(x)
        return self.head(x)


def built(saved, case):
    torch.set_default_dtype(torch.float64 if case.dtype == "float64" else torch.float32)
    model = Stack(case.tied)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(saved["before " + name])
    return model


def loss_of(model, words):
    scores = model(words[:, :LENGTH]).flatten(0, 1).to(torch.get_default_dtype())
    return nn.functional.cross_entropy(scores, words[:, 1:].flatten())


def train(saved, case):
    """One rank with FSDP2; its weights, and the mean of all ranks' losses."""
    model = built(saved, case)
    mesh = init_device_mesh("cpu", (case.ranks,))
    policy = MixedPrecisionPolicy()
    if case.dtype == "bfloat16":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers():
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    adamw = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    losses = torch.zeros(STEPS, dtype=torch.float64)
    for step in range(STEPS):
        adamw.zero_grad()
        for piece in range(case.pieces):
            model.set_requires_gradient_sync(piece + 1 == case.pieces)
            loss = loss_of(model, saved["words"][step][piece][torch.distributed.get_rank()])
            (loss / case.pieces).backward()
            losses[step] += loss.detach() / case.pieces
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
    torch.distributed.all_reduce(losses)
    return {name: each.full_tensor() for name, each in model.named_parameters()}, losses / case.ranks


def train_alone(saved, case):
    """The same with torch.optim.Muon in one process, on the batches of all ranks."""
    model = built(saved, case)
    names = {True: [], False: []}
    for name, parameter in model.named_parameters():
        names[parameter.dim() == 2 and not name.startswith(("embed", "head"))].append(parameter)
    optimizers = [torch.optim.Muon(names[True], lr=0.02), torch.optim.AdamW(names[False], lr=0.01, weight_decay=0.1)]
    losses = torch.zeros(STEPS, dtype=torch.float64)
    for step in range(STEPS):
        model.zero_grad()
        loss = loss_of(model, saved["words"][step].flatten(0, 2))
        loss.backward()
        losses[step] = loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
    return {name: each.detach() for name, each in model.named_parameters()}, losses


def train_rank(folder, ranks):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    for number, case in enumerate(CASES):
        if case.ranks != ranks or case.algorithm == "muon":
            continue
        trained = train(loaded(folder / f"ours{number}"), case)
        if torch.distributed.get_rank() == 0:
            torch.save(trained, folder / f"theirs{number}")
    torch.distributed.barrier()
    os._exit(0)  # on its way out torch may abort, where a thread of gloo has not ended


def loaded(file):
    return torch.load(file, weights_only=False)  # what LibTorch saved tells its types, which the other way refuses


def on_ranks(ranks, command):
    world = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
             "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "DTRAIN_STRATEGY": ""}
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
    weights, losses = trained
    assert {"after " + name for name in weights} == {name for name in ours if name.startswith("after ")}
    apart = {name: (ours["after " + name] - each).abs() for name, each in weights.items()}
    largest = max(each.max().item() for each in apart.values())
    mean = max(each.mean().item() for each in apart.values())
    moved = max((ours["after " + name] - ours["before " + name]).abs().max().item() for name in weights)
    of_losses = (ours["losses"] - losses).abs().max().item()
    print(f"{case}: weights {largest:.2g} apart, {mean:.2g} in the mean, losses {of_losses:.2g}, "
          f"from {losses[0]:.2f} to {losses[-1]:.2f}", flush=True)
    assert of_losses <= case.bound, f"losses: {of_losses} is above {case.bound}"
    of_weights = mean if case.dtype == "bfloat16" else largest
    assert of_weights <= case.bound, f"weights: {of_weights} is above {case.bound}"
    assert moved > 0.05 and losses[-1] < losses[0], "nothing was learnt"


def main():
    if sys.argv[1] == "--rank":
        return train_rank(pathlib.Path(sys.argv[2]), int(sys.argv[3]))
    program = pathlib.Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for number, case in enumerate(CASES):
            on_ranks(case.ranks, [program, folder / f"ours{number}", *case.words()])
        for ranks in sorted({case.ranks for case in CASES}):
            on_ranks(ranks, [sys.executable, "-W", "ignore", __file__, "--rank", folder, ranks])
        for number, case in enumerate(CASES):
            ours = loaded(folder / f"ours{number}")
            alone = case.algorithm == "muon"
            compare(ours, train_alone(ours, case) if alone else loaded(folder / f"theirs{number}"), case)
    return 0


if __name__ == "__main__":
    sys.exit(main())
