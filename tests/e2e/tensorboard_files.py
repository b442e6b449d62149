#!/usr/bin/env python3
"""TensorBoard's own reader on the event files of a training: what the log says, at its step, once, also after a resume.

The reader is EventAccumulator of the package `tensorboard` in the Python that recipes.py takes ($STOKER_TORCH_PYTHON, or with
--long one that pip fills from PyPI); where it is missing nothing is tested, aloud.
"""
import json
import math
import os
import re
import subprocess
import sys

from _train import ROOT, Training, check, run_test

sys.path.insert(0, os.path.join(ROOT, "tests"))
from e2e._python import has, torch_python

# Of the log line: TensorBoard's tag, and half a unit of the last digit that the line shows (relative where it has an exponent).
COLUMNS = {
    "consumed samples": ("steps-vs-samples/y=steps,x=samples", 0.5, 0),
    "elapsed time per iteration (s)": ("iteration-time/iteration-time", 0.005, 0),
    "learning rate": ("learning-rate/learning-rate", 0, 5e-4),
    "global batch size": ("batch-size/batch-size", 0.5, 0),
    "lm loss": ("lm-loss-training/lm loss", 0, 5e-7),
    "grad norm": ("grad-norm/grad-norm", 0.0005, 0),
    "num zeros": ("num-zeros/num-zeros", 0.5, 0),
    "params norm": ("params-norm/params-norm", 0.0005, 0),
    "samples per second": ("iteration-time/samples per second", 0.0005, 0),
    "TFLOPs": ("iteration-time/TFLOPs per gpu (estimated)", 0.005, 0),
}
VALIDATION = "lm-loss-validation/valid/lm loss validation"
READ = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0}).Reload()
print(json.dumps({tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""


def columns(line):
    return dict(re.findall(r"\| ([^:|]+): +(\S+)(?= \|)", line))


def logged(log):
    """tag -> step -> (value, absolute and relative tolerance), from the lines of one start."""
    found = {}

    def note(tag, step, *value):
        found.setdefault(tag, {})[int(step)] = value

    for step, rest in re.findall(r"^ iteration +(\d+)/ *\d+ (\|.*)$", log, re.M):
        for name, text in columns(rest).items():
            if name in COLUMNS:
                tag, absolute, relative = COLUMNS[name]
                note(tag, step, float(text), absolute, relative)
    for step, rest in re.findall(r"^ gradient norms at iteration (\d+) (\|.*)$", log, re.M):
        for name, text in columns(rest).items():
            note("grad-norm/" + name, step, float(text), 0, 5e-4)
    for step, loss in re.findall(r"^ validation loss at iteration (\d+) \| lm loss value: (\S+) ", log, re.M):
        note(VALIDATION, step, float(loss), 0, 5e-7)
    return found


def read(folder):
    done = subprocess.run([torch_python(), "-c", READ, folder], capture_output=True, text=True, timeout=300, cwd=folder,
                          env=dict(os.environ, PYTHONPATH=os.environ.get("STOKER_TORCH_PATH", "")))
    check(done.returncode == 0, f"EventAccumulator: {done.stderr[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compared(points, expected):
    check(set(points) == set(expected), f"tags {sorted(points)}, in the log {sorted(expected)}")
    for tag, values in expected.items():
        steps = [step for step, _ in points[tag]]
        check(steps == sorted(values), f"{tag}: steps {steps}, in the log {sorted(values)}")
        for step, value in points[tag]:
            number, absolute, relative = values[step]
            # what TensorBoard holds is a float
            check(math.isclose(value, number, rel_tol=relative + 2e-7, abs_tol=absolute * 1.001),
                  f"{tag} at step {step}: {value}, in the log {number}")


def tensorboard_files():
    if not has("tensorboard"):
        return
    training = Training(samples=140, more="log: {every: 2, norms: true, tensorboard: plots}")
    try:
        training.run()
        first = logged(training.log())
        check(set(first) == {tag for tag, *_ in COLUMNS.values()} | {VALIDATION} |
              {f"grad-norm/{name}" for name in ("embedding", "layer 0", "layer 1", "final norm")}, f"logged: {sorted(first)}")
        plots = os.path.join(training.folder, "plots")
        compared(read(plots), first)
        again = training.checkpoints()[1]
        training.run(STOKER_LOAD=os.path.join("checkpoints", again))
        second = logged(training.log())
        resumed = int(re.match(r"step-0*(\d+)", again)[1])
        check(all(min(values) > resumed for values in second.values()) and any(max(first[tag]) > resumed for tag in second),
              f"resumed at {resumed}, logged {second}")
        both = {tag: {**{step: value for step, value in values.items() if step <= resumed}, **second.get(tag, {})}
                for tag, values in first.items()}
        compared(read(plots), both)
        print(f"{len(both)} tags, {sum(map(len, both.values()))} points, as logged; again from step {resumed}", flush=True)
    finally:
        training.remove()


run_test(tensorboard_files)
