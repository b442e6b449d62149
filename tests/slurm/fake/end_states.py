"""How a job may end that no small cluster shows: each state leads to the right decision and is counted once."""
from slurm.fake._site import LIMIT, check, main


def failure(site, state, restarts=1, **what):
    """The job ends so; the next one is submitted, and the failure is counted `restarts` times."""
    site.begin()
    site.trains()
    site.end_task(state, **what)
    site.wait_jobs(2)
    site.trains()
    check(site.status()["restarts"] == restarts, f"{state} was counted {site.status()['restarts']} times, not {restarts}")
    site.stays(2)


def out_of_memory(site):
    failure(site, "OUT_OF_MEMORY", exit=0, signal=125)


def out_of_memory_truncated(site):
    """squeue of a site that cuts words: OUT_OF_ME+."""
    failure(site, "OUT_OF_ME+", exit=0, signal=125)


def deadline(site):
    failure(site, "DEADLINE")


def failed_once(site):
    failure(site, "FAILED", exit=1)


def preempted(site):
    """It costs nothing."""
    failure(site, "PREEMPTED", restarts=0)


def preempted_through_completing(site):
    """COMPLETING before the end is not the end: nothing starts beside it."""
    site.begin()
    site.trains()
    site.end_task("COMPLETING")
    site.stays(1)
    site.end_task("PREEMPTED")
    site.wait_jobs(2)


def requeued_keeps_its_id(site):
    """Pre-empted and requeued by the site: the same id goes on, nothing is submitted, nothing is counted."""
    site.begin()
    before = site.trains()
    site.end_task("REQUEUED", restarts=1)
    site.wait_state("queued", LIMIT)
    site.end_task("RUNNING", restarts=1)
    after = site.trains()
    check(after["generation"] == before["generation"] + 1 and after["restarts"] == 0, f"{after}")
    site.stays(1)


def requeued_seen_as_pending(site):
    """The requeue was over before the next poll: PENDING again under the same id. Its restart count distinguishes it from an old answer."""
    site.begin()
    before = site.trains()
    site.end_task("PENDING", restarts=1, reason="BeginTime")
    site.wait_state("queued", LIMIT)
    site.end_task("RUNNING", restarts=1, reason="None")
    after = site.trains()
    check(after["generation"] == before["generation"] + 1 and after["restarts"] == 0, f"{after}")
    site.stays(1)


def boot_fail_without_a_name(site):
    """A node failed while it booted, and SLURM does not say which: a person must look."""
    site.begin()
    site.trains()
    site.end_task("BOOT_FAIL")
    held = site.wait_state("held", LIMIT)
    check("the node is unknown" in held["reason"], held["reason"])
    site.stays(1, 3)


def node_fail_names_the_node(site):
    """sinfo names it: it is excluded, and the next job waits until its logs are still."""
    site.begin()
    site.trains()
    with site.changing() as cluster:
        cluster["nodes"]["n01"] = ["down*", "Not responding"]
        cluster["jobs"][-1]["tasks"]["1"]["state"] = "NODE_FAIL"
    site.wait(lambda: "until logs and checkpoints have not changed" in site.status().get("reason", ""), LIMIT, "the wait for still logs")
    check('"n01"' in site.stoker("nodes", "--json").stdout, "the lost node is not shown")
    site.stays(1)


def cancelled_by_somebody(site):
    """CANCELLED by 1000 of the whole job: held, with the reason, and never submitted again by itself."""
    site.begin()
    site.trains()
    site.end_task("CANCELLED by 1000")
    held = site.wait_state("held", LIMIT)
    check("cancelled" in held["reason"] and "1000" in held["reason"], held["reason"])
    site.stays(1)


def timeout_after_progress(site):
    """The wall cut it short after new iterations: the next job goes on, and nothing is counted."""
    failure(site, "TIMEOUT", restarts=0)


def completed_is_not_finished(site):
    """COMPLETED 0:0 of a job that got on: the next one resumes."""
    failure(site, "COMPLETED", restarts=0)


def an_array_goes_on_by_itself(site):
    """One task of an array fails: SLURM starts the next one, and nothing is submitted."""
    site.begin(tasks=4)
    site.trains()
    with site.changing() as cluster:
        cluster["jobs"][-1]["tasks"]["1"].update(state="OUT_OF_MEMORY", signal=125)
        cluster["jobs"][-1]["tasks"]["2"].update(state="RUNNING", reason="None", nodes="n02", start=cluster["jobs"][-1]["tasks"]["1"]["start"] + 60)
    site.wait(lambda: site.status().get("job", "").endswith("_2"), LIMIT, "the next task")
    site.trains()
    check(site.status()["restarts"] == 1, "counted not once")
    site.stays(1, 3)


if __name__ == "__main__":
    main(out_of_memory, out_of_memory_truncated, deadline, failed_once, preempted, preempted_through_completing, requeued_keeps_its_id,
         requeued_seen_as_pending, boot_fail_without_a_name, node_fail_names_the_node, cancelled_by_somebody, timeout_after_progress, completed_is_not_finished,
         an_array_goes_on_by_itself)
