"""Saves asked for by interval, a crash that repeats word by word, and what it cost, on real processes."""
import os
import sys

from e2e._harness import check, main, on_any_disk

TRAINING = """
import os, signal, sys, time
asked = 0
def save(*_):
    global asked
    asked += 1
    open(f"saved.{asked}", "w").close()
signal.signal(signal.SIGUSR1, save)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
for i in range(1, 100000):
    print(f"step={i} loss=1.5", flush=True)
    time.sleep(0.05)
    if os.path.exists("crash") and i >= 40:
        print("IndexError: index 50304 is out of bounds", flush=True)
        os._exit(1)
"""
RUN = """\
run: {run}
directory: {directory}
scheduler: {{kind: local, nodes: 1, gpus_per_node: 8}}
train: {{command: [{python}, {script}], save_signal: USR1}}
watch: {{progress: {{iteration: 'step=(\\d+)', loss: 'loss=([0-9.]+)'}}}}
checkpoints: {{format: stoker, interval: 2s, interval_floor: 1s}}
"""


def supervise(site):
    script = os.path.join(site.folder, "train.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write(TRAINING)
    config = os.path.join(site.folder, "run.yaml")
    with open(config, "w", encoding="utf-8") as f:
        f.write(on_any_disk(RUN.format(run=site.run, directory=site.directory, python=sys.executable, script=script)))
    site.start_daemon()
    site.stoker("run", config, "--yes")
    return config


def saves_are_asked_for(site):
    supervise(site)
    site.wait(lambda: os.path.exists(os.path.join(site.directory, "saved.3")), 60, "the third save that was asked for")
    why = site.stoker("why", site.run, "--last", "20").stdout
    check("since the last save" in why, why)
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    site.wait_state("stopped", 60)
    site.audit()


def the_same_crash_is_no_bad_luck(site):
    supervise(site)
    site.wait_iteration(10)
    open(os.path.join(site.directory, "crash"), "w").close()
    held = site.wait_state("held", 90)
    check("the same error at the same iteration" in held["reason"], held["reason"])
    causes = {c["cause"]: c for c in held["goodput"]["causes"]}
    check(causes["rank_crash"]["times"] >= 1 and causes["rank_crash"]["gpu_hours"] > 0, str(causes))
    check("model: 400 W a GPU" in held["goodput"]["energy"]["how"], str(held["goodput"]["energy"]))
    node = held["nodes"][0] if held["nodes"] else site.stoker("nodes", "--json").stdout.split('"node":"')[1].split('"')[0]
    report = site.stoker("nodes", "--report", node).stdout
    check(f"Node {node}" in report and "IndexError" in report, report)
    site.audit()


main(saves_are_asked_for, the_same_crash_is_no_bad_luck)
