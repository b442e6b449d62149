"""A node on parole is tested beside the others before it carries ranks again, after each accusation. (One that fails is golden
parole_bench: nodes of one host cannot be made slow alone.)"""
import os
import signal

from e2e._harness import check, main

SHAPE = dict(samples=800000, nodes=2, ranks_per_node=1, spares=2, floor="4s", restarts=50, without_progress=20, save_every=20)
PAROLE = "checkpoints: {keep: {last: 3}}"


def told(site, words):
    return [e for e in site.events() if words in e["reason"]]


def crash_rank_on(site, node):
    """kill -9 of a rank there, far enough from the last time; then the training goes on."""
    site.wait_iteration(site.status()["iteration"] + 30)
    crashed = site.status()["attempt"]
    os.kill(site.rank_pid(site.status()["nodes"].index(node)), signal.SIGKILL)
    site.wait(lambda: site.status()["attempt"] > crashed and site.status()["state"] == "training", 60, "the next attempt")


def restart_with(site):
    """The next attempt is free to take every node again."""
    site.stoker("restart", site.run, "--reason", "the exclusion is over")


def tested_before_it_trains(site):
    prefix = site.prepare_data()
    site.start_daemon()
    config = site.write_files(prefix, more=PAROLE, **SHAPE)
    with open(config, encoding="utf-8") as f:
        text = f.read().replace("for: 24h", "for: 10s")
    with open(config, "w", encoding="utf-8") as f:
        f.write(text)
    site.stoker("run", config, "--yes")
    site.wait_iteration(20)
    node = site.status()["nodes"][-1]
    crash_rank_on(site, node)
    crash_rank_on(site, node)  # a second time within a day
    site.wait(lambda: told(site, f"{node} is excluded for 10s"), 10, f"{node} to be excluded")
    site.wait(lambda: not any(n["state"] == "excluded" for n in nodes(site)), 30, "the exclusion to end")
    restart_with(site)
    site.wait(lambda: told(site, f"{node} passed the test"), 60, f"{node} to pass its test")
    site.wait(lambda: node in site.status().get("nodes", []) and site.status()["state"] == "training", 60, f"{node} to train again")
    # Again: an accusation within the same generation is a reason for another test.
    crash_rank_on(site, node)
    check(told(site, f"{node} is excluded for 20s"), f"{node} is not excluded for twice as long")
    site.wait(lambda: not any(n["state"] == "excluded" for n in nodes(site)), 60, "the exclusion to end")
    restart_with(site)
    site.wait(lambda: len(told(site, f"{node} passed the test")) == 2, 60, f"{node} to pass its second test")
    site.audit()


def nodes(site):
    import json
    return [json.loads(line) for line in site.stoker("nodes", "--json").stdout.splitlines() if line.strip()]


main(tested_before_it_trains)
