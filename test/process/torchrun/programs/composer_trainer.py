"""Composer's Trainer on CPU: two epochs of a tiny classifier, the same weights on every rank."""
import torch
from composer import Trainer
from composer.models import ComposerClassifier
from composer.utils import dist

import ending


class Dots(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.randn(4, generator=torch.Generator().manual_seed(index)), index % 2


def main():
    dist.initialize_dist("cpu", timeout=60)
    torch.manual_seed(0)
    model = ComposerClassifier(torch.nn.Linear(4, 2), num_classes=2)
    loader = torch.utils.data.DataLoader(Dots(), batch_size=8, sampler=dist.get_sampler(Dots()))
    trainer = Trainer(model=model, train_dataloader=loader, max_duration="2ep", device="cpu", progress_bar=False,
                      optimizers=torch.optim.SGD(model.parameters(), lr=0.1))
    trainer.fit()
    rank = f"result rank {dist.get_global_rank()} of {dist.get_world_size()} on node {dist.get_node_rank()}:"
    wrapped = type(trainer.state.model).__name__
    total = sum(p.detach().double().sum().item() for p in model.parameters())
    print(f"{rank} {wrapped}, {trainer.state.timestamp.batch}, the sum of the weights is {total:.6f}", flush=True)


ending.run(main)
