"""Random operations on a real embedded scheduler, compared with the contract's model (contract.py) after each.

A lane has a scheduler, nodes and job processes of its own; several go side by side. A sequence ends where the answers differ, so
the story that is printed is its shortest failing prefix.
"""
import os
import time

from e2e import _harness
from embedded import contract
from embedded.contract import ENDED, Job
from embedded.contract_site import SECOND, Differs, Site, alive

OPERATIONS = 30


class Lane(Site):
    """One sequence of operations."""

    # ---- requests
    def request(self, words, by_model, kind, by_admin=(), **fields):
        """Asks, and leaves the worlds in which the contract answers the same."""
        way = self.draw.random()
        if by_admin and way < 0.15:
            words += " (local-admin)"
            done = self.scheduler.admin(*by_admin)
            answer = dict(good=done.returncode == 0, error=done.stderr)
        else:
            killed = self.draw.uniform(0, 0.004) if way > 0.93 and kind not in ("requeue", "shutdown") else None
            words += " (killed -9 while asked, and asked again)" if killed is not None else ""
            answer = self.scheduler.ask(kind, killed_after=killed, **fields)
        self.story.append(words)
        after = [w.copy() for w in self.worlds]
        self.worlds = [w for w in after if by_model(w, answer) == answer["good"]]
        if not self.worlds:
            raise Differs(f"answer {answer['good']} {answer['error']}, contract {not answer['good']}")
        return answer

    def some_job(self):
        world = self.worlds[0]
        live = [j for j in world.jobs if not world.over(j, 0)]
        return self.draw.choice(live if live and self.draw.random() < 0.85 else list(world.jobs))

    def some_target(self):
        """(job, task or 0, its text)."""
        job = self.some_job() + (1000 if self.draw.random() < 0.03 else 0)
        tasks = self.requests_of(job)
        task = self.draw.randint(1, tasks + (self.draw.random() < 0.03)) if self.draw.random() < 0.6 else 0
        return job, task, f"{job}_{task}" if task else str(job)

    def requests_of(self, job):
        return self.worlds[0].jobs[job].tasks if job in self.worlds[0].jobs else 1

    def draw_job(self):
        d, known = self.draw, self.worlds[0].jobs
        command = d.choice(["waits"] * 6 + ["stubborn", "missing"])
        tasks = 40 if d.random() < 0.02 else d.choice([1, 1, 2, 3, 4, 6])
        job = Job(0, f"t{len(self.requests)}", d.choice("abc"), min(tasks, 3) if command == "missing" else tasks, d.choice([1, 1, 2, 3, 99]),
                  d.choice([1, 1, 1, 2, min(3, self.size)]), command, no_kill=d.random() < 0.4, background=d.random() < 0.15,
                  singleton=d.random() < 0.3, begin=d.choice([""] * 14 + ["soon", "later"]))
        if known and d.random() < 0.15:
            other = d.choice(list(known))
            job = job._replace(after=((other, d.choice([0, 0, 1])),))
        if d.random() < 0.2:
            job = job._replace(exclude=tuple(sorted(d.sample(["n01", "n02", "n03", "n99"], d.choice([1, 1, 2])))))
        if d.random() < 0.06:  # what is refused
            wrong = d.choice([dict(tasks=0), dict(tasks=1001), dict(throttle=0), dict(nodes=0), dict(nodes=65), dict(nodes=self.size + 9),
                              dict(after=((self.newest + 100, 0),)), dict(after=((min(known, default=1), 99),))])
            job = job._replace(**wrong)
        return job

    def submit(self, job=None, limit=3600.0):
        job = job or self.draw_job()
        cluster = 0 if job.nodes <= 2 and self.draw.random() < 0.03 else self.size
        argv = ["/no/such/command"] if job.command == "missing" else ["/bin/bash", os.path.join(self.root, "job.sh"), job.command]
        fields = dict(token=job.token, name=job.name, array_tasks=job.tasks, throttle=job.throttle, nodes=job.nodes, time_limit=int(limit * SECOND),
                      signal_before=int(0.8 * SECOND) if job.signal else 0, kill_wait=int(0.3 * SECOND), no_kill=job.no_kill,
                      background=job.background, singleton=job.singleton, exclude=job.exclude, argv=argv, working_directory=self.work,
                      begin={"soon": "+700ms", "later": "now+2hours", "": ""}[job.begin], environment={"PATH": "/usr/bin:/bin"},
                      dependency="afterany:" + ":".join(f"{j}_{t}" if t else str(j) for j, t in job.after) if job.after else "",
                      cluster_nodes=cluster)
        shown = ", ".join(f"{k} {v}" for k, v in job._asdict().items() if k != "id" and v != getattr(Job(0, "", ""), k))

        def by_model(world, answer):
            return world.submit(job._replace(id=int(answer["job"] or 0)), cluster)

        answer = self.request(f"submit {shown}, time limit {limit} s", by_model, "submit", **fields)
        if not answer["good"]:
            return 0
        number = int(answer["job"])
        if number <= self.newest:
            raise Differs(f"job {number} after job {self.newest}")
        self.story[-1] += f" = job {number}"
        self.newest, self.requests[job.token], self.limits[number] = number, (number, fields), fields["time_limit"]
        return number

    def repeat(self):
        number, fields = self.draw.choice(list(self.requests.values()) or [(0, {})])
        if not fields:
            return self.submit()
        answer = self.request(f"submit {fields['token']} again", lambda w, a: True, "submit", **dict(fields, array_tasks=self.draw.choice([1, 5])))
        if answer["job"] != str(number):
            raise Differs(f"job {answer['job']}, contract {number}")

    def cancel(self):
        job, task, text = self.some_target()
        waiting, stoker, own = self.draw.random() < 0.4, self.draw.random() < 0.5, self.worlds[0].jobs.get(job)
        token = self.draw.choice(["", own.token if own else "", own.token if own else "", "another"])
        by = (os.getuid(), stoker)
        self.request(f"cancel {text}{' waiting' * waiting}{' by stoker' * stoker} token \"{token}\"",
                     lambda w, a: w.cancel(job, task, waiting, by, token), "cancel",
                     by_admin=() if waiting or stoker or token else ("cancel", text), job=text, token=token, pending_only=waiting, by_stoker=stoker)

    def hold(self, held=True):
        job, task, text = self.some_target()
        verb = "hold" if held else "release"
        self.request(f"{verb} {text}", lambda w, a: w.hold(job, task, held), verb, by_admin=(verb, text), job=text)

    def release(self):
        self.hold(False)

    def requeue(self):
        job, task, text = self.some_target()
        self.request(f"requeue {text}", lambda w, a: w.requeue(job, task), "requeue", by_admin=("requeue", text), job=text)

    def exclude(self):
        job, _, text = self.some_target()
        token = self.worlds[0].jobs[job].token if job in self.worlds[0].jobs and self.draw.random() < 0.9 else "another"
        nodes = tuple(sorted(self.draw.sample(["n01", "n02", "n03"], self.draw.choice([0, 1, 1, 2]))))
        self.request(f"exclude {' '.join(nodes) or 'nothing'} for {text}, token {token}", lambda w, a: w.exclude(job, token, nodes), "exclude",
                     job=text, token=token, nodes=nodes)

    def node(self, verb, kind, by_model, *more, **fields):
        node = f"n{self.draw.randint(1, self.size):02}" if self.draw.random() < 0.97 else "n77"
        self.request(" ".join([verb, node, *more]), lambda w, a: by_model(w, node), kind, by_admin=(verb, node, *more), node=node, **fields)

    def drain(self):
        reason = self.draw.choice(["fan", "loose cable"])
        self.node("drain", "drain", lambda w, n: w.drain(n, reason), reason, reason=reason)

    def resume(self):
        self.node("resume", "resume", lambda w, n: w.resume(n))

    def kill_node(self):
        self.node("kill-node", "kill_node", lambda w, n: w.kill_node(n))

    def shutdown(self):
        if self.request("shutdown", lambda w, a: w.shutdown(), "shutdown", by_admin=("shutdown",))["good"]:
            self.scheduler.wait_until_left()

    # ---- what happens to processes
    def end(self, to=None):
        """A task's command ends on one node, by itself or not."""
        up = [u for u in self.worlds[0].up() if to in (None, u[0])]
        if not up:
            return self.submit()
        key, node = self.draw.choice(up)
        place = (*key, self.worlds[0].tasks[key].restart, node)
        stubborn = self.worlds[0].jobs[key[0]].command == "stubborn"
        how = self.draw.choice(["exit"] * 6 + ["signal", "signal", "orphan", "killed", "watcher killed", "watcher TERM"])
        code, number = 0, 0
        if how in ("exit", "orphan"):
            code = self.draw.choice([0, 0, 1, 3, 137, 200])
        else:
            number = {"signal": self.draw.choice([6, 9, 11]), "watcher TERM": 9 if stubborn else 15}.get(how, 9)
        self.story.append(f"{key[0]}_{key[1]} on {node}: {how} {code or number}")
        if how in ("exit", "orphan", "signal"):
            pipe = os.open(os.path.join(self.work, ".".join(map(str, place))), os.O_WRONLY | os.O_NONBLOCK)
            os.write(pipe, f"{how} {code or number}\n".encode())
            os.close(pipe)
        else:
            os.kill(self.pids[place][how != "killed"], 15 if how == "watcher TERM" else 9)
        for world in self.worlds:
            world.end_run(key, node, code, number)

    def kill(self):
        self.story.append("the scheduler is killed -9")
        self.scheduler.kill()

    def start(self):
        self.story.append("and started")
        self.scheduler.start()

    def outage(self):
        self.kill()
        for _ in range(self.draw.choice([0, 1, 1, 2])):
            if self.worlds[0].up():
                self.end()
        self.start()

    def limit(self):
        """A time limit is over: while the scheduler lives, while it is away, or after the command has ended unseen."""
        how = self.draw.choice(["seen", "away", "ended"])
        job = self.draw_job()._replace(tasks=self.draw.choice([1, 1, 2]), throttle=1, begin="", after=(), exclude=(), short=True,
                                       signal=self.draw.random() < 0.6, command=self.draw.choice(["waits", "waits", "stubborn"]))
        job = job._replace(nodes=max(1, min(job.nodes, self.size)))
        number = self.submit(job, {"seen": 1.6, "away": 2.0, "ended": 3.0}[how])
        key = (number, 1)
        if how == "seen":
            return
        self.compare(contract.settled(self.worlds, clock=False) + contract.settled(self.worlds))
        if self.worlds[0].tasks[key].state != "RUNNING":
            return
        self.kill()
        late = []
        if how == "ended":
            nodes = len(self.worlds[0].tasks[key].runs)
            places = [(*key, self.worlds[0].tasks[key].restart, n) for n in self.worlds[0].tasks[key].nodes]
            before = [w.copy() for w in self.worlds]
            for _ in range(nodes):
                self.end(to=key)
            while any(alive(self.pids[p][1]) for p in places):
                time.sleep(0.01)
            late = before if time.time() > self.ends_at[key] - 0.2 else []  # this machine was too slow: either is right
        time.sleep(max(0, self.ends_at[key] + 0.3 - time.time()))
        self.worlds += late
        self.start()

    # ---- a sequence
    def step(self):
        requests = [self.submit] * 4 + [self.cancel] * 4 + [self.hold, self.release, self.release, self.requeue, self.requeue, self.exclude,
                                                            self.drain, self.resume, self.resume, self.kill_node, self.repeat]
        operation = self.draw.choice(requests + [self.end] * 6 + [self.outage] * 2 + [self.limit]) if self.worlds[0].jobs else self.submit
        if self.draw.random() < 0.02:
            operation = self.shutdown
        operation()
        timed = any(j.short or j.begin == "soon" for j in self.worlds[0].jobs.values() if not self.worlds[0].over(j.id, 0))
        if operation in requests and not timed and self.worlds[0].jobs and self.draw.random() < 0.15:
            self.story.append("at once")
            self.worlds = contract.on_the_way(self.worlds)
            self.draw.choice(requests[4:-1])()
        if self.draw.random() < 0.1:
            self.outage() if operation == self.end else (self.kill(), self.start())
        self.settle()

    def purge(self):
        """So many tasks end that the jobs that ended first are forgotten; durably."""
        ended = len(self.ended)
        for tasks in (1000, 1000 - ended + self.draw.randint(0, ended)):
            if not 1 <= tasks <= 1000:
                return
            job = self.submit(Job(0, f"p{tasks}-{len(self.requests)}", "purge", tasks, begin="later"))
            self.request(f"cancel {job}", lambda w, a, j=job: w.cancel(j, 0, False, (os.getuid(), False)), "cancel", job=str(job))
            self.look()
        for world in self.worlds:
            world.forget(self.ended)
        self.settle()
        self.kill()
        self.start()
        self.settle()
        observed = self.scheduler.ask("observe")["jobs"]
        known = {f"{k[0]}_{k[1]}": self.ended.get(k, 0) for k, t in self.worlds[0].tasks.items() if t.state in ENDED}
        shown = [known.pop(j["job"]) for j in observed if j["state"] in ENDED]
        if len(shown) != min(512, len(shown) + len(known)) or min(shown) < max(known.values(), default=0):
            raise Differs(f"observe shows {len(shown)} ended tasks, not those that ended last")

    def observe(self):
        """observe shows the same as list, of the names asked for; a token is found."""
        answer, facts = self.scheduler.ask("observe", names=["a"]), self.look()
        wanted = {f"{k[0]}_{k[1]}" for k in self.worlds[0].tasks if self.worlds[0].jobs[k[0]].name == "a"}
        if {j["job"] for j in answer["jobs"]} != wanted or any(j["state"] != facts[j["job"]][0] for j in answer["jobs"]):
            raise Differs("observe shows other jobs than list")
        for number, fields in list(self.requests.values())[-1:]:
            if (found := self.scheduler.ask("find_token", token=fields["token"])["job"]) != str(number):
                raise Differs(f"token {fields['token']} is of job {found}, contract {number}")
        if self.scheduler.ask("find_token", token="another")["job"]:
            raise Differs("an unknown token is found")

    def play(self):
        """What differed, with the story; "" when nothing did."""
        try:
            for _ in range(OPERATIONS):
                self.step()
            self.observe()
            if self.seed % 5 == 0:
                self.purge()
            self.close()
            return ""
        except (Differs, _harness.Failed, OSError) as difference:
            return f"seed {self.seed}: {'; '.join(self.story)}\n    {difference or repr(difference)}"
        finally:
            self.clean()
