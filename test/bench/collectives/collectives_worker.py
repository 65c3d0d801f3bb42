"""collectives_worker.py BACKEND OP TYPE BYTES[,BYTES...], under a launcher: what torch.distributed's operations take.

As plan.h says. OP `ddp`: a step of DistributedDataParallel with a model of BYTES bytes whose own work is small;
`ddp_shared`: with its buckets in shared memory; `ddp_views`: its gradients are views of those; `ddp_alone`: without any
reduction; `ddp_host`: of layers so small that a step's time is what the host takes to call. OP `each`: 500 all_reduces
of BYTES bytes in all, `each_async` all of them before the first is waited for."""
import contextlib
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist


def row_length(size):
    return min(max((128 << 20) // max(size, 1), 2), 1000)


def measure(size, run, length=None):
    length = length or row_length(size)
    rows = []
    run()
    for _ in range(5):
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(length):
            run()
        rows.append((time.perf_counter() - begin) / length * 1e6)
    return statistics.median(rows)


def operation(op, kind, size):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    share = size // kind.itemsize // ranks
    if op == "all_reduce_shared":
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        shared = backend.allocate_tensor(share * ranks, dtype=kind, device=torch.device("cpu")).zero_()
        return lambda: dist.all_reduce(shared)
    whole, part = torch.zeros(share * ranks, dtype=kind), torch.zeros(share, dtype=kind)
    other = torch.zeros_like(whole)

    def send_recv():
        peer = rank ^ 1
        if peer < ranks:
            for turn in ((dist.send, dist.recv) if rank < peer else (dist.recv, dist.send)):
                turn(whole, peer)
    return {"all_reduce": lambda: dist.all_reduce(whole),
            "broadcast": lambda: dist.broadcast(whole, 0),
            "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
            "all_to_all": lambda: dist.all_to_all_single(whole, other),
            "send_recv": send_recv}[op]


def ddp_step(size, width, reduces, views):
    """A row of square layers and two samples: the gradients weigh more than the work."""
    layers = max(1, size // (4 * width * width))
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(layers))),
        gradient_as_bucket_view=views)
    x = torch.randn(2, width)

    def step():
        with contextlib.nullcontext() if reduces else model.no_sync():
            model.zero_grad()
            model(x).sum().backward()
    return step


def each(size, waits):
    tensors = [torch.zeros(size // 4 // 500) for _ in range(500)]

    def step():
        works = [dist.all_reduce(tensor, async_op=not waits) for tensor in tensors]
        if not waits:
            for work in works:
                work.wait()
    return step


def main():
    backend, op, kind, sizes = sys.argv[1:]
    torch.set_num_threads(1)
    if backend == "dtrain":
        import dtrain  # noqa: F401
    dist.init_process_group(backend)
    for size in map(int, sizes.split(",")):
        if op.startswith("ddp"):
            os.environ["DDP_DISABLE_COMM_MEM"] = "0" if op in ("ddp_shared", "ddp_views", "ddp_host") else "1"
            width = 32 if op == "ddp_host" else 1024
            us = measure(size, ddp_step(size, width, op != "ddp_alone", op == "ddp_views"), 10)
        elif op.startswith("each"):
            us = measure(size, each(size, op == "each"), 10)
        else:
            us = measure(size, operation(op, getattr(torch, kind), size)) / (2 if op == "send_recv" else 1)
        if dist.get_rank() == 0:
            print(size, f"{us:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
