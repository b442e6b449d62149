#!/usr/bin/env python3
"""Data sets, sample index and blend against the real megatron-core, which reads what stoker-train prepared.

STOKER_MEGATRON names the python of a virtual environment with torch and megatron-core; with STOKER_LONG one is made.
"""
import json
import os
import subprocess
import sys

from _train import ROOT, Training, check, run_test
from kept import kept

JUDGE = os.path.join(ROOT, "tests", "e2e", "_megatron.py")
# Samples, weights, split: less than an epoch; several epochs, the last one shuffled apart, or with the others; blends whose shares
# are no whole numbers.
CASES = [(100, [1.0], [90, 10, 0]), (900, [1.0], [90, 10, 0]), (2000, [1.0], [800, 150, 50]), (4500, [1.0], [1, 1, 1]),
         (300, [0.7, 0.3], [90, 10, 0]), (1201, [2.0, 1.0], [800, 150, 50]), (2999, [0.123, 0.877], [50, 25, 25])]


def library():
    """The python with megatron-core; None where there is not one."""
    if os.environ.get("STOKER_MEGATRON"):
        return os.environ["STOKER_MEGATRON"]
    if not os.environ.get("STOKER_LONG"):
        return None
    folder = kept("megatron")
    python = os.path.join(folder, "bin", "python")
    for argv in ([sys.executable, "-m", "venv", folder], [python, "-m", "pip", "install", "-q", "torch", "numpy", "megatron-core"]):
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800)
        if done.returncode:
            print(f"SKIPPED: no virtual environment with megatron-core: {done.stderr.strip()[-300:]}", flush=True)
            sys.exit(77)
    return python


def second_data_set(training):
    """Documents of very different lengths, one shorter than a sample, one of many."""
    with open(os.path.join(training.folder, "other.jsonl"), "w", encoding="ascii") as f:
        for i in range(97):
            f.write(json.dumps({"text": f"{i} " * (1 + i * i % 61)}) + "\n")
    training.command("prepare", "other.jsonl", "-o", "data/other", "--bytes", "--documents", "jsonl")


def drawn(training, samples, weights, split, prefixes):
    """A configuration, and the samples that stoker-train draws by it: of the first iterations and of the last."""
    training.configure(samples=samples)
    path = os.path.join(training.folder, "train.yaml")
    with open(path, encoding="ascii") as f:
        text = f.read()
    sets = ", ".join(f"{{prefix: {p}, weight: {w}}}" for p, w in zip(prefixes, weights))
    text = text.replace("train: [{prefix: data/text, weight: 1.0}], split: [90, 10, 0]", f"train: [{sets}], split: {split}")
    check(sets in text, "the template of train.yaml is another")
    text = text.replace("global: 16, ramp_up: {start: 4, increment: 4, samples: 80}", "global: 20")
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    found = []
    for iteration in (1, 2, samples // 20):
        done = training.command("samples", "--iteration", str(iteration), "--config", "train.yaml", "--json")
        found += json.loads(done.stdout)["samples"]
    return found


def test():
    python = library()
    if python is None:
        print("SKIPPED: no python with megatron-core (STOKER_MEGATRON names one; --long makes one)")
        sys.exit(77)
    training = Training()
    second_data_set(training)
    for samples, weights, split in CASES:
        prefixes = ["data/text", "data/other"][:len(weights)]
        ask = {"prefixes": prefixes, "weights": weights if len(weights) > 1 else None, "split": split, "sequence": 32, "seed": 1234,
               "sizes": [samples, 0, 0], "cache": "index-cache", "samples": drawn(training, samples, weights, split, prefixes)}
        done = subprocess.run([python, JUDGE], input=json.dumps(ask), cwd=training.folder, text=True, capture_output=True, timeout=600)
        check(done.returncode == 0, f"{samples} samples, weights {weights}, split {split}: {(done.stdout + done.stderr)[-1500:]}")
        print(f"{samples} samples, weights {weights}, split {split}: {done.stdout.strip()}", flush=True)


run_test(test)
