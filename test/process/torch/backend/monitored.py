"""Monitored barriers that some ranks do not come to, on the backend that is named: what the others are told."""
import datetime
import os
import sys

import torch.distributed as dist

import dtrain  # noqa: F401
from surface import ANY_BACKENDS_BARRIER, backend_of

TIMEOUT = datetime.timedelta(seconds=2)
CASES = {"two are missing": (1, 3)}
if sys.argv[1] == "dtrain":  # ranks of gloo wait for rank 0 for longer than that
    CASES["rank 0 is missing"] = (0,)

dist.init_process_group(sys.argv[1], timeout=datetime.timedelta(seconds=40))
rank, ranks = dist.get_rank(), dist.get_world_size()
store = dist.distributed_c10d._get_default_store()
for name, missing in CASES.items():
    group = dist.new_group()
    if rank not in missing:
        try:
            if ANY_BACKENDS_BARRIER:
                dist.monitored_barrier(group, TIMEOUT, wait_all_ranks=True)
            else:
                backend_of(group).monitored_barrier(TIMEOUT, True)
            print(f"{name}: nothing was said", flush=True)
        except RuntimeError as error:
            print(f"{name}: {' '.join(str(error).split())}", flush=True)
    store.set(f"{name}/{rank}", "")
    store.wait([f"{name}/{r}" for r in range(ranks)])
dist.barrier()  # another group is whole
sys.stdout.flush()
os._exit(0)  # for gloo: see ../ddp_worker.py
