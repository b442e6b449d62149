"""A foreign training: counts, prints a line an iteration, saves its count now and then, resumes from it.

    _loop.py TREE [--until N] [--every SECONDS] [--megatron] [--checkpoints] [--kill-switch-path FILE] [--saves-on-usr1]
"""
import argparse
import os
import signal
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("tree")
parser.add_argument("--until", type=int, default=10_000_000)
parser.add_argument("--every", type=float, default=0.1)
parser.add_argument("--megatron", action="store_true", help="lines as Megatron-LM prints them")
parser.add_argument("--checkpoints", action="store_true", help="saves and resumes as Megatron-LM does: iter_0000010, latest_checkpointed_iteration.txt")
parser.add_argument("--kill-switch-path", default="", help="saves and leaves when this file is there")
parser.add_argument("--saves-on-usr1", action="store_true", help="and notes each in TREE/asked")
options = parser.parse_args()
rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
os.makedirs(options.tree, exist_ok=True)
saved = os.path.join(options.tree, f"count.{rank}")


tracker = os.path.join(options.tree, "latest_checkpointed_iteration.txt")


def save(count):
    if options.checkpoints:
        if rank == 0:
            folder = os.path.join(options.tree, f"iter_{count:07d}")
            os.makedirs(folder, exist_ok=True)
            open(os.path.join(folder, "model.pt"), "w", encoding="utf-8").close()
            with open(tracker + ".new", "w", encoding="utf-8") as f:
                f.write(str(count))
            os.rename(tracker + ".new", tracker)
        return
    with open(saved + ".new", "w", encoding="utf-8") as f:
        f.write(str(count))
    os.rename(saved + ".new", saved)


resume = tracker if options.checkpoints else saved
count = int(open(resume).read()) if os.path.exists(resume) else 0
leaving = []
signal.signal(signal.SIGTERM, lambda *_: leaving.append(1))


def save_now(*_):
    save(count)
    with open(os.path.join(options.tree, "asked"), "a", encoding="utf-8") as f:
        f.write(f"{rank}\n")


if options.saves_on_usr1:
    signal.signal(signal.SIGUSR1, save_now)
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
    if count % 10 == 0 or leaving:
        save(count)
    if leaving:
        sys.exit(0)
save(count)
