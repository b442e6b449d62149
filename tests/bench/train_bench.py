"""The training core against PyTorch eager (Debian's python3-torch, the same LibTorch), and saving against dd."""
import json
import os
import re
import statistics
import subprocess
import sys

from checkpoint_bench import dd_rate
from e2e._harness import Site, run_program
from kept import kept

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = dict(layers=4, hidden=256, ffn=1024, sequence=128, micro=4, global_batch=4, ramp_start=4, ramp_samples=4,
             samples=160, save_every=1000000)


def our_iteration_seconds(site, prefix):
    config = site.write_files(prefix, **MODEL)
    train = config.replace(".yaml", ".train.yaml")
    work = os.path.join(site.folder, "alone")
    os.makedirs(work, exist_ok=True)
    done = run_program("stoker-train", "--config", train, cwd=work, limit=600, env=dict(site.env, OMP_NUM_THREADS="2"))
    seconds = [float(s) for s in re.findall(r"elapsed time per iteration \(s\): ([\d.]+)", done.stdout)]
    stamps = [float(s) for s in re.findall(r"samples per second: ([\d.]+)", done.stdout)]
    return [MODEL["global_batch"] / s for s in stamps[5:]] or seconds[5:]


def eager_iteration_seconds(python):
    argv = [python, os.path.join(HERE, "peer_eager.py"), json.dumps({k: MODEL[k] for k in
            ("layers", "hidden", "ffn", "sequence", "micro")})]
    done = subprocess.run(argv, text=True, capture_output=True, timeout=600, env=dict(os.environ, OMP_NUM_THREADS="2"))
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().split("\n")[-1])
    return json.loads(done.stdout)["seconds"]


def debian_torch():
    """Debian's python with torch; installed when that is possible."""
    python = "/usr/bin/python3"
    probe = [python, "-c", "import torch"]
    if subprocess.run(probe, capture_output=True).returncode == 0:
        return python, ""
    if os.geteuid() == 0:
        print("installing python3-torch for the comparison …", file=sys.stderr, flush=True)
        subprocess.run(["apt-get", "install", "-y", "-q", "--no-install-recommends", "python3-torch"], capture_output=True)
        if subprocess.run(probe, capture_output=True).returncode == 0:
            return python, ""
    return None, "Debian's python3-torch is not installed and could not be"


def iteration():
    site = Site("bench")
    try:
        ours = statistics.median(our_iteration_seconds(site, site.prepare_data()))
        yield dict(name="iteration: stoker-train", value=1000 * ours, unit="ms", goal="", ok=True,
                   note="4 layers, h=256, B=4, T=128, f32, 2 threads, dropout 0.1")
        python, why = debian_torch()
        if not python:
            yield dict(name="iteration: speed / PyTorch eager", value=None, unit="x", goal=">= 1.0", ok=True,
                       note=f"not measured: {why}")
            return
        eager = statistics.median(eager_iteration_seconds(python))
        yield dict(name="iteration: speed / PyTorch eager", value=eager / ours, unit="x", goal=">= 1.0", ok=eager / ours >= 1.0,
                   note=f"Debian's python3-torch: {1000 * eager:.1f} ms")
        venv = os.path.join(kept("bench-venv"), "bin", "python")
        if os.path.exists(venv):
            wheel = statistics.median(eager_iteration_seconds(venv))
            yield dict(name="iteration: speed / PyPI's PyTorch", value=wheel / ours, unit="x", goal="", ok=True,
                       note=f"for information (MKL): {1000 * wheel:.1f} ms")
    finally:
        site.close()


def save():
    """A checkpoint's bytes a second against dd conv=fsync of as many bytes on the same disk, in turn."""
    site = Site("bench")
    try:
        prefix = site.prepare_data()
        shape = dict(MODEL, layers=8, hidden=768, ffn=3072, sequence=16, micro=1, global_batch=1, ramp_start=1, ramp_samples=1,
                     samples=12, warmup=1, save_every=2, asynchronous="false")
        config = site.write_files(prefix, **shape)
        work = os.path.join(site.folder, "alone")
        os.makedirs(work, exist_ok=True)
        done = run_program("stoker-train", "--config", config.replace(".yaml", ".train.yaml"), cwd=work, limit=900, env=site.env)
        saves = [json.loads(m) for m in re.findall(r"stoker-event (\{.*\})", done.stdout)]
        saves = [s for s in saves if s.get("kind") == "checkpoint_saved"]
        size = saves[-1]["bytes"]
        ours = statistics.median(s["bytes"] / s["seconds"] for s in saves)
        dd = statistics.median(dd_rate(work, size) for _ in range(3))
        yield dict(name="save: rate / dd conv=fsync", value=ours / dd, unit="x", goal=">= 0.8", ok=ours / dd >= 0.8,
                   note=f"{size / 1e6:.0f} MB at {ours / 1e6:.0f} MB/s, dd {dd / 1e6:.0f} MB/s")
    finally:
        site.close()
