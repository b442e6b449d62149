"""DeepSpeed, ZeRO-1: save_checkpoint every 50 iterations, resumed from the one that `latest` names."""
import deepspeed
import torch
from torch.nn import Linear, ReLU, Sequential

STEPS, SAVE_EVERY = 400, 50
CONFIG = {"train_micro_batch_size_per_gpu": 256, "steps_per_print": 1,
          "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": True}

deepspeed.init_distributed(dist_backend="gloo")
torch.manual_seed(1)
torch.set_num_threads(1)
model = Sequential(Linear(256, 2048), ReLU(), Linear(2048, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)


def save(step):
    engine.save_checkpoint("checkpoints", client_state={"step": step})


_, state = engine.load_checkpoint("checkpoints")
first = (state or {}).get("step", 0) + 1
for step in range(first, STEPS + 1):
    torch.manual_seed(step * engine.world_size + engine.global_rank)
    x = torch.randn(256, 256)
    loss = (engine(x).squeeze(-1) - x.sum(-1)).pow(2).mean()
    engine.backward(loss)
    engine.step()
    if step % SAVE_EVERY == 0:
        save(step)
