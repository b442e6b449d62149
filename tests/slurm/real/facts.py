"""Facts about SLURM itself that the product relies on, without it: what would have to change here if a release answers differently."""
import contextlib
import os
import signal
import subprocess
import time

from e2e._harness import check
from slurm.cluster import processes_with
from slurm.real._site import LIMIT, by_commands, main


def submit(site, text, *options):
    """The id of a batch script that runs."""
    path = os.path.join(site.cluster.scratch, f"fact{time.monotonic_ns()}.sh")
    with open(path, "w", encoding="utf-8") as f:
        f.write("#!/bin/bash\n" + text)
    job = site.cluster.run("sbatch", "--parsable", "-o", "/dev/null", *options, path).stdout.strip()
    site.wait(lambda: state(site, job) == "RUNNING", LIMIT, f"job {job} to run")
    return job


def state(site, job):
    out = site.cluster.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T", ok=False).stdout.split()
    return "RUNNING" if "RUNNING" in out else out[0] if out else ""  # of an array: a task runs


def steps(site, job):
    return site.cluster.run("squeue", "-h", "-s", "-j", job, "-o", "%i").stdout.split()


def text_of(path):
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as f:
        return f.read()
    return ""


def two_ranks(site, nodes, step_option="", *job_options):
    """The id of a job whose srun knows that both nodes launched. squeue lists the step, and its ranks run, before that; a node that
    dies in between ends the step on the other one too."""
    out = os.path.join(site.cluster.scratch, f"{nodes}.out")
    text = f"srun -v {step_option} --kill-on-bad-exit=0 sleep 600 2> {out}\nsleep 600\n"
    job = submit(site, text, "-N2", "-w", nodes, "--no-requeue", *job_options)
    site.wait(lambda: text_of(out).count("1 tasks started") == 2, LIMIT, f"srun of {job} to launch on both nodes")
    return job


@by_commands
def probe_needs_overlap(site):
    """A step into a running job waits endlessly for the CPUs that the job's own step has; with --overlap it is there at once."""
    job = submit(site, "srun --exact sleep 600\n", "-N1", "-n1", "-c1")
    site.wait(lambda: f"{job}.0" in steps(site, job), LIMIT, "its step")
    probe = ["srun", f"--jobid={job}", "-N1", "-n1", "--gres=none"]
    waiting = site.cluster.popen([*probe, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    began = time.monotonic()
    site.cluster.run(*probe, "--overlap", "true")
    took = time.monotonic() - began
    check(waiting.poll() is None, "a step without --overlap did not wait")
    print(f"probe with --overlap: {took:.1f}s", flush=True)
    os.killpg(waiting.pid, signal.SIGKILL)
    waiting.wait()
    array = submit(site, "sleep 600\n", "-N1", "--array=1-2%1")
    refused = site.cluster.run("srun", "--overlap", f"--jobid={array}_1", "true", ok=False)
    said = "Unable to confirm allocation" if site.cluster.version() > (22, 5) else "Invalid numeric value"  # 24.11 takes it for the array
    check(refused.returncode != 0 and said in refused.stderr, f"srun takes {array}_1 now: {refused.stderr}")
    raw = site.cluster.run("squeue", "-h", "-j", f"{array}_1", "-o", "%A").stdout.strip()
    site.cluster.run("srun", "--overlap", f"--jobid={raw}", "true")


@by_commands
def no_kill_wants_both(site):
    """A dead node: by default the job ends; with sbatch's --no-kill alone the step dies; with both it is still running with fewer nodes."""
    plain = two_ranks(site, "n01,n08")
    alone = two_ranks(site, "n02,n08", "", "--no-kill")
    both = two_ranks(site, "n03,n08", "--no-kill", "--no-kill")
    site.cluster.kill_node("n08")
    site.wait(lambda: state(site, plain) == "NODE_FAIL", LIMIT, "the job without --no-kill to end")
    site.wait(lambda: f"{alone}.0" not in steps(site, alone), LIMIT, "the step without --no-kill to die")
    check(state(site, alone) == "RUNNING", f"the job with sbatch's --no-kill is {state(site, alone)}")
    check(state(site, both) == "RUNNING" and f"{both}.0" in steps(site, both),
          f"with both the step is still running: {state(site, both)}, {steps(site, both)}")
    nodes = site.cluster.run("squeue", "-h", "-j", both, "-o", "%N").stdout.strip()
    check(nodes == "n03", f"the node list shrinks: {nodes}")


@by_commands
def batch_host_dead(site):
    """A dead batch host: the job stays RUNNING, SLURM keeps the steps, and the batch step's node is none of the job's any more."""
    job = two_ranks(site, "n01,n02", "--no-kill", "--no-kill")
    site.cluster.kill_node("n01")
    site.wait(lambda: site.cluster.run("squeue", "-h", "-j", job, "-o", "%N").stdout.strip() == "n02", LIMIT, "the node list to shrink")
    check(state(site, job) == "RUNNING", f"the job is {state(site, job)}")
    shown = site.cluster.run("scontrol", "-o", "show", "step", job).stdout
    batch = [line for line in shown.splitlines() if line.startswith(f"StepId={job}.batch ")]
    if site.cluster.version() > (22, 5):
        check(not batch, f"24.11 shows the batch step of a dead node: {shown}")
    else:
        check(batch and " NodeList=n01 " in batch[0], f"the batch step: {shown}")
    check(any(processes_with("SLURMD_NODENAME=n02", site.cluster.folder)), "the other node's rank was ended")


@by_commands
def end_time_is_not_told(site):
    """SLURM_JOB_END_TIME is not set inside a job of 20.11 and 22.05, and is in 24.11: the wall is squeue's %e, in all of them."""
    out = os.path.join(site.cluster.scratch, "env.txt")
    job = submit(site, f"env > {out}.new; mv {out}.new {out}; sleep 600\n", "-N1", "-t", "5")
    site.wait(lambda: os.path.exists(out), LIMIT, "the job's environment")
    with open(out, encoding="utf-8") as f:
        told = "SLURM_JOB_END_TIME=" in f.read()
    check(told == (site.cluster.version() > (22, 5)), f"SLURM_JOB_END_TIME is {'set' if told else 'not set'} here")
    wall = site.cluster.run("squeue", "-h", "-j", job, "-o", "%S %e", env={**site.cluster.environment(), "SLURM_TIME_FORMAT": "%s"}).stdout.split()
    check(int(wall[1]) - int(wall[0]) == 300, f"%S and %e: {wall}")


@by_commands
def users_do_not_drain(site):
    """An ordinary user's drain is refused."""
    done = site.cluster.run("scontrol", "update", "NodeName=n05", "State=DRAIN", "Reason=x", ok=False)
    check(done.returncode != 0 and "Invalid user id" in done.stderr, f"a user drained a node: {done.stderr}")


@by_commands
def queue_full_makes_sbatch_wait(site):
    """With MaxJobCount jobs in the queue sbatch is not refused: it says so, and tries again by itself for minutes."""
    submit(site, "sleep 600\n", "-N1", "--array=1-2")
    path = os.path.join(site.cluster.scratch, "late.sh")
    with open(path, "w", encoding="utf-8") as f:
        f.write("#!/bin/bash\nsleep 600\n")
    late = site.cluster.popen(["sbatch", "--parsable", "-o", "/dev/null", "--array=1-2", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = late.stderr.readline()
    check("temporarily unable to accept job" in said or "job queue full" in said, f"sbatch said: {said}")
    time.sleep(3)
    check(late.poll() is None, "sbatch did not wait")
    late.kill()
    late.wait()


queue_full_makes_sbatch_wait.cluster = dict(more="MaxJobCount=3")


@by_commands
def filters_lie(site):
    """SQUEUE_PARTITION and its like: exit 0 and an empty list, with -t all too; a hidden partition needs -a."""
    job = submit(site, "sleep 600\n", "-N1")
    for name, value in (("SQUEUE_PARTITION", "service"), ("SQUEUE_NAMES", "other"), ("SQUEUE_ACCOUNT", "nobody")):
        done = site.cluster.run("squeue", "-h", "-t", "all", "-o", "%i", env={**site.cluster.environment(), name: value}, ok=False)
        check(done.returncode == 0 and not done.stdout.strip(), f"{name}: exit {done.returncode}, {done.stdout}{done.stderr}")
    site.cluster.run("scontrol", "update", "PartitionName=main", "Hidden=YES", root=True)
    check(not site.cluster.run("squeue", "-h", "-o", "%i").stdout.split(), "a hidden partition is shown without -a")
    check(site.cluster.run("squeue", "-a", "-h", "-o", "%i").stdout.split() == [job], "a hidden partition is not shown with -a")


if __name__ == "__main__":
    main(probe_needs_overlap, no_kill_wants_both, batch_host_dead, end_time_is_not_told, users_do_not_drain, queue_full_makes_sbatch_wait, filters_lie)
