"""Hugging Face Trainer: Trainer(..., callbacks=[StokerCallback()])."""
from transformers import TrainerCallback

from .training import Training


class StokerCallback(TrainerCallback):
    """Iterations, loss, learning rate and phases; saves and leaves when stoker requests it. The Trainer saves by itself where
    its arguments say so (save_steps, output_dir); a save on request goes to the same folder."""

    def __init__(self):
        self.training = None

    def on_train_begin(self, args, state, control, **kwargs):
        self.training = Training(total=max(0, state.max_steps))

    def on_step_end(self, args, state, control, **kwargs):
        tokens = getattr(state, "num_input_tokens_seen", 0) or 0
        save, leave = self.training.report(state.global_step, tokens=int(tokens))
        if leave < 2 and (save or leave):
            control.should_save = True
        if leave:
            control.should_training_stop = True
            if leave == 2:
                control.should_save = False
        if control.should_save:
            self.training.enter("checkpoint")
        return control

    def on_log(self, args, state, control, logs=None, **kwargs):
        if self.training and logs and "loss" in logs:
            self.training.loss = float(logs["loss"])  # goes out with the next iteration
            self.training.lr = float(logs.get("learning_rate", 0.0))

    def on_prediction_step(self, args, state, control, **kwargs):
        if self.training:
            self.training.enter("evaluation")

    def on_evaluate(self, args, state, control, **kwargs):
        if self.training:
            self.training.enter("checkpoint" if control.should_save else "iteration")

    def on_save(self, args, state, control, **kwargs):
        self.training.beat.saved(state.global_step)
        self.training.enter("iteration")

    def on_train_end(self, args, state, control, **kwargs):
        self.training.end()
