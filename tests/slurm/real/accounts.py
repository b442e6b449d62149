"""With accounting (slurmdbd, MariaDB): what slurmctld has forgotten, sacct still tells."""
from e2e._harness import check
from slurm.real._site import LIMIT, main
from slurm.real.script import adopt


def cancelled_while_nobody_looked(site):
    """The job is cancelled by hand and forgotten while the daemon is away: sacct tells, and nothing is submitted again."""
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


cancelled_while_nobody_looked.cluster = dict(accounting=True, min_job_age=2)


if __name__ == "__main__":
    main(cancelled_while_nobody_looked)
