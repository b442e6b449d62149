"""From a script alone to a finished training: `stoker init`, `stoker check`, `stoker run`."""
import json
import os

from e2e._harness import check, main, run_program

TRAIN = """
import os, time
os.makedirs("checkpoints", exist_ok=True)  # relative: it is started in the folder of the script
with open("settings.txt") as settings:
    last = int(settings.read())
for i in range(1, last + 1):
    print(f"step={i} loss={9 - i / 100}", flush=True)
    if i % 50 == 0:
        with open(f"checkpoints/step_{i}.pt", "w") as file:
            file.write("x")
    time.sleep(0.005)
"""
BATCH = """\
#!/bin/bash
#SBATCH --job-name=llm
#SBATCH --nodes=2
#SBATCH --output=logs/%x.out
srun torchrun --nproc_per_node=4 pretrain.py --save ckpt --kill-switch-path stop-me
"""


def write(site, name, text):
    path = os.path.join(site.folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def init(site, *argv, code=0, input="", folder=None):
    done = run_program("stoker", "init", *argv, ok=False, env=site.env, cwd=folder or site.folder, input=input)
    check(done.returncode == code, f"init {argv}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def from_script_to_finished(site):
    write(site, "train.py", TRAIN)
    write(site, "settings.txt", "200")
    init(site, "train.py", "-o", "run.yaml", "--scheduler", "local")
    config = os.path.join(site.folder, "run.yaml")
    before = json.loads(site.stoker("check", config, "--json").stdout)
    check("progress" in before["assumed"] and before["known"]["end"], f"{before}")
    site.use_run("train")
    done = run_program("stoker", "run", config, "--foreground", env=site.env, cwd="/")
    status = site.status()
    check(status["state"] == "finished" and status["iteration"] == 200, f"{status}\n{done.stderr}")
    after = json.loads(site.stoker("check", config, "--json").stdout)
    check(after["known"]["progress"].startswith("iteration lines (pairs with =), the last at 200"), f"{after}")
    check("iteration 200 (step_200.pt)" in after["known"]["checkpoints"], f"{after}")
    text = open(config, encoding="utf-8").read()
    refused = init(site, "train.py", "-o", "run.yaml", code=1)
    check("--force replaces it" in refused.stderr and open(config, encoding="utf-8").read() == text, refused.stderr)


def answers_in_a_pipe(site):
    write(site, "train.py", TRAIN)
    done = init(site, "-o", "a.yaml", "--json", input="python3 train.py --output_dir out\nmine\n\n2\n")
    found = {entry["key"]: entry for entry in json.loads(done.stdout)["entries"]}
    check(found["run"]["value"] == "mine" and found["run"]["how"] == "answered", f"{found}")
    check(found["scheduler.nodes"]["value"] == "2" and found["checkpoints.directory"]["how"] == "detected", f"{found}")
    site.stoker("check", os.path.join(site.folder, "a.yaml"))
    empty = os.path.join(site.folder, "empty")
    os.mkdir(empty)
    done = init(site, code=2, input="", folder=empty)
    check("no answer to" in done.stderr and "stoker init train.slurm" in done.stderr, done.stderr)
    check(not os.listdir(empty), "something was written all the same")
    done = init(site, "-o", "b.yaml", code=2, input="python3 train.py\nmine\n\nmany\n")
    check("expected a number from 1 to 16384" in done.stderr, done.stderr)
    check(not os.path.exists(os.path.join(site.folder, "b.yaml")), "a wrong answer was written")


def a_batch_script(site):
    write(site, "llm.slurm", BATCH)
    os.mkdir(os.path.join(site.folder, "logs"))
    write(site, "logs/llm.out", " iteration        5/     100 | consumed samples: 40 | lm loss: 2.5E+00 |\n")
    found = json.loads(init(site, "llm.slurm", "--json").stdout)
    entries = {entry["key"]: entry for entry in found["entries"]}
    check(found["file"] == "RUN.yaml" and found["launchers"] == ["srun", "torchrun"], f"{found}")
    check(entries["scheduler.nodes"]["reason"] == "#SBATCH --nodes, line 3", f"{entries}")
    check(entries["watch.progress"]["how"] == "detected", f"{entries}")
    said = site.stoker("check", os.path.join(site.folder, "RUN.yaml")).stdout
    check("fields between bars), the last at 5 of 100" in said and "its script runs without an agent" in said, said)


main(from_script_to_finished, answers_in_a_pipe, a_batch_script)
