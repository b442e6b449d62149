"""tests/gpu/training.py STOKER_TRAIN OUT: trains on the CPU and on the GPU, and compares: f32's losses within 1e-4 of the
CPU's; the same bits in a second run, in one without CUDA graphs, and in one that was left after ten steps and resumed; bf16
within 2 %; bf16 within 0.5 % of f32's loss after 1,000 steps. The last line is "passed" or why not."""
import json
import os
import re
import shutil
import subprocess
import sys

TRAIN, OUT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
STEPS, LONG = 20, 1000
CONFIG = """model: {{layers: 2, hidden: 64, heads: 4, sequence: 64, vocabulary: 257, dropout: {dropout}}}
data: {{train: [{{prefix: ../text}}]}}
batch: {{global: 8, micro: 4}}
train: {{samples: {samples}, dtype: {dtype}, device: {device}}}
lr: {{max: 1.0e-3, decay_samples: {samples}}}
checkpoint: {{save: [{{every: {every}}}]}}
exit: {{{leave}}}
"""


def train(name, device, dtype="f32", leave="", keep=False, dropout=0.1, steps=STEPS, graphs=None):
    folder = os.path.join(OUT, "training", name)
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "train.yaml"), "w") as f:
        f.write(CONFIG.format(samples=steps * 8, dtype=dtype, device=device, leave=leave, dropout=dropout,
                              every=10 if steps == STEPS else steps))
    done = subprocess.run([TRAIN, "--config", "train.yaml"], cwd=folder, text=True, capture_output=True,
                          env=dict(os.environ, STOKER_CUDA_GRAPHS=graphs or "on"))
    with open(os.path.join(OUT, "training.log"), "a") as f:
        f.write(f"== {name}: exit {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    if done.returncode not in (0, 12):
        sys.exit(f"{name}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    said = re.findall(r"passes of .*", done.stdout)
    if graphs is not None and any(" kept" in line for line in said) != (graphs == "on"):
        sys.exit(f"{name}: CUDA graphs are {graphs}, and the run said {said}")
    return [(int(i), float(x)) for i, x in re.findall(r"iteration +(\d+)/.* lm loss: ([0-9.E+-]+)", done.stdout)]


def digest(name):
    """Of the state in the last checkpoint."""
    folder = os.path.join(OUT, "training", name, "checkpoints")
    with open(os.path.join(folder, sorted(n for n in os.listdir(folder) if n.startswith("step-"))[-1], "manifest.json")) as f:
        return json.load(f)["digest"]


def compare(dtype, dropout, allowed):
    name = f"{dtype}-{dropout}"
    cpu = train(name + "-cpu", "cpu", dropout=dropout)
    if len(cpu) != STEPS:
        sys.exit(f"the CPU's run has {len(cpu)} losses, not {STEPS}")
    once, again = (train(f"{name}-{i}", "cuda", dtype, dropout=dropout, graphs="on") for i in (1, 2))
    if once != again:
        sys.exit(f"{name}: two runs on the GPU differ")
    worst = max(abs(got - want) / abs(want) for (_, want), (_, got) in zip(cpu, once))
    if len(once) != STEPS or worst > allowed:
        sys.exit(f"{name}: {len(once)} losses, the worst {worst:.1e} off the CPU's, {allowed:.0e} allowed")
    if train(name + "-4", "cuda", dtype, dropout=dropout, graphs="off") != once:
        sys.exit(f"{name}: without CUDA graphs the losses differ")
    if digest(name + "-4") != digest(f"{name}-1"):
        sys.exit(f"{name}: without CUDA graphs the checkpoint differs")
    head = train(name + "-3", "cuda", dtype, leave="iteration: 10", dropout=dropout)
    tail = train(name + "-3", "cuda", dtype, keep=True, dropout=dropout)
    if head + tail != once:
        sys.exit(f"{name}: left after 10 steps and resumed, the losses differ")
    print(f"{name}: worst {worst:.1e} off the CPU's f32; two runs, one without CUDA graphs and a resumed one are bitwise equal",
          flush=True)


def long_run():
    wide, narrow = (train("long-" + d, "cuda", d, dropout=0, steps=LONG) for d in ("f32", "bf16"))
    mean = [sum(x for _, x in run[-100:]) / 100 for run in (wide, narrow)]
    off = abs(mean[1] - mean[0]) / mean[0]
    print(f"{LONG} steps, mean loss of the last 100: f32 {mean[0]:.4f}, bf16 {mean[1]:.4f}, {off:.2%} apart", flush=True)
    if off > 5e-3:
        sys.exit(f"bf16 is {off:.2%} off f32 after {LONG} steps, 0.5 % allowed")


def main():
    os.makedirs(os.path.join(OUT, "training"), exist_ok=True)
    subprocess.run([TRAIN, "prepare", "LICENSE", "-o", os.path.join(OUT, "training", "text"), "--bytes"], check=True)
    for dtype, allowed in (("f32", 1e-4), ("bf16", 2e-2)):
        for dropout in (0.1, 0):
            compare(dtype, dropout, allowed)
    long_run()
    shutil.rmtree(os.path.join(OUT, "training"))
    print("passed")


main()
