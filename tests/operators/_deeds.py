"""What people do to a run: each operation draws its details from a generator of its own, so that leaving one out changes no other.

Orders go through the command line; actions happen behind stoker's back. They reach
only what belongs to this run.
"""
import contextlib
import json
import os
import signal
import subprocess
import threading
import time

NODES = ("n01", "n02", "n03")


# ---- orders
def order(world, note, verb, *argv, limit=60, **more):
    """Gives one order and writes down what came of it."""
    began = time.monotonic()
    words = [{"kill": "stop", "stop_later": "stop"}.get(verb, verb), *argv, *{"kill": ["--now"], "stop_later": ["--after-checkpoint"]}.get(verb, [])]
    try:
        done = world.command(*words, limit=limit)
        code, said = done.returncode, (done.stdout + done.stderr).strip()
    except subprocess.TimeoutExpired:
        code, said = -1, f"no answer within {limit}s"
    late = "switch file" in said and code == 0  # it acts when the daemon is there again
    unknown = "not known" in said or code == -1 and world.frozen
    note("order", t=began, verb=verb, argv=" ".join(words), exit=1 if unknown and code == -1 else code, said=said[-1000:], sure=not late and not unknown,
         ended=time.monotonic(), **more)
    return code


def plain(verb):
    def give(world, draw, note):
        order(world, note, verb, world.site.run, *(["--reason", f"by chance: {verb}"] if draw.random() < 0.8 else []))
    give.__name__ = verb
    return give


def rollback(world, draw, note):
    status = world.published()
    to = (status.get("checkpoint") or {}).get("iteration", 10)
    to = draw.choice([str(to), "0", "7", "auto", "banana"])
    order(world, note, "rollback", world.site.run, "--to", to, "--reason", "by chance", nonsense=to == "banana")


def exclude(world, draw, note):
    node = draw.choice([*NODES, "nosuchnode"])
    order(world, note, "exclude", node, "--reason", "by chance", node=node, nonsense=node == "nosuchnode")
    ask_nodes(world, note, node, True)


def include(world, draw, note):
    node = draw.choice(NODES)
    order(world, note, "include", node, node=node)
    ask_nodes(world, note, node, False)


def ask_nodes(world, note, node, excluded):
    """`stoker nodes`, until it shows what was asked or the time is up."""
    end = time.monotonic() + (world.grace_s if world.well() else 0)
    while True:
        done = world.command("nodes", "--json")
        out = []
        for line in done.stdout.splitlines():
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                out += [found["node"]] if found["excluded_until"] else []
        if (node in out) == excluded or time.monotonic() > end:
            return note("deed", name="nodes_seen", excluded=out, asked=[node, excluded] if world.well() else None)
        time.sleep(0.5)


def stacks(world, draw, note):
    order(world, note, "stacks", world.site.run, "--wait", "10s")


def ack(world, draw, note):
    alerts = world.published().get("alerts", [])
    known = draw.choice(alerts)["id"] if alerts and draw.random() < 0.8 else "run/no_such_alert/1"
    order(world, note, "ack", known, alert=known, nonsense=known == "run/no_such_alert/1")


def silence(world, draw, note):
    matcher = draw.choice(["run=run", "kind=hang", "severity=warning", "colour=blue"])
    order(world, note, "silence", matcher, "--for", "1min")


def both_at_once(world, draw, note):
    """Two people give an order at the same moment: either may come first."""
    verbs = draw.sample(["stop", "pause", "resume", "restart", "kill", "save"], 2)

    def later(kind, **fields):
        note(kind, **{**fields, "sure": False})
    threads = [threading.Thread(target=order, args=(world, later, verb, world.site.run, "--reason", f"at once: {verb}")) for verb in verbs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def second_daemon(world, draw, note):
    """Somebody starts another stokerd for the same run directory, with another state directory: it is to keep off."""
    note("deed", name="second_daemon")
    world.second_daemon(draw.choice([1, 3]))


def run_again(world, draw, note):
    """RUN.yaml is edited and given to `stoker run`: a good change, none, or a broken file."""
    kind = draw.choice(["same", "limit", "broken"])
    world.write_run(**({"time_limit": "2h"} if kind == "limit" else {}))
    if kind == "broken":
        with open(world.config, "a", encoding="utf-8") as f:
            f.write("nonsense: [1\n")
    order(world, note, "run", "--yes", world.config, nonsense=kind == "broken")
    world.write_run()


def read_everything(world, draw, note):
    """Commands that only read."""
    for verb in draw.sample(["status", "why", "events", "chronicle", "logs", "pulse"], 2):
        done = world.command(verb, world.site.run)
        note("order", verb=verb, argv=f"{verb} {world.site.run}", exit=done.returncode, said=(done.stdout + done.stderr)[-500:].strip() or "nothing to say", sure=True)


# ---- behind its back: the scheduler's own commands
def jobs_of(world, *states):
    return [j for j in world.jobs() if j[2] in states]


def cancel_task(world, draw, note):
    running = jobs_of(world, "RUNNING", "COMPLETING")
    if running:
        job = f"{running[-1][0]}_{running[-1][1]}"
        note("deed", name="cancel_task", job=job)
        world.scheduler("cancel", job)


def cancel_array(world, draw, note):
    live = jobs_of(world, "RUNNING", "PENDING")
    if live:
        note("deed", name="cancel_array", job=live[-1][0])
        world.scheduler("cancel", live[-1][0])


def cancel_waiting(world, draw, note):
    waiting = jobs_of(world, "PENDING")
    for array, task, _ in waiting:
        note("deed", name="cancel_waiting", job=f"{array}_{task}")
        world.scheduler("cancel", f"{array}_{task}")


def hold_waiting(world, draw, note):
    for array, task, _ in jobs_of(world, "PENDING"):
        world.scheduler("hold", f"{array}_{task}")
        if any((array, task) == job[:2] for job in jobs_of(world, "PENDING")):  # else it began to run just before
            note("deed", name="hold", job=f"{array}_{task}")


def requeue(world, draw, note):
    for array, task, _ in jobs_of(world, "RUNNING")[-1:]:
        note("deed", name="requeue", job=f"{array}_{task}")
        world.scheduler("requeue", f"{array}_{task}")


def update_job(world, draw, note):
    """scontrol update, as people and sites do it."""
    change = draw.choice(["Comment=theirs", "TimeLimit=90", "Nice=7", "ExcNodeList=n07"])
    for array, task, _ in jobs_of(world, "RUNNING", "PENDING"):
        note("deed", name="update_job", job=f"{array}_{task}", change=change)
        world.update_job(f"{array}_{task}", change)


def drain(world, draw, note):
    note("deed", name="drain")
    world.node("drain", NODES[0])


# ---- behind its back: files
def switch(world, draw, note):
    verb = draw.choice(["save", "stop", "kill", "pause", "resume", "restart"])
    path = os.path.join(world.site.directory, "switch", verb)
    if os.path.isdir(os.path.dirname(path)):
        note("deed", name="switch", verb=verb)
        world.write_switch(verb, draw.choice(["", '{"by": "alice", "reason": "by chance"}', "not json {"]))
        end = time.monotonic() + world.grace_s
        while os.path.exists(path) and world.well() and time.monotonic() < end:
            time.sleep(0.2)
        if not os.path.exists(path):
            note("deed", name="switches_read", only="" if verb == "save" else verb)


def kill_switch(world, draw, note):
    now = world.witness.last()
    seen = now["well"] and now["status"].get("state") == "training" and bool(now["ranks"])  # so that it surely leaves for it
    note("deed", name="kill_switch", seen=seen)
    world.touch(world.kill_switch)


def disk_full(world, draw, note):
    if world.mounted:
        note("deed", name="disk_full")
        world.fill_disk()
        time.sleep(draw.choice([0.5, 2]))
        world.free_disk()
        note("deed", name="disk_free")


# ---- behind its back: processes
def kill_each(world, draw, note, name, pids):
    chosen = pids if name == "kill_everything" else draw.sample(pids, min(len(pids), 1))
    if chosen:
        note("deed", name=name, pids=chosen)
    for pid in chosen:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def kill_rank(world, draw, note):
    kill_each(world, draw, note, "kill_rank", [r["pid"] for r in world.witness.last()["ranks"] if world.is_ours(r["pid"])])


def agents(world):
    return world.processes(lambda argv, env: os.path.basename(argv[0]) == "stoker-agent" and argv[1:2] == ["run"])


def kill_agent(world, draw, note):
    kill_each(world, draw, note, "kill_agent", agents(world))


def kill_everything(world, draw, note):
    ranks = [r["pid"] for r in world.witness.last()["ranks"] if world.is_ours(r["pid"])]
    kill_each(world, draw, note, "kill_everything", agents(world) + ranks)


def freeze_rank(world, draw, note):
    for rank in world.witness.last()["ranks"][:1]:
        if world.is_ours(rank["pid"]):
            note("deed", name="freeze_rank", pids=[rank["pid"]])
            with contextlib.suppress(OSError):
                os.kill(rank["pid"], signal.SIGSTOP)
                time.sleep(draw.choice([0.5, 1.5]))
                os.kill(rank["pid"], signal.SIGCONT)


def daemon_killed(world, draw, note):
    note("deed", name="daemon_killed")
    world.kill_daemon(draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
    if draw.random() < 0.5:  # else it stays away for the next operations
        time.sleep(draw.choice([0, 1]))
        world.start_daemon()
        note("deed", name="daemon_started")


def daemon_frozen(world, draw, note):
    if world.site.daemon:
        note("deed", name="daemon_frozen")
        world.freeze()
        time.sleep(draw.choice([0.5, 2]))
        if draw.random() < 0.7:
            world.thaw()
            note("deed", name="daemon_thawed")


def scheduler_killed(world, draw, note):
    """The embedded scheduler's own process; jobs live outside it."""
    kill_each(world, draw, note, "kill_scheduler", world.processes(lambda argv, env: "local-scheduler" in argv[1:2]))


ORDERS = [plain("save"), plain("stop"), plain("kill"), plain("stop_later"), plain("pause"), plain("resume"), plain("restart"),
          rollback, exclude, include, stacks, ack, silence, run_again, read_everything, both_at_once]
DEEDS = [cancel_task, cancel_array, cancel_waiting, hold_waiting, requeue, drain, update_job, second_daemon, switch, kill_switch, disk_full, kill_rank, kill_agent, kill_everything,
         freeze_rank, daemon_killed, daemon_frozen, scheduler_killed]
NAMED = {f.__name__: f for f in ORDERS + DEEDS}
OFTEN = ("pause", "resume", "stop", "restart", "cancel_task", "cancel_waiting", "daemon_killed", "kill_agent", "switch", "both_at_once")


def draw_sequence(draw, length, without=()):
    """[(name, seed of its details, seconds to wait before it)]"""
    names = [n for n in NAMED if n not in without]
    names += [n for n in OFTEN if n in names]
    return [(draw.choice(names), draw.randrange(1 << 30), draw.choice([0, 0, 0.1, 0.3, 0.7, 1.5, 3])) for _ in range(length)]
