"""How long a save holds the loop up, and how fast a checkpoint is exported."""
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import time

from e2e._harness import BIN, Failed, Site, run_program
from e2e._train import free_port

# Four layers of GPT-2's width: 28.6 million parameters, 343 MB of masters and moments.
SHAPE = dict(layers=4, hidden=768, ffn=3072, sequence=16, micro=1, global_batch=1, ramp_start=1, ramp_samples=1, warmup=1)


def train(site, prefix, name, **more):
    """One rank, by hand; its output, and its trace of all iterations but the first."""
    work = os.path.join(site.folder, name)
    os.makedirs(work, exist_ok=True)
    config = site.write_files(prefix, **SHAPE, **more).replace(".yaml", ".train.yaml")
    done = run_program("stoker-train", "--config", config, "--trace", "trace.json", "--trace-iterations", f"2-{more['samples']}",
                       cwd=work, limit=1200, env=dict(site.env, OMP_NUM_THREADS="2"))
    with open(os.path.join(work, "trace.json"), encoding="utf-8") as file:
        trace = json.load(file)
    return work, done.stdout, [e for e in trace["traceEvents"] if e.get("ph") == "X"]


def copy_seconds(size):
    """A memcpy of as many bytes, in memory that is there already."""
    source, target = bytearray(os.urandom(1 << 20)) * (size >> 20), bytearray(size >> 20 << 20)
    seconds = []
    for _ in range(5):
        began = time.monotonic()
        target[:] = source
        seconds.append(time.monotonic() - began)
    return statistics.median(seconds)


def held(events):
    """Seconds of each save in which the loop stood still: to its beginning, and at its end."""
    spans = sorted((e["ts"], e["name"], e["dur"] / 1e6) for e in events if e["name"] in ("begin", "finish"))
    begins = [s for s in spans if s[1] == "begin"]
    ends = [s for s in spans if s[1] == "finish"]
    return [b[2] + e[2] for b, e in zip(begins, ends)]


class Slots:
    """What a node's agent gives a rank for its snapshots: memory of this process."""

    def __init__(self):
        self.fds = [os.memfd_create("stoker-snapshot") for _ in range(4)]
        for fd in self.fds:
            os.fchmod(fd, 0o600)
        self.text = ":".join(f"/proc/{os.getpid()}/fd/{fd}" for fd in self.fds)

    def close(self):
        for fd in self.fds:
            os.close(fd)


def two_nodes(site, prefix, iterations):
    """Two ranks of one thread, each a node of its own, by hand; the trace of rank 0 and the bytes of a snapshot."""
    work = os.path.join(site.folder, "memory")
    os.makedirs(work, exist_ok=True)
    shape = dict(SHAPE, sequence=64, micro=2, global_batch=8, ramp_start=4, ramp_samples=4)
    config = site.write_files(prefix, **shape, samples=4 + 8 * iterations, save_every=100000, asynchronous="false",
                              memory_every=10).replace(".yaml", ".train.yaml")
    slots, ranks = [Slots(), Slots()], []
    port = free_port()
    for rank in (0, 1):
        env = dict(site.env, RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                   OMP_NUM_THREADS="1", STOKER_MEMORY=slots[rank].text)
        with open(os.path.join(work, f"log.{rank}"), "wb") as log:
            ranks.append(subprocess.Popen([os.path.join(BIN, "stoker-train"), "--config", config, "--trace", "trace.json",
                                           "--trace-iterations", f"2-{iterations}"], cwd=work, env=env, stdout=log, stderr=log))
    codes = [r.wait(timeout=1800) for r in ranks]
    for one in slots:
        one.close()
    with open(os.path.join(work, "log.0"), encoding="utf-8", errors="replace") as file:
        said = file.read()
    if codes != [0, 0]:
        raise Failed(f"exit codes {codes}: {said[-1500:]}")
    with open(sorted(glob.glob(os.path.join(work, "trace*.json")))[0], encoding="utf-8") as file:
        trace = json.load(file)
    return [e for e in trace["traceEvents"] if e.get("ph") == "X"], re.search(r"every 10 iterations: (\S+ \S+)", said).group(1)


def memory(site, prefix):
    """What snapshots every 10 iterations add to an iteration: the copy is in each tenth, digest and exchange in the one behind."""
    events, size = two_nodes(site, prefix, 45)
    took = {e["args"]["iteration"]: e["dur"] / 1e6 for e in events if e["name"].startswith("iteration")}
    costs = []
    for at in range(10, 41, 10):
        usual = statistics.median(took[i] for i in [*range(at - 4, at), *range(at + 2, min(at + 6, 46))])
        costs.append((took[at] + took[at + 1] - 2 * usual) / (10 * usual))
    usual = statistics.median(took.values())
    copies = statistics.median(e["dur"] / 1e6 for e in events if e["name"] == "snapshot")
    waits = statistics.median(e["dur"] / 1e6 for e in events if e["name"] == "wait for the snapshot")
    cost = max(statistics.mean(costs), (copies + waits) / (10 * usual))  # busy cores can make the first one negative
    yield dict(name="stall: snapshots in memory, every 10", value=100 * cost, unit="%", goal="<= 3", ok=cost <= 0.03,
               note=f"two nodes x 1 rank: {size} a rank, an iteration of {1000 * usual:.0f} ms, copy {1000 * copies:.0f} ms, waited "
                    f"{1000 * waits:.0f} ms")


def stall():
    site = Site("bench")
    try:
        prefix = site.prepare_data()
        work, said, events = train(site, prefix, "beside", samples=21, save_every=5, asynchronous="true")
        sizes = [json.loads(m) for m in re.findall(r"stoker-event (\{.*\})", said)]
        size = [s["bytes"] for s in sizes if s.get("kind") == "checkpoint_saved"][-1]
        shutil.rmtree(os.path.join(work, "checkpoints"), ignore_errors=True)
        steps = [e["dur"] / 1e6 for e in events if e["name"].startswith("iteration")]
        beside = held(events)[:-1]  # the last one ends the training: nothing is left to run beside it
        copy = copy_seconds(size)
        stands = statistics.median(beside)
        yield dict(name="stall: held by a save / memcpy", value=stands / copy, unit="x", goal="<= 1.3", ok=stands <= 1.3 * copy,
                   note=f"{size / 1e6:.0f} MB: {1000 * stands:.0f} ms, memcpy {1000 * copy:.0f} ms")
        share = stands / (100 * statistics.median(steps) + stands)
        yield dict(name="stall: share of 100 iterations", value=100 * share, unit="%", goal="< 1", ok=share < 0.01,
                   note=f"an iteration of {1000 * statistics.median(steps):.0f} ms between two saves")
        work, _, events = train(site, prefix, "waited", samples=21, save_every=5, asynchronous="false")
        shutil.rmtree(os.path.join(work, "checkpoints"), ignore_errors=True)
        waited = statistics.median(held(events))
        yield dict(name="stall: asynchronous / synchronous", value=stands / waited, unit="x", goal="<= 0.5", ok=stands <= 0.5 * waited,
                   note=f"a save that is waited for: {1000 * waited:.0f} ms")
        yield from memory(site, prefix)
    finally:
        site.close()


def dd_rate(folder, size):
    """Bytes a second of dd conv=fsync, which writes `size` bytes (whole MiB) into the folder."""
    target = os.path.join(folder, "dd.bin")
    began = time.monotonic()
    subprocess.run(["dd", "if=/dev/zero", f"of={target}", "bs=1M", f"count={size >> 20}", "conv=fsync"], check=True, capture_output=True)
    seconds = time.monotonic() - began
    os.remove(target)
    return (size >> 20 << 20) / seconds


def export():
    """Bytes a second of the written safetensors against dd conv=fsync of as many bytes on the same disk, in turn."""
    site = Site("bench")
    try:
        prefix = site.prepare_data()
        work, _, _ = train(site, prefix, "trained", samples=3, save_every=2, asynchronous="false")
        newest = sorted(n for n in os.listdir(os.path.join(work, "checkpoints")) if n.startswith("step-"))[-1]
        ours, dd = [], []
        for turn in range(3):
            began = time.monotonic()
            run_program("stoker-train", "export", f"checkpoints/{newest}", "-o", f"out{turn}", cwd=work, limit=600, env=site.env)
            seconds = time.monotonic() - began
            folder = os.path.join(work, f"out{turn}")
            size = sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder))
            ours.append(size / seconds)
            shutil.rmtree(folder)
            dd.append(dd_rate(work, size))
        rate, disk = statistics.median(ours), statistics.median(dd)
        yield dict(name="export: rate / dd conv=fsync", value=rate / disk, unit="x", goal=">= 0.5", ok=rate >= 0.5 * disk,
                   note=f"{size / 1e6:.0f} MB at {rate / 1e6:.0f} MB/s, dd {disk / 1e6:.0f} MB/s")
    finally:
        site.close()
