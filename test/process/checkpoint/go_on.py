"""A rank of Python's FSDP2 that trains steps BEGIN to END of what go_on.cc trains, over gloo, and saves the end in WAY
rank0.

usage: go_on.py ALGORITHM BEGIN END FOLDER [--save STEP WAY FOLDER] [--load FOLDER]
  WAY: rank0 (folders model and state, which rank 0 writes), consolidated (the same by all ranks) or sharded (one
  folder, {"model": ..., "optim": ...}, a file a rank); --load: a checkpoint of dtrain
"""
import argparse
import glob
import os
import sys

import torch
import torch.distributed
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict, get_optimizer_state_dict,
                                                     set_optimizer_state_dict)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path += glob.glob(os.path.join(ROOT, ".venv-test/lib/python3*/site-packages"))
WIDE, HIDDEN, ROWS = 10, 7, 12  # as in go_on.cc
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


class Piece(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDE, HIDDEN), nn.Linear(HIDDEN, WIDE)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


class Row(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = Piece(), Piece(), nn.Linear(WIDE, 3)

    def forward(self, x):
        return self.head(self.second(self.first(x)))


def optimizer_of(algorithm, parameters):
    if algorithm == "adamw":
        return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)
    if algorithm == "sgd":
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    return torch.optim.Adagrad(parameters, lr=0.05, lr_decay=0.01)


def rows_of(columns, step):
    all_rows = torch.sin(torch.arange(ROWS * columns) * 0.7 + step).view(ROWS, columns)
    return all_rows.tensor_split(torch.distributed.get_world_size())[torch.distributed.get_rank()]


def state_of(model, optimizer):
    """The tensors of the optimizer's state, and all that it has."""
    whole = get_optimizer_state_dict(model, optimizer, options=FLAT)
    return {name: value for name, value in whole.items() if name.startswith("state.")}, whole


def load(folder, model, optimizer):
    weights = get_model_state_dict(model)
    checkpoint.load(weights, storage_reader=HuggingFaceStorageReader(folder))  # in place
    state, whole = state_of(model, optimizer)
    tensors = {name.removeprefix("state."): value for name, value in state.items()}
    checkpoint.load(tensors, storage_reader=HuggingFaceStorageReader(folder))
    whole.update({"state." + name: value for name, value in tensors.items()})
    set_optimizer_state_dict(model, optimizer, whole, options=FLAT)


def save(way, folder, model, optimizer):
    model_state, (state, _) = get_model_state_dict(model), state_of(model, optimizer)
    if way == "sharded":
        checkpoint.save({"model": model_state, "optim": state},
                        storage_writer=HuggingFaceStorageWriter(folder, save_distributed=True))
        return
    for name, tensors in (("model", model_state), ("state", state)):
        place = os.path.join(folder, name)
        if way == "consolidated":
            checkpoint.save(tensors, storage_writer=HuggingFaceStorageWriter(
                place, save_distributed=True, enable_consolidation=True))
            continue
        whole = {key: value.full_tensor() if hasattr(value, "full_tensor") else value for key, value in tensors.items()}
        if torch.distributed.get_rank() == 0:
            checkpoint.save(whole, storage_writer=HuggingFaceStorageWriter(place), no_dist=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("algorithm")
    parser.add_argument("begin", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("folder")
    parser.add_argument("--load")
    parser.add_argument("--save", nargs=3, default=("-1", "", ""))
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = Row()
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for each in (model.first, model.second, model):
        fully_shard(each, mesh=mesh)
    optimizer = optimizer_of(args.algorithm, model.parameters())
    if args.load:
        load(args.load, model, optimizer)
    for step in range(args.begin, args.end):
        optimizer.zero_grad()
        (model(rows_of(WIDE, step)) - rows_of(3, -step)).pow(2).mean().backward()
        optimizer.step()
        if step + 1 == int(args.save[0]):
            save(*args.save[1:], model, optimizer)
    save("rank0", args.folder, model, optimizer)
    torch.distributed.barrier()
    os._exit(0)  # on its way out torch may abort, where a thread of gloo has not ended


if __name__ == "__main__":
    main()
