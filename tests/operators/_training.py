"""The training that the random operators meet: counts, saves its count, resumes from it, and leaves a witness of what it did.

    _training.py TREE [--until N] [--every SECONDS] [--megatron] [--kill-switch-path FILE]

Each line of TREE/witness.jsonl is written by one write(2): begin, overlap (another process holds this rank's shard), step, save,
asked (USR1), complete, leave. No part of stoker reads that file.
"""
import argparse
import fcntl
import json
import os
import signal
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("tree")
parser.add_argument("--until", type=int, default=10_000_000)
parser.add_argument("--every", type=float, default=0.1)
parser.add_argument("--megatron", action="store_true", help="lines as Megatron-LM prints them")
parser.add_argument("--kill-switch-path", default="")
options = parser.parse_args()
rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
os.makedirs(options.tree, exist_ok=True)
diary = os.open(os.path.join(options.tree, "witness.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)


def job():
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array else os.environ.get("SLURM_JOB_ID", "") + "_1"


def note(what, **more):
    line = {"t": time.monotonic(), "what": what, "pid": os.getpid(), "rank": rank, "count": count,
            "generation": int(os.environ.get("STOKER_GENERATION", "0")),
            "attempt": int(os.environ.get("STOKER_ATTEMPT", "0")), "job": job(), **more}
    os.write(diary, (json.dumps(line) + "\n").encode())


saved = os.path.join(options.tree, f"count.{rank}")
count = int(open(saved, encoding="utf-8").read()) if os.path.exists(saved) else 0
shard = os.open(saved + ".lock", os.O_RDWR | os.O_CREAT, 0o666)
note("begin")
try:
    fcntl.flock(shard, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    note("overlap")


def save():
    with open(f"{saved}.{os.getpid()}", "w", encoding="utf-8") as f:
        f.write(str(count))
    os.rename(f"{saved}.{os.getpid()}", saved)
    note("save")


leaving, asked = [], []
signal.signal(signal.SIGTERM, lambda *_: leaving.append(1))
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
while count < options.until:
    time.sleep(options.every)
    count += 1
    loss = 1 + 100 / (count + 100)
    if options.megatron:
        print(f" iteration {count:8d}/{options.until:8d} | consumed samples: {count * 8:12d} | elapsed time per iteration (ms): "
              f"{options.every * 1000:.1f} | learning rate: 1.000E-04 | global batch size: 8 | lm loss: {loss:.6E} |", flush=True)
    else:
        print(f"step={count} loss={loss:.3f}", flush=True)
    if options.kill_switch_path and os.path.exists(options.kill_switch_path):
        leaving.append(1)
    if asked:
        asked.clear()
        note("told")
        save()
    elif count % 10 == 0 or leaving:
        save()
    elif count % 5 == 0:
        note("step")
    if leaving:
        note("leave")
        sys.exit(0)
save()
note("complete")
