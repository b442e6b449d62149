"""Accelerate: a progress bar with the loss, save_state every 50 iterations, resumed from the newest."""
import glob
import os

import torch
from accelerate import Accelerator
from torch.nn import Linear, ReLU, Sequential
from tqdm import tqdm

STEPS, SAVE_EVERY = 400, 50

accelerator = Accelerator(cpu=True)
torch.manual_seed(1)
torch.set_num_threads(1)
model = Sequential(Linear(256, 2048), ReLU(), Linear(2048, 1))
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3))


def save(step):
    accelerator.save_state(f"checkpoints/step_{step}")


def load():
    steps = [int(name.split("_")[-1]) for name in glob.glob("checkpoints/step_*")]
    for step in sorted(steps, reverse=True):
        if len(glob.glob(f"checkpoints/step_{step}/random_states_*.pkl")) == accelerator.num_processes:
            accelerator.load_state(f"checkpoints/step_{step}")
            return step
    return 0


os.makedirs("checkpoints", exist_ok=True)
first = load() + 1
bar = tqdm(total=STEPS, initial=first - 1, disable=not accelerator.is_main_process)
for step in range(first, STEPS + 1):
    x = torch.randn(256, 256)
    loss = (model(x).squeeze(-1) - x.sum(-1)).pow(2).mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    bar.set_postfix(loss=f"{loss.item():.4f}", refresh=False)
    bar.update()
    if step % SAVE_EVERY == 0:
        save(step)
bar.close()
