"""Several clusters with one slurmdbd: a run on another one than the daemon's host has (`sbatch -M`), and members of a federation. The siblings'
nodes have the same names, as many sites' do."""
import json
import os
import signal

from e2e._harness import check
from slurm.cluster.sibling import Sibling, federate
from slurm.real._site import LIMIT, main, with_either
from slurm.real.script import HANG, SCRIPT, loops

SHOWN = "FederationParameters=fed_display\n"  # the commands show all members unless asked not to


def live(cluster, run):
    return [j for j in cluster.live_jobs() if j[4] == run]


@with_either("loop", accounting=True, nodes=4)
def another_cluster(site):
    """scheduler.cluster: submitted, watched, excluded, cancelled and ended there, nothing here; a slurmdbd that is away is blindness alone."""
    there = Sibling(site.cluster, nodes=4).start()
    site.start_daemon()
    site.run_training(tasks=5, nodes=2, scheduler=f", cluster: {there.name}")
    before = site.wait_training(beyond=20)
    check(live(there, site.run) and not site.cluster.jobs(), f"the jobs are here: {site.cluster.jobs()}")
    said = site.stoker("doctor", os.path.join(site.folder, f"{site.run}.yaml"), ok=False).stdout
    check(f"{there.name} answers" in said, said)
    site.stoker("exclude", "n04", "--reason", "try")
    site.wait(lambda: "ExcNodeList=n04" in there.run("scontrol", "show", "job", "-o", before["job"].split("_")[0]).stdout, LIMIT,
              "the exclusion to reach what waits there")
    there.run("scancel", before["job"])
    after = site.wait_training(generation=before["generation"] + 1, beyond=before["iteration"])
    site.cluster.stop("slurmdbd")
    site.wait(lambda: "scheduler_blind" in site.status()["conditions"], LIMIT, "the daemon to know that it is blind")
    site.wait_training(beyond=site.status()["iteration"] + 40)
    site.cluster.start_daemon("slurmdbd", ["slurmdbd", "-D"])
    site.wait(lambda: "scheduler_blind" not in site.status()["conditions"], 2 * LIMIT, "the daemon to see again")
    check(site.status()["job"] == after["job"], "another job since the database was away")
    there.kill_node(site.status()["nodes"][0])
    site.wait(lambda: (s := site.status())["state"] == "training" and s["job"] != after["job"] and s["generation"] > after["generation"],
              3 * LIMIT, "the next job, without the dead node")
    site.stoker("stop", site.run, "--reason", "enough")
    site.wait_state("stopped", LIMIT)
    site.wait(lambda: not live(there, site.run), LIMIT, "its job to end there")


@with_either("loop", accounting=True, nodes=4, more=SHOWN)
def member_of_a_federation(site):
    """The sibling's nodes are not taken for ours, which have the same names; the array stays where it was submitted."""
    sibling = Sibling(site.cluster, more=SHOWN).start()
    federate(site.cluster, sibling)
    site.cluster.run("scontrol", "update", "NodeName=n04", "State=DRAIN", "Reason=try", root=True)
    site.start_daemon()
    site.run_training(tasks=4, nodes=2)
    before = site.wait_training(beyond=20)
    windows = json.loads(site.stoker("plan", os.path.join(site.folder, f"{site.run}.yaml"), "--calendar", "--json").stdout)["windows"]
    check([w["usable"] for w in windows] == [3], f"of four nodes, one of which is drained: {windows}")
    site.cluster.run("scancel", before["job"])
    site.wait_training(generation=before["generation"] + 1, beyond=before["iteration"])
    check(not sibling.jobs("--local"), f"jobs on the sibling: {sibling.jobs('--local')}")


@with_either("loop", accounting=True, nodes=4)
def single_job_of_a_federation(site):
    """One job at a time, while every node here is drained: it waits here and does not go to the idle sibling."""
    sibling = Sibling(site.cluster, nodes=4).start()
    federate(site.cluster, sibling)
    drain = lambda state: site.cluster.run("scontrol", "update", "NodeName=n[01-04]", f"State={state}", "Reason=try", root=True)
    drain("DRAIN")
    site.start_daemon()
    site.run_training(tasks=1, top_up_below=0)
    site.wait(site.waiting_jobs, LIMIT, "the job to wait here")
    site.wait(lambda: "DOWN, DRAINED" in site.waiting_jobs()[0][3] or "Resources" in site.waiting_jobs()[0][3], LIMIT, "SLURM to have tried it")
    check(not sibling.jobs("--local"), f"jobs on the sibling: {sibling.jobs('--local')}")
    drain("RESUME")
    site.wait_training(beyond=20)
    check(not sibling.jobs("--local"), f"jobs on the sibling: {sibling.jobs('--local')}")


@with_either("loop", accounting=True, nodes=4)
def script_names_another_cluster(site):
    """An adopted script with -M is followed there; where RUN.yaml does not say so, its job is taken back and the refusal says what to do."""
    there = Sibling(site.cluster, nodes=4).start()
    script, config = os.path.join(site.folder, "train.slurm"), os.path.join(site.folder, "run.yaml")
    os.makedirs(os.path.join(site.folder, "logs"), exist_ok=True)
    os.chown(os.path.join(site.folder, "logs"), site.cluster.uid, site.cluster.gid)
    text = SCRIPT.format(nodes=1, folder=site.folder, python=site.python, lock=site.ours("_lock.py"), loop=site.ours("_loop.py"), until=10_000_000)
    with open(script, "w", encoding="utf-8") as f:
        f.write(text.replace("#SBATCH --nodes", f"#SBATCH -M {there.name}\n#SBATCH --nodes"))
    site.stoker("adopt", script, "-o", config)
    with open(config, encoding="utf-8") as f:
        adopted = f.read() + HANG + f"directory: {site.directory}\n"
    named = f'  cluster: "{there.name}"\n'
    check(named in adopted, adopted)
    with open(config, "w", encoding="utf-8") as f:
        f.write(adopted.replace(named, ""))
    site.start_daemon()
    site.stoker("run", config, "--yes")
    refused = site.wait_event(f"set scheduler.cluster: {there.name}")
    site.wait(lambda: not live(there, site.run), LIMIT, "the job to be taken back")
    check(len(there.jobs()) == 1, f"more than one try: {refused} {there.jobs()}")
    with open(config, "w", encoding="utf-8") as f:
        f.write(adopted)
    site.stoker("run", config, "--yes")
    moved = site.wait_event("remove this file when no job is left on")
    check(site.cluster.name in json.dumps(moved), str(moved))
    os.unlink(os.path.join(site.state, "slurm-cluster"))
    before = site.wait_training(beyond=20)
    check(live(there, site.run) and not site.cluster.jobs(), f"the jobs are here: {site.cluster.jobs()}")
    for pid in loops(site, before["nodes"][0]):
        os.kill(pid, signal.SIGKILL)
    site.wait_training(generation=before["generation"] + 1, beyond=before["iteration"])


if __name__ == "__main__":
    main(another_cluster, member_of_a_federation, single_job_of_a_federation, script_names_another_cluster)
