"""`stoker plan` against what then happens: iterations, samples, checkpoint bytes; legal node counts over the whole ramp."""
import json
import os
import subprocess

from e2e._harness import BIN, check, main, run_program

TRAIN = """\
model: {{layers: 2, hidden: 32, heads: 2, ffn: 64, sequence: 32, vocabulary: 257}}
data: {{train: [{{prefix: data}}]}}
batch: {{micro: 1, global: {batch}, ramp_up: {{start: {start}, increment: {increment}, samples: 96}}}}
train: {{samples: 200, dtype: {dtype}}}
lr: {{max: 1.0e-3, decay_samples: 200}}
checkpoint: {{directory: checkpoints.{dtype}, save: [{{until: 10, every: 5}}, {{every: 7}}]}}
"""


def write(site, dtype, batch=8, start=4, increment=2, nodes=1):
    with open(os.path.join(site.folder, "train.yaml"), "w", encoding="utf-8") as f:
        f.write(TRAIN.format(dtype=dtype, batch=batch, start=start, increment=increment))
    path = os.path.join(site.folder, "run.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"run: hello\nscheduler: {{kind: local, nodes: {nodes}}}\n"
                "train: {command: [stoker-train, --config, train.yaml]}\n")
    return path


def plan(site, path, *more, code=0):
    done = run_program("stoker", "plan", path, "--json", *more, ok=False, env=site.env, cwd=site.folder)
    check(done.returncode == code, f"plan: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def what_is_planned_happens(site):
    site.prepare_data()
    for dtype in ["f32", "bf16", "f64"]:
        told = plan(site, write(site, dtype))
        done = run_program("stoker-train", "--config", "train.yaml", env=site.env, cwd=site.folder)
        last = [line for line in done.stdout.splitlines() if "consumed samples" in line][-1]
        check(f"{told['iterations']}/" in last.replace(" ", "") and f"consumedsamples:{told['samples']}|" in last.replace(" ", ""),
              f"planned {told['iterations']} iterations, {told['samples']} samples; last line: {last}")
        folder = os.path.join(site.folder, f"checkpoints.{dtype}")
        saved = [n for n in os.listdir(folder) if n.startswith("step-")]
        check(len(saved) in (told["checkpoint"]["count"], told["checkpoint"]["count"] + 1),  # one more at the end
              f"planned {told['checkpoint']['count']} checkpoints, saved {sorted(saved)}")
        size = sum(os.path.getsize(os.path.join(folder, saved[0], n)) for n in os.listdir(os.path.join(folder, saved[0]))
                   if n != "manifest.json")
        check(abs(size - told["checkpoint"]["bytes"]) < 0.01 * size, f"{dtype}: planned {told['checkpoint']['bytes']}, is {size}")
        facts = json.loads(run_program("stoker-train", "inspect", os.path.join(folder, saved[0]), "--json",
                                       env=site.env).stdout)
        check(facts["parameters"] == told["parameters"], f"planned {told['parameters']} parameters: {facts}")


def legal_nodes_are_legal(site):
    """What the plan calls legal starts, and what it does not call legal is refused, for every count up to 12."""
    site.prepare_data()
    path = write(site, "f32", batch=24, start=12, increment=6)  # 12, 18, 24: legal are the divisors of 6
    told = plan(site, path)
    check(told["legal_nodes"] == [1, 2, 3, 6], f"legal: {told['legal_nodes']}")
    for nodes in range(1, 13):
        answer = plan(site, path, "--nodes", str(nodes), code=0 if nodes in told["legal_nodes"] else 1)
        check(answer["legal"] == (nodes in told["legal_nodes"]), f"{nodes} nodes: {answer}")
        env = dict(site.env, RANK="0", WORLD_SIZE=str(nodes), LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1",
                   LOCAL_RANK="0")
        if nodes in told["legal_nodes"]:
            continue
        done = run_program("stoker-train", "--config", "train.yaml", ok=False, env=env, cwd=site.folder)
        check(done.returncode == 22 and "legal node counts with 1 ranks a node: 1, 2, 3, 6" in done.stderr,
              f"{nodes} ranks: exit {done.returncode} {done.stderr}")
        check(answer["illegal"].split(" is not")[0] in done.stderr, f"plan and training differ: {answer['illegal']} {done.stderr}")


def best_interval(site):
    """Daly: sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + (C / 2M) / 9) - C."""
    site.prepare_data()
    path = write(site, "f32")
    cost, mtbf = 40.0, 12 * 3600.0
    told = plan(site, path, "--mtbf", "12h", "--save-cost", "40s", "--tflops", "1")
    x = cost / (2 * mtbf)
    expected = (2 * cost * mtbf)**0.5 * (1 + x**0.5 / 3 + x / 9) - cost
    check(abs(told["save_interval_s"] - expected) < 0.01 * expected, f"{told['save_interval_s']} instead of {expected}")
    flops = 72 * 2 * 32 * 32**2  # of the blocks alone: an iteration takes longer than they would
    check(told["iteration_s"] > 8 * flops / 1e12, f"an iteration of {told['iteration_s']}s")
    people = subprocess.run([os.path.join(BIN, "stoker"), "plan", path, "--mtbf", "12h", "--save-cost", "40s"], env=site.env,
                            capture_output=True, text=True, check=True).stdout
    for word in ["parameters", "memory per GPU", "legal node counts", "iterations", "checkpoints", "ETA", "best save interval"]:
        check(word in people, f"{word} is not shown:\n{people}")


main(what_is_planned_happens, legal_nodes_are_legal, best_interval)
