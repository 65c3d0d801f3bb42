"""PyTorch Lightning's hello world on CPU; prints what rank 0 has learnt. Lightning finds the launcher by itself."""
import os
import warnings

warnings.filterwarnings("ignore")
import pytorch_lightning as pl  # noqa: E402
import torch  # noqa: E402

import ending  # noqa: E402


class Line(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        return (self.layer(batch) - batch.sum(1, keepdim=True)).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    pl.seed_everything(0)
    data = torch.utils.data.DataLoader(torch.randn(64, 4), batch_size=8)
    model = Line()
    trainer = pl.Trainer(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp", max_epochs=1,
                         logger=False, enable_checkpointing=False, enable_progress_bar=False,
                         enable_model_summary=False)
    trainer.fit(model, data)
    print(f"result rank {trainer.global_rank} of {trainer.world_size}: {type(trainer.strategy).__name__} "
          f"{model.layer.weight.sum().item():.6f}", flush=True)


ending.run(main)
