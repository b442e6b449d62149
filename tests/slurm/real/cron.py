"""cron without cron: the job that keeps itself in the queue."""
import os
import shutil
import time

from e2e._harness import check
from slurm.real._site import HERE, LIMIT, by_commands, main

SCRIPT = os.path.join(HERE, "..", "..", "..", "deploy", "cron-emulation", "stoker-cron.slurm")


def install(site):
    folder = os.path.join(site.cluster.home, ".stoker-cron")
    os.makedirs(os.path.join(folder, "cron.hourly"))
    shutil.copy(SCRIPT, folder)
    with open(os.path.join(folder, "settings"), "w", encoding="utf-8") as f:
        f.write(f"STOKER_CRON_MINUTES=60\nexport STOKER_STATE={site.state} PATH={site.env['PATH']}\n")
    with open(os.path.join(folder, "cron.hourly", "mark"), "w", encoding="utf-8") as f:
        f.write(f"#!/bin/bash\necho ran >> {folder}/marks\n")
    os.chmod(os.path.join(folder, "cron.hourly", "mark"), 0o755)
    with open(os.path.join(folder, "crontab"), "w", encoding="utf-8") as f:
        f.write(f"SHELL=/bin/bash\n* * * * * echo line >> {folder}/lines\n")
    with open(os.path.join(folder, ".last-crontab"), "w", encoding="utf-8") as f:
        f.write(str(int(time.time()) - 300))
    for path, folders, files in os.walk(folder):
        for name in [path] + [os.path.join(path, n) for n in folders + files]:
            os.chown(name, site.cluster.uid, site.cluster.gid)
    return folder


def submit(site, folder):
    return site.cluster.run("env", "-C", site.cluster.home, "sbatch", "--parsable", os.path.join(folder, "stoker-cron.slurm"),
                            env=site.env).stdout.strip()


def waiting(site):
    return [j for j in site.cluster.jobs() if j[4] == "stoker-cron" and j[2] == "PENDING"]


def lines(path):
    return open(path).read().count("\n") if os.path.exists(path) else 0


@by_commands
def keeps_itself_alive(site):
    """A pass has its successor in the queue, does what is due once, never twice at a time, and trims what is too much."""
    folder = install(site)
    submit(site, folder)
    site.wait(lambda: lines(os.path.join(folder, "marks")) == 1 and lines(os.path.join(folder, "lines")) == 1, LIMIT, "a pass")
    site.wait(lambda: len(waiting(site)) == 1, LIMIT, "one successor")
    for _ in range(2):
        site.cluster.run("env", "-C", site.cluster.home, "sbatch", "--begin=now+3hours",
                         os.path.join(folder, "stoker-cron.slurm"), env=site.env)
    site.cluster.run("scontrol", "update", "JobId=" + min(j[0] for j in waiting(site)), "StartTime=now")
    site.wait(lambda: len(waiting(site)) == 1, LIMIT, "the surplus to be cancelled")
    check(lines(os.path.join(folder, "marks")) == 1, "the hourly part ran twice within the hour")
    site.cluster.run("scancel", "--name=stoker-cron")
    site.wait(lambda: not [j for j in site.cluster.live_jobs() if j[4] == "stoker-cron"], LIMIT, "the last pass to leave")


if __name__ == "__main__":
    main(keeps_itself_alive)
