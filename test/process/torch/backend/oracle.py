"""One program on gloo and then on dtrain, in the same processes: every result must be equal, bit by bit.

A case is a generator of results: tensors, or lists of them, or plain values. What gloo does not take (a type, an
operation) is not compared. Values are small whole numbers, so that the order of additions makes no difference.
"""
import datetime
import faulthandler
import functools
import os
import pathlib
import sys
import time
import traceback

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

import dtrain  # noqa: F401
import messages
import surface

SIZES = (0, 1, 1000, 300_001)
FEW_SIZES = (1, 10_001)  # where there are many cases
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool, torch.complex128, torch.complex64)
NOT_IN_GLOO = (torch.int16, torch.uint16, torch.uint32, torch.uint64)  # their sums are computed here
REDUCED = (torch.float64, torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.uint8, torch.bool)
MAPS = pathlib.Path("/proc/self/maps")
OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")


def values(size, dtype=torch.float32, rank=None):
    rank = dist.get_rank() if rank is None else rank
    numbers = (torch.arange(size) + 3 * rank) % 4 + 1
    return torch.complex(numbers.double(), 2 - numbers.double()).to(dtype) if dtype.is_complex else numbers.to(dtype)


def after(call, *tensors):
    """The tensors after the call, or its error."""
    try:
        call()
    except (RuntimeError, ValueError, TypeError) as error:
        return error
    return tensors


def all_reduce(dtype):
    def case():
        for op in OPS:
            for size in SIZES:
                tensor = values(size, dtype)
                yield after(lambda: dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op)), tensor)
    return case


def computed(op, size):
    parts = torch.stack([values(size, torch.int64, rank) for rank in range(dist.get_world_size())])
    whole = {"SUM": torch.sum, "PRODUCT": torch.prod, "MIN": torch.amin, "MAX": torch.amax}
    bits = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
    return whole[op](parts, 0) if op in whole else functools.reduce(bits[op], parts)


def all_reduce_without_gloo():
    for dtype in NOT_IN_GLOO if dist.get_backend() == "dtrain" else ():
        for op in OPS:
            for size in FEW_SIZES if op != "AVG" else ():
                tensor = values(size, dtype)
                dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op))
                assert torch.equal(tensor.to(torch.int64), computed(op, size)), (dtype, op, size)
    yield None


def broadcast():
    for source in range(dist.get_world_size()):
        for size in SIZES:
            tensor = values(size)
            dist.broadcast(tensor, src=source)
            yield tensor


def all_gather():
    world = dist.get_world_size()
    for dtype in DTYPES:
        for size in SIZES:
            parts = [torch.zeros(size, dtype=dtype) for _ in range(world)]
            yield after(lambda: dist.all_gather(parts, values(size, dtype)), *parts)
            whole = torch.zeros(size * world, dtype=dtype)
            yield after(lambda: dist.all_gather_into_tensor(whole, values(size, dtype)), whole)


def reduce_scatter():
    world = dist.get_world_size()
    for dtype in REDUCED:
        for op in OPS:
            for size in SIZES if dtype == torch.float32 and op == "SUM" else FEW_SIZES:
                given = values(size * world, dtype)
                part, list_part = torch.zeros(size, dtype=dtype), torch.zeros(size, dtype=dtype)
                parts = list(given.chunk(world)) if size else [part] * world
                yield after(lambda: dist.reduce_scatter_tensor(part, given, op=getattr(dist.ReduceOp, op)), part)
                yield after(lambda: dist.reduce_scatter(list_part, parts, op=getattr(dist.ReduceOp, op)), list_part)


def reduce():
    for dtype in REDUCED:
        for op in OPS:
            for size in SIZES if dtype == torch.float32 and op == "SUM" else FEW_SIZES:
                root = size % dist.get_world_size()
                tensor = values(size, dtype)
                result = after(lambda: dist.reduce(tensor, dst=root, op=getattr(dist.ReduceOp, op)), tensor)
                # Elsewhere gloo uses the tensor as its scratch.
                yield result if dist.get_rank() == root or isinstance(result, Exception) else None


def with_a_root():
    rank, world = dist.get_rank(), dist.get_world_size()
    for root in range(world):
        for size in SIZES:
            parts = [torch.zeros(size) for _ in range(world)]
            dist.gather(values(size), parts if rank == root else None, dst=root)
            own = torch.zeros(size)
            dist.scatter(own, [values(size, rank=r) for r in range(world)] if rank == root else None, src=root)
            yield [own, parts]
    told = [None] * world
    dist.gather_object({"rank": rank}, told if rank == 0 else None, dst=0)
    yield told


def all_to_all():
    rank, world = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.float32, torch.uint8):
        for size in SIZES:
            output = torch.zeros(size * world, dtype=dtype)
            dist.all_to_all_single(output, values(size * world, dtype))
            yield output
    # Rank s has (s + 2 r) % 3 rows for rank r, each of 1,000 numbers.
    sends, gets = [(rank + 2 * r) % 3 for r in range(world)], [(r + 2 * rank) % 3 for r in range(world)]
    output = torch.zeros(sum(gets), 1000)
    dist.all_to_all_single(output, values(sum(sends) * 1000).view(-1, 1000), gets, sends)
    yield output
    parts = [torch.zeros(rows * 1000) for rows in gets]
    yield after(lambda: dist.all_to_all(parts, [values(rows * 1000) for rows in sends]), *parts)
    if dist.get_backend() == "dtrain":  # gloo has not that form
        assert all(torch.equal(part, values(part.numel(), rank=r)) for r, part in enumerate(parts))


def waiting():
    first, second, third = values(1000), values(1000) + 1, values(10)
    works = [dist.all_reduce(tensor, async_op=True) for tensor in (first, second)]
    doubled = works[1].get_future().then(lambda future: [2 * part for part in future.value()])
    works[0].wait()
    yield doubled.wait()
    yield [first, second]
    work = dist.broadcast(third, src=1, async_op=True)
    yield work.get_future().wait()
    dist.barrier()
    yield work.is_completed()


def coalesced():
    world = dist.get_world_size()
    tensors = [values(size) for size in (1, 1000, 7)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    yield tensors
    wholes = [torch.zeros(size * world) for size in (1, 1000)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for whole in wholes:
            dist.all_gather_into_tensor(whole, values(whole.numel() // world))
    manager.wait()
    yield wholes
    parts = [torch.zeros(size) for size in (1, 1000)]
    with dist._coalescing_manager():
        for part in parts:
            dist.reduce_scatter_tensor(part, values(part.numel() * world))
    yield parts
    inputs = [values(1), values(3000).view(2, 1500), values(7)]
    lists = [[torch.zeros_like(tensor) for tensor in inputs] for _ in range(world)]
    dist.all_gather_coalesced(lists, inputs)
    yield lists
    work = dist.all_gather_coalesced(lists, [tensor + 1 for tensor in inputs], async_op=True)
    work.wait()
    yield lists


def functional_forms():
    yield functional.all_reduce(values(1000), "sum", dist.group.WORLD) + 0
    yield functional.all_gather_tensor(values(1000), 0, dist.group.WORLD) + 0
    yield functional.reduce_scatter_tensor(values(1000 * dist.get_world_size()), "sum", 0, dist.group.WORLD) + 0


def objects():
    rank, world = dist.get_rank(), dist.get_world_size()
    gathered = [None] * world
    dist.all_gather_object(gathered, {"rank": rank, "many": ["x" * 10] * (rank * 1000)})
    yield gathered
    told = [{"from": rank}, rank, None]
    dist.broadcast_object_list(told, src=world - 1)
    yield told


def subgroups():
    """Each half of the ranks for itself, at the same time, and each group with memory of its own."""
    rank, world = dist.get_rank(), dist.get_world_size()
    halves = [dist.new_group(list(range(start, world, 2))) for start in (0, 1)]
    tensor = values(300_001)
    dist.all_reduce(tensor, group=halves[rank % 2])
    yield tensor
    source = torch.tensor([rank])
    dist.broadcast(source, src=rank % 2, group=halves[rank % 2])
    yield [source, dist.get_group_rank(halves[rank % 2], rank)]
    if dist.get_backend() == "dtrain":
        maps = MAPS.read_text().count("memfd:dtrain-group")
        expected = 2 if len(range(rank % 2, world, 2)) > 1 else 1
        assert maps == expected, f"{maps} groups' memory is mapped, not {expected}"


def set_timeout():
    """A shorter one than the group was made with, for what is called then."""
    group = dist.new_group()
    store = dist.PrefixStore(dist.get_backend(), dist.distributed_c10d._get_default_store())
    short = datetime.timedelta(seconds=1)
    dist.set_timeout(short, group)
    if dist.get_rank() != 0:
        store.wait(["over"], datetime.timedelta(seconds=20))
        return
    began = time.monotonic()
    error = after(lambda: dist.all_reduce(torch.ones(1), group=group))
    store.set("over", "")
    yield [isinstance(error, RuntimeError), 0.9 < time.monotonic() - began < 10]


CASES = {
    **{f"all_reduce {str(dtype).split('.')[1]}": all_reduce(dtype) for dtype in DTYPES},
    "broadcast": broadcast, "all_gather": all_gather, "reduce_scatter": reduce_scatter,
    "all_reduce of types that gloo has not": all_reduce_without_gloo, "reduce": reduce,
    "with a root": with_a_root, "all_to_all": all_to_all, "waiting": waiting,
    "coalesced": coalesced, "functional": functional_forms, "objects": objects, "subgroups": subgroups,
    # Before torch 2.15 Python can set it of torch's own backends alone.
    **({"set_timeout": set_timeout} if hasattr(dist, "set_timeout") else {}),
    **messages.CASES,
}
if "--surface" in sys.argv:
    CASES = surface.CASES
if "--train" in sys.argv:
    import training
    CASES.update(training.CASES if os.environ["WORLD_SIZE"] == "2" else training.ON_FOUR_RANKS)


def same(one, other):
    if torch.is_tensor(one):
        return torch.is_tensor(other) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def compare(name, gloo, ours):
    for one, other in zip(gloo, ours, strict=True):
        if not isinstance(one, Exception) and not same(one, other):
            yield f"{name}:\n  gloo   {one}\n  dtrain {other}"


def run(backend):
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=20))
    results = {}
    for name, case in CASES.items():
        try:
            results[name] = list(case())
        except Exception:
            print(f"{name} on {backend}:", file=sys.stderr)
            raise
    dist.destroy_process_group()
    return results


def main():
    gloo, ours = run("gloo"), run("dtrain")
    if "memfd:dtrain-group" in MAPS.read_text():
        raise AssertionError("a destroyed group's memory is still mapped")
    wrong = [line for name in CASES for line in compare(name, gloo[name], ours[name])]
    print("\n".join(wrong) or f"equal in {len(CASES)} cases", flush=True)
    return 1 if wrong else 0


# Ends without finalizing Python, for gloo: see ../ddp_worker.py.
faulthandler.dump_traceback_later(140, exit=True)
try:
    code = main()
except Exception:
    traceback.print_exc()
    code = 1
sys.stderr.flush()
os._exit(code)
