"""A node on parole is tested beside the others before it carries ranks again: a fair one passes, one that is slow is excluded again
before it costs an iteration."""
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


def slow_one_is_left_out(site):
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
    # Again; and this time all of its processes get what the others leave.
    crash_rank_on(site, node)
    check(told(site, f"{node} is excluded for 20s"), f"{node} is not excluded for twice as long")
    agents = [pid for pid in site.programs("stoker-agent", "run") if of_node(pid, node)]
    check(agents, f"no agent of {node} is found")
    for agent in agents:
        for task in os.listdir(f"/proc/{agent}/task"):
            os.sched_setscheduler(int(task), os.SCHED_IDLE, os.sched_param(0))
    site.wait(lambda: not any(n["state"] == "excluded" for n in nodes(site)), 60, "the exclusion to end")
    restart_with(site)
    site.wait(lambda: told(site, f"{node} is on parole and failed its test"), 90, f"{node} to fail its test")
    site.wait(lambda: site.status()["state"] == "training" and node not in site.status()["nodes"], 60, f"the training without {node}")
    check([n for n in nodes(site) if n["node"] == node][0]["state"] == "excluded", f"{node} is not excluded again")
    site.audit()


def nodes(site):
    import json
    return [json.loads(line) for line in site.stoker("nodes", "--json").stdout.splitlines() if line.strip()]


def of_node(pid, node):
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            return any(e.partition(b"=")[2] == node.encode() for e in f.read().split(b"\0"))
    except OSError:
        return False


main(slow_one_is_left_out)
