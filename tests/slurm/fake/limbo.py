"""Limbo: a job that runs on for SLURM and has no process any more, and what only looks like it."""
import contextlib
import json
import os
import signal

from e2e._harness import check
from slurm.fake._site import LIMIT, main


def told(site, text):
    return next((e for e in site.events() if text in json.dumps(e, ensure_ascii=False)), None)


def nothing_left_of_it(site):
    """Silence, no step, no process on its node: limbo is proven, the job cancelled, the next one submitted."""
    site.begin(ceiling="8s")
    site.trains()
    with site.changing() as cluster:
        cluster.update(steps=[], inside={"n01": 0})
    site.wait(lambda: told(site, "SLURM lists no more steps of it: limbo"), LIMIT, "limbo to be proven")
    site.wait_jobs(2)
    probe = site.calls("srun")[0][2]
    check("--overlap" in probe and "--gres=none" in probe and any(w.startswith("--jobid=") for w in probe), f"the probe: {probe}")


def batch_host_left(site):
    """The node of the batch script is none of the job's any more, and the others have no process of it."""
    site.begin(ceiling="8s")
    site.trains()
    with site.changing() as cluster:
        cluster.update(batch_node="n07", inside={"n01": 0})
    site.wait(lambda: told(site, "has taken the node of its batch script out of the job: limbo"), LIMIT, "limbo to be proven")
    site.wait_jobs(2)


def processes_that_hang(site):
    """Processes are there: no limbo but a hang, and their stacks are reported."""
    site.begin(ceiling="8s")
    site.trains()
    hang = site.wait(lambda: told(site, "2 processes on 1 node"), LIMIT, "the hang with its stacks")
    check("stacks in stacks/" in json.dumps(hang), f"where the stacks are: {hang}")
    check(not told(site, ": limbo"), "processes that are there were called limbo")
    site.wait_jobs(2)


def probe_that_fails(site):
    """srun fails and squeue -s does: nothing is proven, twice; then the silence alone counts."""
    site.begin(ceiling="8s")
    site.trains()
    site.bend("srun", code=1, err="srun: error: Unable to create step: Requested nodes are busy\n")
    with site.changing() as cluster:
        cluster["steps"] = []
    site.wait(lambda: told(site, "returned nothing"), LIMIT, "the first probe to return nothing")
    check(len(site.jobs()) == 1, "an empty probe ended the job")
    site.wait(lambda: told(site, "only its silence counts"), LIMIT * 2, "the silence to count")
    check(not told(site, ": limbo"), "limbo was called without proof")
    site.wait_jobs(2)


def stacks_on_demand(site):
    """`stoker stacks` of a script goes through its job; nothing else happens."""
    site.begin()
    site.trains()
    site.stoker("stacks", site.run, "--wait", "1s", ok=False)  # the played node writes no stacks
    site.wait(lambda: site.calls("srun"), LIMIT, "the probe")
    site.wait(lambda: told(site, "the probe of job"), LIMIT, "its answer")
    check(os.path.isdir(os.path.join(site.directory, "stacks")), "no folder for the stacks")
    site.trains()
    site.stays(1, 1)


def switch_that_stays(site):
    """stoker's own kill switch cannot be moved aside: nothing is submitted, one alert, held with the reason."""
    switch = os.path.join(site.folder, "k" * 250)  # with what is put behind its name it is longer than names may be: that stops root too
    site.begin(train=f", kill_switch: {switch}")
    site.trains()
    with open(switch, "w", encoding="utf-8") as file:
        file.write("stoker\n")  # its own mark; a person's file would stay, and stop the run
    site.end_task("COMPLETED")
    held = site.wait(lambda: site.status().get("state") == "held" and site.status(), LIMIT, "the run to be held")
    check(switch in held["reason"], f"held for another reason: {held['reason']}")
    site.stays(1)
    open_alerts = [a for a in json.loads(site.stoker("alerts", "--json").stdout) if "switch" in json.dumps(a)]
    check(len(open_alerts) == 1, f"one alert: {open_alerts}")
    os.unlink(switch)
    site.stoker("resume", site.run, "--reason", "the switch is gone")
    site.wait_jobs(2)


def agents_fall_silent(site):
    """Agents that are gone without a word: silence alone cancels nothing while SLURM shows their step; when it shows none, it is limbo."""
    site.begin_agents()
    played = site.play_batch()
    try:
        site.wait(lambda: site.status().get("state") == "training", LIMIT, "the played job to train")
    finally:
        kill_all_of(site, played)
    site.wait(lambda: told(site, "SLURM still has"), 3 * LIMIT, "SLURM's steps to be asked for")
    check(not site.calls("scancel"), f"cancelled while SLURM shows the step: {site.calls('scancel')}")
    with site.changing() as cluster:
        cluster["steps"] = []
    site.wait(lambda: told(site, "SLURM lists no more steps of it: limbo"), 3 * LIMIT, "limbo to be proven")
    site.wait(lambda: site.calls("scancel"), LIMIT, "the job to be cancelled")
    check(site.calls("scancel")[0][2] == [f"{site.jobs()[0]['id']}_1"], f"what was cancelled: {site.calls('scancel')}")


def kill_all_of(site, played):
    """kill -9 of everything that the played job started: each process with its number in the environment. All are stopped first: a process that saw another one's end would write it down."""
    mark = f"SLURM_ARRAY_JOB_ID={site.jobs()[-1]['id']}".encode()
    here = f"STOKER_RUN_DIR={site.directory}".encode()
    for signal_sent in (signal.SIGSTOP, signal.SIGSTOP, signal.SIGKILL, signal.SIGKILL):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/environ", "rb") as f:
                    lines = f.read().split(b"\0")
                if mark in lines and here in lines:
                    os.kill(int(pid), signal_sent)
    with contextlib.suppress(OSError):
        os.killpg(played.pid, signal.SIGKILL)
    played.wait()


if __name__ == "__main__":
    main(agents_fall_silent, nothing_left_of_it, batch_host_left, processes_that_hang, probe_that_fails, stacks_on_demand, switch_that_stays)
