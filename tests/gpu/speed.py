"""tests/gpu/speed.py STOKER_TRAIN OUT [--alone] [CASE...]: tokens a second of stoker-train and of PyTorch, eager and compiled, on
this card, with the same sizes, batch and sequence, one after the other. Random tokens. OUT/speed.json; a table. Variants
of stoker-train: without CUDA graphs; with recomputation; with sums in any order (what equal bits cost). --alone: no PyTorch."""
import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import threading
import time

TRAIN, OUT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
HERE = os.path.dirname(os.path.abspath(__file__))
VOCABULARY, BELOW, SEQUENCE = 50304, 50257, 1024
PEER_LIMIT_S = 150  # compiling included
LAST_START_S = 400  # later nothing is begun: tests/gpu/run allows 480 s for all
SMALL = {"layers": 12, "hidden": 768, "heads": 12}
LARGE = {"layers": 48, "hidden": 1600, "heads": 25}
NO_GRAPHS = {"no graphs": {"STOKER_CUDA_GRAPHS": "off"}}
COSTS = {"recompute full": {}, "free order": {"LD_PRELOAD": os.path.join(os.path.dirname(TRAIN), "gpu_free_order.so")}}
BOTH = ("eager", "compiled")
SHORT = {"steps": 60, "warm": 20, "variants": NO_GRAPHS}
# The run may be cut off at its limit: what is asked first comes first.
CASES = {"124M": {"model": SMALL, "batch": 32, "steps": 25, "warm": 8, "variants": COSTS, "peers": BOTH},
         "1.5B": {"model": LARGE, "batch": 16, "steps": 48, "warm": 36, "save": 40, "variants": COSTS, "peers": BOTH},
         "124M-dropout": {"model": SMALL, "batch": 32, "steps": 25, "warm": 8, "dropout": 0.1, "variants": {}, "peers": BOTH},
         "124M-batch-4": {"model": SMALL, "batch": 4, "peers": BOTH, **SHORT},
         "124M-batch-8": {"model": SMALL, "batch": 8, "peers": (), **SHORT},
         "124M-batch-1": {"model": SMALL, "batch": 1, "peers": (), **SHORT},
         "1.5B-batch-1": {"model": LARGE, "batch": 1, "steps": 30, "warm": 14, "variants": NO_GRAPHS, "peers": ()}}
CONFIG = """model: {{layers: {layers}, hidden: {hidden}, heads: {heads}, sequence: {sequence}, vocabulary: {vocabulary}, dropout: {dropout}}}
data: {{train: [{{prefix: ../random}}]}}
batch: {{global: {batch}, micro: {batch}}}
train: {{samples: {samples}, dtype: bf16, device: cuda, recompute: {recompute}}}
lr: {{max: 1.0e-4, decay_samples: 100000}}
checkpoint: {{save: [{{every: {save}}}], asynchronous: {asynchronous}}}
"""


def write_tokens(prefix, documents):
    """Megatron's indexed dataset (docs: data.md) of random tokens, one document of a sequence and a token each."""
    import numpy
    length = SEQUENCE + 1
    numpy.random.default_rng(1).integers(0, BELOW, documents * length, dtype=numpy.uint16).tofile(prefix + ".bin")
    with open(prefix + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, documents, documents + 1))
        numpy.full(documents, length, "<i4").tofile(f)
        (numpy.arange(documents, dtype="<i8") * length * 2).tofile(f)
        numpy.arange(documents + 1, dtype="<i8").tofile(f)


class MemoryWatch:
    """The most of the card's memory that was in use, by nvidia-smi."""

    def __enter__(self):
        self.most, self.ended = 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.ended.wait(0.25):
            out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                                 text=True, capture_output=True).stdout
            self.most = max(self.most, int(out.split()[0]) if out.strip() else 0)

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def planned_gb(folder):
    """What the dry run of this configuration says that the rank needs at most."""
    done = subprocess.run([TRAIN, "--config", "train.yaml", "--dry-run", "--ranks", "1"], cwd=folder, text=True, capture_output=True)
    sizes = re.findall(r"([0-9.]+) (B|KiB|MiB|GiB)", done.stdout.split("A rank needs at most:")[-1])
    if len(sizes) < 5:  # state, activations, CUDA's own, total, save copy
        return None
    return round(float(sizes[3][0]) * 1024 ** ("B", "KiB", "MiB", "GiB").index(sizes[3][1]) / 1e9, 2)


def stoker(name, case, variant="", environment=None):
    saves = variant == "" and "save" in case
    steps, warm = (case["steps"], case["warm"]) if saves or "save" not in case else (12, 4)
    folder = os.path.join(OUT, "speed", name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with open(os.path.join(folder, "train.yaml"), "w") as f:
        f.write(CONFIG.format(**case["model"], sequence=SEQUENCE, vocabulary=VOCABULARY, batch=case["batch"],
                              samples=case["batch"] * steps * 10,
                              save=case["save"] if saves else 100000, asynchronous="true" if saves else "false",
                              recompute="full" if variant == "recompute full" else "none",
                              dropout=case.get("dropout", 0)))
    lines, arrivals, graphs, began = [], [], None, time.monotonic()
    with MemoryWatch() as memory, open(os.path.join(folder, "stderr"), "w+") as stderr:
        child = subprocess.Popen([TRAIN, "--config", "train.yaml"], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=stderr,
                                 env=dict(os.environ, **(environment or {})))
        for line in child.stdout:
            if line.startswith("passes of "):
                graphs = line.strip()
            found = re.findall(r"samples per second: ([0-9.]+)", line)
            lines += found
            arrivals += [time.monotonic() - began] * len(found)
            if len(lines) == steps:
                break
        child.kill()  # it would save first
        child.wait()
        stderr.seek(0)
        said = stderr.read()
    if len(lines) < steps:
        return {"error": f"{len(lines)} iterations: {said.strip()[-300:]}"}
    rate = statistics.median(float(x) for x in lines[warm:])
    got = {"step_s": round(case["batch"] / rate, 5), "tokens_s": round(rate * SEQUENCE), "first_step_s": round(arrivals[0], 1),
           "peak_gb": round(memory.most * 1.048576e-3, 2)}
    if graphs:
        got["graphs"] = graphs
    if variant in ("", "recompute full"):
        got["planned_gb"] = planned_gb(folder)
    shutil.rmtree(folder)
    if saves:  # how much later the iteration after the save came than the others did
        gaps = [after - before for before, after in zip(arrivals, arrivals[1:])]
        got["save_held_s"] = round(gaps[case["save"] - 1] - statistics.median(gaps[warm:]), 3)
    return got


def peer(name, case, kind):
    sizes = dict(case["model"], sequence=SEQUENCE, vocabulary=VOCABULARY, batch=case["batch"], steps=min(case["steps"], 25),
                 warm=min(case["warm"], 8), compile=kind == "compiled", dropout=case.get("dropout", 0), tokens_below=BELOW)
    path = os.path.join(OUT, "speed", f"{name}.json")
    with open(path, "w") as f:
        json.dump(sizes, f)
    try:
        done = subprocess.run([sys.executable, os.path.join(HERE, "peer_gpt2.py"), path], text=True, capture_output=True,
                              timeout=PEER_LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"error": f"it took more than {PEER_LIMIT_S} s"}
    try:
        return json.loads(done.stdout.strip().split("\n")[-1])
    except ValueError:
        return {"error": done.stderr.strip()[-300:]}


def questions(name, case):
    """[(who, how to measure it)] of a case."""
    asked = [("stoker", lambda: stoker(name, case))]
    for variant, environment in case["variants"].items():
        asked.append(("stoker " + variant, lambda v=variant, e=environment: stoker(name, case, v, e)))
    if "--alone" not in sys.argv:
        for kind in case["peers"]:
            asked.append(("pytorch " + kind, lambda k=kind: peer(name, case, k)))
    return asked


def main():
    os.makedirs(os.path.join(OUT, "speed"), exist_ok=True)
    write_tokens(os.path.join(OUT, "speed", "random"), 2048)
    began, results, left_out = time.monotonic(), {}, []
    for name in [name for name in sys.argv[3:] if name != "--alone"] or CASES:
        for who, measure in questions(name, CASES[name]):
            if time.monotonic() - began > LAST_START_S:
                left_out.append(f"{name}: {who}")
                continue
            got = measure()
            results.setdefault(name, {"batch": CASES[name]["batch"], "sequence": SEQUENCE})[who] = got
            print(f"{name:14} {who:24} {json.dumps(got)}", flush=True)
            with open(os.path.join(OUT, "speed.json"), "w") as f:
                json.dump(results, f, indent=1)
                f.write("\n")
    shutil.rmtree(os.path.join(OUT, "speed"))
    if left_out:
        print("no time was left for " + ", ".join(left_out))


main()
