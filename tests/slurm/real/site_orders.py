"""What administrators and SLURM itself do to a run's jobs: suspend, hold, preempt, reboot a node, end a reservation. No fault of a node: none
is excluded, no restart is counted, and what needs a person says so."""
import json
import os
import time

from e2e._harness import check
from slurm.real._site import LIMIT, main, with_either

URGENT = ("PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n"
          "PartitionName=urgent Nodes=n[01-08] PriorityTier=10 State=UP OverSubscribe=NO\n")


def is_clean(site):
    """Nothing was held against a node or the run."""
    nodes = [json.loads(line) for line in site.stoker("nodes", site.run, "--json").stdout.splitlines()]
    excluded = [n["node"] for n in nodes if n["excluded_until"]]
    check(not excluded, f"excluded: {excluded}")
    budget = site.status()["budget"]
    check(budget["restarts_left"] == budget["restarts_total"], f"a restart was counted: {budget}")


def alert(site, kind):
    return next((a for a in json.loads(site.stoker("alerts", "--json").stdout) if a["kind"] == kind), None)


def stands_still_and_goes_on(site, seconds, **options):
    site.start_daemon()
    site.run_training(tasks=4, **options)
    before = site.wait_training(beyond=20)
    site.cluster.run("scontrol", "suspend", before["job"], root=True)
    site.wait(lambda: "suspended" in site.status()["conditions"], LIMIT, "the suspension to be known")
    check(alert(site, "suspended"), "no alert of kind suspended")
    since = time.monotonic()
    while time.monotonic() - since < seconds:
        now = site.status()
        check(now["job"] == before["job"] and now["state"] in ("training", "suspect"), f"{now['state']}, {now['job']}: {now.get('reason')}")
        time.sleep(2)
    site.cluster.run("scontrol", "resume", before["job"], root=True)
    after = site.wait_training(beyond=now["iteration"] + 40)
    check((after["job"], after["generation"], after["attempt"]) == (before["job"], before["generation"], before["attempt"]),
          f"another start: {after['job']}, generation {after['generation']}, attempt {after['attempt']}")
    site.wait(lambda: not site.status()["conditions"] and not alert(site, "suspended"), LIMIT, "the end of the suspension to be known")
    is_clean(site)


@with_either("loop")
def suspended(site):
    """`scontrol suspend`, longer than every limit of silence (hang.ceiling 60 s, the lead's patience 70 s): it goes on where it was."""
    stands_still_and_goes_on(site, 80)


@with_either("core")
def suspended_on_two_nodes(site):
    """The agents of two nodes stand still, longer than each waits for the other (10 s), and neither takes the other for dead."""
    stands_still_and_goes_on(site, 30, nodes=2)


@with_either("loop")
def suspended_while_nobody_looks(site):
    """The daemon is away for the whole of it."""
    site.start_daemon()
    site.run_training(tasks=4)
    before = site.wait_training(beyond=20)
    site.kill_daemon()
    site.cluster.run("scontrol", "suspend", before["job"], root=True)
    time.sleep(30)
    site.cluster.run("scontrol", "resume", before["job"], root=True)
    site.start_daemon()
    after = site.wait_training(beyond=before["iteration"] + 60)
    check((after["job"], after["attempt"]) == (before["job"], before["attempt"]), f"another start: {after['job']}, attempt {after['attempt']}")
    is_clean(site)


@with_either("loop")
def held_while_waiting(site):
    """An administrator holds what waits: a person is called when the turn comes, and it goes on by itself when it is released."""
    site.start_daemon()
    site.run_training(tasks=4)
    before = site.wait_training(beyond=20)
    array = site.job_id()
    site.cluster.run("scontrol", "hold", array, root=True, ok=False)  # refused for the task that runs, done for the others
    site.wait(lambda: any(j[3] == "JobHeldAdmin" for j in site.waiting_jobs()), LIMIT, "the hold")
    site.cluster.run("scancel", before["job"])
    site.wait(lambda: alert(site, "queue_stuck"), LIMIT, "the alert")
    site.wait(lambda: "JobHeldAdmin" in site.status()["reason"], LIMIT, "the reason in status")
    site.cluster.run("scontrol", "release", array, root=True, ok=False)
    site.wait_training(beyond=before["iteration"])
    site.wait(lambda: not alert(site, "queue_stuck"), LIMIT, "the end of the alert")
    is_clean(site)


@with_either("loop", more="RebootProgram=/bin/true\n")
def node_rebooted(site):
    """`scontrol reboot ASAP` of the node that trains: it drains, the task stays; the next one starts elsewhere. No node is at fault."""
    site.start_daemon()
    site.run_training(tasks=4)
    before = site.wait_training(beyond=20)
    site.cluster.run("scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=kernel", "n01", root=True)
    after = site.wait_training(beyond=before["iteration"] + 60)
    check(after["job"] == before["job"], f"job {after['job']}")
    site.cluster.run("scancel", before["job"])
    moved = site.wait(lambda: (s := site.status())["state"] == "training" and s["job"] != before["job"] and s, LIMIT, "the next task")
    nodes = site.cluster.run("squeue", "-h", "-j", moved["job"], "-o", "%N").stdout.strip()
    check(nodes and nodes != "n01", f"the next task runs on \"{nodes}\"")
    is_clean(site)


@with_either("loop", more=URGENT)
def preempted(site):
    """A partition of higher priority takes the node (PreemptMode=REQUEUE): it costs nothing, and the next task goes on."""
    site.start_daemon()
    site.run_training(tasks=4)
    before = site.wait_training(beyond=20)
    site.cluster.run("sbatch", "-p", "urgent", "-N8", "--exclusive", "--wrap", "sleep 20", root=True)
    site.wait_event("PREEMPTED")
    after = site.wait_training(beyond=before["iteration"])
    check(after["job"] != before["job"], f"job {after['job']}")
    is_clean(site)


def reserve(site, name, nodes, begins, minutes, user):
    site.cluster.run("scontrol", "create", "reservation", f"ReservationName={name}", f"StartTime={begins}", f"Duration={minutes}",
                     f"Users={user}", f"Nodes={nodes}", root=True)


@with_either("loop")
def reservation_ends(site):
    """The run's own reservation ends: the training leaves before, what waits is replaced, and the run goes on without it."""
    reserve(site, "camp", "n[01-02]", "now", 2, site.cluster.user)
    site.start_daemon()
    site.run_training(tasks=4, scheduler=', extra: ["--reservation=camp"]')
    site.wait_training(beyond=20)
    leaving = site.wait(lambda: site.status()["leaving"], LIMIT, "the end of the reservation in status")
    check("camp ends" in leaving[0]["why"], str(leaving))
    check(alert(site, "reservation_ends"), "no alert of kind reservation_ends")
    before = site.wait_event("the end of the reservation")
    after = site.wait(lambda: (s := site.status())["state"] == "training" and "camp" not in reservation_of(site, s["job"]) and s, 2 * LIMIT,
                      "a task without the reservation")
    check(after["job"].split("_")[0] != before.get("job", ""), after["job"])
    check(not any("TIMEOUT" in e.get("reason", "") for e in site.events()), "a task was ended by the reservation")
    is_clean(site)


def reservation_of(site, job):
    return site.cluster.run("scontrol", "show", "job", "-o", job, ok=False).stdout.partition(" Reservation=")[2].partition(" ")[0]


@with_either("core")
def reserved_by_others(site):
    """Others reserve most nodes: the run asks for the time until then, and for fewer nodes where that is too short. The plan shows it."""
    reserve(site, "maint", "n[02-08]", "now+3hours", 120, "root")
    site.start_daemon()
    site.run_training(tasks=4, nodes="2, nodes_allowed: [1, 2]", time_limit="20h")
    site.wait_training(beyond=20)
    limit = site.cluster.run("squeue", "-h", "-j", site.job_id(), "-o", "%l").stdout.strip()
    check(limit.startswith("2:4"), f"the time limit is {limit}")  # three hours less a tenth
    config = os.path.join(site.folder, f"{site.run}.yaml")
    windows = json.loads(site.stoker("plan", config, "--calendar", "--json").stdout)["windows"]
    check([(w["usable"], w["size"]) for w in windows] == [(8, 2), (1, 1), (8, 2)], str(windows))
    shown = site.stoker("plan", config, "--calendar").stdout
    check("maint (of others): n[02-08]" in shown, shown)
    site.stoker("stop", site.run, "--reason", "a maintenance comes nearer")
    site.wait_state("stopped", LIMIT)
    site.cluster.run("scontrol", "update", "ReservationName=maint", "StartTime=now+30minutes", root=True)
    site.kill_daemon()
    site.start_daemon()  # its first look is at once
    site.stoker("resume", site.run, "--reason", "go on")
    site.wait(lambda: len(site.status()["nodes"]) == 1 and site.status()["state"] == "training", 2 * LIMIT, "a start on one node")


@with_either("loop", more="MaxArraySize=4\n")
def small_arrays(site):
    """More tasks than MaxArraySize: refused once, and status says so; the next array is as long as the cluster allows."""
    site.start_daemon()
    site.run_training(tasks=10)
    site.wait_event("Invalid job array specification")
    site.wait_event("longer than MaxArraySize allows: 3")
    before = site.wait_training(beyond=20)
    check(len(site.waiting_jobs()) == 2, f"behind the first of three: {site.waiting_jobs()}")
    site.cluster.run("scancel", before["job"])
    site.wait_training(generation=before["generation"] + 1, beyond=before["iteration"])


@with_either("core", accounting=True, more="PreemptType=preempt/qos\nPreemptMode=REQUEUE\n")
def preempted_by_a_quality_of_service(site):
    """A QOS that may preempt ours takes all nodes: the task ends as PREEMPTED, waits its turn, and goes on."""
    site.cluster.run("sacctmgr", "-i", "add", "qos", "urgent", "preempt=normal", "priority=100", root=True)
    site.cluster.run("sacctmgr", "-i", "modify", "user", site.cluster.user, "set", "qos=normal,urgent", "defaultqos=normal", root=True)
    site.start_daemon()
    site.run_training(tasks=4, nodes=2)
    before = site.wait_training(beyond=40)
    other = site.cluster.run("sbatch", "--parsable", "--qos=urgent", "-N8", "--exclusive", "--wrap=sleep 15").stdout.strip()
    site.wait_event("PREEMPTED")
    after = site.wait_training(generation=before["generation"] + 1, beyond=before["iteration"], seconds=2 * LIMIT)
    check("Invalid job id" in (said := site.cluster.run("scontrol", "show", "job", "-o", other, ok=False)).stderr or "RUNNING" not in said.stdout,
          "it trains beside what preempted it")
    check(after["iteration"] > before["iteration"], f"it saved on TERM, and repeats nothing: {after['iteration']}")
    check(not alert(site, "preempted"), "an alert for a task that lost nothing")
    is_clean(site)


if __name__ == "__main__":
    main(suspended, suspended_on_two_nodes, suspended_while_nobody_looks, held_while_waiting, node_rebooted, preempted,
         reservation_ends, reserved_by_others, small_arrays, preempted_by_a_quality_of_service)
