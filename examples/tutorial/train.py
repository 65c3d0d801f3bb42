"""The tutorial's program in Python: torch's own DDP, dtrain's collectives, and a run that goes on after a failure."""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

EPOCHS = 6
CHECKPOINT = "python_checkpoint.pt"


def draw_samples():
    torch.manual_seed(1)
    y = torch.randint(10, (1251,))
    x = torch.randn(10, 16)[y] + 1.2 * torch.randn(1251, 16)
    return (x[:1000], y[:1000]), (x[1000:], y[1000:])


def train_epoch(model, optimizer, samples, epoch, fail):
    x, y = samples
    model.train()
    total = torch.zeros((), dtype=torch.double)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
    for number, batch in enumerate(order.split(64)):
        if fail and number == 7:
            raise RuntimeError("this failure is on purpose")
        mine = batch[dist.get_rank()::dist.get_world_size()]
        loss = cross_entropy(model(x[mine]), y[mine], reduction="sum")
        optimizer.zero_grad()
        (loss * dist.get_world_size() / len(batch)).backward()  # DDP makes it the mean over the global batch
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item() / len(x)


@torch.no_grad()
def evaluate(net, samples):
    x, y = samples
    for buffer in net.buffers():
        dist.broadcast(buffer, 0)  # rank 0's running statistics
    net.eval()
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    scores = net(x[mine])
    sums = torch.stack([cross_entropy(scores, y[mine], reduction="sum"), (scores.argmax(1) == y[mine]).sum()])
    dist.all_reduce(sums)
    return (sums / len(x)).tolist()


def save(state):
    with open(CHECKPOINT + ".new", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(CHECKPOINT + ".new", CHECKPOINT)


def main():
    dist.init_process_group("dtrain")
    first = dist.get_rank() == 0
    fails = ("--fail" in sys.argv and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
             and dist.get_rank() == dist.get_world_size() - 1)

    train, test = draw_samples()
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(),
                              torch.nn.Linear(32, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)

    parts = {"net": net, "optimizer": optimizer, "schedule": schedule}
    state = [torch.load(CHECKPOINT) if first and os.path.exists(CHECKPOINT) else None]
    dist.broadcast_object_list(state)  # all ranks go on from what rank 0 has read
    done = 0
    if state[0]:
        done = state[0]["epochs"]
        for name, part in parts.items():
            part.load_state_dict(state[0][name])
    model = DistributedDataParallel(net)

    for epoch in range(done, EPOCHS):
        loss = train_epoch(model, optimizer, train, epoch, fails and epoch == 3)
        schedule.step()
        if first:
            save({"epochs": epoch + 1} | {name: part.state_dict() for name, part in parts.items()})
            print(f"epoch {epoch}: loss {loss:.4f}")

    loss, right = evaluate(net, test)
    if first:
        print(f"test: loss {loss:.4f}, {100 * right:.1f} % right")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
