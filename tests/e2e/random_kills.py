"""Random kill -9 of daemon, agents and ranks in a row: the training ends, its weights are those of the undisturbed run, and the
journal has no gap. 8 kills; 50 with STOKER_LONG=1. The seed is printed; STOKER_SEED repeats it."""
import os
import random
import signal
import time

from e2e._harness import check, main

LONG = bool(os.environ.get("STOKER_LONG"))
KILLS = 50 if LONG else 8
SHAPE = dict(nodes=2, spares=1, ranks_per_node=1, hidden=64, ffn=256, sequence=64, save_every=10, restarts=200,
             without_progress=50, tasks=8, floor="3s")


def kill_something(site, dice):
    what = dice.choice(["daemon", "rank", "rank", "agent"])
    if what == "daemon":
        site.kill_daemon(signal.SIGKILL)
        time.sleep(dice.uniform(0, 1.5))
        site.start_daemon()
        return what
    targets = sorted(site.page_pids().values()) if what == "rank" else sorted(site.programs("stoker-agent", "run"))
    if not targets:
        return f"no {what}"
    try:
        os.kill(dice.choice(targets), signal.SIGKILL)
    except ProcessLookupError:
        return f"{what} was gone"
    return what


def weights_survive_everything(site):
    seed = int(os.environ.get("STOKER_SEED", time.time_ns() % 1000000))
    print(f"seed {seed}", flush=True)
    dice = random.Random(seed)
    prefix = site.prepare_data()
    shape = dict(SHAPE, samples=800 * (6 if LONG else 2))
    site.start_daemon()
    site.use_run("calm")
    site.stoker("run", site.write_files(prefix, **shape), "--yes")
    site.wait_state("finished", 300)
    calm = site.digest()
    site.use_run("stormy")
    site.stoker("run", site.write_files(prefix, **shape), "--yes")
    for number in range(KILLS):
        before = site.wait(lambda: site.status().get("state") in ("training", "finished") and site.status(), 120,
                           f"training before kill {number + 1}")
        if before["state"] == "finished":
            break
        time.sleep(dice.uniform(0, 1.0))
        print(f"{number + 1}. at iteration {before['iteration']}: {kill_something(site, dice)}", flush=True)
    site.wait_state("finished", 300)
    stormy = site.digest()
    check(stormy["iteration"] == calm["iteration"], f"iterations {stormy['iteration']} and {calm['iteration']}")
    check(stormy["digest"] == calm["digest"], f"weights differ (seed {seed}): {stormy['digest']} and {calm['digest']}")
    numbers = [e["seq"] for e in site.events()]
    check(len(set(numbers)) == len(numbers), "events.jsonl has an event twice")
    site.audit()


main(weights_survive_everything)
