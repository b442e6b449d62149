"""Accelerate: a training loop of your own around an Accelerator. `step` as in stoker.Training:

    training = training_of(accelerator, "checkpoints", total=STEPS)
    if not training.step(i, loss=loss): break
"""
import os

from .training import Training


def training_of(accelerator, folder, total=0):
    """Saves with accelerator.save_state into `folder`/step_N, on every rank."""
    return Training(total=total, save=lambda iteration: accelerator.save_state(os.path.join(folder, f"step_{iteration}")))
