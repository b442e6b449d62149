"""PyTorch DDP: saves every 50 iterations, resumes from its newest checkpoint."""
import glob
import os

import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential

STEPS, SAVE_EVERY = 400, 50

dist.init_process_group("gloo")
torch.manual_seed(1)
torch.set_num_threads(1)
layers = Sequential(Linear(256, 2048), ReLU(), Linear(2048, 1))
model = torch.nn.parallel.DistributedDataParallel(layers)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def save(step):
    if dist.get_rank() == 0:
        state = {"step": step, "model": layers.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, "checkpoints/unfinished")
        os.replace("checkpoints/unfinished", f"checkpoints/step_{step}.pt")


def load():
    steps = [int(name.split("_")[-1][:-3]) for name in glob.glob("checkpoints/step_*.pt")]
    if not steps:
        return 0
    state = torch.load(f"checkpoints/step_{max(steps)}.pt", map_location="cpu")
    layers.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


os.makedirs("checkpoints", exist_ok=True)
first = load() + 1
for step in range(first, STEPS + 1):
    torch.manual_seed(step * dist.get_world_size() + dist.get_rank())
    x = torch.randn(256, 256)
    loss = (model(x).squeeze(-1) - x.sum(-1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0:
        print(f"step {step}/{STEPS} loss {loss.item():.4f}")
    if step % SAVE_EVERY == 0:
        save(step)
dist.destroy_process_group()
