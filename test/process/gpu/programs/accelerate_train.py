"""Hugging Face Accelerate on the GPUs that it finds."""
import torch
from accelerate import Accelerator

torch.manual_seed(0)
accelerator = Accelerator()
data = torch.utils.data.DataLoader(torch.randn(256, 4), batch_size=8)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for _ in range(5):
    for batch in data:
        loss = (model(batch) - batch.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
assert accelerator.gather(loss.reshape(1)).max().item() < 1e-3
print(f"learnt on {accelerator.device}, {accelerator.distributed_type}", flush=True)
accelerator.end_training()
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
