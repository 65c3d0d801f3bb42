"""Cases of the oracle for what a backend offers beside the plain collectives: groups that come from others, barriers
that name who is missing, sparse tensors, parts of different sizes, strided ones, options and facts about a Work.

`everything` goes through all that torch binds of a backend, a Work and the options. What works on gloo must work on
dtrain with the same result, and a name that this file does not know fails the test: a newer torch has something new.
"""
import datetime

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

SPARSE_TYPES = (torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.int8)
ORDERED_TYPES = (torch.float64, torch.float32, torch.int64, torch.uint8)
TIMEOUT = datetime.timedelta(seconds=20)
# Whether torch's own monitored_barrier takes a backend that is not gloo: since 2.15.
ANY_BACKENDS_BARRIER = hasattr(dist, "set_timeout")


def world():
    return dist.get_rank(), dist.get_world_size()


def backend_of(group=None):
    return (group or dist.group.WORLD)._get_backend(torch.device("cpu"))


def own_store(name):
    return dist.PrefixStore(f"{name} on {dist.get_backend()}", dist.distributed_c10d._get_default_store())


def refused(call):
    try:
        call()
    except (RuntimeError, ValueError):
        return True
    return False


def ranks_part(rank, dtype=torch.float32, size=None):
    return (torch.arange(rank + 1 if size is None else size) + 2 * dist.get_rank() + 1).to(dtype)


def uneven_parts():
    """Part r has r + 1 elements, and one has none."""
    rank, ranks = world()
    for dtype in ORDERED_TYPES:
        for op in ("SUM", "MAX"):
            output = torch.zeros(rank + 1, dtype=dtype)
            dist.reduce_scatter(output, [ranks_part(r, dtype) for r in range(ranks)], op=getattr(dist.ReduceOp, op))
            yield output
    sizes = [0] + [100_001 * r for r in range(1, ranks)]
    output = torch.zeros(sizes[rank], 2)  # of two dimensions, and on dtrain not contiguous
    output = output.t().contiguous().t() if dist.get_backend() == "dtrain" else output
    parts = [ranks_part(r, size=2 * size).view(size, 2) for r, size in enumerate(sizes)]
    dist.reduce_scatter(output, parts)
    yield output.contiguous()


def refused_parts():
    """All ranks refuse, and go on."""
    rank, ranks = world()
    for output in (torch.zeros(rank + 2), torch.zeros(rank + 1, dtype=torch.float64)):
        yield refused(lambda: dist.reduce_scatter(output, [ranks_part(r) for r in range(ranks)]))
    yield refused(lambda: dist.all_gather([torch.zeros(r + 1) for r in range(ranks)], torch.zeros(rank + 1)))
    dist.barrier()


def every_second(tensor):
    """The same values with a gap after each."""
    wide = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype)
    wide[..., 0] = tensor
    return wide[..., 0]


def strided():
    """Where gloo reads or writes the wrong memory, or takes contiguous tensors alone, its answer is that to those."""
    rank, ranks = world()
    layout = every_second if dist.get_backend() == "dtrain" else torch.clone
    for dtype in ORDERED_TYPES:
        tensor = layout(ranks_part(0, dtype, 6).view(2, 3))
        dist.all_reduce(tensor)
        yield tensor.contiguous()
        given, part = layout(ranks_part(0, dtype, 4 * ranks)), layout(torch.zeros(4, dtype=dtype))
        dist.reduce_scatter_tensor(part, given)
        yield part.contiguous()
        whole = layout(torch.zeros(4 * ranks, dtype=dtype))
        dist.all_gather_into_tensor(whole, layout(ranks_part(0, dtype, 4)))
        yield whole.contiguous()
        rows = layout(torch.zeros(3 * ranks, 2, dtype=dtype))
        dist.all_to_all_single(rows, layout(ranks_part(0, dtype, 6 * ranks).view(3 * ranks, 2)))
        yield rows.contiguous()
        sends, gets = [rank + 1] * ranks, [r + 1 for r in range(ranks)]
        rows = layout(torch.zeros(sum(gets), 2, dtype=dtype))
        dist.all_to_all_single(rows, layout(ranks_part(0, dtype, 2 * sum(sends)).view(-1, 2)), gets, sends)
        yield rows.contiguous()
        parts = [layout(torch.zeros(5, dtype=dtype)) for _ in range(ranks)]
        try:
            dist.all_to_all(parts, [layout(ranks_part(0, dtype, 5) + r) for r in range(ranks)])
            yield [part.contiguous() for part in parts]
        except RuntimeError as error:  # older gloo
            yield error
        own = layout(torch.zeros(5, dtype=dtype))
        dist.scatter(own, [layout(ranks_part(0, dtype, 5) + r) for r in range(ranks)] if rank == 0 else None)
        yield own.contiguous()
    if dist.get_backend() == "dtrain":
        assert refused(lambda: dist.all_gather_into_tensor(torch.zeros(1).expand(2 * ranks), torch.zeros(2)))


def transposed():
    """Shapes that gloo takes too: rows that lie as columns."""
    _, ranks = world()
    given = ranks_part(0, size=8 * ranks).view(2, 4 * ranks).t()
    part = torch.zeros(4, 2)
    dist.reduce_scatter_tensor(part, given)
    yield part


def sparse(*shape, dtype=torch.float32, shift=0):
    """Some places are of one rank and some of several, one is there twice, and not in order."""
    rank, _ = world()
    rows = torch.tensor([2 + rank, rank, 2 + rank, 1])
    indices = torch.stack([rows, (rows + shift) % shape[1]]) if shift else rows[None]
    values = torch.arange(4).add(rank + 1).view(4, *[1] * (len(shape) - indices.size(0)))
    return torch.sparse_coo_tensor(indices, values.expand(4, *shape[indices.size(0):]).to(dtype), shape)


def dense_sum(tensor):
    whole = tensor.to_dense()
    dist.all_reduce(whole)
    return whole


def sparse_all_reduce():
    _, ranks = world()
    for dtype in SPARSE_TYPES:
        for tensor in (sparse(2 + ranks, dtype=dtype), sparse(2 + ranks, 3, dtype=dtype),
                       sparse(2 + ranks, 5, 2, dtype=dtype, shift=1), sparse(2 + ranks, 0, dtype=dtype)):
            dist.all_reduce(tensor)
            yield [tensor.is_coalesced(), tensor.indices(), tensor.values()]
    work = dist.all_reduce(first := sparse(2 + ranks), async_op=True)
    work.wait()
    yield [first.to_dense(), [part.to_dense() for part in work.get_future().value()]]
    none = torch.sparse_coo_tensor(torch.zeros(1, 0).long(), [], (2 + ranks,))
    uneven = sparse(2 + ranks) if dist.get_rank() else none
    dist.all_reduce(uneven)
    yield uneven.to_dense()
    nothing = torch.sparse_coo_tensor(torch.zeros(1, 0).long(), [], (7,))
    dist.all_reduce(nothing)
    yield [nothing.values(), nothing.shape]
    if hasattr(c10d.Backend, "allreduce_sparse"):
        c10d.Backend.allreduce_sparse(backend_of(), [direct := sparse(2 + ranks)], c10d.AllreduceOptions()).wait()
        yield direct.to_dense()
    if dist.get_backend() == "dtrain":  # gloo fails at these, on all ranks or with another value
        for dtype in (torch.float16, torch.bool, torch.complex64, torch.int16):
            tensor = sparse(2 + ranks, 3, dtype=dtype)
            expected = dense_sum(tensor.coalesce())
            backend_of().allreduce([tensor]).wait()  # dist.all_reduce loses the sum of complex ones in a view
            assert torch.equal(tensor.to_dense(), expected), dtype
        dist.all_reduce(mean := sparse(2 + ranks), op=dist.ReduceOp.AVG)
        assert torch.allclose(mean.to_dense(), dense_sum(sparse(2 + ranks)) / ranks)
        single = dist.new_group([dist.get_rank()], use_local_synchronization=True)
        dist.all_reduce(alone := sparse(2 + ranks), group=single)
        assert alone.is_coalesced() and torch.equal(alone.to_dense(), sparse(2 + ranks).to_dense())


def sparse_refused():
    for op in (dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
        yield refused(lambda: dist.all_reduce(sparse(9), op=op))
    yield [refused(lambda: dist.broadcast(sparse(9), 0)), refused(lambda: dist.reduce(sparse(9), 0))]
    dist.barrier()


def sparse_gradients():
    torch.manual_seed(1)
    rank, _ = world()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Embedding(10, 4, sparse=True))
    for step in range(3):
        model.zero_grad()
        model(torch.tensor([1 + rank, 2, (step + rank) % 10])).sum().backward()
        grad = model.module.weight.grad
        yield [grad.is_sparse, grad.to_dense()]


def monitored_barrier(wait_all=False):
    """Torch's function, and the backend's, which older torch's function does not call on others than gloo."""
    if ANY_BACKENDS_BARRIER:
        dist.monitored_barrier(timeout=TIMEOUT, wait_all_ranks=wait_all)
    backend_of().monitored_barrier(TIMEOUT, wait_all)


def barriers():
    """That all come to; monitored.py has those that some do not."""
    for wait_all in (False, True, False):
        monitored_barrier(wait_all)
    backend_of().monitored_barrier()
    pending = dist.all_reduce(tensor := torch.ones(3), async_op=True)
    monitored_barrier()
    pending.wait()
    yield tensor


def sum_of_ranks(backend):
    backend.allreduce([tensor := torch.tensor([dist.get_rank() + 1.0])]).wait()
    return [backend.rank(), backend.size(), tensor]


def split():
    rank, ranks = world()
    if hasattr(dist, "split_group"):
        for lists in ([[0, *range(2, ranks)], [1]], [list(range(ranks))[::-1]], [[1, 0]]):
            group = dist.split_group(split_ranks=lists, timeout=datetime.timedelta(seconds=17), group_desc="half")
            if group is dist.GroupMember.NON_GROUP_MEMBER:
                yield "not in it"
                continue
            options = backend_of(group).options
            yield [*sum_of_ranks(backend_of(group)), dist.get_process_group_ranks(group), options._timeout,
                   options.global_ranks_in_group, options.group_name == group.group_name, group.group_desc]
            if len(lists) == 1 and len(lists[0]) == ranks:  # a part of a part
                inner = dist.split_group(parent_pg=group, split_ranks=[[0, ranks - 1]])
                if inner is not dist.GroupMember.NON_GROUP_MEMBER:
                    yield [*sum_of_ranks(backend_of(inner)), dist.get_process_group_ranks(inner)]
            dist.destroy_process_group(group)
    options = backend_of().options
    made = backend_of().split(own_store("split"), [ranks - 1, 0], options)
    yield sum_of_ranks(made) if made else "not in it"
    dist.barrier()


def split_refused():
    for ranks in ([0, 0], [99]) if dist.get_backend() == "dtrain" else ():
        assert refused(lambda: backend_of().split(own_store("refused"), ranks, backend_of().options)), ranks
    yield None


def merge():
    rank, ranks = world()
    alone = dist.new_group([rank], use_local_synchronization=True)
    merged = alone.merge_remote_group(own_store("merge"), ranks, TIMEOUT, "merged", "all again")
    backend = backend_of(merged)
    yield [backend.size(), sum_of_ranks(backend)[2], merged.group_name, merged.group_desc]
    yield sum_of_ranks(backend_of().merge(own_store("merge 2"), backend_of().options, ranks - 1 - rank, ranks))


def handles(group, name):
    store, (rank, ranks) = own_store(name), world()
    store.set(str(rank), dist.distributed_c10d._get_reconfigure_handle(group))
    return [store.get(str(r)).decode() for r in range(ranks)]


def seen(group):
    backend = backend_of(group)
    backend.broadcast([told := torch.tensor([dist.get_rank()])], c10d.BroadcastOptions()).wait()
    return [group.rank(), group.size(), *sum_of_ranks(backend), told]


def reconfigure():
    rank, ranks = world()
    again = dist.distributed_c10d._reconfigure
    group = dist.new_group()
    yield group.supports_reconfigure
    stale = handles(group, "first")
    again(1, stale, group).wait()
    yield seen(group)
    now = handles(group, "second")
    yield [len(set(now)) == ranks, not set(now) & set(stale)]
    again(2, now[::-1], group, timeout=TIMEOUT).wait()
    yield seen(group)
    now = handles(group, "third")
    again(3, set(now), group).wait()
    yield [group.size(), seen(group)[-2]]
    yield [refused(lambda: again(4, now, group)), refused(lambda: again(4, ["x"], group))]  # old ones, and no handle
    yield seen(group)[-2]
    now = handles(group, "fourth")
    if rank == ranks - 1:
        yield refused(lambda: again(5, now[:-1], group))
    else:
        again(5, now[:-1], group).wait()
        yield seen(group)
    dist.barrier()


def formed_later():
    """A group that forms with its first reconfigure()."""
    if not backend_of().supports_reconfigure:
        return
    group, _ = dist.distributed_c10d._new_process_group_helper(
        dist.get_world_size(), dist.get_rank(), [], dist.get_backend(), own_store("later"),
        f"later on {dist.get_backend()}", timeout=TIMEOUT, enable_reconfigure=True, group_desc="later")
    yield [refused(lambda: backend_of(group).allreduce([torch.ones(1)]).wait()),
           backend_of(group).options.enable_reconfigure]
    dist.distributed_c10d._reconfigure(1, handles(group, "later handles"), group).wait()
    yield seen(group)
    dist.distributed_c10d._world.pg_group_ranks[group] = {r: r for r in range(dist.get_world_size())}
    dist.destroy_process_group(group)


def options():
    group = dist.new_group(timeout=datetime.timedelta(seconds=19))
    mine = backend_of(group).options
    yield [mine.backend == dist.get_backend(), mine._timeout, mine.group_name == group.group_name,
           mine.global_ranks_in_group]
    backend_of(group).set_timeout(datetime.timedelta(seconds=18))
    yield [mine._timeout, backend_of(group).options is mine]
    yield backend_of(group).allreduce([torch.ones(1)]).timeout
    if dist.get_backend() == "dtrain":
        mine._timeout = datetime.timedelta(seconds=16)
        assert backend_of(group).allreduce([torch.ones(1)]).timeout == mine._timeout


def works():
    backend = backend_of(dist.new_group())
    first = backend.allreduce([torch.ones(2)])
    first.wait()
    given = c10d.AllreduceOptions()
    given.timeout = datetime.timedelta(seconds=11)
    second = backend.allreduce([torch.ones(2)], given)
    second.wait()
    yield [first.timeout, second.timeout, second._get_sequence_number() - first._get_sequence_number(),
           first._get_op_type(), first.is_completed(), first.is_success()]
    backend._enable_collectives_timing()
    third = backend.allreduce([torch.ones(200_000)])
    third.wait()
    if dist.get_backend() == "dtrain":  # gloo never tells
        assert 0 < third._get_duration() < 60_000, third._get_duration()
        assert refused(lambda: first._get_duration())
    yield None


def flat(values):
    return [value.flatten() for one in values for value in (flat(one) if isinstance(one, list) else [one])]


def results_of(work):
    """All values of its future in a row: gloo has lists of parts. Where gloo has none there is nothing to compare."""
    work.wait()
    try:
        values = flat(work.get_future().value())
    except RuntimeError:
        values = []
    return torch.cat(values) if values else RuntimeError


def result_of(call):
    """What it gives, or that it fails."""
    try:
        result = call()
    except (RuntimeError, ValueError, NotImplementedError):
        return RuntimeError
    if isinstance(result, c10d.Work):
        return results_of(result)
    plain = (bool, int, str, datetime.timedelta, type(None), torch.Tensor)
    return result if isinstance(result, plain) else type(result).__mro__[-2].__name__


# The calls of a backend with small operands. `b` is the backend, `r` and `n` rank and number of ranks.
def operand(r):
    return torch.arange(6.0) + r


def listed(n):
    return [torch.zeros(6) for _ in range(n)]


def at_root(r, work):
    """Elsewhere gloo uses the tensor as its scratch."""
    work.wait()
    return work if r == 0 else None


def rooted(options):
    options.rootRank = 0
    return options


COVERED = "elsewhere in this file, in the oracle or in messages.py"
OWN = "it tells of the backend itself"
BACKEND = {
    "_add_ephemeral_timeout": lambda b, r, n: b._add_ephemeral_timeout(TIMEOUT),
    "_allgather_base": lambda b, r, n: b._allgather_base(torch.zeros(6 * n), operand(r)),
    "_end_coalescing": lambda b, r, n: b._end_coalescing(),
    "_end_time_estimate": lambda b, r, n: b._end_time_estimate(),
    "_get_backend_name": OWN,
    "_get_sequence_number_for_group": lambda b, r, n: b._get_sequence_number_for_group(),
    "_reduce_scatter_base": lambda b, r, n: b._reduce_scatter_base(torch.zeros(6 // n), operand(r)[:6 // n * n]),
    "_register_on_completion_hook": lambda b, r, n: b._register_on_completion_hook(lambda info: None),
    "_set_group_uid": COVERED,
    "_set_sequence_number_for_group": lambda b, r, n: b._set_sequence_number_for_group(),
    "_start_coalescing": lambda b, r, n: b._start_coalescing(),
    "_start_time_estimate": lambda b, r, n: b._start_time_estimate(),
    "_supports_time_estimate": lambda b, r, n: b._supports_time_estimate,
    "_wait_for_pending_works": lambda b, r, n: b._wait_for_pending_works(),
    "abort": COVERED,
    "all_gather_single": lambda b, r, n: b.all_gather_single(torch.zeros(6 * n), operand(r)),
    "all_gather_single_coalesced":
        lambda b, r, n: b.all_gather_single_coalesced([torch.zeros(6 * n)], [operand(r)], c10d.AllgatherOptions()),
    "all_to_all_single": lambda b, r, n: b.all_to_all_single(torch.zeros(2 * n), torch.zeros(2 * n), [], []),
    "allgather": lambda b, r, n: b.allgather([listed(n)], [operand(r)]),
    "allgather_coalesced": lambda b, r, n: b.allgather_coalesced([listed(1) for _ in range(n)], [operand(r)]),
    "allocate_tensor": "dtrain has it, gloo has not",
    "allreduce": lambda b, r, n: b.allreduce([operand(r)]),
    "allreduce_coalesced": lambda b, r, n: b.allreduce_coalesced([operand(r)], c10d.AllreduceCoalescedOptions()),
    "allreduce_sparse": COVERED,
    "alltoall": lambda b, r, n: b.alltoall(listed(n), listed(n), c10d.AllToAllOptions()),
    "alltoall_base": lambda b, r, n: b.alltoall_base(torch.zeros(2 * n), torch.zeros(2 * n), [], []),
    "barrier": lambda b, r, n: b.barrier(),
    "bound_device_id": lambda b, r, n: b.bound_device_id,
    "broadcast": lambda b, r, n: b.broadcast([operand(r)], c10d.BroadcastOptions()),
    "eager_connect_single_device": lambda b, r, n: b.eager_connect_single_device(torch.device("cpu")),
    "_enable_collectives_timing": COVERED,
    "gather": lambda b, r, n: b.gather([listed(n)] if r == 0 else [], [operand(r)], rooted(c10d.GatherOptions())),
    "gather_into_tensor":
        lambda b, r, n: b.gather_into_tensor(torch.zeros(6 * n), operand(r), rooted(c10d.GatherOptions())),
    "gather_single": lambda b, r, n: b.gather_single(torch.zeros(6 * n), operand(r), rooted(c10d.GatherOptions())),
    "get_error": lambda b, r, n: str(b.get_error()),
    "get_reconfigure_handle": COVERED,
    "mem_allocator": lambda b, r, n: b.mem_allocator,
    "memory_stats": lambda b, r, n: b.memory_stats(),
    "merge": COVERED,
    "monitored_barrier": COVERED,
    "name": OWN,
    "new_window": lambda b, r, n: b.new_window(),
    "options": COVERED,
    "rank": lambda b, r, n: b.rank(),
    "reconfigure": COVERED,
    "recv": COVERED,
    "recv_anysource": COVERED,
    "reduce": lambda b, r, n: at_root(r, b.reduce([operand(r)], c10d.ReduceOptions())),
    "reduce_scatter": lambda b, r, n: b.reduce_scatter([torch.zeros(6)], [listed(n)]),
    "reduce_scatter_single": lambda b, r, n: b.reduce_scatter_single(torch.zeros(1), operand(r)[:n]),
    "reduce_scatter_single_coalesced":
        lambda b, r, n: b.reduce_scatter_single_coalesced([torch.zeros(1)], [operand(r)[:n]],
                                                          c10d.ReduceScatterOptions()),
    "register_abort_hook": lambda b, r, n: b.register_abort_hook(1, lambda: None),
    "resume": lambda b, r, n: b.resume(),
    "scatter": lambda b, r, n: b.scatter([operand(r)], [listed(n)] if r == 0 else [], rooted(c10d.ScatterOptions())),
    "send": COVERED,
    "setUsePgForSymmMemRendezvous": lambda b, r, n: b.setUsePgForSymmMemRendezvous(False),
    "set_timeout": COVERED,
    "shrink": lambda b, r, n: b.shrink([0]),
    "shutdown": "at the end of every group",
    "size": lambda b, r, n: b.size(),
    "split": COVERED,
    "supports_abort_hooks": lambda b, r, n: b.supports_abort_hooks,
    "supports_coalescing": lambda b, r, n: b.supports_coalescing,
    "supports_completion_hooks": lambda b, r, n: b.supports_completion_hooks,
    "supports_reconfigure": lambda b, r, n: b.supports_reconfigure,
    "supports_shrinking": lambda b, r, n: b.supports_shrinking,
    "supports_splitting": lambda b, r, n: b.supports_splitting,
    "supports_tensor_alloc": "dtrain has it, gloo has not",
    "supports_window": lambda b, r, n: b.supports_window,
    "suspend": lambda b, r, n: b.suspend(),
    "unregister_abort_hook": lambda b, r, n: b.unregister_abort_hook(1),
    # Of gloo alone, for its own connections.
    "_set_default_timeout": "it has set_timeout()", "create_default_device": OWN, "create_device": OWN,
    "Options": OWN, "_Options": OWN, "Device": OWN,
}
WORK = {
    "_get_duration": COVERED, "_source_rank": COVERED, "source_rank": COVERED, "get_future": COVERED, "wait": COVERED,
    "_get_op_type": lambda w: str(w._get_op_type()),
    "_get_sequence_number": lambda w: type(w._get_sequence_number()).__name__,
    "block_current_stream": "streams are of devices",
    "boxed": "of torch.compile", "unbox": "of torch.compile",
    "exception": lambda w: w.exception(),
    "get_future_result": lambda w: w.get_future_result().wait(),
    "is_completed": lambda w: w.is_completed(),
    "is_success": lambda w: w.is_success(),
    "result": lambda w: w.result()[0],
    "synchronize": lambda w: w.synchronize(),
    "timeout": lambda w: w.timeout,
}
OPTIONS = {"_timeout", "backend", "enable_reconfigure", "global_ranks_in_group", "group_name",
           "_devices", "_threads"}  # the last two are of gloo's connections
PYBIND = "_pybind11_conduit_v1_"


def names_of(*classes):
    return {name for one in classes for name in vars(one) if not name.startswith("__") and name != PYBIND}


def everything():
    gloo = c10d.ProcessGroupGloo
    for what, names, known in (("backend", names_of(c10d.Backend, gloo), BACKEND), ("Work", names_of(c10d.Work), WORK),
                               ("options", names_of(c10d.Backend.Options, gloo._Options), OPTIONS)):
        unknown = sorted(names - set(known))
        assert not unknown, f"torch {torch.__version__}: surface.py does not know of a {what}'s {', '.join(unknown)}"
    backend, (rank, ranks) = backend_of(dist.new_group()), world()
    offered = names_of(c10d.Backend)
    for name, call in BACKEND.items():
        if callable(call) and name in offered:
            yield on_gloo_too([name, result_of(lambda: call(backend, rank, ranks))])
    for name, call in WORK.items():
        if callable(call) and name in names_of(c10d.Work):
            work = backend.allreduce([torch.ones(3)])
            work.wait()
            yield on_gloo_too([f"Work.{name}", result_of(lambda: call(work))])


def on_gloo_too(named):
    """What gloo lacks is not compared: dtrain may have it."""
    return RuntimeError() if named[1] is RuntimeError and dist.get_backend() == "gloo" else named


CASES = {"reduce_scatter of uneven parts": uneven_parts, "parts that are refused": refused_parts, "strided": strided,
         "transposed": transposed, "sparse all_reduce": sparse_all_reduce, "sparse, refused": sparse_refused,
         "DDP, sparse gradients": sparse_gradients, "monitored_barrier": barriers}
# What C++ could do and Python could not yet, or what was not there, in older versions.
if hasattr(c10d.Backend, "options"):
    CASES["options"] = options
if hasattr(c10d.Backend, "reconfigure"):
    CASES.update({"works": works, "split": split, "split, refused": split_refused, "merge": merge,
                  "reconfigure": reconfigure, "formed later": formed_later, "everything that torch binds": everything})
