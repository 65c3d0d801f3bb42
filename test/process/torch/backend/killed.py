"""Rank 1 is killed in the middle of collectives, or of messages to all others, which then say what they were told, and
how soon."""
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
        if "messages" not in sys.argv:
            dist.all_reduce(torch.ones(300_001))
        elif rank != 1:
            dist.recv(torch.zeros(3001), 1 if step % 2 == 0 else None)
        else:
            for other in range(dist.get_world_size()):
                if other != rank:
                    dist.send(torch.ones(3001), other)
except RuntimeError as error:
    print(f"after {time.monotonic() - float(moment.read_text()):.3f} s: {error}", flush=True)
    sys.exit(1)
