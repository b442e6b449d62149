"""kill -9 of the embedded scheduler and of its job process while a training runs: jobs live on or are replaced, nothing is lost."""
import os
import signal

from e2e._harness import check, main

SHAPE = dict(samples=60000, hidden=64, ffn=256, sequence=64, save_every=20)


def start(site, **more):
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, **dict(SHAPE, **more)), "--yes")
    site.wait_iteration(10)


def jobs(site):
    return site.admin("list", "--json").stdout


def the_scheduler(site):
    start(site)
    pids, job = site.page_pids(), site.status()["job"]
    for _ in range(3):
        for pid in site.wait(lambda: site.programs("stokerd", "local-scheduler"), 20, "the scheduler's process"):
            os.kill(pid, signal.SIGKILL)
        done = max(site.losses())
        site.wait(lambda n=done: max(site.losses()) >= n + 10, 60, "ten iterations after the scheduler's end")
        check(site.page_pids() == pids, "ranks died with the scheduler")
    now = site.status()["iteration"]
    site.wait_iteration(now + 20)
    check(job in jobs(site) or job.split("_")[0] in jobs(site), "the new scheduler does not know the job")
    check(site.status()["job"] == job and site.status()["restarts"] == 0, f"the run was touched: {site.status()}")
    site.stoker("stop", site.run, "--reason", "enough")
    done = site.wait_state("stopped", 60)
    check(done["checkpoint"]["iteration"] > now, "the stop did not save")
    site.wait(lambda: '"RUNNING"' not in jobs(site) and '"PENDING"' not in jobs(site), 30, "an empty queue")
    site.audit()


def the_scheduler_with_its_daemon(site):
    start(site)
    pids = site.page_pids()
    site.kill_daemon()
    for pid in site.programs("stokerd", "local-scheduler"):
        os.kill(pid, signal.SIGKILL)
    done = max(site.losses())
    site.wait(lambda: max(site.losses()) >= done + 10, 60, "ten iterations without daemon and scheduler")
    check(site.page_pids() == pids, "ranks died with daemon and scheduler")
    site.start_daemon()
    now = site.status()["iteration"]
    site.wait_iteration(now + 20)
    check(site.page_pids() == pids and site.status()["restarts"] == 0, "a healthy training was restarted")
    site.audit()


def the_job_process(site):
    """local-node holds all processes of the job on its node: they end with it, the next task continues from the checkpoint."""
    start(site)
    site.wait(lambda: site.status().get("checkpoint"), 30, "a checkpoint")
    job = site.status()["job"]
    before = set(site.page_pids().values())
    for pid in site.programs("stokerd", "local-node"):
        os.kill(pid, signal.SIGKILL)
    site.wait(lambda: not before & set(site.page_pids().values()), 10, "the end of all ranks")
    site.wait(lambda: site.status()["state"] == "training" and site.status()["job"] != job, 60, "the next task")
    resumed = site.status()["iteration"]
    site.wait_iteration(resumed + 20)
    check(site.status()["restarts"] >= 1, "no restart was counted")
    site.audit()


def two_schedulers_side_by_side(site):
    """Two states on one host: both have an n01; ports and processes do not meet."""
    from e2e._harness import Site
    start(site)
    other = Site("other")
    try:
        start(other)
        check(not set(site.page_pids().values()) & set(other.page_pids().values()), "ranks are shared")
        for pid in other.programs("stokerd", "local-scheduler") + other.programs("stokerd", "local-node"):
            os.kill(pid, signal.SIGKILL)
        now = site.status()["iteration"]
        site.wait_iteration(now + 30)
        check(site.status()["restarts"] == 0, "the neighbour's end was felt")
    finally:
        other.close()


main(the_scheduler, the_scheduler_with_its_daemon, the_job_process, two_schedulers_side_by_side)
