"""The weekly digest leaves at its hour, once, over kill -9 and restarts; and on demand. The budget's alert."""
import datetime
import json
import os
import sys
import time

from e2e._harness import check, main, on_any_disk

TRAIN = """
import time
i = 0
while True:
    i += 1
    print(f"step={i} loss=1.5", flush=True)
    time.sleep(0.05)
"""
RUN = """\
run: {run}
directory: {directory}
scheduler: {{kind: local, nodes: 1, gpus_per_node: 8, time_limit: 1h, array: {{tasks: 2, top_up_below: 1}}}}
train: {{command: [{python}, {script}], ranks_per_node: 1}}
budget: {{gpu_hours: 0.02}}
alerts:
  sinks: {{file: {{kind: pulse, path: {file}}}}}
  digest: {{day: {day}, at: "{at}", zone: UTC, to: [file]}}
"""
DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def digests(path):
    """Each once: what is killed between a sink and its own note delivers again, with the time of the first."""
    if not os.path.exists(path):
        return set()
    with open(path, encoding="utf-8") as file:
        return {line for line in file if "week to" in line}


def once_over_kills(site):
    """Its minute is near; the daemon is killed before it, in it and after it."""
    now = datetime.datetime.now(datetime.timezone.utc)
    due = (now + datetime.timedelta(seconds=25)).replace(second=0, microsecond=0) + datetime.timedelta(minutes=1)
    file, script = os.path.join(site.folder, "digest.log"), os.path.join(site.folder, "train.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write(TRAIN)
    config = os.path.join(site.folder, "run.yaml")
    with open(config, "w", encoding="utf-8") as f:
        f.write(on_any_disk(RUN.format(run=site.run, directory=site.directory, python=sys.executable, script=script, file=file,
                                       day=DAYS[due.weekday()], at=due.strftime("%H:%M"))))
    site.start_daemon()
    site.stoker("run", config, "--yes")
    site.wait_iteration(5)
    site.wait(lambda: [e for e in site.events() if e["kind"] == "weekly_due"], 30, "the mark of the first week")
    check(not digests(file), "a digest at the beginning")

    shown = site.stoker("alerts", "digest", site.run, "--dry-run")
    check("week to" in shown.stdout and "Spend: " in shown.stdout and "nothing is sent" in shown.stderr, f"{shown}")
    check(not digests(file), "the preview was sent")
    site.stoker("alerts", "digest", site.run)
    site.wait(lambda: len(digests(file)) == 1, 20, "the digest that was asked for")

    site.kill_daemon()
    time.sleep(max(0, (due - datetime.datetime.now(datetime.timezone.utc)).total_seconds()))  # away at its hour
    site.start_daemon()
    site.wait(lambda: len(digests(file)) == 2, 40, "the weekly digest")
    for _ in range(2):
        site.kill_daemon()
        site.start_daemon()
        site.wait(lambda: site.status().get("state") == "training", 30, "the daemon to be back")
        time.sleep(12)  # a pass over the weeks takes place every 10 s
    check(len(digests(file)) == 2, f"{digests(file)}")

    spent = site.wait(lambda: (site.status().get("spend") or {}).get("gpu_hours", 0) > 0.02 and site.status(), 60, "GPU hours")
    check(spent["spend"]["budget"] == 0.02, f"{spent['spend']}")
    alert = site.wait(lambda: [a for a in site.status()["alerts"] if a["kind"] == "gpu_budget"], 30, "the budget's alert")
    check(alert[0]["severity"] == "critical" and "100 % of the budget" in alert[0]["summary"], f"{alert}")
    check("of the budget is spent" in site.stoker("chronicle", site.run).stdout or
          "budget: " in site.stoker("chronicle", site.run).stdout, "the chronicle does not mention the budget")
    check(json.loads(site.stoker("status", site.run, "--json").stdout)["state"] == "training", "it was stopped")
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    site.wait(lambda: site.status().get("state") == "stopped", 60, "the end")
    check(not site.status()["alerts"], f"{site.status()['alerts']}")
    site.audit()


main(once_over_kills)
