"""Hugging Face Accelerate's hello world on CPU: a line is learnt, and every rank prints the same weights."""
import torch
from accelerate import Accelerator

import ending


def main():
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    data = torch.utils.data.DataLoader(torch.randn(64, 4), batch_size=4)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for batch in data:
        loss = (model(batch) - batch.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
    weights = accelerator.gather(accelerator.unwrap_model(model).weight.sum().reshape(1))
    print(f"result rank {accelerator.process_index} of {accelerator.num_processes}: {accelerator.distributed_type} "
          f"{weights.sum().item():.6f}", flush=True)


ending.run(main)
