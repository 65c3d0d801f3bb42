"""torch's own DDP, on NCCL where there is a GPU, from what ddp_steps has saved in the folder: the same weights."""
import os
import pathlib
import sys

import torch
import torch.distributed as dist

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "parity"))

import ddp_parity  # noqa: E402

gpu = torch.cuda.is_available()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()) if gpu else torch.device("cpu")
torch.set_num_threads(1)
if gpu:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if gpu else "gloo")
for number, options in enumerate(ddp_parity.OPTIONS):
    ours = ddp_parity.loaded(pathlib.Path(sys.argv[1], f"ours{number}"))
    weights, losses = ddp_parity.train(ours, device, *options)
    if dist.get_rank() == 0:
        ddp_parity.compare(ours, ({name: value.cpu() for name, value in weights.items()}, losses.cpu()), options)
    sys.stdout.flush()
dist.destroy_process_group()
