"""A program that knows dtrain by the name of the backend alone, which the first argument is."""
import sys

import torch
import torch.distributed as dist

dist.init_process_group(sys.argv[1])
tensor = torch.full((1000,), dist.get_rank() + 1.0)
dist.all_reduce(tensor)
backend = dist.group.WORLD._get_backend(tensor.device).name()
dist.destroy_process_group()
print(f"{backend}: {tensor.unique().tolist()}", flush=True)
