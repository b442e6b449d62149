"""What dies inside a job: a rank, an agent, everything at once; and what ends it from the outside."""
import os
import signal

from e2e._harness import check
from slurm.cluster import environment_of, processes_with
from slurm.real._site import LIMIT, main, with_either


def agents(site, node):
    """Pids of stoker-agent on this node; a bundle's is started by its own loader."""
    found = []
    for pid in processes_with(f"SLURMD_NODENAME={node}", site.cluster.folder):
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            words = f.read().split(b"\0")
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        agent = program == "stoker-agent" or (program == "ld.so" and any(w.endswith(b"/stoker-agent") for w in words[:6]))
        if agent and b"guardian" not in b" ".join(words) and b"\0RANK=" not in environment_of(pid):
            found.append(pid)
    return found


@with_either("core")
def rank_killed(site):
    """kill -9 of a rank: new ranks in the same job."""
    site.start_daemon()
    site.run_training(nodes=2)
    before = site.wait_training(beyond=30)
    os.kill(site.rank_pid(1), signal.SIGKILL)
    site.wait(lambda: site.status().get("restarts", 0) > before["restarts"], LIMIT, "a restart")
    after = site.wait_training(beyond=before["iteration"])
    check(after["job"] == before["job"], f"it left its job {before['job']} for {after['job']}")
    check(len(site.submissions()) == 1, f"more than one submission: {site.submissions()}")


@with_either("loop")
def agent_killed(site):
    """kill -9 of a node's agent: its ranks die with it, and the training goes on."""
    site.start_daemon()
    site.run_training(nodes=2, spares=1, ranks_per_node=1)
    before = site.wait_training(beyond=20)
    victims = site.wait(lambda: agents(site, before["nodes"][1] if before.get("nodes") else "n02"), LIMIT, "the agent's pid")
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    site.wait(lambda: site.status().get("restarts", 0) > before["restarts"] or site.status().get("generation", 0) >
              before["generation"], LIMIT, "a restart")
    site.wait_training(beyond=before["iteration"])
    check(len(site.submissions()) == 1, f"more than one submission: {site.submissions()}")


@with_either("core")
def scancel_one_task(site):
    """scancel of the running task by hand: the next one goes on, with a warning."""
    site.start_daemon()
    site.run_training()
    before = site.wait_training(beyond=20)
    site.cluster.run("scancel", before["job"])
    site.wait_training(generation=before["generation"] + 1)
    site.wait_event("was cancelled")
    check(site.job_id() == before["job"].split("_")[0], "it did not go on with the next task of its array")


@with_either("loop")
def scancel_everything(site):
    """scancel of the whole array by hand: Held, and never submitted again."""
    site.start_daemon()
    site.run_training()
    before = site.wait_training(beyond=20)
    site.cluster.run("scancel", before["job"].split("_")[0])
    held = site.wait_state("held", LIMIT)
    check("cancelled" in held["reason"], f"held for another reason: {held['reason']}")
    check(not site.submissions(), f"submitted again: {site.submissions()}")
    site.stoker("resume", site.run, "--reason", "it was a mistake")
    site.wait(lambda: site.status()["state"] != "held", LIMIT, "the state after resume to be published")
    site.wait_training(beyond=before["iteration"])


@with_either("loop")
def scancel_restart(site):
    """on_scancel: restart submits again."""
    site.start_daemon()
    site.run_training(recover=", on_scancel: restart")
    before = site.wait_training(beyond=20)
    site.cluster.run("scancel", before["job"].split("_")[0])
    site.wait_training(generation=before["generation"] + 1)
    check(site.job_id() != before["job"].split("_")[0], "the cancelled array cannot run")
    check(len(site.submissions()) == 1, f"more than one submission: {site.submissions()}")


@with_either("core")
def requeued(site):
    """scontrol requeue where a site allows it: the same id, a new generation, counted once."""
    site.start_daemon()
    site.run_training(scheduler=", extra: [--requeue]", tasks=1, top_up_below=0)
    before = site.wait_training(beyond=20)
    job = site.job_id()  # one task is a plain job: SLURM knows it by its bare id
    site.cluster.run("scontrol", "requeue", job)
    # SLURM holds a requeued job back for two minutes (its begin time); release it.
    site.wait(lambda: [j for j in site.waiting_jobs() if j[0] == job], LIMIT, "the requeued job")
    site.cluster.run("scontrol", "update", "JobId=" + job, "StartTime=now", ok=False)
    after = site.wait_training(generation=before["generation"] + 1, seconds=200)
    check(after["job"] == before["job"], f"requeued under the same id, it goes on as {after['job']}")
    check(site.status()["restarts"] == before["restarts"], "a requeue by the scheduler was counted as a failure")


@with_either("loop", more="MaxArraySize=0\n")
def chain_without_arrays(site):
    """A cluster that knows no job arrays: plain jobs, the next waiting behind the one that runs."""
    site.start_daemon()
    site.run_training(tasks=1, top_up_below=1, ranks_per_node=1)
    before = site.wait_training(beyond=20)
    site.wait(lambda: len(site.submissions()) == 2, LIMIT, "the next job of the chain")
    check("afterany" in site.cluster.run("squeue", "-h", "-t", "PD", "-o", "%E").stdout, "it does not wait for the running one")
    site.cluster.run("scancel", site.job_id())
    after = site.wait_training(generation=before["generation"] + 1, beyond=before["iteration"])
    check(site.job_id() != before["job"].split("_")[0], f"{after['job']} is the cancelled one")


@with_either("core")
def everything_at_once(site):
    """kill -9 of the daemon, of all agents and of all ranks in one moment."""
    site.start_daemon()
    site.run_training(nodes=2, ranks_per_node=1)
    before = site.wait_training(beyond=20)
    victims = [pid for node in ("n01", "n02") for pid in processes_with(f"SLURMD_NODENAME={node}", site.cluster.folder)
               if os.path.basename(os.readlink(f"/proc/{pid}/exe")) != "slurmstepd"]
    site.kill_daemon(signal.SIGKILL)
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    site.start_daemon()
    site.wait_training(generation=before["generation"] + 1)


if __name__ == "__main__":
    main(rank_killed, agent_killed, scancel_one_task, scancel_everything, scancel_restart, requeued, chain_without_arrays, everything_at_once)
