"""As programs for torchrun are written: NCCL, a GPU for each rank."""
import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
device = int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()
torch.cuda.set_device(device)
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1).to(device), device_ids=[device])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
wanted = torch.tensor([[2.0], [-3.0], [5.0]], device=device)
for step in range(200):
    torch.manual_seed(1000 * step + dist.get_rank())
    x = torch.randn(64, 3, device=device)
    loss = (model(x) - x @ wanted).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.all_reduce(loss)
print(f"loss {loss.item():.4f}", flush=True)
dist.barrier()
dist.destroy_process_group()
