"""Lightning: ModelCheckpoint every 50 iterations, resumed from the newest one."""
import glob
import re

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn import Linear, ReLU, Sequential

STEPS, SAVE_EVERY = 400, 50


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = Sequential(Linear(256, 2048), ReLU(), Linear(2048, 1))

    def training_step(self, x, index):
        loss = (self.layers(x).squeeze(-1) - x.sum(-1)).pow(2).mean()
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def step_of(name):
    return int(re.findall(r"step[=_](\d+)", name)[-1])


torch.manual_seed(1)
torch.set_num_threads(1)
data = torch.utils.data.DataLoader(torch.randn(2 * 120 * 256, 256), batch_size=256, shuffle=True)
saves = ModelCheckpoint("checkpoints", every_n_train_steps=SAVE_EVERY, save_top_k=-1)
trainer = Trainer(max_steps=STEPS, accelerator="cpu", devices=2, strategy="ddp", logger=False,
                  callbacks=[saves])
newest = max(glob.glob("checkpoints/*.ckpt"), key=step_of, default=None)
trainer.fit(Model(), data, ckpt_path=newest)
