"""slurmctld away, killed, blind commands, munge: unknown is not dead."""
import contextlib
import os
import signal
import time

from e2e._harness import check
from slurm.cluster import processes_with
from slurm.real._site import LIMIT, by_commands, main, with_either

AWAY_S = 120  # two minutes, eight times SlurmdTimeout


@with_either("loop")
def stopped(site):
    """slurmctld is stopped and started again: the training never notices, and the daemon says that it is blind."""
    site.start_daemon()
    site.run_training()
    before = site.wait_training(beyond=20)
    site.cluster.stop("slurmctld", signal.SIGTERM)
    back = time.monotonic() + AWAY_S
    site.wait_event("scheduler_blind")
    time.sleep(max(0, back - time.monotonic()))
    check(site.status()["state"] == "training", f"blind, the run became {site.status()['state']}")
    site.cluster.start_controller()
    site.wait_training(beyond=before["iteration"] + 30)
    site.wait_event("scheduler_sees")
    check(site.status()["job"] == before["job"] and site.status()["restarts"] == before["restarts"],
          "an absence of slurmctld cost a restart")


@with_either("core")
def stopped_while_a_job_ends(site):
    """The job ends while slurmctld is away: nothing is submitted until it answers again, then exactly once."""
    site.start_daemon()
    site.run_training(tasks=2, top_up_below=0)
    before = site.wait_training(beyond=20)
    site.cluster.stop("slurmctld", signal.SIGTERM)
    step = processes_with("SLURMD_NODENAME=n01", site.cluster.folder)
    check(step, "no process of the job is found")
    for pid in step:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    time.sleep(AWAY_S)
    site.cluster.start_controller()
    site.wait_training(generation=before["generation"] + 1, seconds=240)
    check(len(site.submissions()) == 1, f"submissions: {site.submissions()}")


@with_either("core")
def killed(site):
    """kill -9 of slurmctld: it comes back with the same jobs."""
    site.start_daemon()
    site.run_training()
    before = site.wait_training(beyond=20)
    time.sleep(6)  # what it knows is on disk
    site.cluster.stop("slurmctld")
    site.cluster.start_controller()
    site.wait_training(beyond=before["iteration"] + 30)
    check(len(site.submissions()) <= 1, f"more than one submission: {site.submissions()}")


@by_commands
@with_either("core")
def killed_after_sbatch(site):
    """kill -9 of slurmctld right after sbatch's answer: the job is lost, its id given to a stranger; the run goes on once."""
    os.chmod(site.folder, 0o777)
    # The shim is the ordinary user's and cannot kill root's slurmctld: the test does it as soon as the shim has got its answer.
    site.shim("sbatch", f"""
out=$("$REAL" "$@") || exit $?
if mkdir {site.folder}/answered 2>/dev/null; then while [ ! -e {site.folder}/killed ]; do sleep 0.02; done; fi
echo "$out" """)
    site.shim("scancel", f'echo "$*" >>{site.folder}/cancelled; exec "$REAL" "$@"')
    site.start_daemon()
    site.run_training()
    site.wait(lambda: os.path.isdir(os.path.join(site.folder, "answered")), LIMIT, "sbatch's answer")
    site.cluster.stop("slurmctld")
    open(os.path.join(site.folder, "killed"), "w").close()
    site.cluster.start_controller()
    stranger = site.cluster.run("sbatch", "--parsable", "-J", "stranger", "--wrap", "sleep 600").stdout.strip()
    site.wait_training(beyond=5, seconds=240)
    # SLURM itself may take the end of a task that it forgot for the stranger's, who has its number now.
    with open(os.path.join(site.folder, "cancelled"), "a+", encoding="utf-8") as f:
        f.seek(0)
        asked = f.read()
    check(stranger not in asked, f"the stranger's job {stranger} was touched: scancel {asked}")
    check(len(site.submissions()) == 1, f"submissions: {site.submissions()}")


@by_commands
@with_either("loop", slurmd_timeout=3600)  # else slurmctld, as blind as we are, calls the nodes dead and ends the job
def munge_stopped(site):
    """Without munge no client can ask: blind, not dead."""
    site.start_daemon()
    site.run_training()
    before = site.wait_training(beyond=20)
    site.cluster.stop("munged")
    site.wait_event("scheduler_blind", seconds=400)  # each squeue tries for 49 s before it gives up
    check(site.status()["state"] == "training", "blind, the run was given up")
    site.cluster.start_munge()
    site.wait_event("scheduler_sees", seconds=400)
    site.wait_training(beyond=before["iteration"] + 20)
    check(site.status()["job"] == before["job"], "the run left its job")


@by_commands
@with_either("loop")
def squeue_slow_failing_empty_garbage(site):
    """squeue answers late, fails, says nothing or rubbish: the run is left alone, and seen again afterwards."""
    site.start_daemon()
    site.run_training()
    before = site.wait_training(beyond=10)
    for name, text in (("failing", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1"),
                       ("garbage", "echo 'Bienvenue sur la machine'; exit 0"),
                       ("empty", "exit 0"),
                       ("torn", '"$REAL" "$@" | head -c 40'),
                       ("slow", 'sleep 30; exec "$REAL" "$@"')):
        now = site.status()["iteration"]
        site.shim("squeue", text)
        if name in ("failing", "garbage", "torn"):
            site.wait(lambda: "scheduler_blind" in site.status().get("conditions", []), LIMIT, f"blind ({name})")
        site.wait_training(beyond=now + 30)
        site.unshim("squeue")
        site.wait(lambda: "scheduler_blind" not in site.status().get("conditions", []), LIMIT, f"seeing after {name}")
    after = site.status()
    check(after["job"] == before["job"] and after["restarts"] == before["restarts"], "a bad squeue cost a restart")
    check(len(site.submissions()) == 1, f"submissions: {site.submissions()}")


@by_commands
@with_either("core")
def sbatch_failing_empty_slow(site):
    """sbatch is refused; then it is slow, submits, and answers nothing: one submission in the end."""
    site.shim("sbatch", f"""
n=$(ls {site.folder}/tries 2>/dev/null | wc -l); mkdir -p {site.folder}/tries/$n
case $n in
  0) echo 'sbatch: error: Batch job submission failed: Requested node configuration is not available' >&2; exit 1;;
  1) sleep 30; "$REAL" "$@" >/dev/null; exit 0;;
  *) exec "$REAL" "$@";;
esac""")
    os.chmod(site.folder, 0o777)
    site.start_daemon()
    site.run_training()
    site.wait_training(beyond=10, seconds=240)
    check(len(site.submissions()) == 1, f"submissions: {site.submissions()}")
    tries = len(os.listdir(os.path.join(site.folder, "tries")))
    check(tries == 2, f"sbatch was called {tries} times for one submission")


if __name__ == "__main__":
    main(stopped, stopped_while_a_job_ends, killed, killed_after_sbatch, munge_stopped, squeue_slow_failing_empty_garbage,
         sbatch_failing_empty_slow)
