"""DeepSpeed's ZeRO-2 on CPU with an optimizer of torch: each rank has the optimizer's state of its part alone."""
import deepspeed
import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss

import ending

CONFIG = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 2},
          "zero_allow_untested_optimizer": True, "gradient_clipping": 1.0}


def main():
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # its kernels would be compiled for a minute
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
    losses = []
    for step in range(8):
        torch.manual_seed(step)
        batch = torch.randn(8, 8).tensor_split(dist.get_world_size())[dist.get_rank()]
        loss = mse_loss(engine(batch), batch[:, :4].sin())
        engine.backward(loss)
        engine.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(f"{mean.item() / dist.get_world_size():.7f}")
    total = sum(p.detach().double().sum().item() for p in engine.module.parameters())
    every = sum(p.numel() for p in engine.module.parameters())
    own = optimizer.param_groups[0]["params"][0].numel()
    rank = f"result rank {engine.global_rank} of {engine.world_size}:"
    stage, steps = engine.zero_optimization_stage(), engine.global_steps
    print(f"{rank} {steps} steps of stage {stage}, losses {' '.join(losses)}", flush=True)
    print(f"{rank} updates {own} of {every} parameters, whose sum is {total:.6f}", flush=True)


ending.run(main)
