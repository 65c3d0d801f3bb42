"""The same state by torch.distributed.checkpoint: dcp_worker.py FOLDER MIB RUNS. Prints as checkpoint_bench does."""
import os
import shutil
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

TENSOR_BYTES = 16 << 20


def measure(name, call):
    dist.barrier()
    begin = time.monotonic()
    call()
    seconds = torch.tensor(time.monotonic() - begin, dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print(f"{name} {seconds.item():.4f}", flush=True)


def main():
    folder, mib, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    state = {f"layers.{i}.weight": distribute_tensor(torch.rand(2048, TENSOR_BYTES // 4 // 2048), mesh, [Shard(0)])
             for i in range((mib << 20) // TENSOR_BYTES)}
    for _ in range(runs):
        plain, final = os.path.join(folder, "dcp"), os.path.join(folder, "dcp_hf")
        measure("dcp_save", lambda: dcp.save(state, checkpoint_id=plain))
        measure("dcp_load", lambda: dcp.load(state, checkpoint_id=plain))
        writer = HuggingFaceStorageWriter(final, save_distributed=True, enable_consolidation=True)
        measure("dcp_hf_save", lambda: dcp.save(state, storage_writer=writer))
        measure("dcp_hf_load", lambda: dcp.load(state, storage_reader=HuggingFaceStorageReader(final)))
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree(plain)
            shutil.rmtree(final)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
