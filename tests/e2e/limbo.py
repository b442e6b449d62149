"""Limbo: a job that does not end although its training has. Agents that left, and agents that fell silent: both jobs are ended
and the next tasks resume. Two runs under one daemon, because proof takes minutes."""
import os
import signal
import time

from e2e._harness import check, main

SHAPE = dict(samples=400000, nodes=1, ranks_per_node=1, hidden=64, ffn=256, sequence=64, save_every=20)
PROOF_S = 300


def agents(site):
    """The keeper and the agent of the run's job, older first."""
    found = []
    for pid in site.our_processes():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if "stoker-agent run" in line and f"--run-dir {site.directory} " in line:
            found.append(pid)
    return sorted(found)


def ends(pid, limit=30):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "Z":  # its parent is the stopped keeper
                    return
        except OSError:
            return
        time.sleep(0.1)
    check(False, f"the agent {pid} does not leave")


def job_lives_on(site):
    prefix = site.prepare_data()
    site.start_daemon()
    before, victims = {}, {}
    for name in ("left", "silent"):
        site.use_run(name)
        site.stoker("run", site.write_files(prefix, **SHAPE), "--yes")
        site.wait(lambda: site.status().get("checkpoint") and site.status()["state"] == "training", 120, "a checkpoint")
        before[name], victims[name] = site.status(), agents(site)
        check(len(victims[name]) == 2, f"keeper and agent: {victims[name]}")
    keeper, agent = victims["left"]
    os.kill(keeper, signal.SIGSTOP)  # what keeps the job alive when the agent has said goodbye
    os.kill(agent, signal.SIGTERM)
    ends(agent)
    ranks = {}
    site.use_run("silent")
    ranks = site.page_pids()
    for pid in [*victims["silent"], *ranks.values()]:
        os.kill(pid, signal.SIGSTOP)
    # Leaving at a signal was planned and costs no restart; falling silent is a failure.
    for name, words, restarts in (("left", "still there after its agents exited; cancelling it", 0),
                                  ("silent", "has been silent for", 1)):
        site.use_run(name)
        site.wait(lambda: site.status().get("generation", 0) > before[name]["generation"] and
                  site.status()["state"] == "training", PROOF_S, f"{name}: the next task trains")
        told = [e["reason"] for e in site.events() if words in e["reason"]]
        check(told, f"{name}: ended for another reason: {[e['reason'] for e in site.events() if e['reason']]}")
        check(site.status()["restarts"] == restarts, f"{name}: {site.status()['restarts']} restarts")
        site.wait_iteration(before[name]["checkpoint"]["iteration"] + 10)
        left = set([*victims[name], *(ranks.values() if name == "silent" else [])]) & set(site.our_processes())
        check(not left, f"{name}: processes of the old job live on: {left}")
        site.stoker("stop", name, "--now", "--reason", "seen enough")
    site.audit()


main(job_lives_on)
