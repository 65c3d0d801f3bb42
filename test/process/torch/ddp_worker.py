"""A plain torch program, as a user of torchrun has it: DDP on gloo through env://, rank 1 fails in the first round."""
import os
import sys
import traceback

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel


@record
def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(10, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        loss = (model(torch.randn(8, 10) + rank) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 10 and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            raise RuntimeError("the first time fails")
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    print("weights", weights.sum().item(), flush=True)
    dist.destroy_process_group()


# Ends without finalizing Python: before 3.13 a gloo thread that holds a tensor may abort there, under any launcher
# (https://github.com/pytorch/pytorch/issues/190489). What is printed and the exit code are those of a plain main().
code = 0
try:
    main()
except RuntimeError:
    traceback.print_exc()
    code = 1
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
