"""A small data-parallel training for other launchers: at step 25 of its first life rank 1 kills itself; rank 0 prints the time
of each step, saves every 10 and resumes from there. Before its death rank 1 waits for the seconds of the second argument, or until
the file CHECKPOINT.go is there: a launcher can make standbys meanwhile."""
import os
import signal
import sys
import time

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

path = sys.argv[1]
me = int(os.environ["RANK"])
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
torch.manual_seed(17)
block = torch.nn.TransformerEncoderLayer(d_model=64, nhead=4, dim_feedforward=256, batch_first=True)
net = DistributedDataParallel(torch.nn.TransformerEncoder(block, num_layers=4))
adam = torch.optim.AdamW(net.parameters(), lr=1e-3)
step = 0
if os.path.exists(path):
    saved = torch.load(path)
    net.load_state_dict(saved["net"])
    adam.load_state_dict(saved["adam"])
    step = saved["step"]
first_life = step == 0
data = torch.randn(4, 32, 64)
for step in range(step + 1, 61):
    adam.zero_grad()
    net(data).pow(2).mean().backward()
    adam.step()
    if me == 0:
        print(f"STEP {step} {time.time():.4f}", flush=True)
    if me == 0 and step % 10 == 0:
        torch.save({"net": net.state_dict(), "adam": adam.state_dict(), "step": step}, path + ".aside")
        os.rename(path + ".aside", path)
    if first_life and me == 1 and step == 25:
        until = time.monotonic() + float(sys.argv[2])
        while time.monotonic() < until and not os.path.exists(path + ".go"):
            time.sleep(0.05)
        print(f"DIES {time.time():.4f}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
