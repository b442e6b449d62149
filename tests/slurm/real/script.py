"""An existing batch script, adopted: submitted as it is, without an agent inside."""
import os
import re
import signal
import time

from e2e._harness import check
from slurm.cluster import processes_with
from slurm.real._site import LIMIT, main, on_cluster

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1     # one task a node
#SBATCH --time=01:00:00
#SBATCH --output=logs/%x-%j.out # output file name

set -e
LOGS_PATH={folder}/logs
CMD="{python} {lock} {folder} {python} {loop} {folder}/tree --megatron --until {until}"
srun --kill-on-bad-exit=1 $CMD \\
    --kill-switch-path {folder}/kill-switch 2>&1 | tee -a $LOGS_PATH/main_log.txt
"""
HANG = "hang: {floor: 5s, ceiling: 15s, phases: {startup: 60s, load: 30s, checkpoint: 60s}}\n"


def adopt(site, until=10_000_000, nodes=2, keys=(), no_kill="", loop="", ceiling="15s", more="", tasks=1):
    """Writes the script, adopts it and puts it under supervision; `keys`: of RUN.yaml's train, beside what was found."""
    script = os.path.join(site.folder, "train.slurm")
    os.makedirs(os.path.join(site.folder, "logs"), exist_ok=True)
    os.chown(os.path.join(site.folder, "logs"), site.cluster.uid, site.cluster.gid)
    with open(script, "w", encoding="utf-8") as f:
        text = SCRIPT.format(nodes=nodes, folder=site.folder, python=site.python, lock=site.ours("_lock.py"),
                             loop=site.ours("_loop.py"), until=until)
        if no_kill:
            text = text.replace("srun --kill-on-bad-exit=1", "srun --no-kill --kill-on-bad-exit=0")
        f.write(text.replace("#SBATCH --nodes", no_kill + "#SBATCH --nodes").replace(" --megatron", " --megatron" + loop))
    config = os.path.join(site.folder, "run.yaml")
    site.stoker("adopt", script, "-o", config)
    with open(config, encoding="utf-8") as f:
        text = f.read()
    check(f"{site.folder}/logs/main_log.txt" in text, f"the log of tee was not found:\n{text}")
    if tasks > 1:
        array = re.search(r"array: \{tasks: 1,", text)
        check(array, f"no array of one task in\n{text}")
        text = text.replace(array.group(), f"array: {{tasks: {tasks},")
    text = site.by_rest(text.replace("train:\n", "train:\n" + "".join(f"  {key}\n" for key in keys)))
    with open(config, "w", encoding="utf-8") as f:
        f.write(text + HANG.replace("15s", ceiling) + more + f"directory: {site.directory}\n")
    site.stoker("check", config)
    site.stoker("run", config, "--yes")


def job_taken_over(site):
    """A job that somebody submitted by hand is taken over where it is, and resumed after its crash."""
    script = os.path.join(site.folder, "train.slurm")
    os.makedirs(os.path.join(site.folder, "logs"), exist_ok=True)
    os.chown(os.path.join(site.folder, "logs"), site.cluster.uid, site.cluster.gid)
    with open(script, "w", encoding="utf-8") as f:
        f.write(SCRIPT.format(nodes=1, folder=site.folder, python=site.python, lock=site.ours("_lock.py"),
                              loop=site.ours("_loop.py"), until=10_000_000))
    job = site.cluster.run("sbatch", "--parsable", f"--chdir={site.folder}", script).stdout.strip()
    site.wait(site.running_jobs, LIMIT, "the job that was submitted by hand")
    config = os.path.join(site.folder, "run.yaml")
    site.stoker("adopt", "--job", job, "-o", config)
    with open(config, encoding="utf-8") as f:
        text = site.by_rest(f.read())
    with open(config, "w", encoding="utf-8") as f:
        f.write(text + HANG + f"directory: {site.directory}\n")
    site.start_daemon()
    site.stoker("run", config, "--yes")
    before = site.wait_training(beyond=20)
    check(before["job"].split("_")[0] == job, f"it trains as {before['job']}, not as {job}")
    site.wait(lambda: site.submissions() == [job], LIMIT, "the submission behind it to go")
    for pid in loops(site, "n01"):
        os.kill(pid, signal.SIGKILL)
    site.wait_training(generation=before["generation"] + 1, beyond=before["iteration"])


def loops(site, node):
    """Pids of the training on a node."""
    return [pid for pid in processes_with(f"SLURMD_NODENAME={node}", site.cluster.folder)
            if b"_loop.py" in open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")[1]]


def script_crashes_and_finishes(site):
    """A rank is killed, and `| tee` makes COMPLETED 0:0 of it: the next job resumes; the daemon is killed; N of N finishes."""
    site.start_daemon()
    adopt(site, until=500)
    before = site.wait_training(beyond=20)
    check(before["total"] == 500, f"the logs say 500 iterations, status says {before['total']}")
    for pid in site.wait(lambda: loops(site, "n01"), LIMIT, "the rank's pid"):
        os.kill(pid, signal.SIGKILL)
    after = site.wait_training(generation=before["generation"] + 1, beyond=before["iteration"])
    check(after["job"] != before["job"], "the same job cannot go on")
    site.kill_daemon(signal.SIGKILL)
    time.sleep(3)
    site.start_daemon()
    again = site.wait_training(beyond=after["iteration"])
    check(again["generation"] == after["generation"], "the restarted daemon took the running job for another one")
    site.wait_state("finished", LIMIT)
    check(not site.submissions(), f"finished, and submitted again: {site.submissions()}")


def slow_daemon(site, beyond, pace):
    """Another daemon, which has seen that the run trains; by itself it asks SLURM again after four times its pace."""
    site.kill_daemon(signal.SIGTERM)
    site.start_daemon(pace=pace)
    return site.wait_training(beyond=beyond)


def end_of(site, job):
    """When SLURM saw the job end."""
    shown = site.cluster.run("scontrol", "show", "job", "-o", job).stdout
    words = dict(word.split("=", 1) for word in shown.split() if "=" in word)
    return time.mktime(time.strptime(words["EndTime"], "%Y-%m-%dT%H:%M:%S"))


def script_ends_by_its_logs(site):
    """An error, then the last iteration in the logs: SLURM is asked for the job's end at once, not at the next look two minutes later."""
    site.start_daemon()
    adopt(site, until=700, nodes=1)
    before = slow_daemon(site, 20, "30")
    job = site.job_id()
    for pid in site.wait(lambda: loops(site, "n01"), LIMIT, "the rank's pid"):
        os.kill(pid, signal.SIGKILL)
    site.wait(lambda: [j for j in site.submissions() if j != job], 60, "the next submission")
    print(f"end of a crashed job -> the next submission: {time.time() - end_of(site, job):.0f}s", flush=True)
    slow_daemon(site, before["iteration"], "1")
    site.wait_training(generation=before["generation"] + 1, beyond=before["iteration"])
    slow_daemon(site, 400, "30")
    job = site.job_id()
    site.wait_state("finished", 60)
    print(f"end of the last job -> finished: {time.time() - end_of(site, job):.0f}s", flush=True)


def script_array_ends(site):
    """An array of a script: in its last iterations the tasks behind it are cancelled, so that none starts for nothing."""
    site.start_daemon()
    adopt(site, until=300, nodes=1, tasks=3)
    site.wait_training(beyond=20)
    check(site.waiting_jobs(), "no task waits behind the first")
    site.wait_state("finished", LIMIT)
    check(not site.submissions(), f"finished, and still in the queue: {site.submissions()}")
    shown = site.status()
    check(shown["iteration"] == 300 and shown["generation"] == 1, f"status after the end: {shown['iteration']} of generation {shown['generation']}")
    site.wait_event("would start for nothing")


def script_hangs(site):
    """All ranks stand still: found by the logs' silence, cancelled, and the next job goes on."""
    site.start_daemon()
    adopt(site)
    before = site.wait_training(beyond=20)
    for node in ("n01", "n02"):
        for pid in loops(site, node):
            os.kill(pid, signal.SIGSTOP)
    site.wait_event("made no progress for")
    site.wait_event("stacks in stacks/")
    folders = os.listdir(os.path.join(site.directory, "stacks"))
    names = sorted(os.listdir(os.path.join(site.directory, "stacks", folders[0])))
    check({"n01.0.txt", "n02.1.txt", "n01.probe", "n02.probe"} <= set(names), f"stacks of both ranks: {names}")
    text = open(os.path.join(site.directory, "stacks", folders[0], "n02.1.txt"), encoding="utf-8", errors="replace").read()
    check("_loop.py" in text and "state T" in text, f"the stopped rank in its stacks: {text[:500]}")
    after = site.wait_training(generation=before["generation"] + 1, beyond=before["iteration"])
    check(after["job"] != before["job"], "the same job cannot go on")
    check(len(site.running_jobs()) == 1, f"one job runs: {site.running_jobs()}")


@on_cluster(slurmd_timeout=40)  # of a slow machine's slurmctld, which else gives up all nodes when one does not answer
def script_in_limbo(site):
    """Its batch host dies and its last rank too; --no-kill keeps the job: a probe of what is left proves limbo, or, where SLURM goes on
    showing the ranks' step (24.11), counts no process in it; the next job goes on."""
    site.start_daemon()
    adopt(site, no_kill="#SBATCH --no-kill\n", ceiling="120s")  # longer than SLURM needs to give the node up
    before = site.wait_training(beyond=20)
    site.cluster.kill_node("n01")
    for pid in loops(site, "n02"):
        os.kill(pid, signal.SIGKILL)
    site.wait_event(": limbo" if site.cluster.version() < (23, 2) else "has 0 processes on 1 node", 300)
    after = site.wait_training(generation=before["generation"] + 1, beyond=before["iteration"], seconds=240)
    check(after["job"] != before["job"], "the same job cannot go on")


def stacks_of_a_script(site):
    """`stoker stacks` goes into the running job by srun --overlap, groups the ranks, and disturbs nothing."""
    site.start_daemon()
    adopt(site)
    before = site.wait_training(beyond=20)
    shown = site.stoker("stacks", site.run, "--wait", "60s").stdout
    check("0 (n01)" in shown and "1 (n02)" in shown, f"both ranks: {shown}")
    after = site.wait_training(beyond=before["iteration"] + 20)
    check(after["job"] == before["job"] and after["restarts"] == before["restarts"], "the probe disturbed the run")


def script_rolled_back(site):
    """Megatron's file is set back while no job runs; the next job resumes from that checkpoint."""
    site.start_daemon()
    adopt(site, loop=" --checkpoints", more="checkpoints: {directory: " + site.folder + "/tree, format: megatron}\n")
    before = site.wait_training(beyond=60)
    refused = site.stoker("rollback", site.run, "--to", "20", "--lr-scale", "0.5", "--reason", "x", ok=False)
    check(refused.returncode != 0 and "script" in refused.stderr, f"lr-scale: {refused.stderr}")
    tree = os.path.join(site.folder, "tree")
    iterations = sorted(int(n[5:]) for n in os.listdir(tree) if n.startswith("iter_") and os.path.isdir(os.path.join(tree, n)))
    check(iterations, f"no checkpoints in {os.listdir(tree)}")
    site.stoker("rollback", site.run, "--to", str(iterations[0]), "--reason", "loss spike")
    site.wait_event(f"the rollback to {iterations[0]} is set")
    kept = [n for n in os.listdir(tree) if n.startswith("latest_checkpointed_iteration.txt.before-")]
    check(len(kept) == 1, f"the file's old word: {os.listdir(tree)}")
    after = site.wait_training(generation=before["generation"] + 1)
    check(after["job"] != before["job"], "the same job went on")
    log = open(os.path.join(site.folder, "logs", "main_log.txt"), encoding="utf-8").read()
    counts = [int(line.split()[1].split("/")[0]) for line in log.splitlines() if line.startswith(" iteration")]
    back = [b for a, b in zip(counts, counts[1:]) if b < a - 5]
    check(back and back[-1] <= iterations[0] + 2, f"it resumed at {back}, not after {iterations[0]}")


def script_obeys_people(site):
    """save by its own switch file: it saves and leaves, the next job goes on; stop sets it too; resume moves it aside first."""
    site.start_daemon()
    adopt(site)
    before = site.wait_training(beyond=20)
    site.stoker("save", site.run)
    saved = site.wait_training(generation=before["generation"] + 1, beyond=before["iteration"])
    check(saved["restarts"] == before["restarts"], "a save was counted as a failure")
    before = saved
    site.stoker("stop", site.run, "--reason", "maintenance")
    site.wait_state("stopped", LIMIT)
    check(os.path.exists(os.path.join(site.folder, "kill-switch")), "the switch file was not set")
    site.stoker("resume", site.run, "--reason", "goes on")
    site.wait(lambda: site.status()["state"] != "stopped", LIMIT, "the resumption to be published")
    site.wait_training(beyond=before["iteration"], generation=before["generation"] + 1)
    site.cluster.run("scancel", site.job_id())
    held = site.wait_state("held", LIMIT)
    check("cancelled" in held["reason"], f"held for another reason: {held['reason']}")
    check(not site.submissions(), f"submitted again: {site.submissions()}")


def script_loses_a_node(site):
    """A node dies: its processes may write on, so nothing is submitted until logs and checkpoints have not changed for ten minutes."""
    site.start_daemon()
    adopt(site)
    site.wait_training(beyond=20)
    site.cluster.kill_node("n02")
    site.wait_event("until logs and checkpoints have not changed", 200)
    time.sleep(20)
    check(not site.submissions(), f"submitted although the lost node may write on: {site.submissions()}")
    nodes = site.stoker("nodes", "--json").stdout
    check('"n02"' in nodes, f"the lost node is not shown: {nodes}")


if __name__ == "__main__":
    main(script_crashes_and_finishes, script_ends_by_its_logs, script_array_ends, script_hangs, script_in_limbo, stacks_of_a_script, script_rolled_back, script_obeys_people, script_loses_a_node, job_taken_over)
