"""Ranks of a tensor x pipeline mesh are killed with -9 under stokerd: the training ends with the weights of an undisturbed one.
2 kills on TP2 x PP2; 50 on TP2 x PP2 x DP2 with STOKER_LONG=1. The seed is printed; STOKER_SEED repeats it."""
import os
import random
import signal
import time

from e2e._harness import Failed, check, main

LONG = bool(os.environ.get("STOKER_LONG"))
KILLS = 50 if LONG else 2
FURTHER = 14  # iterations at most from one kill to the next
SHAPE = dict(nodes=2, ranks_per_node=4 if LONG else 2, samples=8 * 2 * FURTHER * KILLS, save_every=10, restarts=200,
             without_progress=50, tasks=8, floor="5s")


def start(site, name, prefix):
    site.use_run(name)
    config = site.write_files(prefix, **SHAPE)
    with open(os.path.join(site.folder, f"{name}.train.yaml"), "a", encoding="utf-8") as f:
        f.write("parallel: {tensor: 2, pipeline: 2, schedule: zb-h1}\n")
    site.stoker("run", config, "--yes")


def ranks_at(site, iteration, killed):
    """The pids of a whole new attempt that has reached this iteration, and the iteration that it is at."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        pages = site.pages()
        pids = [pid for pid, _ in pages.values()]
        reached = min((at for _, at in pages.values()), default=0)
        if len(pids) == SHAPE["nodes"] * SHAPE["ranks_per_node"] and killed.isdisjoint(pids) and reached >= iteration:
            return sorted(pids), reached
        time.sleep(0.02)
    raise Failed(f"no new attempt reached iteration {iteration} in 120s: {site.status()}")


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
    iteration, killed = 0, set()
    for number in range(KILLS):
        pids, iteration = ranks_at(site, iteration + dice.randint(1, FURTHER), killed)
        os.kill(dice.choice(pids), signal.SIGKILL)
        killed.update(pids)
        print(f"{number + 1}. a rank killed at iteration {iteration}", flush=True)
    done = site.wait_state("finished", 300)
    check(done["restarts"] == KILLS, f"{done['restarts']} restarts after {KILLS} kills")
    stormy = site.digest()
    check(stormy["iteration"] == calm["iteration"], f"iterations {stormy['iteration']} and {calm['iteration']}")
    check(stormy["digest"] == calm["digest"], f"weights differ (seed {seed}): {stormy['digest']} and {calm['digest']}")
    site.audit()


main(meshes_survive)
