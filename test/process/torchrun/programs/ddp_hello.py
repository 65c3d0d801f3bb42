"""torch's DistributedDataParallel on gloo: twenty steps, the same weights on every rank."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import ending


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(10, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        loss = (model(torch.randn(8, 10) + dist.get_rank()) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = torch.cat([p.detach().flatten() for p in model.parameters()]).sum().item()
    print(f"result rank {dist.get_rank()} of {dist.get_world_size()}: {weights:.6f}", flush=True)
    dist.destroy_process_group()


ending.run(main)
