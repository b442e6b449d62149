"""Lightning: Trainer(..., callbacks=[StokerCallback(folder)]), with lightning or pytorch_lightning."""
import os

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback

from .training import Training


class StokerCallback(Callback):
    """Iterations, loss and phases; saves into `folder` (step_N.ckpt) and leaves when stoker requests it."""

    def __init__(self, folder):
        self.folder, self.training, self.reported = folder, None, 0

    def on_fit_start(self, trainer, pl_module):
        def save(iteration):
            trainer.save_checkpoint(os.path.join(self.folder, f"step_{iteration}.ckpt"))
        steps = trainer.max_steps if trainer.max_steps > 0 else 0
        self.training = Training(total=steps, save=save)

    def on_train_start(self, trainer, pl_module):
        steps = trainer.estimated_stepping_batches
        self.training.total = int(steps) if steps != float("inf") else self.training.total
        self.reported = trainer.global_step

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step == self.reported:
            return  # gradients are accumulated: no iteration yet
        self.reported = trainer.global_step
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if not self.training.step(trainer.global_step, loss=loss):
            trainer.should_stop = True

    def on_save_checkpoint(self, trainer, pl_module, checkpoint):
        if self.training:
            self.training.enter("checkpoint")  # of ModelCheckpoint; complete when the next batch begins, or the training ends

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.note_saved(trainer)

    def note_saved(self, trainer):
        if self.training.phase_now == "checkpoint":
            self.training.beat.saved(trainer.global_step)
            self.training.enter("iteration")

    def on_validation_start(self, trainer, pl_module):
        if self.training:
            self.training.enter("evaluation")

    def on_validation_end(self, trainer, pl_module):
        if self.training:
            self.training.enter("startup" if trainer.sanity_checking else "iteration")

    def on_fit_end(self, trainer, pl_module):
        self.note_saved(trainer)  # one at the last iteration has no batch behind it
        self.training.end()
