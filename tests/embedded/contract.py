"""docs/embedded-scheduler.md as a model, written from that page and sharing nothing with embedded/.

A World is what one moment's cluster is. Processes end and clocks go on beside the scheduler's turns, so that several worlds may
follow from one operation: settled() finds all of them, and one of them has to be what the scheduler answers.
"""
from typing import NamedTuple

ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
MOST_TASKS, MOST_NODES, KNOWN_ENDED, SEEN_ENDED = 1000, 64, 2000, 512


class Job(NamedTuple):
    id: int
    token: str
    name: str
    tasks: int = 1
    throttle: int = 1
    nodes: int = 1
    command: str = "waits"  # for an order to end; "stubborn" ignores TERM, "missing" does not exist
    short: bool = False  # a time limit that comes soon; it is never seen to run for long
    signal: bool = False  # before the time limit
    begin: str = ""  # "soon", "later"; "" = it has come
    no_kill: bool = False
    background: bool = False
    singleton: bool = False
    after: tuple = ()  # ((job, task or 0), ...)
    exclude: tuple = ()


class Run(NamedTuple):
    """A task's command on one node: "up"; "ended", or about to and not to be stopped any more; "lost" with its node."""
    node: str
    phase: str = "up"
    code: int = 0
    signal: int = 0


class Task(NamedTuple):
    state: str = "PENDING"
    reason: str = "None"
    held: bool = False
    restart: int = 0
    nodes: tuple = ()
    runs: tuple = ()
    cause: str = ""
    exit: tuple = (0, 0)
    by: tuple = (0, False)  # who cancelled it: uid, and whether it was stoker

    def active(self):
        return self.state in ("RUNNING", "COMPLETING")


def hostlist(names):
    numbers, parts = sorted(int(n[1:]) for n in names), []
    for n in numbers:
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    text = ",".join(f"{a:02}" if a == b else f"{a:02}-{b:02}" for a, b in parts)
    return f"n{text}" if len(numbers) == 1 else f"n[{text}]"


class World:
    def __init__(self, jobs=None, tasks=None, nodes=None, starts=frozenset(), signals=frozenset()):
        self.jobs, self.tasks, self.nodes = dict(jobs or {}), dict(tasks or {}), dict(nodes or {})  # tasks: {(job, task): Task}
        self.starts, self.signals = starts, signals  # {(job, task, restart, node)}: which commands began, which got the signal

    def copy(self):
        return World(self.jobs, self.tasks, self.nodes, self.starts, self.signals)

    def key(self):
        return tuple(self.jobs.values()), tuple(self.tasks.values()), tuple(self.nodes.items()), self.starts, self.signals

    def of(self, job, task=0):
        return [key for key in self.tasks if key[0] == job and task in (0, key[1])]

    def change(self, key, **fields):
        self.tasks[key] = self.tasks[key]._replace(**fields)

    # ---- who starts
    def over(self, job, task):
        return all(self.tasks[key].state in ENDED for key in self.of(job, task))

    def waits_for(self, job):
        earlier = [o.id for o in self.jobs.values() if o.id < job.id and o.name == job.name] if job.singleton else []
        return not all(self.over(*a) for a in job.after) or not all(self.over(o, 0) for o in earlier)

    def plan(self):
        """({task: its nodes} that start now, {task: reason} of the others that wait)."""
        starts, reasons, blocked, holding = {}, {}, False, {}
        taken = {n for t in self.tasks.values() if t.active() for n in t.nodes}
        for key, task in self.tasks.items():
            holding[key[0]] = holding.get(key[0], 0) + task.active()
        waiting = [key for key, task in self.tasks.items() if task.state == "PENDING"]
        for key in sorted(waiting, key=lambda k: (self.jobs[k[0]].background, k)):
            job = self.jobs[key[0]]
            own = sorted(set(self.nodes) - set(job.exclude))
            away = [n for n in own if self.nodes[n][0] != "up"]
            idle = [n for n in own if n not in away and n not in taken]
            could = len(own) - len(away)
            if self.tasks[key].held:
                reasons[key] = "JobHeldUser"
            elif job.begin:
                reasons[key] = "BeginTime"
            elif self.waits_for(job):
                reasons[key] = "Dependency"
            elif holding[job.id] >= job.throttle:
                reasons[key] = "JobArrayTaskLimit"
            elif blocked:
                reasons[key] = "Priority"
            elif len(idle) >= job.nodes:
                starts[key] = tuple(idle[:job.nodes])
                taken.update(starts[key])
                holding[job.id] += 1
            elif could >= job.nodes or not away:
                reasons[key], blocked = "Resources", could >= job.nodes
            else:
                reasons[key] = "ReqNodeNotAvail, UnavailableNodes:" + hostlist(away)
        return starts, reasons

    def started(self, starts):
        new = self.copy()
        for key, nodes in starts.items():
            missing = self.jobs[key[0]].command == "missing"
            runs = tuple(Run(n, "ended", 127) if missing else Run(n) for n in nodes)
            new.change(key, state="RUNNING", nodes=nodes, runs=runs)
            new.starts |= {(*key, self.tasks[key].restart, n) for n in nodes}
        return new

    # ---- what happens by itself
    def events(self, clock):
        found = []
        for key, task in self.tasks.items():
            if not task.active():
                continue
            job, up = self.jobs[key[0]], any(r.phase == "up" for r in task.runs)
            limbo = not task.cause and task.runs[0].phase == "lost"
            if not up and not limbo:
                found.append(("finish", key))
            if clock and job.short and (up or limbo) and not task.cause:
                found.append(("limit", key))
        if clock:
            found += [("begin", job.id) for job in self.jobs.values() if job.begin == "soon" and not self.over(job.id, 0)]
        return found

    def followed_by(self, event):
        what, key = event
        new = self.copy()
        if what == "begin":
            new.jobs[key] = new.jobs[key]._replace(begin="")
        elif what == "limit":
            if new.jobs[key[0]].signal:
                new.signals |= {(*key, new.tasks[key].restart, r.node) for r in new.tasks[key].runs if r.phase == "up"}
            new.end(key, "limit")
            new.finish(key)
        else:
            new.finish(key)
        return new

    def end(self, key, cause):
        """TERM, and KILL later: nothing stops that any more."""
        task = self.tasks[key]
        if task.active() and not task.cause:
            runs = tuple(r._replace(phase="ended", signal=15) if r.phase == "up" else r for r in task.runs)
            self.change(key, state="COMPLETING", cause=cause, runs=runs)

    def finish(self, key):
        task = self.tasks[key]
        ended = [r for r in task.runs if r.phase == "ended"]
        worst = max(ended, key=lambda r: 128 + r.signal if r.signal else r.code, default=Run(""))
        if task.cause == "requeue":
            self.tasks[key] = Task(held=task.held, restart=task.restart + 1)
            return
        state, reason, exit_ = {"cancel": ("CANCELLED", "None", (0, 15)), "limit": ("TIMEOUT", "TimeLimit", (0, 15)),
                                "node": ("NODE_FAIL", "NodeDown", (1, 0))}.get(task.cause, ("FAILED", "", (worst.code, worst.signal)))
        if not task.cause and exit_ == (0, 0):
            state, reason = "COMPLETED", "None"
        elif not task.cause:
            missing = self.jobs[key[0]].command == "missing"
            reason = "RaisedSignal" if worst.signal else "LaunchFailed" if missing else "NonZeroExitCode"
        self.change(key, state=state, reason=reason, exit=exit_)

    # ---- requests: whether the answer is good
    def submit(self, job, cluster_nodes):
        for other in self.jobs.values():
            if other.token == job.token:
                return True
        size = max(len(self.nodes), min(cluster_nodes or job.nodes + 2, MOST_NODES))
        known = all(self.of(*a) for a in job.after)
        if not (1 <= job.tasks <= MOST_TASKS and job.throttle >= 1 and 1 <= job.nodes <= min(size, MOST_NODES) and known):
            return False
        for n in range(1, size + 1):
            self.nodes.setdefault(f"n{n:02}", ("up", ""))
        self.jobs[job.id] = job
        self.tasks.update({(job.id, n): Task() for n in range(1, job.tasks + 1)})
        return True

    def cancel(self, job, task, waiting_only, by, token=""):
        if job not in self.jobs or token not in ("", self.jobs[job].token):
            return True
        for key in self.of(job, task):
            now = self.tasks[key]
            if now.state == "PENDING":
                self.change(key, state="CANCELLED", by=by)
            elif now.active() and not waiting_only and now.cause in ("", "requeue"):
                self.change(key, by=by, cause="")
                self.end(key, "cancel")
        return True

    def hold(self, job, task, held):
        for key in self.of(job, task):
            if self.tasks[key].state not in ENDED:
                self.change(key, held=held)
        return bool(self.of(job, task))

    def requeue(self, job, task):
        can = [key for key in self.of(job, task) if self.tasks[key].active() and self.tasks[key].cause in ("", "requeue")]
        for key in can:
            self.end(key, "requeue")
        return bool(can)

    def exclude(self, job, token, nodes):
        if job in self.jobs and self.jobs[job].token == token:
            self.jobs[job] = self.jobs[job]._replace(exclude=nodes)
        return True

    def drain(self, node, reason):
        if node in self.nodes:
            self.nodes[node] = ("down" if self.nodes[node][0] == "down" else "drain", reason)
        return node in self.nodes

    def resume(self, node):
        if node in self.nodes:
            self.nodes[node] = ("up", "")
        return node in self.nodes

    def kill_node(self, node):
        if node not in self.nodes:
            return False
        self.nodes[node] = ("down", "Not responding")
        for key, task in self.tasks.items():
            if task.active() and node in task.nodes:
                left = tuple(n for n in task.nodes if n != node)
                self.change(key, nodes=left, runs=tuple(Run(node, "lost") if r.node == node else r for r in task.runs))
                if not left or not self.jobs[key[0]].no_kill:
                    self.end(key, "node")
        return True

    def shutdown(self):
        return all(t.state in ENDED for t in self.tasks.values())

    def end_run(self, key, node, code, signal):
        runs = tuple(r._replace(phase="ended", code=code, signal=signal) if r.node == node else r for r in self.tasks[key].runs)
        self.change(key, runs=runs)

    def forget(self, ended):
        """Of too many ended tasks, the jobs that ended first go. ended: {task: when}."""
        last = {job: max(ended[k] for k in self.of(job)) for job in self.jobs if self.over(job, 0)}
        many = sum(t.state in ENDED for t in self.tasks.values())
        for job in sorted(last, key=lambda j: (last[j], j)):
            if many <= KNOWN_ENDED:
                return
            many -= self.jobs[job].tasks
            for key in self.of(job):
                del self.tasks[key]
            del self.jobs[job]

    # ---- what is answered
    def seen(self):
        """{task or node: what `list` says about it}."""
        reasons, facts = self.plan()[1], {}
        for key, t in self.tasks.items():
            facts[f"{key[0]}_{key[1]}"] = (t.state, reasons.get(key, t.reason), t.restart, t.nodes,
                                           t.exit if t.state in ENDED else (0, 0), t.by)
        busy = {n for t in self.tasks.values() if t.active() for n in t.nodes}
        for node, (health, reason) in self.nodes.items():
            states = {"up": ("IDLE", "ALLOCATED"), "drain": ("DRAINED", "DRAINING"), "down": ("DOWN", "DOWN")}
            facts[node] = (states[health][node in busy], reason)
        return facts

    def up(self):
        """[(task, node)] of the commands that run and do not end by themselves."""
        return [(key, r.node) for key, t in self.tasks.items() if t.state == "RUNNING" for r in t.runs if r.phase == "up"]


def reachable(worlds, clock):
    """(all worlds that may follow, those of them in which nothing more happens)."""
    queue, every, still = list(worlds), {}, []
    while queue:
        world = queue.pop()
        key = world.key()
        if key in every:
            continue
        every[key] = world
        starts, events = world.plan()[0], world.events(clock)
        if starts:
            queue.append(world.started(starts))
        queue += [world.followed_by(e) for e in events]
        if not starts and not events:
            still.append(world)
    return list(every.values()), still


def settled(worlds, clock=True):
    return reachable(worlds, clock)[1]


def on_the_way(worlds):
    """Without the clock: what the scheduler may have come to when the next request reaches it."""
    return reachable(worlds, False)[0]
