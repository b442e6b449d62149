"""The simulator's SLURM against the real one: the same random operations on both, the same answers afterwards.

Each sequence has a lane of nodes, one or two, and a model of its own; several go side by side on one cluster, whose controller is
restarted now and then, every second time with a MinJobAge that purges what has ended. After every operation the answers that
stoker asks for (both forms of squeue, scontrol show job, sinfo, sacct where there are accounts) are compared without ids, times and
what model_differences.txt lists; the real ones may take a moment. A sequence ends where it differs, so the story that is printed
is its shortest failing prefix. STOKER_SEED is the first sequence's seed, STOKER_SEQUENCES their number (21, or 9 with accounts;
500 with STOKER_LONG, which writes what agreed into STOKER_PROVED).
"""
import contextlib
import json
import os
import random
import re
import subprocess
import time

import proved
from e2e import _harness
from e2e._harness import check
from slurm.cluster import Unavailable
from slurm.real._site import by_commands, main
from slurm.real._views import ACCOUNTS, NODES, NUMBERS, ROWS, View

HERE = os.path.dirname(os.path.abspath(__file__))
LANES = [("n01", "n02"), ("n03", "n04"), ("n05", "n06"), ("n07", "n08"), ("n09",), ("n10",), ("n11",), ("n12",), ("n13",), ("n14",)]
SPARE = "n15"  # in no lane: what is excluded
OPERATIONS = 30
CI_SEQUENCES, CI_WITH_ACCOUNTS, LONG_SEQUENCES = 21, 9, 500
RESTART_AFTER = 150  # operations of all lanes
SETTLES_S = 90  # a requeued job starts after cred_expire, which is 15 s here; limits are checked every 30 s; a loaded machine is slow
REMEMBERS_S, PURGES_S = 900, 2
SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --comment={name}
#SBATCH --time=30-00:00:00
#SBATCH --output=/dev/null
{more}
task=${{SLURM_ARRAY_TASK_ID:-0}}
[ $task -lt 4294967294 ] || task=0
fifo={folder}/$SLURM_JOB_NAME.$task
[ -p $fifo ] || mkfifo $fifo
read code signal < $fifo
[ $signal = 0 ] || kill -$signal $$
exit $code
"""


def model_command():
    """argv of the simulator's SLURM; in a root of another Debian by the bundle's loader, from the build folder beside the bundle."""
    bundle = os.path.dirname(_harness.BIN)
    loader = os.path.join(bundle, "lib", "ld.so")
    if not os.path.exists(loader):
        return [os.path.join(_harness.BIN, "slurm_model")]
    program = os.path.join(os.path.dirname(bundle), "bin", "slurm_model")
    if not os.path.exists(program):
        raise Unavailable(f"no slurm_model beside this bundle: {program}")
    return [loader, "--library-path", os.path.join(bundle, "lib"), program]


class Model:
    """The simulator's SLURM, a process."""

    def __init__(self, nodes, version, accounts):
        words = [str(nodes), "".join(version.split(".")[:2])] + ["accounts"] * accounts
        self.process = subprocess.Popen([*model_command(), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


class Lane:
    """One sequence of operations."""

    def __init__(self, site, nodes, seed, folder, version):
        self.site, self.cluster, self.folder, self.seed = site, site.cluster, folder, seed
        self.nodes = (nodes, tuple(f"n{n + 1:04}" for n in range(len(nodes))))  # the real ones, the model's
        self.draw = random.Random(seed)
        self.model = Model(len(nodes), version, self.cluster.accounting)
        self.jobs = []  # (name, tasks, real id, model's id, nodes, options)
        self.story, self.codes, self.operations = [], None, 0
        self.until = 0  # when the real answers have to be right

    def known(self, side):
        return {n: job[2 + side] for n, job in enumerate(self.jobs)}

    def where(self, count):
        """Numbers of as many of the lane's nodes as a job of this size asks for by their names."""
        return sorted(self.draw.sample(range(len(self.nodes[0])), count))

    def named(self, side, where):
        return ",".join(self.nodes[side][n] for n in where)

    def submit(self):
        tasks = self.draw.choice([0, 1, 2, 3, 4, 6])
        more = [f"--array=1-{tasks}%{self.draw.choice([1, 1, 1, 2, 3])}"] if tasks else []
        more += ["--hold"] if self.draw.random() < 0.2 else []
        more += ["--requeue" if self.draw.random() < 0.3 else "--no-requeue"]
        count = self.draw.randint(1, len(self.nodes[0]))
        more += ["--no-kill"] if count > 1 and self.draw.random() < 0.5 else []
        where = self.where(count)
        name = f"s{self.seed}j{len(self.jobs)}"

        def script(side):
            options = [*more, f"--nodes={count}", f"--nodelist={self.named(side, where)}"]
            return SCRIPT.format(name=name, more="\n".join("#SBATCH " + option for option in options), folder=self.folder)
        path = os.path.join(self.folder, name + ".sh")
        with open(path, "w", encoding="utf-8") as f:
            f.write(script(0))
        real = self.cluster.run("sbatch", "--parsable", path).stdout.strip()
        said = self.model.ask(argv=["sbatch", "--parsable", path], script=script(1))
        self.jobs.append((name, tasks, real, said["out"].strip(), count, more))
        self.story.append(f"submit job {len(self.jobs) - 1}: {' '.join(more)} on nodes {where}")

    def order(self, n, task, argv, root=False, where=()):
        """{J} in a word is job n's id, {T} the same or one task's, {N} the lane's nodes `where`."""
        words = [[w.replace("{J}", self.jobs[n][2 + side]).replace("{T}", self.jobs[n][2 + side] + task).replace("{N}", self.named(side, where))
                  for w in argv] for side in (0, 1)]
        self.story.append(" ".join(argv).replace("{J}", f"job {n}").replace("{T}", f"job {n}{task}").replace("{N}", f"{where}"))
        done = self.cluster.run(*words[0], root=root, ok=False)
        for _ in range(SETTLES_S):  # a job whose row slurmdbd has not confirmed yet
            if "try again in a bit" not in done.stderr:
                break
            time.sleep(1)
            done = self.cluster.run(*words[0], root=root, ok=False)
        said = self.model.ask(argv=words[1])
        self.codes = (argv[:2], done.returncode != 0, said["rc"] != 0, (done.stderr or said["err"]).strip())

    def command(self, *argv, root=False):
        n = self.draw.randrange(len(self.jobs))
        task = f"_{self.draw.randint(1, max(1, self.jobs[n][1]))}" if self.jobs[n][1] and self.draw.random() < 0.6 else ""
        self.order(n, task, argv, root, self.where(1))

    def list_nodes(self):
        """A job is to run on other nodes. Of an array, scontrol takes one task at a time; of one that runs, it loses count."""
        n = self.draw.randrange(len(self.jobs))
        number = self.draw.randint(1, self.jobs[n][1]) if self.jobs[n][1] else "rest"
        if (n, str(number)) in self.tasks("RUNNING", "SUSPENDED"):
            return self.submit()
        task = "" if number == "rest" else f"_{number}"
        self.order(n, task, ("scontrol", "update", "JobId={T}", "NodeList={N}"), where=self.where(self.jobs[n][4]))

    def tasks(self, *states):
        """[(number of the job, task)] of those in these states."""
        view = self.view_of_model()
        return sorted((n, task) for (kind, n, task), fact in view.facts.items() if kind == "squeue" and fact[0] in states)

    def end(self):
        """A task's script ends by itself, or the task's time is over."""
        runs = self.tasks("RUNNING")
        if not runs:
            return self.submit()
        n, task = self.draw.choice(runs)
        # The limit stays so short for another start: only of jobs that are not requeued.
        if "--no-requeue" in self.jobs[n][5] and self.draw.random() < 0.1:
            return self.order(n, "" if task == "rest" else "_" + task, ("scontrol", "update", "JobId={T}", "EndTime=now+1"), root=True)
        code, how = self.draw.choice([(0, 0), (0, 0), (1, 0), (3, 0), (137, 0), (0, 9), (0, 15), (0, 10)])
        number = 0 if task == "rest" else int(task)
        fifo = os.path.join(self.folder, f"{self.jobs[n][0]}.{number}")

        def written():
            with contextlib.suppress(OSError):
                pipe = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
                os.write(pipe, f"{code} {how}\n".encode())
                os.close(pipe)
                return True
        self.story.append(f"job {n}, task {task} ends with {code}, signal {how}")
        self.site.wait(written, SETTLES_S, f"the script of {fifo}: {self.tell()}")
        self.model.ask(end=int(self.jobs[n][3]), task=number, code=code, signal=how)

    def step(self):
        self.operations += 1
        self.draw_operation()
        self.settles()

    def settles(self):
        self.until = time.monotonic() + SETTLES_S

    def close(self):
        """The node is as it was; what is left of the jobs on it does not matter to the next sequence."""
        self.model.close()
        if self.jobs:
            self.cluster.run("scancel", *(job[2] for job in self.jobs), ok=False)
        for node in self.nodes[0]:
            self.cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME", root=True, ok=False)

    def draw_operation(self):
        self.codes = None
        if not self.jobs or self.draw.random() < 0.15:
            return self.submit()
        if self.draw.random() < 0.25:
            return self.end()
        if self.draw.random() < 0.07:
            return self.list_nodes()
        argv, root = self.draw.choice([
            (("scancel", "{J}"), False), (("scancel", "{T}"), False), (("scancel", "{T}"), False), (("scancel", "--state=PENDING", "{J}"), False),
            (("scancel", "--state=PENDING", "{T}"), False), (("scontrol", "hold", "{T}"), False), (("scontrol", "release", "{T}"), False),
            (("scontrol", "release", "{J}"), False), (("scontrol", "requeue", "{T}"), False), (("scontrol", "suspend", "{T}"), True),
            (("scontrol", "resume", "{T}"), True), (("scontrol", "update", "JobId={T}", "TimeLimit=3000"), True),
            (("scontrol", "update", "JobId={J}", "ExcNodeList=" + SPARE), False), (("scontrol", "update", "JobId={J}", "ExcNodeList="), False),
            (("scontrol", "update", "NodeName={N}", "State=DOWN", "Reason=fan"), True),
            (("scontrol", "update", "NodeName={N}", "State=DRAIN", "Reason=fan"), True),
            (("scontrol", "update", "NodeName={N}", "State=RESUME"), True), (("scontrol", "update", "NodeName={N}", "State=RESUME"), True)])
        return self.command(*argv, root=root)

    def view_of_model(self):
        rows, numbers, details, nodes = (self.model.ask(argv=a, **{"pass": 0})["out"] for a in (
            ["squeue", "-o", ROWS], ["squeue", "-j", ",".join(j[3] for j in self.jobs) or "0", "-O", NUMBERS], ["scontrol", "show", "job", "-o"], ["sinfo"]))
        accounts = self.model.ask(argv=[*ACCOUNTS, "-j", ",".join(j[3] for j in self.jobs) or "0"], **{"pass": 0})["out"] if self.cluster.accounting else ""
        return View(self.known(1), self.nodes[1], rows, numbers, details, nodes, accounts)

    def tell(self):
        return f"seed {self.seed}: " + "; ".join(self.story)


def ask_real(cluster, jobs):
    def say(*argv):
        return cluster.run(*argv, ok=False, env=cluster.environment(SLURM_TIME_FORMAT="%s")).stdout
    return (say("squeue", "-a", "-h", "-r", "-t", "all", "-o", ROWS), say("squeue", "-a", "-h", "-r", "-t", "all", "-O", NUMBERS),
            say("scontrol", "show", "job", "-o"), say("sinfo", "-a", "-N", "-h", "-o", NODES),
            say(*ACCOUNTS, "-j", ",".join(jobs)) if cluster.accounting and jobs else "")


def excused(version):
    """Lines "VERSIONS<tab>PATTERN<tab>REASON": what of a difference's text is known of these versions, and why it does not matter."""
    with open(os.path.join(HERE, "model_differences.txt"), encoding="utf-8") as f:
        lines = [line.split("\t") for line in f if line.strip() and not line.startswith("#")]
    return [re.compile(pattern) for versions, pattern, _ in lines if any(version.startswith(v) for v in versions.split(","))]


def other_order(different, real, model):
    """Two requeued tasks of one array of which SLURM has started one and the model the other: those of `different` that this leaves,
    and a line about it."""
    def goes(states):
        return sorted((n, task) for kind, n, task in different if kind == "scontrol" and
                      tuple((side.get((kind, n, task)) or ("",))[0] for side in (real, model)) == states and
                      all(side[kind, n, task][1] != "0" for side in (real, model)))
    first, second = goes(("RUNNING", "PENDING")), goes(("PENDING", "RUNNING"))
    for (n, task), (other_n, other) in zip(first, second):
        if n == other_n:
            rest = [key for key in different if key[1:] not in ((n, task), (n, other))]
            return rest, [f"order job {n}: SLURM started task {task}, model task {other}"]
    return different, []


def compare(lane, answers, known):
    """What differs now, as text; whether the two have gone different ways for a reason that is listed."""
    model = lane.view_of_model()
    real = View(lane.known(0), lane.nodes[0], *answers)
    different = [key for key in sorted(set(model.facts) | set(real.facts)) if model.facts.get(key) != real.facts.get(key)]
    different, found = other_order(different, real.facts, model.facts)
    parts = bool(found)
    for key in different:
        found.append(f"{key[0]} job {key[1]} task {key[2]}: SLURM {real.facts.get(key)}, model {model.facts.get(key)}")
    if lane.codes and lane.codes[1] != lane.codes[2]:
        found.append(f"exit of {' '.join(lane.codes[0])}: SLURM {lane.codes[1]}, model {lane.codes[2]}: {lane.codes[3]}")
    return [f for f in found if not any(k.search(f) for k in known)], parts


def restart(site, lanes, purges):
    """What the controller knew, it knows; with `purges`, what has ended it forgets."""
    for lane in lanes:
        lane.story.append("(the controller is restarted" + (" and forgets what has ended)" if purges else ")"))
        lane.codes = None
        lane.model.ask(restart=True)
        if purges:
            lane.model.ask(purge=True)
    with open(site.cluster.conf, encoding="utf-8") as f:
        text = re.sub(r"(?m)^MinJobAge=.*$", f"MinJobAge={PURGES_S if purges else REMEMBERS_S}", f.read())
    with open(site.cluster.conf, "w", encoding="utf-8") as f:
        f.write(text)
    site.cluster.stop("slurmctld", 15)
    site.cluster.start_controller()
    # A node that has not registered yet cannot be resumed; of a drained one, sinfo does not show that.
    site.wait(lambda: "State=UNKNOWN" not in site.cluster.run("scontrol", "show", "node", "-o").stdout, SETTLES_S, "the nodes to register")
    for lane in lanes:
        lane.settles()


class Player:
    """All sequences, one a lane at a time."""

    def __init__(self, site, seeds, folder, version):
        self.site, self.seeds, self.folder, self.version, self.known = site, iter(seeds), folder, version, excused(version)
        self.free, self.lanes, self.different = list(LANES), [], []
        self.played, self.since_restart, self.restarts, self.purging = 0, 0, 0, False

    def play(self):
        try:
            while self.go_on():
                answers = ask_real(self.site.cluster, [job[2] for lane in self.lanes for job in lane.jobs])
                for lane in [lane for lane in self.lanes if lane.until != 0]:
                    self.look(lane, answers)
        finally:
            for lane in self.lanes:
                lane.close()

    def go_on(self):
        settled = [lane for lane in self.lanes if lane.until == 0]
        if self.since_restart < RESTART_AFTER:
            for lane in settled:
                lane.step()
            self.since_restart += len(settled)
            while self.free and (seed := next(self.seeds, None)) is not None:
                self.lanes.append(Lane(self.site, self.free.pop(0), seed, self.folder, self.version))
                self.lanes[-1].step()
        elif len(settled) == len(self.lanes):
            self.restarts += not self.purging
            self.purging = not self.purging and self.restarts % 2 == 1  # a restart follows that no longer purges
            restart(self.site, self.lanes, self.purging)
            self.since_restart = self.since_restart if self.purging else 0
        return self.lanes

    def look(self, lane, answers):
        text, parts = compare(lane, answers, self.known)
        if (text or parts) and time.monotonic() < lane.until:
            return
        lane.until = 0
        if parts and not text:
            print(f"seed {lane.seed} ends after {lane.operations} operations: two requeued tasks have started in the other order", flush=True)
        if text:
            self.different.append(f"{lane.tell()}\n    " + "\n    ".join(text))
            print(self.different[-1], flush=True)
        if text or parts or lane.operations >= OPERATIONS:
            self.played += 1
            self.lanes.remove(lane)
            lane.close()
            self.free.append(lane.nodes[0])


def play(site, in_ci):
    folder = os.path.join(site.cluster.scratch, "model")
    os.mkdir(folder)
    os.chown(folder, site.cluster.uid, site.cluster.gid)
    count = int(os.environ.get("STOKER_SEQUENCES", LONG_SEQUENCES if os.environ.get("STOKER_LONG") else in_ci))
    first = int(os.environ.get("STOKER_SEED", 1))
    version = site.cluster.run("squeue", "--version").stdout.split()[-1]
    began = time.monotonic()
    player = Player(site, range(first, first + count), folder, version)
    player.play()
    played, different, seconds = player.played, player.different, time.monotonic() - began
    print(f"{played} sequences of {OPERATIONS} operations, from seed {first}: {len(different)} differ, {seconds:.0f} s", flush=True)
    if "STOKER_PROVED" in os.environ:
        accounts = ", accounts" if site.cluster.accounting else ""
        proved.write_down(os.environ["STOKER_PROVED"], "tests/slurm/real/model.py with STOKER_LONG and STOKER_PROVED",
                          f"model, slurmctld {version}{accounts}", f"sequences of {OPERATIONS} operations", "differ",
                          [(first, first + played - 1, len(different), seconds)])
    check(not different, "\n".join(different))


@by_commands
def model_agrees(site):
    """Random operations: the model of SLURM that the simulator uses answers as SLURM does."""
    play(site, CI_SEQUENCES)


@by_commands
def model_agrees_with_accounts(site):
    """The same with sacct."""
    play(site, CI_WITH_ACCOUNTS)


model_agrees.cluster = dict(scheduler_parameters="sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0", min_job_age=REMEMBERS_S,
                            return_to_service=1, cred_expire=15, cpus=64, nodes=15)
model_agrees_with_accounts.cluster = dict(model_agrees.cluster, accounting=True)

if __name__ == "__main__":
    main(model_agrees, model_agrees_with_accounts)
