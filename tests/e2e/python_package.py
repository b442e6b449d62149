"""The Python package `stoker` (python/stoker) in trainings of others, under a real daemon: phases, save and leave on request.

A plain loop and Megatron's hooks need no library. The others are tried with the Python that $STOKER_TORCH_PYTHON names (and the
folders of $STOKER_TORCH_PATH), with --long in an environment of their own that pip fills from PyPI once (2 GB), else not, aloud.
"""
import os
import subprocess
import sys

from e2e._harness import check, main, on_any_disk
from e2e._python import has, package, torch_python

RUN = """\
run: {run}
directory: {directory}
scheduler: {{kind: local, nodes: 1}}
train: {{command: [{python}, {script}], ranks_per_node: {ranks}, environment: {{PYTHONPATH: {path}, HOME: {folder}, OMP_NUM_THREADS: '1'}}}}
hang: {{phases: {{startup: 5min, load: 5min}}}}
"""
PLAIN = """
import os, sys, time
from stoker import Training

def write(iteration):
    with open(f"saved_{os.environ['RANK']}_{iteration}", "w") as file:
        file.write("x")

training = Training(total=100000, save=write)
with training.phase("load"):
    time.sleep(0.2)
for i in range(1, 100001):
    time.sleep(0.02)
    if i == 20:
        with training.phase("evaluation"):
            time.sleep(1)
    if not training.step(i, loss=9 - i / 100000, lr=0.1, samples=8 * i, tokens=64 * i):
        break
training.end()
"""
TORCH_LOOP = """
import os, time, torch
import torch.distributed as dist
from stoker import Training

dist.init_process_group("gloo")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
training = Training(total=100000, save=lambda i: torch.save(model.state_dict(), f"saved_{dist.get_rank()}_{i}"))
for i in range(1, 100001):
    loss = model(torch.ones(8, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.02 * (1 + dist.get_rank()))
    dist.barrier()
    if not training.step(i, loss=loss):
        break
training.end()
"""
TRAINER = """
import time, torch
from transformers import Trainer, TrainingArguments
from stoker.hf import StokerCallback

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x, labels=None):
        time.sleep(0.02)
        out = self.layer(x)
        return {"loss": (out.squeeze(-1) - labels).pow(2).mean(), "logits": out}

data = [{"x": torch.ones(4), "labels": torch.tensor(1.0)} for _ in range(64)]
arguments = TrainingArguments("saved", max_steps=100000, per_device_train_batch_size=2, logging_steps=5, save_strategy="no", report_to=[],
                              evaluation_strategy="steps", eval_steps=50, use_cpu=True, disable_tqdm=True)
Trainer(Model(), arguments, train_dataset=data, eval_dataset=data[:8], callbacks=[StokerCallback()]).train()
"""
ACCELERATE = """
import time, torch
from accelerate import Accelerator
from stoker.accelerate import training_of

accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
training = training_of(accelerator, "saved", total=100000)
for i in range(1, 100001):
    loss = model(torch.ones(8, 4)).pow(2).mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.02)
    if not training.step(i, loss=loss):
        break
training.end()
"""
LIGHTNING = """
import time, torch
from lightning.pytorch import LightningModule, Trainer
from stoker.lightning import StokerCallback

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        time.sleep(0.02)
        return self.layer(batch).pow(2).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

data = torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=2)
Trainer(max_steps=100000, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        callbacks=[StokerCallback("saved")]).fit(Model(), data)
"""
# The functions of Megatron's loop with their parameters, and how the loop calls them.
MEGATRON = """
import os, sys, time, types
import stoker.megatron

loop = types.ModuleType("loop")
arguments = types.SimpleNamespace(train_iters=100000, consumed_train_samples=0, save="saved", save_interval=100000)
exec('''
def get_args(): return arguments
def training_log(loss_dict, total_loss_dict, learning_rate, decoupled_learning_rate, iteration, loss_scale): return False, ""
def evaluate(forward_step_func, data_iterator): time.sleep(1)
def save_checkpoint_and_time(iteration, model, optimizer, opt_param_scheduler, num_floating_point_operations_so_far,
                             checkpointing_context, non_persistent_ckpt=False, train_data_iterator=None):
    open(f"saved_0_{iteration}", "w").close()
def checkpoint_and_decide_exit(model, optimizer, opt_param_scheduler, iteration, num_floating_point_operations_so_far,
                               checkpointing_context, train_data_iterator, iter_log):
    return False
''', {**vars(), "loop": loop}, vars(loop))
stoker.megatron.install(loop)
for i in range(1, 100001):
    time.sleep(0.02)
    arguments.consumed_train_samples += 8
    loop.training_log({"lm loss": 9 - i / 100000}, {}, 0.1, None, i, 1.0)
    if i == 20:
        loop.evaluate(None, None)
    if loop.checkpoint_and_decide_exit([], None, None, i, 0.0, {}, None, ""):
        break
"""


def begin(site, text, python=sys.executable, ranks=1):
    script, config = (os.path.join(site.folder, name) for name in ("loop.py", "loop.yaml"))
    with open(script, "w", encoding="utf-8") as file:
        file.write(text)
    path = package(os.path.join(site.folder, "site")) + os.pathsep + os.environ.get("STOKER_TORCH_PATH", "")
    with open(config, "w", encoding="utf-8") as file:
        file.write(on_any_disk(RUN.format(run=site.run, directory=site.directory, python=python, script=script, ranks=ranks, path=path.rstrip(":"),
                                          folder=site.folder)))
    site.start_daemon()
    site.stoker("run", config, "--yes")


def goes_through(site, text, saved, evaluates=True, **how):
    """Iterations, evaluation, a save on request after which it goes on, and a stop that saves first. `saved()`: what it wrote."""
    begin(site, text, **how)
    now = site.wait_iteration(30, 180)
    check(now["total"] == 100000, f"total {now['total']}")
    check(0 < site.wait(lambda: site.status().get("loss"), 30, "a loss") < 100, f"loss {site.status()['loss']}")
    if evaluates:
        site.wait(lambda: [e for e in site.events() if "evaluation" in str(e)], 60, "the phase evaluation")
    check(not saved(), f"it saved unasked: {saved()}")
    site.stoker("save", site.run, "--reason", "try")
    first = site.wait(lambda: (site.status().get("checkpoint") or {}).get("iteration"), 60, "the checkpoint")
    check(first in saved(), f"stoker says that {first} was saved, the folder has {saved()}")
    site.wait_iteration(site.status()["iteration"] + 20)
    check(len(saved()) == 1, f"one save was requested: {saved()}")
    site.stoker("stop", site.run, "--reason", "enough")
    done = site.wait_state("stopped", 60)
    check(max(saved()) > first and done["checkpoint"]["iteration"] == max(saved()), f"the last save: {saved()}, {done['checkpoint']}")
    check(done["restarts"] == 0, f"restarts: {done['restarts']}: {done['reason']}")


def numbers(site, prefix, folder="."):
    """The iterations at which something of this name was written."""
    where = os.path.join(site.directory, folder)
    names = os.listdir(where) if os.path.exists(where) else []
    return sorted(int(n.removeprefix(prefix).split(".")[0]) for n in names if n.startswith(prefix))


def plain_loop(site):
    goes_through(site, PLAIN, lambda: numbers(site, "saved_0_"))


def megatrons_loop(site):
    goes_through(site, MEGATRON, lambda: numbers(site, "saved_0_"))


def unknown_megatron(site):
    done = subprocess.run([sys.executable, "-c", "import types, stoker.megatron; stoker.megatron.install(types.ModuleType('loop'))"],
                          text=True, capture_output=True, env=dict(os.environ, PYTHONPATH=package(site.folder)))
    check(done.returncode == 1 and "has no training_log; this version of Megatron is not known" in done.stderr, done.stderr)


def torch_loop(site):
    if has("torch"):
        goes_through(site, TORCH_LOOP, lambda: numbers(site, "saved_0_"), evaluates=False, python=torch_python(), ranks=2)
        check(numbers(site, "saved_0_") == numbers(site, "saved_1_"), "the ranks saved at different iterations")


def hugging_face_trainer(site):
    if has("torch", "transformers", "accelerate"):
        goes_through(site, TRAINER, lambda: numbers(site, "checkpoint-", "saved"), python=torch_python())


def accelerate_loop(site):
    if has("torch", "accelerate"):
        goes_through(site, ACCELERATE, lambda: numbers(site, "step_", "saved"), evaluates=False, python=torch_python())


def lightning_trainer(site):
    if has("torch", "lightning.pytorch"):
        goes_through(site, LIGHTNING, lambda: numbers(site, "step_", "saved"), evaluates=False, python=torch_python())


main(plain_loop, megatrons_loop, unknown_megatron, torch_loop, hugging_face_trainer, accelerate_loop, lightning_trainer)
