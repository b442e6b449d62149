"""Plain MPI (mpi4py): gradients by Allreduce, a file every 50 iterations, resumed from the newest."""
import glob
import json
import os
import random
from array import array

from mpi4py import MPI

STEPS, SAVE_EVERY, WIDTH, SAMPLES = 400, 50, 16, 500

world = MPI.COMM_WORLD
random.seed(world.Get_rank())
weights = [0.0] * WIDTH


def save(step):
    if world.Get_rank() == 0:
        with open("checkpoints/unfinished", "w") as file:
            json.dump({"step": step, "weights": weights}, file)
        os.replace("checkpoints/unfinished", f"checkpoints/step_{step}.pt")


def load():
    steps = [int(name.split("_")[-1][:-3]) for name in glob.glob("checkpoints/step_*.pt")]
    if not steps:
        return 0
    with open(f"checkpoints/step_{max(steps)}.pt") as file:
        state = json.load(file)
    weights[:] = state["weights"]
    return state["step"]


def gradient():
    """Loss and gradient of a linear model, the mean over all ranks."""
    mine = array("d", [0.0] * (WIDTH + 1))
    for _ in range(SAMPLES):
        x = [random.gauss(0, 1) for _ in range(WIDTH)]
        error = sum(w * v for w, v in zip(weights, x)) - sum(x) - random.gauss(0, 1)
        mine[WIDTH] += error * error
        for i, v in enumerate(x):
            mine[i] += 2 * error * v
    world.Allreduce(MPI.IN_PLACE, mine, op=MPI.SUM)
    return [value / SAMPLES / world.Get_size() for value in mine]


os.makedirs("checkpoints", exist_ok=True)
first = load() + 1
for step in range(first, STEPS + 1):
    *slope, loss = gradient()
    weights[:] = [w - 0.01 * g for w, g in zip(weights, slope)]
    if world.Get_rank() == 0:
        print(f"step {step}/{STEPS} loss {loss:.4f}", flush=True)
    if step % SAVE_EVERY == 0:
        save(step)
