"""What a training says to stoker, and what stoker asks of it. Without stoker all of it does nothing.

    from stoker import Training
    training = Training(total=STEPS, save=write_checkpoint)   # write_checkpoint(iteration)
    for i in range(first, STEPS + 1):
        ...
        if not training.step(i, loss=loss):
            break

For the training loops of others: stoker.hf (Hugging Face Trainer), stoker.lightning, stoker.accelerate, stoker.megatron.
"""
from .heartbeat import PHASES, Heartbeat
from .training import Training

__all__ = ["PHASES", "Heartbeat", "Training"]
