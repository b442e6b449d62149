"""Parts of the training core: optimizer, pipeline, sums over ranks, ZeRO's memory, another shape, the data, the checks."""
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from e2e._harness import BIN, Failed
from e2e._train import Training

CONFIG = """
model: {{layers: {layers}, hidden: {hidden}, heads: 8, ffn: {ffn}, sequence: 64, vocabulary: 257}}
data: {{train: [{{prefix: data/text}}]}}
batch: {{micro: 1, global: {batch}}}
train: {{samples: {samples}, seed: 42, deadline: 120s}}
lr: {{max: 1.0e-3, decay_samples: 1000}}
checkpoint: {{directory: {directory}, save: [{{every: {every}}}], asynchronous: false}}
parallel: {{tensor: {tensor}, pipeline: {pipeline}, zero: {zero}}}
{more}
"""
SHAPE = dict(layers=4, hidden=768, ffn=3072, batch=8, samples=40, directory="checkpoints", every=100000, tensor=1, pipeline=1,
             zero=0, more="")


def speeds(program, *arguments):
    done = subprocess.run([os.path.join(BIN, program), *arguments], stdout=subprocess.PIPE, text=True, check=True, timeout=1800)
    return [json.loads(line) for line in done.stdout.splitlines()]


def optimizer():
    one = speeds("step_speed", "optimizer")[0]
    seconds = one["norm"] + one["update"] + one["digest"]
    rate = one["copy"] / seconds
    yield dict(name="optimizer: rate / memcpy", value=rate, unit="x", goal=">= 0.7", ok=rate >= 0.7,
               note=f"{one['parameters'] / 1e6:.0f} M parameters, f32, one thread: norm {1000 * one['norm']:.0f} ms, AdamW "
                    f"{1000 * one['update']:.0f} ms, digest {1000 * one['digest']:.0f} ms; memcpy of as many bytes moved "
                    f"{1000 * one['copy']:.0f} ms")


def pipeline():
    for one in speeds("step_speed", "pipeline"):
        says, took = 100 * (1 - one["busy"] / one["says"]), 100 * (1 - one["busy"] / one["took"])
        yield dict(name=f"pipeline: bubble of {one['kind']}", value=took, unit="%", goal=f"{says:.1f} +- 3", ok=abs(took - says) <= 3,
                   note=f"4 ranks, 8 micro-batches, operations that sleep 40 ms; simulated: {says:.1f} %")


def comm():
    for ranks in (2, 4):
        one = speeds("comm_speed", str(ranks))[0]
        rate = one["c10d"] / one["ours"]
        yield dict(name=f"comm: sum over {ranks} ranks / c10d", value=rate, unit="x", goal=">= 1.0", ok=rate >= 1.0,
                   note=f"64 MB of f32: {1000 * one['ours']:.0f} ms, c10d's Gloo {1000 * one['c10d']:.0f} ms")


def train(training, world, trace=None, **settings):
    """Ranks as processes; the peak of each one's RSS in bytes."""
    with open(os.path.join(training.folder, "train.yaml"), "w", encoding="utf-8") as file:
        file.write(CONFIG.format(**{**SHAPE, **settings}))
    flags = ["--trace", "trace.json", "--trace-iterations", trace] if trace else []
    ranks = training.start(world, flags=flags, OMP_NUM_THREADS="1")
    peaks = []
    for rank in ranks:
        _, status, used = os.wait4(rank.pid, 0)
        rank.returncode = os.waitstatus_to_exitcode(status)
        peaks.append(used.ru_maxrss * 1024)
    if any(rank.returncode for rank in ranks):
        raise Failed(f"exit codes {[r.returncode for r in ranks]}: {training.log()[-1500:]}")
    return peaks


def planned_memory(training, world):
    run = os.path.join(training.folder, "run.yaml")
    with open(run, "w", encoding="utf-8") as file:
        file.write(f"run: bench\nscheduler: {{kind: local, nodes: 1}}\n"
                   f"train: {{command: [stoker-train, --config, train.yaml], ranks_per_node: {world}}}\n")
    done = subprocess.run([os.path.join(BIN, "stoker"), "plan", run, "--json"], cwd=training.folder, capture_output=True, text=True,
                          check=True)
    return json.loads(done.stdout)["memory"]


def zero():
    training = Training()
    try:
        for world in (2, 4):
            peaks = train(training, world, zero=1)
            planned = planned_memory(training, world)["total_bytes"]
            ratio = max(peaks) / planned
            yield dict(name=f"zero: peak RSS of {world} ranks / plan", value=ratio, unit="x", goal="<= 1.05", ok=ratio <= 1.05,
                       note=f"{max(peaks) / 1e6:.0f} MB, planned {planned / 1e6:.0f} MB; without ZeRO "
                            f"{max(train(training, world)) / 1e6:.0f} MB")
    finally:
        training.remove()


def read_rate(files, readers):
    """Bytes a second of `readers` processes that read all the files, each its part of them."""
    program = ("import os,sys\nfor f in sys.argv[1:]:\n d=os.open(f,os.O_RDONLY)\n"
               " while os.read(d,1<<22): pass\n os.close(d)\n")
    began = time.monotonic()
    parts = [files[i::readers] for i in range(readers)]
    running = [subprocess.Popen(["python3", "-c", program, *part]) for part in parts if part]
    for one in running:
        one.wait()
    return sum(os.path.getsize(f) for f in files) / (time.monotonic() - began)


def reshard():
    """From TP2 x PP2 to DP4: the load, with its check, against as many processes that read the same files. Both from the page cache."""
    training = Training()
    try:
        big = dict(layers=8, hidden=1024, ffn=4096)
        train(training, 4, tensor=2, pipeline=2, samples=16, every=1, **big)
        first, last = (os.path.join(training.folder, "checkpoints", name) for name in training.checkpoints())
        shutil.rmtree(last)
        folder = first
        files = sorted(p for p in glob.glob(os.path.join(folder, "*")) if os.path.getsize(p) > 1 << 20)
        size = sum(os.path.getsize(f) for f in files)
        reads = [read_rate(files, 4) for _ in range(3)]
        train(training, 4, samples=16, every=1, **big)
        seconds = float(re.search(r"loaded in ([\d.]+) s", training.log()).group(1))
        rate, reading = size / seconds, statistics.median(reads)
        yield dict(name="reshard: rate / parallel read", value=rate / reading, unit="x", goal=">= 0.5", ok=rate >= 0.5 * reading,
                   note=f"{size / 1e9:.2f} GB in {seconds:.1f} s, reading alone {size / reading:.1f} s")
    finally:
        training.remove()


def loader():
    samples = 220_000_000 if os.environ.get("STOKER_LONG") else 20_000_000
    folder = tempfile.mkdtemp(prefix="stoker-loader-")
    try:
        built, cached = speeds("loader_speed", folder, str(samples))
    finally:
        shutil.rmtree(folder)
    of = f"{samples / 1e6:.0f} M samples"
    yield dict(name="loader: private memory of a rank", value=cached["private_mb"], unit="MB", goal="<= 64", ok=cached["private_mb"] <= 64,
               note=f"{of}, 1 M documents")
    yield dict(name="loader: start, cached", value=cached["open"], unit="s", goal="<= 2", ok=cached["open"] <= 2,
               note=f"{of}; built in {built['built']:.1f} s")
    training = Training()
    try:
        train(training, 1, trace="2-5")
        whole = statistics.median(e["dur"] for e in spans(training) if e["name"].startswith("iteration"))
    finally:
        training.remove()
    wait = 100 * SHAPE["batch"] * cached["sample_us"] / whole
    yield dict(name="loader: share of an iteration", value=wait, unit="%", goal="< 1", ok=wait < 1,
               note=f"{cached['sample_us']:.1f} us a sample; {SHAPE['batch']} samples in an iteration of {whole / 1000:.0f} ms")


def spans(training):
    events = []
    for path in glob.glob(os.path.join(training.folder, "trace*.json")):
        with open(path, encoding="utf-8") as file:
            events += [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]
    return events


def trust():
    """Checks every iteration, two replicas; the share at every 100th is what a run has."""
    training = Training()
    try:
        train(training, 2, trace="2-5", more="check: {replicas_every: 1, replay_every: 1}")
        found = spans(training)
        took = {name: statistics.median(e["dur"] for e in found if e["name"] == name) for name in ("replicas", "replay")}
        whole = statistics.median(e["dur"] for e in found if e["name"].startswith("iteration"))
        step = whole - took["replicas"] - took["replay"]
        drift, replay = 100 * took["replicas"] / (100 * step), took["replay"] / step
        m = SHAPE["batch"] // 2
        yield dict(name="trust: drift, every 100", value=drift, unit="%", goal="<= 0.5", ok=drift <= 0.5,
                   note=f"{took['replicas'] / 1000:.0f} ms beside a step of {step / 1000:.0f} ms")
        yield dict(name="trust: a replay / a step", value=replay, unit="x", goal=f"<= {1.2 / m:.2f}", ok=replay <= 1.2 / m,
                   note=f"{m} micro-batches a replica: goal 1.2 / {m}")
    finally:
        training.remove()
