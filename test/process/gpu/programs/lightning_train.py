"""PyTorch Lightning on the GPUs that it finds."""
import os
import warnings

warnings.filterwarnings("ignore")
import pytorch_lightning as pl  # noqa: E402
import torch  # noqa: E402


class Line(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        return (self.layer(batch) - batch.sum(1, keepdim=True)).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


pl.seed_everything(0)
trainer = pl.Trainer(accelerator="gpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp", max_epochs=5,
                     logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
model = Line()
trainer.fit(model, torch.utils.data.DataLoader(torch.randn(256, 4), batch_size=8))
assert (model.layer.weight - 1).abs().max().item() < 0.05
print(f"learnt on {trainer.strategy.root_device}, {type(trainer.strategy).__name__}", flush=True)
torch.distributed.destroy_process_group()
