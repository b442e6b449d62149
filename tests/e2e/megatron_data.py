#!/usr/bin/env python3
"""Data sets, sample index and blend against the real megatron-core, which reads what stoker-train prepared.

STOKER_MEGATRON names the python of a virtual environment with torch and megatron-core; with STOKER_LONG one is made. Without
one, what stoker-train draws is compared with what the library has drawn alike.
"""
import glob
import hashlib
import json
import os
import subprocess

from _train import ROOT, Training, check, run_test
from kept import python_with

JUDGE = os.path.join(ROOT, "tests", "e2e", "_megatron.py")
# Samples, weights, split: less than an epoch; several epochs, the last one shuffled apart, or with the others; blends whose shares
# are no whole numbers. Then what was drawn when the library (0.16.1) drew the same.
CASES = [(100, [1.0], [90, 10, 0], "f68ac43820fd15e3"), (900, [1.0], [90, 10, 0], "d2e8afa77e1eae8e"),
         (2000, [1.0], [800, 150, 50], "e9c901c383200882"), (4500, [1.0], [1, 1, 1], "fd168278109e96b4"),
         (300, [0.7, 0.3], [90, 10, 0], "2141bea1de6c6c3e"), (1201, [2.0, 1.0], [800, 150, 50], "1febaf5cefc40f68"),
         (2999, [0.123, 0.877], [50, 25, 25], "e7bc291a37076abb")]
ARRAYS = "cc84a7a95ccdac0a"


def library():
    """The python with megatron-core; None where there is not one."""
    if os.environ.get("STOKER_MEGATRON"):
        return os.environ["STOKER_MEGATRON"]
    if not os.environ.get("STOKER_LONG"):
        return None
    return python_with("megatron", ["torch", "numpy", "megatron-core"])


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


def digest_of(*parts):
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def arrays_digest(cache):
    """Of all cached index arrays, in the order of what they are of."""
    found = []
    for path in glob.glob(os.path.join(cache, "*-GPTDataset-description.txt")):
        with open(path, encoding="utf-8") as f:
            about = json.loads(f.readline())
        arrays = [f"{path.removesuffix('-description.txt')}-{kind}_index.npy" for kind in ("document", "sample", "shuffle")]
        found.append(([about["prefix"], about["documents"], about["num_samples"]], [open(name, "rb").read() for name in arrays]))
    return digest_of(*(b"".join([json.dumps(key).encode(), *contents]) for key, contents in sorted(found)))


def judged(training, python, ask, what):
    done = subprocess.run([python, JUDGE], input=json.dumps(ask), cwd=training.folder, text=True, capture_output=True, timeout=600)
    check(done.returncode == 0, f"{what}: {(done.stdout + done.stderr)[-1500:]}")
    print(f"{what}: {done.stdout.strip()}", flush=True)


def test():
    python = library()
    if python is None:
        print("not tested against the library itself, but against what was equal with it: no python with megatron-core "
              "(STOKER_MEGATRON names one; --long makes one)", flush=True)
    training = Training()
    second_data_set(training)
    for samples, weights, split, digest in CASES:
        prefixes = ["data/text", "data/other"][:len(weights)]
        found = drawn(training, samples, weights, split, prefixes)
        what = f"{samples} samples, weights {weights}, split {split}"
        if python is not None:
            ask = {"prefixes": prefixes, "weights": weights if len(weights) > 1 else None, "split": split, "sequence": 32, "seed": 1234,
                   "sizes": [samples, 0, 0], "cache": "index-cache", "samples": found}
            judged(training, python, ask, what)
        drew = digest_of(json.dumps(found, sort_keys=True).encode())
        check(drew == digest, f"{what}: the samples' digest is {drew}, with megatron-core it was {digest}")
    arrays = arrays_digest(os.path.join(training.folder, "index-cache"))
    check(arrays == ARRAYS, f"the index arrays' digest is {arrays}, with megatron-core it was {ARRAYS}")


run_test(test)
