"""Faults drawn by chance, one after another, on one run and one cluster: after each the run trains on, or is held for the true reason.

STOKER_FAULTS=N draws N faults (a few in CI, 100 with STOKER_LONG), STOKER_SEED=N repeats a sequence.
"""
import contextlib
import os
import random
import signal
import time

from e2e._harness import Failed, check
from slurm.cluster import NODES, is_alive, processes_with, stepds_of
from slurm.real._site import LIMIT, by_commands, main, with_either

FAULTS = int(os.environ.get("STOKER_FAULTS", "100" if os.environ.get("STOKER_LONG") else "6"))
SEED = int(os.environ.get("STOKER_SEED", time.time_ns() % 100000))
PATIENCE = 400  # seconds until the run trains on: a blind scheduler, a dead node and a second fault in between


def nodes_of(site):
    listed = site.cluster.run("squeue", "-h", "-t", "R", "-n", site.run, "-o", "%N").stdout.split()
    return site.cluster.run("scontrol", "show", "hostnames", listed[0]).stdout.split() if listed else []


def programs_of(site, node):
    """{pid: command line} of what runs on a node, without SLURM's own daemons."""
    found = {}
    for pid in processes_with(f"SLURMD_NODENAME={node}", site.cluster.folder):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                text = f.read().replace(b"\0", b" ").decode(errors="replace")
            if "slurmstepd" not in text:
                found[pid] = text
    return found


def signal_node(site, chosen, how, draw):
    """Sends a signal to the programs of one node that trains whose command line is chosen."""
    nodes = site.status().get("nodes") or nodes_of(site)
    for pid, text in programs_of(site, draw.choice(nodes)).items() if nodes else ():
        if chosen(text):
            with contextlib.suppress(OSError):
                os.kill(pid, how)


# ---- the faults: each breaks something and says how to repair it (None: the run must cope by itself)
def ranks(site, draw):
    """A node's ranks and their standbys; half the time their guardians with them."""
    guardians = draw.random() < 0.5
    return lambda text: site.is_rank(text) or guardians and " guardian " in text


def rank_killed(site, draw):
    signal_node(site, ranks(site, draw), signal.SIGKILL, draw)


def rank_stopped(site, draw):
    signal_node(site, ranks(site, draw), signal.SIGSTOP, draw)


def agent_killed(site, draw):
    signal_node(site, lambda text: "stoker-agent" in text, signal.SIGKILL, draw)


def all_programs_killed(site, _draw):
    for pid in [pid for node in nodes_of(site) for pid in programs_of(site, node)]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def task_cancelled(site, _draw):
    job = site.status().get("job", "")
    if job:
        site.cluster.run("scancel", job, ok=False)


def array_cancelled(site, _draw):
    job = site.job_id()
    if job:
        site.cluster.run("scancel", job, ok=False)


def node_dies(site, draw, which=None):
    victim = which or draw.choice(nodes_of(site) or NODES)
    site.cluster.kill_node(victim)

    def mend():
        site.cluster.revive(victim)
        site.wait(lambda: not site.cluster.node_state(victim).startswith(("down", "unk")), LIMIT, f"{victim} to come back")
    return mend


def batch_host_dies(site, draw):
    return node_dies(site, draw, (nodes_of(site) or NODES)[0])


def slurmd_alone(site, draw):
    victim = draw.choice(nodes_of(site) or NODES)
    site.cluster.stop(victim)
    time.sleep(draw.choice([2, 25]))  # before and after SLURM gives the node up
    return lambda: site.cluster.start_node(victim)


def step_daemons_die(site, draw):
    victim = draw.choice(nodes_of(site) or NODES)
    for pid in stepds_of(site.cluster.folder, victim):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def drained(site, draw):
    node = draw.choice(nodes_of(site) or NODES)
    site.cluster.run("scontrol", "update", "NodeName=" + node, "State=DRAIN", "Reason=chance", root=True)
    return lambda: site.cluster.run("scontrol", "update", "NodeName=" + node, "State=RESUME", root=True, ok=False)


def controller_away(site, draw):
    site.cluster.stop("slurmctld", draw.choice([signal.SIGTERM, signal.SIGKILL]))
    time.sleep(draw.choice([1, 12]))
    return site.cluster.start_controller


def controller_away_while_it_ends(site, draw):
    pids = [pid for node in nodes_of(site) for pid in programs_of(site, node)]
    site.cluster.stop("slurmctld", signal.SIGTERM)
    for pid in pids:
        if is_alive(pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    time.sleep(5)
    return site.cluster.start_controller


def squeue_lies(site, draw):
    site.shim("squeue", draw.choice(["exit 1", "exit 0", "echo 'Bienvenue'", '"$REAL" "$@" | head -c 60', 'sleep 6; exec "$REAL" "$@"']))
    time.sleep(8)
    return lambda: site.unshim("squeue")


def sbatch_fails_while_it_is_needed(site, draw):
    site.shim("sbatch", draw.choice(["exit 1", "echo 'sbatch: error: Invalid qos specification' >&2; exit 1", '"$REAL" "$@" >/dev/null; exit 0']))
    site.cluster.run("scancel", site.job_id() or "1", ok=False)
    time.sleep(4)
    return lambda: site.unshim("sbatch")


def daemon_killed(site, draw):
    site.kill_daemon(signal.SIGKILL)
    time.sleep(draw.choice([0, 6]))
    return site.start_daemon


def daemon_frozen(site, draw):
    os.kill(site.daemon.pid, signal.SIGSTOP)
    time.sleep(8)
    return lambda: os.kill(site.daemon.pid, signal.SIGCONT)


def excluded_by_hand(site, draw):
    node = draw.choice(NODES)
    site.stoker("exclude", node, "--reason", "chance")
    return lambda: site.stoker("include", node, ok=False)


def everything_at_once(site, draw):
    site.kill_daemon(signal.SIGKILL)
    all_programs_killed(site, draw)
    return site.start_daemon


ALL = [rank_killed, rank_stopped, agent_killed, all_programs_killed, task_cancelled, array_cancelled, node_dies, batch_host_dies, slurmd_alone,
       step_daemons_die, drained, controller_away, controller_away_while_it_ends, squeue_lies, sbatch_fails_while_it_is_needed, daemon_killed,
       daemon_frozen, excluded_by_hand, everything_at_once]
RESTARTS = (rank_killed, rank_stopped, agent_killed, all_programs_killed, task_cancelled, array_cancelled, batch_host_dies, controller_away_while_it_ends,
            sbatch_fails_while_it_is_needed, everything_at_once)  # after these the training started over
BY_HAND = (array_cancelled, sbatch_fails_while_it_is_needed)  # the only ones after which the run may be held


def starts(status):
    return status.get("generation", 0), status.get("restarts", 0)


def trains_on(site, before, fault):
    """The run is past where it was when the fault had struck; a run that was held for what a person did is resumed."""
    resumed = []

    def there():
        check(not os.path.exists(os.path.join(site.folder, "overlap")), "two live trainings on one checkpoint tree")
        s = site.status()
        if s.get("state") == "held" and not resumed:
            check(fault in BY_HAND and "cancelled" in s.get("reason", ""), f"held: {s.get('reason')}")
            resumed.append(1)
            site.stoker("resume", site.run, "--reason", "chance")
        if s.get("state") in ("finished", "stopped"):
            raise Failed(f"the run is {s['state']}: {s.get('reason')}")
        restarted = fault not in RESTARTS or starts(s) > starts(before)
        return s.get("state") == "training" and not s.get("stale") and restarted and s.get("iteration", 0) > reached and s
    reached = site.status().get("iteration", 0)
    return site.wait(there, PATIENCE, f"training beyond iteration {reached}, started over")


def include_all(site):
    """Nodes that the faults got excluded come back: the cluster is small."""
    site.stoker("include", "n[01-08]", ok=False)


@by_commands
@with_either("loop")
def faults_in_a_row(site):
    draw = random.Random(SEED)
    print(f"STOKER_TRAINING={site.training} STOKER_SEED={SEED} STOKER_FAULTS={FAULTS}", flush=True)
    site.start_daemon()
    site.run_training(nodes=2, spares=1, ranks_per_node=1, tasks=8, restarts=100 * FAULTS)
    now = site.wait_training(beyond=20)
    for number in range(1, FAULTS + 1):
        fault = draw.choice(ALL)
        second = draw.random() < 0.25 and fault not in (daemon_killed, daemon_frozen, everything_at_once)
        began = time.monotonic()
        name = f"fault {number}: {fault.__name__}{' + daemon killed' if second else ''}"
        print(name, flush=True)
        mend = fault(site, draw)
        if second:  # and in the middle of it the daemon dies
            time.sleep(draw.choice([0, 1, 3]))
            site.kill_daemon(signal.SIGKILL)
            site.start_daemon()
        if mend:
            mend()
        now = trains_on(site, now, fault)
        site.wait(lambda: len(site.running_jobs()) <= 1, LIMIT, "the second running job to go")
        site.wait(lambda: len(site.submissions()) <= 2, LIMIT, f"at most two submissions: {site.submissions()}")
        include_all(site)
        print(f"{name}: trains on after {time.monotonic() - began:.0f}s, generation {now['generation']}, restarts {now['restarts']}", flush=True)


if __name__ == "__main__":
    main(faults_in_a_row)
