"""Megatron-LM: before pretrain(), in pretrain_gpt.py: `import stoker.megatron; stoker.megatron.install()`.

Wraps four functions of megatron.training.training: its loop calls them in every iteration. One that this version does not have
is an error at once, not a silent training.
"""
import functools
import importlib
import inspect

from .training import Training

WRAPPED = ("training_log", "evaluate", "save_checkpoint_and_time", "checkpoint_and_decide_exit")


def values_of(function, args, kwargs):
    """What the caller gave, by the names of the parameters."""
    return inspect.signature(function).bind(*args, **kwargs).arguments


class Hooks:
    def __init__(self, module, training):
        self.module, self.training, self.log, self.saved = module, training, {}, None
        for name in WRAPPED:
            if not callable(getattr(module, name, None)):
                raise RuntimeError(f"stoker.megatron: {module.__name__} has no {name}; this version of Megatron is not known, "
                                   "use stoker.Training in its loop")
        for name in WRAPPED:
            original = getattr(module, name)
            setattr(module, name, functools.wraps(original)(functools.partial(getattr(self, name), original)))

    def training_log(self, original, *args, **kwargs):
        self.log = values_of(original, args, kwargs)
        return original(*args, **kwargs)

    def evaluate(self, original, *args, **kwargs):
        with self.training.phase("evaluation"):
            return original(*args, **kwargs)

    def save_checkpoint_and_time(self, original, *args, **kwargs):
        iteration = values_of(original, args, kwargs)["iteration"]
        with self.training.phase("checkpoint"):
            done = original(*args, **kwargs)
        self.training.beat.saved(iteration)
        self.saved = iteration
        return done

    def checkpoint_and_decide_exit(self, original, *args, **kwargs):
        """Called after each iteration: reports it, lets Megatron decide, then does what stoker requested."""
        given, megatron = values_of(original, args, kwargs), self.module.get_args()
        self.training.total = megatron.train_iters or 0
        losses = list(self.log.get("loss_dict", {}).values())
        save, leave = self.training.report(
            given["iteration"], loss=losses[0] if losses else None, lr=float(self.log.get("learning_rate") or 0.0),
            samples=int(getattr(megatron, "consumed_train_samples", 0)))
        stop = original(*args, **kwargs)
        if leave < 2 and (save or leave) and megatron.save and self.saved != given["iteration"]:
            self.module.save_checkpoint_and_time(
                given["iteration"], given["model"], given["optimizer"], given["opt_param_scheduler"],
                given["num_floating_point_operations_so_far"], given["checkpointing_context"],
                train_data_iterator=given["train_data_iterator"])
        return stop or leave > 0


def install(module=None):
    return Hooks(module or importlib.import_module("megatron.training.training"), Training())
