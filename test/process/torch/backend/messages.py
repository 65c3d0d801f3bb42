"""Cases of the oracle with messages between two ranks."""
import torch
import torch.distributed as dist

SIZES = (0, 1, 1000, 1025, 300_001, 2_000_003)
DTYPES = (torch.float64, torch.bfloat16, torch.complex64, torch.int64, torch.uint8, torch.bool)


def values(size, sender, dtype=torch.float32):
    return ((torch.arange(size) + 3 * sender) % 4 + 1).to(dtype)


def neighbours():
    rank, world = dist.get_rank(), dist.get_world_size()
    return (rank + 1) % world, (rank - 1) % world


def blocking():
    """Even ranks send first, odd ones receive first."""
    rank = dist.get_rank()
    right, left = neighbours()
    for dtype in DTYPES:
        for size in SIZES:
            tensor = torch.zeros(size, dtype=dtype)
            if rank % 2 == 0:
                dist.send(values(size, rank, dtype), right)
            source = dist.recv(tensor, left)
            if rank % 2 == 1:
                dist.send(values(size, rank, dtype), right)
            yield [tensor, source]


def all_first():
    """Everybody sends all before anybody receives, and receives by tag, backwards."""
    rank, world = dist.get_rank(), dist.get_world_size()
    others = [peer for peer in range(world) if peer != rank]
    works = [dist.isend(values(size, rank) + tag, peer, tag=tag)
             for tag, size in enumerate(SIZES) for peer in others]
    received = {}
    for tag, size in reversed(list(enumerate(SIZES))):
        for peer in others:
            received[peer, tag] = torch.zeros(size)
            works.append(dist.irecv(received[peer, tag], peer, tag=tag))
    for work in works:
        work.wait()
    yield list(received.values())
    yield [work.is_completed() for work in works]


def in_order():
    right, left = neighbours()
    sent = [torch.full((1 + index % 3 * 3000,), float(index)) for index in range(100)]
    received = [torch.zeros(tensor.numel()) for tensor in sent]
    works = [dist.irecv(tensor, left) for tensor in received] + [dist.isend(tensor, right) for tensor in sent]
    for work in works:
        work.wait()
    yield received


def batched():
    right, left = neighbours()
    rank = dist.get_rank()
    tensors = [torch.zeros(size) for size in SIZES]
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, values(size, rank), right) for size in SIZES] +
        [dist.P2POp(dist.irecv, tensor, left) for tensor in tensors])
    for work in works:
        work.wait()
    yield tensors


def any_source():
    """Rank 0 receives whatever comes next, and knows from whom."""
    rank, world = dist.get_rank(), dist.get_world_size()
    for tag, size in enumerate((1, 100_000)):
        if rank != 0:
            for number in range(5):
                dist.send(values(size, rank) + number, 0, tag=tag)
            continue
        count = [0] * world
        for turn in range(5 * (world - 1)):
            tensor = torch.zeros(size)
            if turn % 2 == 0:
                source = dist.recv(tensor, tag=tag)
            else:
                work = dist.irecv(tensor, tag=tag)
                work.wait()
                source = work._source_rank()
            assert torch.equal(tensor, values(size, source) + count[source])
            count[source] += 1
        yield count


def between_collectives():
    """A message that is received late holds nothing up."""
    rank = dist.get_rank()
    right, left = neighbours()
    work = dist.isend(values(2_000_003, rank), right)
    total = torch.full((1000,), float(rank))
    dist.all_reduce(total)
    tensor = torch.zeros(2_000_003)
    dist.recv(tensor, left)
    work.wait()
    yield [total, tensor]


def views():
    """Tensors that are not contiguous: gloo takes none."""
    rank = dist.get_rank()
    right, left = neighbours()
    matrix, tensor = values(12_000, rank).view(100, 120), torch.zeros(120, 100)
    if dist.get_backend() == "dtrain":
        work = dist.isend(matrix.t(), right)
        dist.recv(tensor.t(), left)
        work.wait()
        assert torch.equal(tensor.t().flatten(), values(12_000, left).view(100, 120).t().flatten())
    yield matrix


def objects():
    right, left = neighbours()
    rank = dist.get_rank()
    sent, received = [{"from": rank}, "x" * 10_000, None], [None] * 3
    if rank % 2 == 0:
        dist.send_object_list(sent, right)
        dist.recv_object_list(received, left)
    else:
        dist.recv_object_list(received, left)
        dist.send_object_list(sent, right)
    yield received


def futures():
    """gloo has none."""
    rank = dist.get_rank()
    right, left = neighbours()
    tensor = torch.zeros(1000)
    work, sent = dist.irecv(tensor, left), dist.isend(values(1000, rank), right)
    if dist.get_backend() == "dtrain":
        doubled = work.get_future().then(lambda future: 2 * future.value()[0])
        assert torch.equal(doubled.wait(), 2 * values(1000, left))
    work.wait()
    sent.wait()
    yield tensor


def subgroup():
    """Ranks of the group, which are others than those of the world."""
    rank, world = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(list(reversed(range(world))))
    tensor = torch.zeros(10)
    works = [dist.isend(values(10, rank), group=group, group_dst=(dist.get_group_rank(group, rank) + 1) % world)]
    source = dist.recv(tensor, group=group)
    works[0].wait()
    yield [tensor, source]


def refused():
    rank = dist.get_rank()
    for call in (dist.isend, dist.irecv) if dist.get_backend() == "dtrain" else ():
        try:
            call(torch.zeros(1), rank)
        except RuntimeError as error:
            assert "this rank itself" in str(error), error
        else:
            raise AssertionError("a message to itself was taken")
    yield rank


CASES = {f"messages: {case.__name__.replace('_', ' ')}": case for case in (
    blocking, all_first, in_order, batched, any_source, between_collectives, views, objects, futures, subgroup,
    refused)}
