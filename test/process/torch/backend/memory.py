"""Memory that dtrain gives out must be to torch what any memory is: in forked children, for complex numbers, resized.

One program on gloo and then on dtrain, in the same processes: what the cases yield must be equal, bit by bit. Values
are small whole numbers, so that the order of additions makes no difference. Run it on two ranks; the cases of complex
parameters also mean something on one.
"""
import gc
import inspect
import os
import signal
import subprocess
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP

import dtrain  # noqa: F401

DEADLINE = 60


def model(**options):
    layer = nn.Linear(64, 64)
    nn.init.ones_(layer.weight)
    return DDP(layer, gradient_as_bucket_view=True, **options)


def step(ddp, number=1):
    """A step's gradients are those of rank 0 and 1, so wrong ones are not those of gloo."""
    rows = torch.full((2, 64), float(number % 5 + dist.get_rank()))
    ddp(rows).sum().backward()


def in_child(body, *arguments):
    """A forked child that runs it; what it must not do is return an error."""
    child = mp.get_context("fork").Process(target=body, args=arguments)
    child.start()
    return child


def ended(child):
    child.join(DEADLINE)
    assert child.exitcode == 0, child.exitcode


def a_child_between_backward_and_step():
    """As an evaluation, or a checkpoint, in a process of its own."""
    ddp = model()
    step(ddp)

    def body():
        ddp.zero_grad(set_to_none=False)
        assert ddp.module.weight.grad.abs().sum() == 0
    ended(in_child(body))
    dist.barrier()
    yield ddp.module.weight.grad.clone()


def a_child_that_goes_on_writing():
    ddp = model()
    step(ddp)
    started, stop = mp.Event(), mp.Event()

    def body():
        while not stop.is_set():
            for parameter in ddp.parameters():
                parameter.grad.fill_(1e9)
            started.set()
    child = in_child(body)
    assert started.wait(DEADLINE)
    for number in range(200):
        ddp.zero_grad(set_to_none=False)
        step(ddp, number)
        yield ddp.module.weight.grad[0, 0].item()
    stop.set()
    ended(child)


def a_child_that_reads():
    """It sees what there was when it was forked, whatever its parent does since: more steps, and other memory there."""
    ddp = model()
    step(ddp)
    expected = ddp.module.weight.grad.clone()
    read, write = os.pipe()

    def body():
        os.read(read, 1)
        assert torch.equal(ddp.module.weight.grad, expected)
        step_by_hand = ddp.module.weight - ddp.module.weight.grad  # reading works as ever
        assert step_by_hand.isfinite().all()
    children = [in_child(body) for _ in range(2)]
    for number in range(5):
        step(ddp, number)
        yield ddp.module.weight.grad.clone()
    ddp.module.weight.grad = None
    ddp = None
    gc.collect()
    os.write(write, b"!!")
    for child in children:
        ended(child)


def children_that_end_in_all_ways():
    """Handlers of atexit run, groups are destroyed, collectives are called: the parent's group is not theirs."""
    if dist.get_backend() == "gloo":  # whose children may hang there
        return
    ddp = model()

    def destroys():
        dist.destroy_process_group()

    def aborts():
        dist.group.WORLD._get_backend(torch.device("cpu")).abort()

    def calls():
        try:
            dist.all_reduce(torch.ones(5))
        except RuntimeError:
            return
        sys.exit("a collective in a forked child")

    def drops():
        ddp.__dict__.clear()
    for way in (destroys, aborts, calls, drops):
        for leave in (os._exit, sys.exit):
            pid = os.fork()
            if pid == 0:
                signal.alarm(DEADLINE)
                way()
                leave(0)
            assert os.waitpid(pid, 0)[1] == 0, (way, leave)
        ddp.zero_grad(set_to_none=False)
        step(ddp)
        assert ddp.module.weight.grad[0, 0] == 3.0
    yield None


def programs_and_loaders():
    """Workers of a DataLoader by fork; programs, with and without code of Python between fork and exec."""
    ddp = model()
    loader = torch.utils.data.DataLoader(torch.arange(8.), batch_size=2, num_workers=2, multiprocessing_context="fork")
    for batch in loader:
        ddp(batch.mean().expand(2, 64)).sum().backward()
    for options in ({}, {"preexec_fn": os.getpid}, {"close_fds": False}):
        assert subprocess.run(["true"], check=True, timeout=DEADLINE, **options).returncode == 0
    assert os.system("true") == 0
    assert os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1]) == 0
    yield ddp.module.weight.grad.clone()


class Mixed(nn.Module):
    """Complex and real parameters, and a complex buffer."""

    def __init__(self):
        super().__init__()
        self.wave = nn.Linear(8, 3, dtype=torch.cfloat)
        self.precise = nn.Parameter(torch.full((3,), 1 + 2j, dtype=torch.cdouble))
        self.turned = nn.Parameter(torch.full((4, 3), 2 - 1j, dtype=torch.cfloat).t())  # dense, in another order
        self.real = nn.Linear(3, 2)
        self.register_buffer("phase", torch.full((3,), dist.get_rank() + 1j, dtype=torch.cfloat))
        for parameter in (self.wave.weight, self.wave.bias, self.real.weight):
            nn.init.ones_(parameter)

    def forward(self, rows):
        waves = self.wave(rows) * self.phase
        more = (waves @ self.turned).sum() + (waves * self.precise).sum()
        return self.real(waves.real + waves.imag).sum() + more.real + more.imag


def complex_parameters():
    for options in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}, {"bucket_cap_mb": 1e-5}):
        ddp = DDP(Mixed(), **options)
        for number in range(3):  # the buckets are made anew after the first
            ddp(torch.full((2, 8), 1j + number + dist.get_rank(), dtype=torch.cfloat)).backward()
            yield [parameter.grad.clone() for parameter in ddp.parameters()] + [ddp.module.phase]


def resized():
    """As FSDP does between its uses of a buffer, and DDP with lazy_bucket_allocation."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    shares = dist.get_backend() == "dtrain"
    for dtype in (torch.float32, torch.complex64, torch.int8):
        row = (backend.allocate_tensor(5000, dtype=dtype, device=torch.device("cpu")) if shares
               else torch.empty(5000, dtype=dtype))
        assert row.dtype == dtype and row.shape == (5000,)
        bytes_ = row.untyped_storage().nbytes()
        for size in (0, bytes_, 0, 2 * bytes_):
            row.untyped_storage().resize_(size)
            yield row.untyped_storage().nbytes()
        row.fill_(dist.get_rank() + 1)
        row.resize_(30_000)[5000:] = 2  # what was there stays
        dist.all_reduce(row)
        yield row.clone()
        row.set_()
    lazily = "lazy_bucket_allocation" in inspect.signature(DDP).parameters  # not before torch 2.15
    ddp = model(**({"lazy_bucket_allocation": True} if lazily else {}))
    for number in range(4):
        ddp.zero_grad(set_to_none=True)
        step(ddp, number)
        yield ddp.module.weight.grad.clone()


def fsdp_from_the_backend():
    """FSDP2's own buffers in memory of the backend, where it has such."""
    torch.manual_seed(0)
    layer = nn.Linear(64, 64, bias=False)
    nn.init.ones_(layer.weight)
    sharded = fully_shard(layer)
    if dist.get_backend() == "dtrain":
        sharded.set_allocate_memory_from_process_group_for_comm(True)
    for number in range(3):
        sharded(torch.full((2, 64), float(number + dist.get_rank()))).sum().backward()
    yield sharded.weight.grad.full_tensor()


CASES = [a_child_between_backward_and_step, a_child_that_goes_on_writing, a_child_that_reads,
         children_that_end_in_all_ways, programs_and_loaders, complex_parameters, resized, fsdp_from_the_backend]


def equal(one, other):
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return one == other


def main():
    signal.alarm(3 * DEADLINE)
    chosen = sys.argv[1:] or [case.__name__ for case in CASES]
    results = {}
    for backend in ("gloo", "dtrain"):
        tcp = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
        dist.init_process_group(backend, store=dist.PrefixStore(backend, tcp), rank=int(os.environ["RANK"]),
                                world_size=int(os.environ["WORLD_SIZE"]))
        results[backend] = {case.__name__: list(case()) for case in CASES if case.__name__ in chosen}
        dist.destroy_process_group()
    for name, right in results["gloo"].items():
        found = results["dtrain"][name][:len(right)]
        wrong = [at for at, (one, other) in enumerate(zip(right, found)) if not equal(one, other)]
        if wrong or len(found) < len(right):
            sys.exit(f"{name}: {len(wrong)} of {len(right)} results are not gloo's; {wrong[0]}: "
                     f"{right[wrong[0]]} {found[wrong[0]]}")
    print(f"equal in {len(results['gloo'])} cases", flush=True)


if __name__ == "__main__":
    main()
