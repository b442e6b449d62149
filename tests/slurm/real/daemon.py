"""The daemon dies at each point of a submission, or twice it is; switch files; the time limit."""
import os
import signal
import subprocess

from e2e._harness import Failed, check
from slurm.real._site import LIMIT, by_commands, main, with_either

# What runs in place of the command when the daemon is to die: before SLURM heard of it, or after, before the answer.
POINTS = {
    "before the token is looked up": ("squeue", 'kill -9 $PPID; exit 1'),
    "before sbatch": ("sbatch", 'kill -9 $PPID; exit 1'),
    "after sbatch, before its answer": ("sbatch", '"$REAL" "$@" >/dev/null; kill -9 $PPID; exit 0'),
    "after the answer": ("sbatch", '"$REAL" "$@"; kill -9 $PPID; exit 0'),
}


@by_commands
@with_either("loop")
def killed_at_each_point(site):
    """kill -9 of stokerd at each labelled point between intent, sbatch and acknowledgement: exactly one live job."""
    os.chmod(site.folder, 0o777)
    for number, (label, (command, text)) in enumerate(POINTS.items()):
        site.use_run(f"run{number}")
        site.shim(command, f'if mkdir {site.folder}/point{number} 2>/dev/null; then {text}; fi; exec "$REAL" "$@"'
                  if command == "sbatch" else
                  f'case "$*" in *" -t all"*) if [ -e {site.folder}/armed{number} ] && mkdir {site.folder}/point{number} '
                  f'2>/dev/null; then {text}; fi;; esac; exec "$REAL" "$@"')
        site.start_daemon()
        open(os.path.join(site.folder, f"armed{number}"), "w").close()
        said = ""
        try:
            site.run_training()
        except Failed as failure:  # the daemon may die before it has answered
            said = f" ({failure})"
        site.wait(lambda: site.daemon.poll() is not None, LIMIT, f"the daemon to die {label}{said}")
        site.unshim(command)
        site.start_daemon()
        if not site.status():
            site.run_training()
        site.wait_training(beyond=5, seconds=240)
        check(len(site.submissions()) == 1, f"killed {label}: submissions {site.submissions()}")
        site.only_one_trains()
        site.stoker("stop", site.run, "--now", "--reason", "next")
        site.wait_state("stopped", LIMIT)
        site.kill_daemon(signal.SIGTERM)


@with_either("core")
def killed_while_training(site):
    """kill -9 of stokerd: the training does not notice; the next daemon takes it up."""
    site.start_daemon()
    site.run_training()
    before = site.wait_training(beyond=20)
    site.kill_daemon(signal.SIGKILL)
    site.start_daemon()
    after = site.wait_training(beyond=before["iteration"] + 20)
    check(after["job"] == before["job"] and after["restarts"] == before["restarts"], "the daemon's death cost a restart")


@with_either("loop")
def two_daemons(site):
    """A second daemon on the same state says who has it, and does nothing."""
    site.start_daemon()
    site.run_training()
    site.wait_training(beyond=10)
    second = site.cluster.run(os.path.join(site.bin, "stokerd"), "--state", site.state, ok=False, env=site.env, limit=60)
    check(second.returncode != 0 and second.stderr.strip(), "a second daemon on the same state started")
    other = os.path.join(site.folder, "other")
    third = site.cluster.popen([os.path.join(site.bin, "stokerd"), "--state", other, "--slurm-pace", "1", "--run",
                                os.path.join(site.folder, "run.yaml"), "--until-end"], env=site.env, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    said = third.communicate(timeout=60)[0]
    check(third.returncode != 0, f"two state directories took one run directory: {said}")
    check(len(site.submissions()) == 1, f"submissions: {site.submissions()}")


@with_either("core")
def kill_switch_burns_the_array(site):
    """The kill switch ends the task and all that waits behind it within seconds."""
    site.start_daemon()
    site.run_training(tasks=5)
    site.wait_training(beyond=10)
    site.switch("kill", "I want the nodes")
    site.wait_state("stopped", LIMIT)
    site.wait(lambda: not site.submissions(), LIMIT, "the queue to be empty")


@with_either("core")
def time_limit(site):
    """One minute of wall: it saves and leaves before, the next task continues, nothing is counted as a failure."""
    site.start_daemon()
    site.run_training(time_limit="1min", tasks=3, top_up_below=1)
    before = site.wait_training(beyond=20)
    after = site.wait_training(generation=before["generation"] + 1, beyond=before["iteration"], seconds=200)
    check(after["restarts"] == 0, "a planned end was counted as a failure")
    check(after["job"].split("_")[1] == "2", f"not the next task: {after['job']}")


if __name__ == "__main__":
    main(killed_at_each_point, killed_while_training, two_daemons, kill_switch_burns_the_array, time_limit)
