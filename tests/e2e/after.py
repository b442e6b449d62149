"""after: a command on checkpoints as a job of its own: in order, tried again, given up; the daemon away or killed; never in the
training's way, and a checkpoint that waits for it is not deleted."""
import json
import os
import subprocess
import time

from e2e._harness import BIN, check, main

SHAPE = dict(samples=6000, save_every=10, hidden=32, ffn=64, sequence=32)

FOLLOW = """\
import json, os, sys, time
place, checkpoint, iteration = sys.argv[1:4]
assert os.environ["STOKER_CHECKPOINT"] == checkpoint and os.environ["STOKER_ITERATION"] == iteration
assert os.path.exists(os.path.join(checkpoint, "manifest.json")), checkpoint
with open(os.path.join(place, "begun"), "a") as f:
    f.write(iteration + "\\n")
while os.path.exists(os.path.join(place, "hold")):
    time.sleep(0.05)
print("read", len(os.listdir(checkpoint)), "files of", os.environ["STOKER_RUN"])
if os.path.exists(os.path.join(place, "fail")):
    sys.exit("no vocabulary")
assert os.path.exists(os.path.join(checkpoint, "manifest.json")), "deleted below the reader"
with open(os.path.join(place, "done"), "a") as f:
    f.write(iteration + "\\n")
print("score of", iteration, "is good")
"""


class Follower:
    """Where its command writes what it did; the files `hold` and `fail` there tell it what to do."""

    def __init__(self, site, every=50, more=""):
        self.folder = os.path.join(site.folder, "followed")
        os.makedirs(self.folder)
        script = os.path.join(self.folder, "follow.py")
        with open(script, "w", encoding="utf-8") as f:
            f.write(FOLLOW)
        self.yaml = (f"after: [{{name: evaluate, every: {every}, wait: 1s, {more}"
                     f"command: [python3, {script}, {self.folder}, '{{checkpoint}}', '{{iteration}}']}}]")

    def put(self, name):
        open(os.path.join(self.folder, name), "w", encoding="utf-8").close()

    def remove(self, name):
        os.unlink(os.path.join(self.folder, name))

    def list(self, name):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as f:
            return [int(line) for line in f]


def shown(site):
    followers = site.status().get("followers") or [{}]
    return followers[0]


def start_long(site, follower):
    """A training that outlasts the test, with its follower."""
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, more=follower.yaml, **dict(SHAPE, samples=800000)), "--yes")


def wait_failed(site, seconds):
    """The alert that the follower has given up; the training goes on."""
    alert = site.wait(lambda: [a for a in site.status().get("alerts", []) if a["kind"] == "follower_failed"], seconds, "an alert")[0]
    s = site.status()
    check(s["state"] == "training" and s["restarts"] == 0, f"the training is {s['state']} after {s['restarts']} restarts")
    return alert


def every_checkpoint_in_order(site):
    """Multiples of `every` and the last one, one after the other; shown, chronicled; the run's own submissions are not touched."""
    follower = Follower(site)
    prefix = site.prepare_data()
    site.start_daemon()
    config = site.write_files(prefix, more=follower.yaml + "\ncheckpoints: {keep: {last: 1}}", **SHAPE)
    said = site.stoker("check", config).stdout
    check("after evaluate" in said and "multiple of 50 iterations" in said, f"check says {said}")
    site.stoker("run", config, "--yes")
    done = site.wait_state("finished", 240)
    due = [i for i in range(50, done["iteration"] + 1, 50)]
    if done["checkpoint"]["iteration"] not in due:
        due.append(done["checkpoint"]["iteration"])
    site.wait(lambda: shown(site).get("good") == len(due), 120, f"the commands on {due}")
    check(follower.list("done") == due and follower.list("begun") == due, f"{follower.list('begun')} begun, {due} due")
    last = shown(site)["last"]
    check(last["good"] and last["text"] == f"score of {due[-1]} is good", f"the last one is shown as {last}")
    submits = [a for e in site.events() for a in e["actions"] if a.startswith("submit ")]
    check(len(submits) == 1, f"the training was submitted {len(submits)} times")
    story = site.stoker("chronicle", site.run).stdout
    check(f"Evaluate on the checkpoint of iteration {due[0]} is done" in story, f"no word of it in\n{story}")
    check("score of" in site.stoker("status", site.run).stdout, "status does not show it")
    site.audit()


def reader_keeps_its_checkpoint(site):
    """keep.last 1: what a command reads, and what waits for it, is deleted only afterwards; the training goes on meanwhile."""
    follower = Follower(site, more="backlog: 2, ")
    follower.put("hold")
    prefix = site.prepare_data()
    site.start_daemon()
    config = site.write_files(prefix, more=follower.yaml + "\ncheckpoints: {keep: {last: 1}}", **dict(SHAPE, samples=800000))
    site.stoker("run", config, "--yes")
    site.wait(lambda: follower.list("begun"), 90, "the command to begin")
    first = follower.list("begun")[0]
    reached = site.wait_iteration(first + 250)["iteration"]
    folder = os.path.join(site.directory, "checkpoints")
    kept = sorted(int(n[5:11]) for n in os.listdir(folder) if n.startswith("step-"))
    check(first in kept, f"the checkpoint of {first} was deleted below its reader: {kept} are left at {reached}")
    late = site.wait(lambda: shown(site).get("skipped", 0) > 0 and shown(site), 60, "one to be left out")
    check(len(late["waiting"]) == 2, f"{late['waiting']} wait, the backlog is 2")
    alerts = [a["kind"] for a in site.status()["alerts"]]
    check("follower_behind" in alerts, f"no alert that it is behind: {alerts}")
    waiting = late["waiting"]
    follower.remove("hold")
    site.wait(lambda: len(follower.list("done")) >= 3, 90, "those that wait to be done with")
    check(follower.list("done")[0] == first, f"done: {follower.list('done')}")
    gone = waiting[0]
    site.wait(lambda: not any(n.startswith(f"step-{first:06}") for n in os.listdir(folder)), 90, f"{first} to be deleted")
    check(gone in follower.list("done") or shown(site)["skipped"] > 1, f"{gone} neither done nor left out")
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    site.audit()


def failures_are_given_up(site):
    """Two tries, then an alert with the command's last line; the training is not disturbed, the next checkpoint ends the alert."""
    follower = Follower(site, more="tries: 2, ")
    follower.put("fail")
    start_long(site, follower)
    alert = wait_failed(site, 120)
    check("exit code 1" in alert["summary"] and "no vocabulary" in alert["summary"], f"the alert says {alert['summary']}")
    check(alert["severity"] == "warning" and "tail -n 50 " in alert["command"], f"{alert}")
    with open(alert["command"].split()[-1], encoding="utf-8") as f:
        check("no vocabulary" in f.read(), "the output that the alert names does not hold the reason")
    begun = follower.list("begun")  # other checkpoints may have their turns between the two tries
    check(max(begun.count(iteration) for iteration in begun) == 2, f"begun: {begun}")
    follower.remove("fail")
    site.wait(lambda: not [a for a in site.status().get("alerts", [1]) if a["kind"] == "follower_failed"], 90, "the alert to end")
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    site.audit()


def daemon_away(site):
    """kill -9 of the daemon while the command runs, and after it has ended: it is not run again, and nothing is lost."""
    follower = Follower(site)
    follower.put("hold")
    start_long(site, follower)
    site.wait(lambda: follower.list("begun"), 90, "the command to begin")
    first = follower.list("begun")[0]
    site.kill_daemon()
    follower.remove("hold")
    site.wait(lambda: follower.list("done") == [first], 60, "the command to end while the daemon is away")
    site.start_daemon()
    site.wait(lambda: shown(site).get("good", 0) >= 2, 120, "the next one")
    done = follower.list("done")
    check(done.count(first) == 1 and len(done) == len(set(done)), f"run twice: {done}")
    after = os.path.join(site.directory, "after")
    for _ in range(4):  # its order is written, and the submission has no answer yet
        known = set(os.listdir(after))
        while set(os.listdir(after)) == known:
            time.sleep(0.001)
        site.kill_daemon()
        site.start_daemon()
        before = len(follower.list("done"))
        site.wait(lambda before=before: len(follower.list("done")) > before, 120, "another one")
    begun = follower.list("begun")
    check(len(begun) == len(set(begun)), f"run twice: {begun}")
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    site.audit()


def never_ends(site):
    """A command that does not end is ended at its job's time limit, which counts as a failed try; the training goes on."""
    follower = Follower(site, more="time_limit: 3s, tries: 1, ")
    follower.put("hold")
    start_long(site, follower)
    alert = wait_failed(site, 150)
    check("TIMEOUT" in alert["summary"] and "given up after one try" in alert["summary"], f"the alert says {alert['summary']}")
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    site.audit()


def rolled_back(site):
    """The training goes back behind the checkpoint that a command reads: it runs to its end, what waited is not followed, and
    the same iteration of the new line is."""
    follower = Follower(site, every=100, more="backlog: 50, ")
    follower.put("hold")
    start_long(site, follower)
    site.wait(lambda: follower.list("begun"), 90, "the command to begin")
    first = follower.list("begun")[0]
    site.wait(lambda: shown(site).get("waiting"), 90, "another one to wait")
    site.stoker("rollback", site.run, "--to", first - 50, "--reason", "a spike")
    site.wait(lambda: "has left the line" in "".join(e["reason"] for e in site.events()), 120, "the line to be left")
    follower.remove("hold")
    site.wait(lambda: follower.list("done")[:2] == [first, first], 120, f"{first} of both lines: {follower.list('done')}")
    site.wait(lambda: shown(site).get("good", 0) >= 3, 120, "the next one of the new line")
    check(shown(site)["given_up"] == 0, f"given up: {shown(site)}")
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    site.audit()


def follow(site, folder, token):
    """A job's first act, by hand."""
    return subprocess.run([os.path.join(BIN, "stoker-agent"), "follow", "--folder", folder, "--token", token],
                          text=True, capture_output=True, timeout=60, env=site.env)


def fenced(site):
    """A job that starts twice runs its command once; one whose try was taken over leaves; a cancelled one is given up."""
    follower = Follower(site)
    follower.put("hold")
    start_long(site, follower)
    site.wait(lambda: follower.list("begun"), 90, "the command to begin")
    after = os.path.join(site.directory, "after")
    folder = os.path.join(after, sorted(os.listdir(after))[0])
    with open(os.path.join(folder, "order.json"), encoding="utf-8") as f:
        order = json.load(f)
    again = follow(site, folder, order["token"])
    check(again.returncode == 3 and "started before" in again.stderr, f"exit {again.returncode}: {again.stderr}")
    other = follow(site, folder, order["token"] + "0")
    check(other.returncode == 2 and "has taken the place" in other.stderr, f"exit {other.returncode}: {other.stderr}")
    check(len(follower.list("begun")) == 1, f"begun: {follower.list('begun')}")
    job = shown(site)["jobs"][0]["job"]
    site.admin("cancel", job)
    alert = wait_failed(site, 150)
    check("cancelled by hand" in alert["summary"] and "after one try" in alert["summary"], f"the alert says {alert['summary']}")
    check(site.status()["state"] == "training", "the training was touched")
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    site.audit()


main(every_checkpoint_in_order, reader_keeps_its_checkpoint, failures_are_given_up, daemon_away, never_ends, rolled_back, fenced)
