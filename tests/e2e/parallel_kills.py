"""Ranks of a tensor x pipeline mesh are killed with -9 under stokerd: the training ends with the weights of an undisturbed one.
2 kills on TP2 x PP2; 50 on TP2 x PP2 x DP2 with STOKER_LONG=1. The seed is printed; STOKER_SEED repeats it."""
import os
import random
import signal
import time

from e2e._harness import check, main

LONG = bool(os.environ.get("STOKER_LONG"))
KILLS = 50 if LONG else 2
SHAPE = dict(nodes=2, ranks_per_node=4 if LONG else 2, samples=7200 if LONG else 800, save_every=10, restarts=200,
             without_progress=50, tasks=8, floor="5s")


def start(site, name, prefix):
    site.use_run(name)
    config = site.write_files(prefix, **SHAPE)
    with open(os.path.join(site.folder, f"{name}.train.yaml"), "a", encoding="utf-8") as f:
        f.write("parallel: {tensor: 2, pipeline: 2, schedule: zb-h1}\n")
    site.stoker("run", config, "--yes")


def meshes_survive(site):
    seed = int(os.environ.get("STOKER_SEED", time.time_ns() % 1000000))
    print(f"seed {seed}", flush=True)
    dice = random.Random(seed)
    prefix = site.prepare_data()
    site.start_daemon()
    start(site, "calm", prefix)
    site.wait_state("finished", 300)
    calm = site.digest()
    start(site, "stormy", prefix)
    for number in range(KILLS):
        before = site.wait(lambda: site.status().get("state") in ("training", "finished") and site.status(), 120,
                           f"training before kill {number + 1}")
        check(before["state"] == "training", f"finished before kill {number + 1}")
        site.wait_iteration(before["iteration"] + 5)
        pids = sorted(site.page_pids().values())
        if pids:
            os.kill(dice.choice(pids), signal.SIGKILL)
            print(f"{number + 1}. a rank killed after iteration {before['iteration']}", flush=True)
    done = site.wait_state("finished", 300)
    check(done["restarts"] >= 1, "no restart: no kill was seen")
    stormy = site.digest()
    check(stormy["iteration"] == calm["iteration"], f"iterations {stormy['iteration']} and {calm['iteration']}")
    check(stormy["digest"] == calm["digest"], f"weights differ (seed {seed}): {stormy['digest']} and {calm['digest']}")
    site.audit()


main(meshes_survive)
