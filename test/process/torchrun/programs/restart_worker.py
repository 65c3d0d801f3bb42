"""Forms a gloo group in every round and adds up a number there; a different rank fails in each but the last."""
import os

import torch
import torch.distributed as dist

import ending

attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
last = int(os.environ["TORCHELASTIC_MAX_RESTARTS"])


def main():
    dist.init_process_group("gloo")
    number = torch.tensor([dist.get_rank() + 1.0 + attempt])
    dist.all_reduce(number)
    print(f"result round {attempt}: {number.item():g}", flush=True)
    if attempt == last:
        return 0
    store = dist.distributed_c10d._get_default_store()
    failing = attempt % dist.get_world_size()
    store.set(f"printed {dist.get_rank()}", "yes")
    store.wait([f"printed {rank}" for rank in range(dist.get_world_size())])
    if dist.get_rank() != failing:
        store.wait(["never"])  # this one is still there when the other fails
    return 17


ending.run(main)
