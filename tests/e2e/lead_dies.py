"""Death of the lead: its node with everything on it, its agent alone, agent and guardian and rank in a row. The training goes on
from its last checkpoint, nothing of the old job outlives it."""
import os
import signal

from e2e._harness import check, main

SHAPE = dict(samples=200000, nodes=2, spares=1, ranks_per_node=1, hidden=64, ffn=256, sequence=64, save_every=20)


def start(site):
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, **SHAPE), "--yes")
    site.wait(lambda: site.status().get("checkpoint") and site.status()["state"] == "training", 60, "a checkpoint")
    return site.status()


def environment_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as f:
        return f.read()


def of_node(site, node, word):
    """Processes of a node by a part of their command line."""
    found = []
    for pid in site.our_processes():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().replace(b"\0", b" ").decode()
            if f"SLURMD_NODENAME={node}\0" in environment_of(pid).decode(errors="replace") and word in line:
                found.append(pid)
        except OSError:
            continue
    return found


def goes_on(site, before, old):
    again = site.wait(lambda: site.status().get("generation", 0) > before["generation"] and
                      site.status()["state"] == "training" and site.status(), 90, "training after it")
    left = set(old) & set(site.our_processes())
    check(not left, f"processes of the old job live on: {left}")
    site.wait_iteration(before["checkpoint"]["iteration"] + 10)
    return again


def its_node(site):
    before = start(site)
    check(before["nodes"][0] == "n01", f"{before['nodes']}")
    old = list(site.page_pids().values()) + of_node(site, "n01", "stoker-agent")
    site.admin("kill-node", "n01")
    again = goes_on(site, before, old)
    check("n01" not in again["nodes"], f"the dead node is used again: {again['nodes']}")
    site.audit()


def its_agent_alone(site):
    before = start(site)
    agents = of_node(site, "n01", "stoker-agent run")
    check(len(agents) == 2, f"keeper and agent: {agents}")
    old = list(site.page_pids().values())
    os.kill(max(agents), signal.SIGKILL)  # the younger one: the agent; its keeper stays
    goes_on(site, before, old)
    check(site.status()["restarts"] == 1, f"restarts: {site.status()['restarts']}")


def agent_guardian_and_rank(site):
    before = start(site)
    old = list(site.page_pids().values())
    guardians = of_node(site, "n01", "stoker-agent guardian")
    for pid in [*guardians, *of_node(site, "n01", "stoker-agent run"), site.page_pids()[0]]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    goes_on(site, before, old)


main(its_node, its_agent_alone, agent_guardian_and_rank)
