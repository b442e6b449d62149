"""A training that is not stoker's own: its last log line counts, and an exit 0 that obeys is no finish."""
import os
import sys

from e2e._harness import check, main, on_any_disk

QUICK = """
import os, sys
for i in range(1, 300):
    print(f"step={i} loss=1.5", flush=True)
sys.stdout.write("step=300 loss=0.25")
sys.stdout.flush()
os._exit(0)
"""

OBEDIENT = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
i = 0
while True:
    i += 1
    print(f"step={i} loss=1.5", flush=True)
    time.sleep(0.05)
"""
# It saves by itself, under a name of its own, and resumes from its newest file: after a crash at 47 from 40.
RESUMING = """
import glob, os, sys, time
os.makedirs("checkpoints", exist_ok=True)
at = max([int(name[17:-3]) for name in glob.glob("checkpoints/step_*.pt")], default=0)
again = at > 0
while at < 2000:
    at += 1
    print(f"step={at} loss={9 - at / 1000}", flush=True)
    if at % 20 == 0:
        with open(f"checkpoints/step_{at}.pt", "w") as file:
            file.write("x")
    if at == 47 and not again:
        time.sleep(1.5)
        sys.exit(3)
    time.sleep(0.02 if not again else 0.05)
"""
WATCH = "watch: {progress: {iteration: 'step=(\\d+)', loss: 'loss=([0-9.]+)'}}"
RUN = """\
run: {run}
directory: {directory}
scheduler: {{kind: local, nodes: 1, time_limit: {limit}, array: {{tasks: 3, top_up_below: 1}}}}
train: {{command: [{python}, {script}], ranks_per_node: 1, finished: exit_zero, exit_before_limit: 4s}}
{more}
"""


def supervise(site, text, limit="1h"):
    script = os.path.join(site.folder, "train.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write(text)
    config = os.path.join(site.folder, "foreign.yaml")
    with open(config, "w", encoding="utf-8") as f:
        f.write(on_any_disk(RUN.format(run=site.run, limit=limit, directory=site.directory, python=sys.executable, script=script, more=WATCH)))
    site.start_daemon()
    site.stoker("run", config, "--yes")


def its_last_line_counts(site):
    supervise(site, QUICK)
    done = site.wait_state("finished", 60)
    check(done["iteration"] == 300 and done["loss"] == 0.25, f"iteration {done['iteration']}, loss {done['loss']}")
    site.audit()


def stopped_is_not_finished(site):
    supervise(site, OBEDIENT)
    site.wait_iteration(10)
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    done = site.wait(lambda: site.status().get("state") in ("stopped", "finished") and site.status(), 60, "the end")
    check(done["state"] == "stopped", f"a run that was asked to stop is {done['state']}: {done['reason']}")
    site.stoker("resume", site.run, "--reason", "go on")
    site.wait(lambda: site.status()["generation"] == 2 and site.status()["state"] == "training", 60, "training again")
    site.stoker("restart", site.run, "--reason", "try")
    site.wait(lambda: site.status()["attempt"] == 2 and site.status()["state"] == "training", 60, "attempt 2, inside")
    check(site.status()["generation"] == 2, "it left its allocation for a restart")
    site.audit()


def the_next_task_goes_on(site):
    supervise(site, OBEDIENT, limit="12s")
    site.wait_iteration(10)
    now = site.wait(lambda: (site.status().get("generation", 0) >= 2 or site.status().get("state") == "finished") and
                    site.status(), 60, "the second task")
    check(now["state"] != "finished", f"ordered to exit before the wall, it counts as finished: {now['reason']}")
    check(now["restarts"] == 0, "a planned end was counted as a failure")


def where_it_resumed(site):
    """What is to be repeated is counted from the checkpoint that it chose, and its files are noticed."""
    supervise(site, RESUMING)
    again = site.wait(lambda: [e for e in site.events() if "training again from iteration" in e["reason"]], 90, "training again")
    check("training again from iteration 40 " in again[0]["reason"] and ": 7 iterations to repeat" in again[0]["reason"],
          again[0]["reason"])
    status = site.status()
    incident = status["goodput"]["incidents"][0]
    check((incident["iteration"], incident["repeated"]) == (47, 7), f"the incident's cost: {incident}")
    saved = site.wait(lambda: (site.status().get("checkpoint") or {}).get("iteration", 0) > 40 and site.status(), 60,
                      "a checkpoint of its own, by its files")
    check(saved["checkpoint"]["iteration"] % 20 == 0, f"{saved['checkpoint']}")
    check("7 iterations to repeat" in site.stoker("chronicle", site.run).stdout, "the chronicle counts otherwise")
    site.audit()


main(its_last_line_counts, stopped_is_not_finished, the_next_task_goes_on, where_it_resumed)
