"""Arrays of which the waiting tasks are cancelled: squeue then shows a row without a task number, which is none of the run's tasks."""
import time

from e2e._harness import check
from slurm.real._site import LIMIT, main, with_either


def remainder(site):
    """squeue's rows of waiting tasks that were cancelled: one without a task number, or, where slurmrestd of 24.11 cancelled them, one
    for each."""
    return [j for j in site.cluster.jobs() if j[4] == site.run and j[2] == "CANCELLED"]


def submitted(site):
    """How many submissions SLURM accepted."""
    return sum("submitted as job" in e.get("reason", "") for e in site.events())


def goes_on(site, before, iterations=60):
    """The same job trains on, and at no look in between it was called anything else."""
    def further():
        now = site.status()
        check(now["state"] == "training" and now["job"] == before["job"], f"{now['state']}, job \"{now['job']}\": {now.get('reason')}")
        return now["iteration"] > before["iteration"] + iterations and now
    return site.wait(further, LIMIT, f"{iterations} further iterations of {before['job']}")


@with_either("loop")
def paused(site):
    """`pause` cancels the waiting tasks; the running one is watched to its end, and `resume` submits one array behind it."""
    site.start_daemon()
    site.run_training(tasks=4)
    before = site.wait_training(beyond=20)
    site.stoker("pause", site.run, "--reason", "upgrade")
    site.wait(lambda: remainder(site), LIMIT, "the rows of the cancelled tasks")
    after = goes_on(site, before)
    site.stoker("resume", site.run, "--reason", "done")
    site.wait(lambda: site.waiting_jobs(), LIMIT, "the next array")
    goes_on(site, after)
    check(submitted(site) == 2, f"submissions: {submitted(site)}")


@with_either("core")
def waiting_tasks_cancelled(site):
    """Somebody cancels the waiting tasks, all at once and one by one: a warning, the next array, and the running task is not touched."""
    site.start_daemon()
    site.run_training(tasks=4)
    before = site.wait_training(beyond=20)
    site.cluster.run("scancel", "--state=PENDING", site.job_id())
    site.wait_event("not by stoker")
    goes_on(site, before)
    site.wait(lambda: len(site.submissions()) == 2, LIMIT, "the next array")
    following = max(site.submissions())
    for task in (2, 1, 4, 3):
        site.cluster.run("scancel", f"{following}_{task}")
    site.wait(lambda: len(site.submissions()) == 1, LIMIT, "nothing to wait")
    goes_on(site, site.status())


@with_either("loop")
def one_waiting_task_cancelled(site):
    """A waiting task that is cancelled alone leaves no row: when the others are over, the array is known to be over at once."""
    site.start_daemon()
    site.run_training(tasks=3, top_up_below=0)
    before = site.wait_training(beyond=20)
    array = site.job_id()
    site.cluster.run("scancel", f"{array}_3")
    for task in (1, 2):
        site.wait(lambda task=task: site.status().get("job") == f"{array}_{task}", LIMIT, f"task {task}")
        before = site.wait_training(beyond=before["iteration"])
        site.cluster.run("scancel", f"{array}_{task}")
    began = time.monotonic()
    site.wait(lambda: site.status()["state"] == "held" or [s for s in site.submissions() if s != array], LIMIT, "the end of the array to be taken up")
    print(f"the end of the array was known after {time.monotonic() - began:.0f}s", flush=True)


@with_either("loop")
def stopped_gracefully(site):
    """`stop`: the task saves and leaves with COMPLETED, and no cancelled one is mentioned."""
    site.start_daemon()
    site.run_training(tasks=4)
    site.wait_training(beyond=20)
    site.stoker("stop", site.run, "--reason", "enough")
    site.wait_state("stopped", LIMIT)
    site.wait(lambda: not site.submissions(), LIMIT, "the queue to be empty")
    said = [e["reason"] for e in site.events() if "(CANCELLED)" in e.get("reason", "") or "was cancelled" in e.get("reason", "")]
    check(not said, f"a cancelled task was mentioned: {said}")


def plan_by_samples(site):
    """`nodes` by samples: the waiting tasks are replaced once, when the plan moves on, and not at the next start again."""
    site.start_daemon()
    site.training = "core"
    site.run_training(tasks=4, nodes="[{until_samples: 4000, nodes: 1}, {nodes: 2}]")
    site.wait_event("the plan needs 2 nodes")
    moved = site.wait_training()
    site.wait(lambda: submitted(site) >= 2, LIMIT, "the plan's submission")
    # From a checkpoint before the change of the plan, the restart would rightly undo the change.
    before = site.wait_training(beyond=moved["iteration"] + 60)
    check(submitted(site) == 2, f"submissions when the plan had moved on: {submitted(site)}")
    site.stoker("restart", site.run, "--reason", "a new attempt")
    def start(status):
        return status.get("generation", 0), status.get("attempt", 0)
    site.wait(lambda: start(site.status()) > start(before), LIMIT, "a new start")
    site.wait_training(beyond=before["iteration"] + 60)
    check(submitted(site) == 2, f"submissions after the start: {submitted(site)}")


if __name__ == "__main__":
    main(paused, waiting_tasks_cancelled, one_waiting_task_cancelled, stopped_gracefully, plan_by_samples)
