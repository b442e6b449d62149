"""after: a command on checkpoints as a job of its own, on a real SLURM: beside the training's array, cancelled, with the daemon away."""
import os

from e2e._harness import check
from slurm.real._site import LIMIT, by_commands, main, with_either

FOLLOW = """\
#!/bin/bash
set -e
test "$STOKER_CHECKPOINT" = "$2" -a "$STOKER_ITERATION" = "$3"
test -e "$2/manifest.json"
echo "$3" >> "$1/begun"
while test -e "$1/hold"; do sleep 0.1; done
srun --overlap -N1 -n1 true
echo "$3" >> "$1/done"
echo "score of $3 is good"
"""


class Follower:
    def __init__(self, site, more=""):
        self.folder = os.path.join(site.folder, "followed")
        os.makedirs(self.folder)
        os.chmod(self.folder, 0o777)
        script = os.path.join(self.folder, "follow.sh")
        with open(script, "w", encoding="utf-8") as f:
            f.write(FOLLOW)
        os.chmod(script, 0o755)
        self.yaml = (f"after: [{{name: evaluate, every: 20, wait: 1s, {more}"
                     f"command: [{script}, {self.folder}, '{{checkpoint}}', '{{iteration}}']}}]")

    def hold(self):
        open(os.path.join(self.folder, "hold"), "w", encoding="utf-8").close()

    def release(self):
        os.unlink(os.path.join(self.folder, "hold"))

    def list(self, name):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as f:
            return [int(line) for line in f]


def shown(site):
    return (site.status().get("followers") or [{}])[0]


def jobs_of_followers(site):
    return [j for j in site.cluster.jobs() if j[4].startswith(site.run + "+") and j[2] in ("PENDING", "RUNNING")]


def follow(site):
    """One job at a time under a name of its own, in order; the array of the training is what it was; the daemon is killed, and no
    command runs twice; a job that a person cancels is given up."""
    follower = Follower(site)
    follower.hold()
    site.start_daemon()
    site.run_core(train=follower.yaml)
    before = site.wait_training(beyond=10)
    site.wait(lambda: follower.list("begun"), LIMIT, "the command to begin")
    check(len(jobs_of_followers(site)) == 1, f"jobs: {jobs_of_followers(site)}")
    check(site.submissions() == [site.job_id()], f"submissions of the training: {site.submissions()}")
    first = follower.list("begun")[0]
    site.kill_daemon()
    follower.release()
    site.wait(lambda: first in follower.list("done"), LIMIT, "the command to end while the daemon is away")
    site.start_daemon()
    site.wait(lambda: shown(site).get("good", 0) >= 2, LIMIT, "the next one")
    check(shown(site)["last"]["text"].startswith("score of "), f"shown: {shown(site)}")
    done = follower.list("done")
    check(len(done) == len(set(done)) and done == sorted(done), f"done: {done}")
    follower.hold()
    held = site.wait(lambda: (shown(site).get("jobs") or [{}])[0].get("state") == "running" and shown(site)["jobs"][0], LIMIT, "a job")
    site.cluster.run("scancel", held["job"])
    alert = site.wait(lambda: [a for a in site.status().get("alerts", []) if a["kind"] == "follower_failed"], LIMIT + 120, "an alert")[0]
    check("cancelled by hand" in alert["summary"], f"the alert says {alert['summary']}")
    after = site.status()
    check(after["state"] == "training" and after["job"] == before["job"] and after["restarts"] == 0, f"the training was touched: {after}")
    follower.release()
    site.stoker("stop", site.run, "--now", "--reason", "done")
    site.wait(lambda: not site.submissions(), LIMIT, "the training's jobs to end")


@by_commands
@with_either("core")
def followers(site):
    follow(site)


@with_either("core", rest=True)
def followers_over_rest(site):
    follow(site)


if __name__ == "__main__":
    main(followers, followers_over_rest)
