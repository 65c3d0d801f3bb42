"""torch.distributed in Python on this kind of device, the second argument, while CPU tensors go through the backend,
the first (dtrain, or nccl: then there are none). Rank 0 prints a line for each case."""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

backend, kind = sys.argv[1:]
gpu = kind == "cuda"
if gpu:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
device = torch.device(kind, torch.cuda.current_device()) if gpu else torch.device("cpu")
dist.init_process_group(backend if backend == "nccl" or not gpu else "cpu:dtrain,cuda:nccl")
rank, world = dist.get_rank(), dist.get_world_size()
total = world * (world + 1) / 2
wrong = 0


def case(check):
    global wrong
    why = ""
    try:
        check()
    except Exception as error:  # it is said, and the other cases run
        why = f"{type(error).__name__}: {error}".replace("\n", " ")
    every = [None] * world
    dist.all_gather_object(every, why)
    why = "; ".join(f"rank {r}: {one}" for r, one in enumerate(every) if one)
    wrong += bool(why)
    if rank == 0:
        print(f"{check.__name__}: {'FAILED ' + why if why else 'ok'}", flush=True)


def stream():
    return torch.cuda.stream(torch.cuda.Stream()) if gpu else torch.autograd.profiler.record_function("cpu")


def late(value, *shape):
    """Has this value late on the current stream."""
    tensor = torch.full(shape, -1.0, device=device)
    if gpu:
        torch.cuda._sleep(90_000_000)
    return tensor.fill_(value)


def same(tensor, value):
    assert tensor.double().sub(value).abs().max().item() == 0, (tensor.flatten()[:4].tolist(), value)


@case
def all_reduce():
    for kinds in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8):
        tensor = torch.full((1000,), rank + 1, dtype=kinds, device=device)
        dist.all_reduce(tensor)
        same(tensor, total)


@case
def all_reduce_beside_the_cpus():
    if backend == "nccl":
        return
    works = []
    for i in range(30):
        here, there = torch.full((1000,), rank + i + 1.0), torch.full((1000,), rank + i + 1.0, device=device)
        works += [(i, place, dist.all_reduce(place, async_op=True)) for place in (here, there)]
    for i, place, work in works:
        work.wait()
        same(place, total + world * i)


@case
def side_stream():
    with stream():
        tensor = late(rank + 1, 1 << 20)
        dist.all_reduce(tensor)
        same(tensor, total)
        gathered = torch.empty(world, device=device)
        dist.all_gather_into_tensor(gathered, late(rank, 1))
        assert gathered.tolist() == list(range(world))
        part = torch.empty(1000, device=device)
        dist.reduce_scatter_tensor(part, late(rank + 1, world * 1000))
        same(part, total)


@case
def wait_on_another_stream():
    with stream():
        tensor = late(rank + 1, 1 << 20)
        work = dist.all_reduce(tensor, async_op=True)
    with stream():
        work.wait()
        same(tensor * 2, 2 * total)


@case
def dropped_at_once():
    for i in range(20):
        with stream():
            tensor = torch.full((1 << 20,), rank + i + 1.0, device=device)
            work = dist.all_reduce(tensor, async_op=True)
            work.wait()
            largest = tensor.max()
            del tensor, work
            torch.full((1 << 20,), 1e6, device=device)
            assert largest.item() == total + world * i


@case
def empty():
    none = torch.empty(0, device=device)
    dist.all_reduce(none)
    dist.broadcast(none, 0)
    dist.all_gather_into_tensor(torch.empty(0, device=device), none)


@case
def objects_and_groups():
    said = [None] * world
    dist.all_gather_object(said, {"rank": rank})
    assert [one["rank"] for one in said] == list(range(world))
    group = dist.new_group(list(range(world)))
    tensor = torch.full((10,), rank + 1.0, device=device)
    dist.all_reduce(tensor, group=group)
    same(tensor, total)
    dist.barrier()
    dist.destroy_process_group(group)


@case
def ddp():
    for options in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}, {"static_graph": True}):
        torch.manual_seed(rank)
        net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 1)).to(device)
        model = DistributedDataParallel(net, **options)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        for step in range(5):
            torch.manual_seed(100 * step + rank)
            model(torch.randn(8, 16, device=device)).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        weights = torch.cat([p.detach().flatten() for p in net.parameters()])
        of_first = weights.clone()
        dist.broadcast(of_first, 0)
        assert torch.equal(weights, of_first)


dist.destroy_process_group()
if rank == 0:
    print("end", flush=True)
sys.exit(1 if wrong else 0)
