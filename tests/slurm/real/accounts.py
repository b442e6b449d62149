"""With accounting (slurmdbd, MariaDB): what slurmctld has forgotten, sacct still reports."""
from e2e._harness import check
from slurm.real._site import LIMIT, main
from slurm.real.nodes import accused_by_its_kernel
from slurm.real.script import adopt


def cancelled_while_nobody_looked(site):
    """The job is cancelled by hand and forgotten while the daemon is away: sacct reports it, and nothing is submitted again."""
    site.start_daemon()
    adopt(site, nodes=1)
    before = site.wait_training(beyond=20)
    said = site.stoker("doctor", ok=False).stdout
    check("sacct answers" in said, f"doctor does not say that sacct works:\n{said}")
    site.kill_daemon()
    job = before["job"].split("_")[0]
    site.cluster.run("scancel", job)
    site.wait(lambda: "Invalid job id" in site.cluster.run("scontrol", "show", "job", job, ok=False).stderr, 2 * LIMIT, "slurmctld to forget the job")
    site.start_daemon()
    held = site.wait_state("held", LIMIT)
    check("cancelled" in held["reason"], f"held for another reason: {held['reason']}")
    check(not site.submissions(), f"submitted again: {site.submissions()}")


def drained_by_an_administrator(site):
    """With AdminLevel Administrator (an Operator is refused) and recover.exclude.drain a broken node is drained; an include takes our note away, not a foreign one."""
    drain = ["scontrol", "update", "NodeName=n08", "State=DRAIN", "Reason=try"]
    for level in ("operator", "administrator"):
        site.cluster.run("sacctmgr", "-i", "modify", "user", site.cluster.user, "set", "adminlevel=" + level, root=True)
        done = site.cluster.run(*drain, ok=False)
        check((done.returncode == 0) == (level == "administrator"), f"a drain by an {level}: {done.returncode} {done.stderr}")
    before, node = accused_by_its_kernel(site)
    site.wait(lambda: site.cluster.node_state(node).startswith("drain"), LIMIT, "the node to be drained")
    reason = site.cluster.run("sinfo", "-h", "-p", "main", "-n", node, "-o", "%E").stdout.strip()
    check(reason.startswith("stoker: ") and "Xid" in reason, f"the note: {reason}")
    check(site.wait_training(beyond=before["iteration"] + 20)["job"] == before["job"], "the run left its job for a drain")
    site.stoker("include", node, "--reason", "repaired")
    site.wait(lambda: not site.cluster.node_state(node).startswith("drain"), LIMIT, "the node to be in service again")


drained_by_an_administrator.cluster = dict(accounting=True)
cancelled_while_nobody_looked.cluster = dict(accounting=True, min_job_age=2)


if __name__ == "__main__":
    main(cancelled_while_nobody_looked, drained_by_an_administrator)
