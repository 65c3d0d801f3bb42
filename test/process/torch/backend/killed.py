"""Rank 1 is killed in the middle of collectives; the others say what they were told, and how soon."""
import os
import pathlib
import signal
import sys
import time

import torch
import torch.distributed as dist

import dtrain  # noqa: F401

moment = pathlib.Path(sys.argv[1])
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's: we want to hear it from the group
dist.init_process_group("dtrain")
rank = dist.get_rank()
try:
    for step in range(1_000_000):
        if rank == 1 and step == 200:
            moment.write_text(str(time.monotonic()))
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(300_001))
except RuntimeError as error:
    print(f"after {time.monotonic() - float(moment.read_text()):.3f} s: {error}", flush=True)
    sys.exit(1)
