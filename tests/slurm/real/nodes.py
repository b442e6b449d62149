"""Nodes that die, fall silent, are drained or excluded."""
import contextlib
import json
import os
import signal

from e2e._harness import check
from slurm.cluster import processes_with
from slurm.real._site import LIMIT, main, with_either


def nodes_of(site):
    job = site.status()["job"]
    return site.cluster.run("scontrol", "show", "hostnames",
                            site.cluster.run("squeue", "-h", "-j", job, "-o", "%N").stdout.strip()).stdout.split()


@with_either("core")
def node_death(site):
    """A node dies with all that ran on it: a spare takes its place in the same allocation; it is named, and comes back."""
    site.start_daemon()
    site.run_training(nodes=2, spares=1, ranks_per_node=1)
    before = site.wait_training(beyond=20)
    victim = nodes_of(site)[1]
    site.cluster.kill_node(victim)
    site.wait(lambda: site.status().get("restarts", 0) > before["restarts"] or
              site.status().get("generation", 0) > before["generation"], 180, "a restart")
    site.wait_training(beyond=before["iteration"], seconds=180)
    site.wait_event(victim)
    check(len(site.submissions()) == 1, f"more than one submission: {site.submissions()}")
    site.cluster.revive(victim)
    site.wait(lambda: not site.cluster.node_state(victim).startswith("down"), LIMIT, "the node to come back")
    site.wait_training(beyond=site.status()["iteration"])


@with_either("core", nodes=7)
def lost_node_is_not_counted(site):
    """SLURM takes a task that lost a node out of the count of %1 and starts the next beside it: that one leaves by itself, and the others do not follow, for
    they are replaced by an array that waits. Before, each of them held three nodes for two minutes, one after the other."""
    site.start_daemon()
    site.run_training(nodes=2, spares=1, ranks_per_node=1)
    before = site.wait_training(beyond=20)
    site.cluster.run("scontrol", "update", "NodeName=" + nodes_of(site)[1], "State=DOWN", "Reason=fan", root=True)
    site.wait(lambda: len(site.submissions()) == 2, LIMIT, "the array that waits")

    def tasks():
        rows = site.cluster.run("squeue", "-h", "-r", "-o", "%F_%K %T %r").stdout.splitlines()
        return [row.split() for row in rows]
    site.wait(lambda: sum(row[1] == "RUNNING" for row in tasks()) == 1, 200, "the second task to leave")
    rows = tasks()
    check([row[0] for row in rows if row[1] == "RUNNING"] == [before["job"]], f"the training's task does not run alone: {rows}")
    check(all(row[1:] == ["PENDING", "Dependency"] for row in rows if row[1] == "PENDING"), f"what waits does not wait for the training: {rows}")
    check(site.status()["state"] == "training" and site.status()["iteration"] > before["iteration"], f"{site.status()}")
    check(len(site.submissions()) == 2, f"submissions: {site.submissions()}")


@with_either("core")
def batch_host_dies(site):
    """The first node dies, and the batch script with it: the job is ended after proof, and the next task continues."""
    site.start_daemon()
    site.run_training(nodes=2, ranks_per_node=1)
    before = site.wait_training(beyond=20)
    site.cluster.kill_node(nodes_of(site)[0])
    site.wait_training(generation=before["generation"] + 1, seconds=240)


@with_either("loop")
def nobody_left_to_tell(site):
    """The batch host dies, and the other node's agent without a word: silence and SLURM's own view of the steps prove limbo. 24.11
    ends the job itself (NODE_FAIL), or shows no step that could be listed: then the silence alone counts."""
    site.start_daemon()
    site.run_training(nodes=2, ranks_per_node=1, tasks=1, top_up_below=1)
    before = site.wait_training(beyond=20)
    listed = site.cluster.run("squeue", "-h", "-t", "R", "-n", site.run, "-o", "%N").stdout.strip()  # a job outside an array
    first, second = site.cluster.run("scontrol", "show", "hostnames", listed).stdout.split()
    left = [pid for pid in processes_with(f"SLURMD_NODENAME={second}", site.cluster.folder)
            if b"slurmstepd" not in open(f"/proc/{pid}/cmdline", "rb").read()]
    for how in (signal.SIGSTOP, signal.SIGKILL):  # stopped first: it must not tell that the other is gone
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, how)
        if how == signal.SIGSTOP:
            site.cluster.kill_node(first)
    if site.cluster.version() < (23, 2):
        site.wait_event(": limbo", 300)
    site.wait_training(generation=before["generation"] + 1, seconds=240)


@with_either("loop")
def slurmd_alone(site):
    """Only slurmd dies (network loss): the ranks live on, and two trainings never meet."""
    site.start_daemon()
    site.run_training(nodes=2, ranks_per_node=1)
    before = site.wait_training(beyond=20)
    victim = nodes_of(site)[1]
    site.cluster.stop(victim)
    site.wait(lambda: site.cluster.node_state(victim).startswith("down"), LIMIT, "SLURM to give the node up")
    site.wait_training(beyond=before["iteration"] + 20, seconds=240)
    site.cluster.start_node(victim)
    site.wait_training(beyond=site.status()["iteration"] + 10, seconds=240)


@with_either("core")
def drained(site):
    """A node is drained while the run uses it: nothing happens to the run."""
    site.start_daemon()
    site.run_training(nodes=2, ranks_per_node=1)
    before = site.wait_training(beyond=20)
    node = nodes_of(site)[0]
    site.cluster.run("scontrol", "update", "NodeName=" + node, "State=DRAIN", "Reason=test of a drain", root=True)
    site.wait_training(beyond=before["iteration"] + 30)
    check(site.status()["restarts"] == before["restarts"], "a drain was taken for a failure")
    check(site.status()["job"] == before["job"], "the run left its job for a drain")


def accused_by_its_kernel(site):
    """A run whose second node's kernel says that a GPU fell off the bus: (status before, node)."""
    site.start_daemon()
    logs = os.path.join(site.folder, "kern")
    os.mkdir(logs, 0o755)
    site.run_training(nodes=2, ranks_per_node=1, watch=[f"kernel_logs: [{logs}/%N.log]"], exclude=", drain: true")
    before = site.wait_training(beyond=20)
    node = nodes_of(site)[1]
    with open(os.path.join(logs, node + ".log"), "w", encoding="utf-8") as f:
        f.write("[12345.678901] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n")
    site.wait_event("it is to be drained")
    return before, node


@with_either("loop")
def drain_is_refused(site):
    """recover.exclude.drain without an operator's rights: SLURM refuses, an alert names the line for an administrator, nothing else."""
    before, node = accused_by_its_kernel(site)
    alerts = lambda: next((a for a in json.loads(site.stoker("alerts", "--json").stdout) if "drain_refused" in a["id"]), None)  # noqa: E731
    alert = json.dumps(site.wait(alerts, LIMIT, "the alert"))
    check("Invalid user id" in alert and f"scontrol update NodeName={node} State=DRAIN" in alert, f"the alert: {alert}")
    site.wait_training(beyond=site.status()["iteration"] + 20)
    tried = [e for e in site.events() + site.site_events() if "drain_node" in json.dumps(e.get("actions", []))]
    check(len(tried) == 1, f"tried again: {tried}")
    check(not site.cluster.node_state(node).startswith("drain"), "the node is drained all the same")
    check(site.status()["restarts"] == before["restarts"], "a refused drain was taken for a failure")


@with_either("core")
def exclude_while_pending(site):
    """An exclusion reaches the tasks that wait, and the next one avoids the node."""
    site.start_daemon()
    site.run_training(ranks_per_node=1)
    before = site.wait_training(beyond=10)
    node = nodes_of(site)[0]
    site.stoker("exclude", node, "--reason", "it smells")

    def excluded():
        text = site.cluster.run("scontrol", "show", "job", "-o", site.job_id()).stdout
        pending = [line for line in text.splitlines() if "JobState=PENDING" in line]
        return pending and all(f"ExcNodeList={node}" in line for line in pending)
    site.wait(excluded, LIMIT, "the exclusion to reach SLURM")
    site.cluster.run("scancel", before["job"])
    site.wait_training(generation=before["generation"] + 1)
    check(nodes_of(site)[0] != node, f"the next task runs on the excluded node {node}")


@with_either("core")
def lost_step(site):
    """The step daemons of a task die and its processes with them: the next task continues."""
    site.start_daemon()
    site.run_training(ranks_per_node=1)
    before = site.wait_training(beyond=20)
    node = nodes_of(site)[0]
    for pid in processes_with(f"SLURMD_NODENAME={node}", site.cluster.folder):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    site.wait_training(generation=before["generation"] + 1, seconds=180)


if __name__ == "__main__":
    main(node_death, lost_node_is_not_counted, batch_host_dies, nobody_left_to_tell, slurmd_alone, drained, drain_is_refused, exclude_while_pending, lost_step)
