"""The steps of `gpu_worker memory` with torch's own DDP on NCCL: the peak of the GPU's memory."""
import os

import torch
import torch.distributed as dist

device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
torch.cuda.set_device(device)
dist.init_process_group("nccl")
net = torch.nn.Sequential(*(torch.nn.Linear(1000, 1000, bias=False) for _ in range(13))).to(device)
model = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, foreach=False)
x = torch.randn(16, 1000, device=device)
for _ in range(5):
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
torch.cuda.synchronize()
print("peak", torch.cuda.max_memory_allocated(), flush=True)
dist.destroy_process_group()
