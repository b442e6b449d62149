"""Takes an exclusive lock on this rank's shard, then becomes the training: _lock.py FOLDER COMMAND...

The lock lives as long as any process that inherited it. Who finds it taken says so in FOLDER/overlap.
"""
import fcntl
import os
import sys
import time

folder, command = sys.argv[1], sys.argv[2:]
if "STOKER_STANDBY_FD" in os.environ:  # an idle process beside a running rank: it trains only after that one is gone
    os.execvp(command[0], command)
shard = os.open(os.path.join(folder, f"shard.{os.environ.get('RANK', os.environ.get('SLURM_PROCID', '0'))}.lock"), os.O_RDWR | os.O_CREAT, 0o666)
os.set_inheritable(shard, True)
try:
    fcntl.flock(shard, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    with open(os.path.join(folder, "overlap"), "a", encoding="utf-8") as f:
        f.write(f"{time.time()} rank {os.environ.get('RANK')} generation {os.environ.get('STOKER_GENERATION')} attempt "
                f"{os.environ.get('STOKER_ATTEMPT')} job {os.environ.get('SLURM_JOB_ID')}\n")
os.execvp(command[0], command)
