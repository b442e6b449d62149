"""Facts that were measured on Debian's SLURM and that break wrappers: each once, on a real cluster."""
import getpass
import os

from e2e._harness import check
from slurm.cluster import is_alive
from slurm.real._site import LIMIT, by_commands, main

# What an operator's shell, or the job that a daemon runs in, may leave behind.
LITTER = {"SQUEUE_PARTITION": "service", "SQUEUE_NAMES": "other", "SQUEUE_ACCOUNT": "nobody", "SQUEUE_STATES": "PENDING", "SQUEUE_FORMAT": "%i",
          "SLURM_MEM_PER_NODE": "100", "SLURM_MEM_PER_CPU": "100", "SBATCH_PARTITION": "nowhere", "SBATCH_EXPORT": "NONE", "SINFO_FORMAT": "%N",
          "SLURM_CLUSTERS": "elsewhere", "SLURM_JOB_ID": "1", "SLURM_TIME_FORMAT": "relative", "LC_ALL": "de_DE.UTF-8"}


@by_commands
def environment_of_the_daemon(site):
    """SQUEUE_PARTITION alone makes squeue print nothing with exit 0; SLURM_MEM_* of a surrounding job breaks srun: all of it is dropped."""
    site.start_daemon(env=LITTER)
    site.run_loop()
    before = site.wait_training(beyond=20)
    check("scheduler_blind" not in before["conditions"], "blind")
    done = site.cluster.run("scontrol", "requeue", before["job"], ok=False)
    check("presently disabled" in done.stderr, f"scontrol requeue of a --no-requeue job: {done.stderr}")
    after = site.wait_training(beyond=before["iteration"] + 20)
    check(after["job"] == before["job"], "the refused requeue cost the job")
    check(len(site.submissions()) == 1, f"submissions: {site.submissions()}")


@by_commands
def comment_rewritten(site):
    """The site rewrites each job's comment: the job is known by its script's path, also by a daemon with a new state."""
    site.shim("sbatch", 'out=$("$REAL" "$@") || exit $?; scontrol update JobId="$out" Comment="charged to six@a100"; echo "$out"')
    site.start_daemon()
    site.run_loop()
    before = site.wait_training(beyond=10)
    check("charged" in site.cluster.run("squeue", "-h", "-r", "-o", "%k").stdout, "the comment was not rewritten")
    site.kill_daemon()
    site.start_daemon()
    after = site.wait_training(beyond=before["iteration"] + 20)
    check(after["job"] == before["job"], "its own job was not known again")
    site.cluster.run("scancel", before["job"])
    site.wait_training(generation=before["generation"] + 1)
    check(len(site.submissions()) <= 2, f"submissions: {site.submissions()}")


def limit_moved(site):
    """An administrator shortens the limit of a running job: the new wall is read from squeue, and the training leaves before it."""
    site.start_daemon()
    site.run_loop(tasks=3)
    before = site.wait_training(beyond=20)
    site.cluster.run("scontrol", "update", "JobId=" + before["job"], "TimeLimit=1", root=True)
    after = site.wait_training(generation=before["generation"] + 1, seconds=200)
    check(after["restarts"] == 0, "a planned end was counted as a failure")
    check(after["job"].split("_")[1] == "2", f"not the next task: {after['job']}")


@by_commands
def export_none(site):
    """A job that was submitted with --export=NONE still finds its programs: srun always gets --export=ALL."""
    site.start_daemon()
    site.run_loop(scheduler=", extra: [--export=NONE]")
    site.wait_training(beyond=20)


def odd_names_in_the_queue(site):
    """Jobs with separators, quotes, substitutions and newlines in their names and comments stand beside ours."""
    script = os.path.join(site.cluster.scratch, "odd.sh")
    with open(script, "w", encoding="utf-8") as f:
        f.write("#!/bin/bash\nsleep 600\n")
    forged = "\x1f".join(["1", "1", "1", "NODE_FAIL", "None", "1", "2", "1", "n01", str(os.getuid()), getpass.getuser(), "/x.sh", site.run, "x"])
    for name, comment in (("a|b", "c|d"), ("forged", f"one\n{forged}\n"), ("torn", "one\nx\x1fy"), ("$(touch /tmp/stoker-was-here)", "`id`; rm -rf x"), ("it's \"so\"", "two\nlines"), ("run ", "run-1-00000000"),
                          ("x\ty", "\\x1f")):
        site.cluster.run("sbatch", "-J", name, f"--comment={comment}", script)
    site.start_daemon()
    site.run_loop()
    before = site.wait_training(beyond=20)
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    site.wait_state("stopped", LIMIT)
    others = [j for j in site.cluster.jobs() if j[4] != site.run and j[2] in ("RUNNING", "PENDING")]
    check(len(others) == 7, f"a stranger's job was touched: {others}")
    check(not os.path.exists("/tmp/stoker-was-here"), "a job's name was executed")
    check("scheduler_blind" not in before["conditions"], "blind")


@by_commands
def jobs_of_a_stranger(site):
    """Another user's jobs (root's, no member of the run's group): a newline in a name, separators in arguments, and arguments so long that
    scontrol's and squeue's answers are longer than what is read. The run is submitted, and the daemon is never blind."""
    script = os.path.join(site.cluster.folder, "of_root.sh")
    with open(script, "w", encoding="utf-8") as f:
        f.write("#!/bin/bash\nsleep 600\n")
    hold = ["sbatch", "--parsable", "--hold", "-o", "/dev/null"]
    site.cluster.run(*hold, "-J", "a\nb\x1fc", script, "arg\nfoo\x1fbar", root=True)
    site.start_daemon()
    site.run_loop(train=f"group: {site.cluster.user}")  # its own line of RUN
    before = site.wait_training(beyond=20)
    check("scheduler_blind" not in before["conditions"], "blind by one torn row")
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    site.wait_state("stopped", LIMIT)
    for _ in range(11):
        site.cluster.run(*hold, script, *["x" * 100_000] * 9, root=True)
    long = len(site.cluster.run("scontrol", "-a", "show", "job", "-o").stdout)
    check(long > 8 << 20, f"scontrol's answer has only {long} bytes")
    site.stoker("resume", site.run, "--reason", "done")
    after = site.wait_training(beyond=before["iteration"])
    check("scheduler_blind" not in after["conditions"], "blind by long arguments")


def children_that_leave_the_session(site):
    """setsid children survive the end of a job and scancel under proctrack/linuxproc: the agent ends them with their attempt."""
    pids = os.path.join(site.cluster.scratch, "children")
    script = os.path.join(site.cluster.scratch, "with_child.sh")
    with open(script, "w", encoding="utf-8") as f:
        f.write(f"#!/bin/bash\nsetsid sleep 7200 </dev/null >/dev/null 2>&1 &\necho $! >> {pids}\nexec \"$@\"\n")
    os.chmod(script, 0o755)
    site.start_daemon()
    command = [script, site.python, site.ours("_lock.py"), site.folder, site.python, site.ours("_loop.py"), os.path.join(site.folder, "tree")]
    config = site.write_run(command, lock=False, ranks_per_node=1, more="watch: {progress: {iteration: 'step=(\\d+)', loss: 'loss=([0-9.]+)'}}")
    site.stoker("run", config, "--yes")
    before = site.wait_training(beyond=20)
    with open(pids, encoding="utf-8") as f:
        children = [int(line) for line in f]
    check(any(is_alive(pid) for pid in children), "the child that left the session is not there")
    site.stoker("restart", site.run, "--reason", "a new attempt")
    site.wait(lambda: site.status().get("attempt", 0) > before["attempt"] or site.status().get("generation", 0) > before["generation"], LIMIT,
              "a new attempt")
    site.wait_training(beyond=before["iteration"])
    with open(pids, encoding="utf-8") as f:
        newest = [int(line) for line in f][-1]
    left = [pid for pid in children if pid != newest and is_alive(pid)]
    check(len(left) <= 1, f"children of the attempt before are left: {left}")  # the standby's own may wait for its turn


if __name__ == "__main__":
    main(environment_of_the_daemon, comment_rewritten, limit_moved, export_none, odd_names_in_the_queue, jobs_of_a_stranger,
         children_that_leave_the_session)
