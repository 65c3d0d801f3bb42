"""One rank of one round of a launcher whose store outlives rounds: the sum of all ranks, in two groups one after the
other."""
import torch
import torch.distributed as dist

for _ in range(2):
    dist.init_process_group("dtrain")
    ones = torch.ones(3)
    dist.all_reduce(ones)
    assert ones.tolist() == [dist.get_world_size()] * 3, ones
    dist.destroy_process_group()
print("together")
