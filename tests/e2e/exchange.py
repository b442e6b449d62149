#!/usr/bin/env python3
"""A trained model leaves and enters: export, import, generate, evaluate, in real processes.

STOKER_TRANSFORMERS names the python of a virtual environment with torch and transformers; with STOKER_LONG one is made. There
the real library opens what was exported, and makes what is imported.
"""
import json
import os
import re
import struct
import subprocess
import sys

from _train import ROOT, Training, check, run_test
from kept import python_with

JUDGE = os.path.join(ROOT, "tests", "e2e", "_transformers.py")


def generated(training, checkpoint, *more):
    return json.loads(training.command("generate", checkpoint, "--json", *more).stdout)


def trained(training):
    """Two checkpoints of the same training, on one rank and on TP2 x PP2; the loss of `evaluate` is that of the log."""
    training.configure(samples=140)
    training.run(1)
    iteration = 10
    one = f"checkpoints/step-{iteration:06}.g000000"
    losses = re.findall(rf" validation loss at iteration {iteration} \| lm loss value: (\S+) ", training.log())
    found = json.loads(training.command("evaluate", "--checkpoint", one, "--json").stdout)
    check(found["iteration"] == iteration and abs(found["loss"] / float(losses[-1]) - 1) < 1e-5, f"{found}, the log: {losses}")
    check(found["sets"] == [{"data": "data/text", "loss": found["loss"], "samples": 16}], found)
    text = training.command("evaluate", "--checkpoint", one).stdout
    check(text.count("\n") == 2 and f"blended loss at iteration {iteration} | 16 samples | lm loss value: " in text, text)
    training.configure(samples=140, directory="split", more="parallel: {tensor: 2, pipeline: 2}")
    training.run(4)
    split = f"split/{training.checkpoints('split')[-1]}"
    print(f"evaluate: {found['loss']:.6f} as the log says", flush=True)
    return one, split


def writes(training, one):
    first = generated(training, one, "--prompt", "fire ", "--seed", "3", "--tokens", "40")
    check(first == generated(training, one, "--prompt", "fire ", "--seed", "3", "--tokens", "40"), "the same seed, another text")
    check(first["prompt_tokens"] == list(b"fire ") and 0 < len(first["tokens"]) <= 40, first)
    check(first["tokens"] != generated(training, one, "--prompt", "fire ", "--seed", "4", "--tokens", "40")["tokens"], "another seed")
    greedy = generated(training, one, "--prompt", "fire ", "--temperature", "0", "--tokens", "40")
    check(greedy["tokens"] == generated(training, one, "--prompt", "fire ", "--top-k", "1", "--tokens", "40")["tokens"], "top 1")
    shown = training.command("generate", one, "--prompt", "fire ", "--seed", "3", "--tokens", "40").stdout
    check(shown.startswith("fire ") and len(shown) >= 6, shown)
    print(f"generate: {greedy['text']!r}", flush=True)
    return greedy


def leaves_and_enters(training, one, split):
    """Of any mesh; what comes back is the same model to the bit, and trains on any mesh."""
    read = lambda name: open(os.path.join(training.folder, name), "rb").read()
    training.command("export", split, "-o", "hf")
    check(sorted(os.listdir(os.path.join(training.folder, "hf"))) ==
          ["config.json", "generation_config.json", "merges.txt", "model.safetensors", "tokenizer_config.json", "vocab.json"],
          os.listdir(os.path.join(training.folder, "hf")))
    said = training.command("import", "hf", "-o", "in").stdout
    check("model: {layers: 2, hidden: 32, heads: 4, ffn: 64, sequence: 32, vocabulary: 257, dropout: 0.1}" in said, said)
    training.command("export", "in/step-000000.g000000", "-o", "again", "--shard-size", "100KB", "--tokenizer", "data/text")
    training.command("import", "again", "-o", "second")
    training.command("export", "second/step-000000.g000000", "-o", "third")
    check(read("hf/model.safetensors") == read("third/model.safetensors"), "another model came back")
    check(os.path.exists(os.path.join(training.folder, "again/model.safetensors.index.json")), "not cut")
    written = [generated(training, c, "--prompt", "fire ", "--seed", "5", "--tokenizer", "data/text")
               for c in (split, "in/step-000000.g000000", "second/step-000000.g000000")]
    check(written[0] == written[1] == written[2], "the imported model writes another text")
    training.configure(samples=140, directory="in", more="parallel: {tensor: 2}")
    before = json.loads(training.command("evaluate", "--checkpoint", "in/step-000000.g000000", "--json").stdout)["loss"]
    training.run(2)
    check("resume audit: step-000000.g000000 passed | guarantee: parameters as imported, new moments" in training.log(),
          training.log()[:1500])
    loss = float(training.log().split("lm loss: ")[1].split(" ")[0])
    check(abs(loss - before) < 0.25, f"the first loss after the import is {loss}, before it was {before}")
    training.configure(samples=140)
    print(f"exported from TP2 x PP2, imported, exported again: bitwise; trained on from loss {loss:.4f}", flush=True)


def refused(training, one):
    """One line each, and the right exit code; the work of everyone else is left as it was."""
    folder = os.path.join(training.folder, "hf")
    path = os.path.join(folder, "model.safetensors")
    good = open(path, "rb").read()
    size = struct.unpack("<Q", good[:8])[0]
    header = json.loads(good[8:8 + size])
    name = "transformer.h.0.ln_1.weight"
    overlapping = dict(header, **{name: dict(header[name], data_offsets=[0, 128])})
    made = json.dumps(overlapping).encode()
    for what, content, says in (("truncated", good[:-4], "truncated"),
                                ("overlapping", struct.pack("<Q", len(made)) + made + good[8 + size:], " overlaps "),
                                ("length", struct.pack("<Q", 2**63) + good[8:], "truncated, or no safetensors"),
                                ("empty", b"", "too short")):
        with open(path, "wb") as file:
            file.write(content)
        done = training.command("import", "hf", "-o", "never", expect=22)
        check(says in done.stderr and done.stderr.count("\n") == 1, f"{what}: {done.stderr}")
        check(not os.path.exists(os.path.join(training.folder, "never")), f"{what}: something was written")
    with open(path, "wb") as file:
        file.write(good)
    for argv, code, says in ((("export", one, "-o", "hf"), 22, "not an empty folder"),
                             (("export", "checkpoints/none", "-o", "x"), 21, "no such checkpoint"),
                             (("generate", "in/step-000000.g000000"), 22, "--tokenizer PREFIX"),
                             (("generate", one, "--temperature", "-1"), 22, "must be at least 0"),
                             (("import", "nowhere", "-o", "x"), 22, "nowhere/config.json"),
                             (("evaluate", "--checkpoint", one, "--config", "none.yaml"), 22, "none.yaml")):
        done = training.command(*argv, expect=code)
        check(says in done.stderr and done.stderr.count("\n") == 1, f"{argv}: {done.stderr}")
    print("refused: 10 inputs, one line each", flush=True)


def library():
    """The python with transformers; None where there is not one."""
    if os.environ.get("STOKER_TRANSFORMERS"):
        return os.environ["STOKER_TRANSFORMERS"]
    if not os.environ.get("STOKER_LONG"):
        return None
    return python_with("transformers", ["torch", "transformers", "numpy"])


def with_transformers(training, split, python):
    def judge(*argv):
        done = subprocess.run([python, JUDGE, *argv], cwd=training.folder, capture_output=True, text=True, timeout=900,
                              env=dict(os.environ, HF_HUB_OFFLINE="1"))
        check(done.returncode == 0, f"transformers {argv}: {done.stdout[-1500:]}\n{done.stderr[-1500:]}")
        return done.stdout.strip()

    greedy = generated(training, split, "--prompt", "fire ", "--temperature", "0", "--tokens", "27")
    with open(os.path.join(training.folder, "greedy.json"), "w") as file:
        json.dump(greedy, file)
    print(judge("opens", "hf", "greedy.json"), flush=True)
    print(judge("makes", "random", "random.jsonl"), flush=True)
    training.command("import", "random", "-o", "random-in")
    training.command("export", "random-in/step-000000.g000000", "-o", "random-out")
    training.command("prepare", "random.jsonl", "-o", "data/random", "--bytes", "--documents", "jsonl")
    with open(os.path.join(training.folder, "train.yaml")) as file:
        text = file.read().replace("data/text", "data/random").replace("split: [90, 10, 0]", "split: [50, 50, 0]")
    with open(os.path.join(training.folder, "random.yaml"), "w") as file:
        file.write(text)
    found = training.command("evaluate", "--checkpoint", "random-in/step-000000.g000000", "--config", "random.yaml", "--json").stdout
    with open(os.path.join(training.folder, "loss.json"), "w") as file:
        file.write(found)
    print(judge("agrees", "random", "random-out", "random.jsonl", "loss.json"), flush=True)


def exchange():
    training = Training()
    try:
        one, split = trained(training)
        writes(training, one)
        leaves_and_enters(training, one, split)
        refused(training, one)
        python = library()
        if python:
            with_transformers(training, split, python)
    finally:
        training.remove()


run_test(exchange)
