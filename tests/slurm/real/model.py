"""The simulator's SLURM against the real one: the same random operations on both, the same answers afterwards.

Each sequence has a node and a model of its own; several go side by side on one cluster, whose controller is restarted now and
then. After every operation the answers that stoker asks for (both forms of squeue, scontrol show job, sinfo) are compared without
ids, times and what model_differences.txt lists; the real ones may take a moment. A sequence ends where it differs, so the story
that is printed is its shortest failing prefix. STOKER_SEED is the first sequence's seed, STOKER_SEQUENCES their number (21; 500
with STOKER_LONG, which writes what agreed into STOKER_PROVED).
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

HERE = os.path.dirname(os.path.abspath(__file__))
# As slurm/queue_poll.cpp and slurm/node_states.cpp ask.
ROWS = "\x1f".join(f"%{letter}" for letter in "AFKTrSeVNUuojk")
NUMBERS = "JobArrayID:64,RestartCnt:16,exit_code:16"
NODES = "%N\x1f%T\x1f%E"
LANES, OPERATIONS = 7, 30
CI_SEQUENCES, LONG_SEQUENCES = 21, 500
RESTART_AFTER = 105  # operations of all lanes
SETTLES_S = 60  # a requeued job starts after cred_expire, which is 15 s here; a loaded machine is slow
SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --comment={name}
#SBATCH --nodes=1
#SBATCH --time=30-00:00:00
#SBATCH --output=/dev/null
#SBATCH --nodelist={node}
{more}
task=${{SLURM_ARRAY_TASK_ID:-0}}
[ $task -lt 4294967294 ] || task=0
fifo={folder}/$SLURM_JOB_NAME.$task
[ -p $fifo ] || mkfifo $fifo
read code < $fifo
exit $code
"""


class Model:
    """The simulator's SLURM, a process."""

    def __init__(self):
        self.process = subprocess.Popen([os.path.join(_harness.BIN, "slurm_model")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def tasks_of(text):
    """The tasks that scontrol names: "3", "2-4,6%1"; "rest" for NO_VAL."""
    found = []
    for part in text.split("%")[0].split(","):
        first, _, last = part.partition("-")
        found += ["rest"] if int(first) >= 0xfffffffe else [str(n) for n in range(int(first), int(last or first) + 1)]
    return found


class View:
    """Answers of one SLURM about the jobs of one sequence, as far as stoker reads them."""

    def __init__(self, known, rows, numbers, details, nodes):
        self.facts = {}
        index = {str(job): n for n, job in known.items()}
        for line in rows.splitlines():
            raw, array, task, state, reason, _, _, _, where, _, _, _, name, comment = line.split("\x1f")
            if array not in index:
                continue
            task = "rest" if task == "N/A" else task
            held = reason if state == "PENDING" and reason.startswith("JobHeld") else ""
            self.facts["squeue", index[array], task] = (state, held, "placed" if where else "", "own" if raw != array else "array's",
                                                        name == comment)
        for line in numbers.splitlines():
            words = line.split()
            array, _, task = words[0].partition("_") if words else ("", "", "")
            if array in index:
                self.facts["numbers", index[array], task or "rest"] = tuple(words[1:])
        for line in details.splitlines():
            record = dict(re.findall(r"(?:^| )(\w+)=(\S*)", line))
            array = record.get("ArrayJobId", record.get("JobId"))
            if array not in index:
                continue
            for task in tasks_of(record["ArrayTaskId"]) if "ArrayTaskId" in record else ["rest"]:
                waits = record["JobState"] == "PENDING"
                self.facts["scontrol", index[array], task] = (record["JobState"], record["Restarts"], record["ExitCode"], waits and record["ExcNodeList"])
        for line in nodes.splitlines():
            _, state, reason = line.split("\x1f")
            out = state.startswith(("down", "drain"))
            self.facts["sinfo", 0, "node"] = ("out" if out else "usable", "drained" if state.startswith("drain") else "", reason if out else "")


class Lane:
    """One sequence of operations."""

    def __init__(self, site, node, seed, folder):
        self.site, self.cluster, self.folder, self.seed, self.node = site, site.cluster, folder, seed, node
        self.draw = random.Random(seed)
        self.model = Model()
        self.jobs = []  # (name, tasks, real id, model's id)
        self.story, self.codes, self.operations = [], None, 0
        self.until = 0  # when the real answers have to be right

    def known(self, side):
        return {n: job[2 + side] for n, job in enumerate(self.jobs)}

    def submit(self):
        tasks = self.draw.choice([0, 1, 2, 3, 4, 6])
        more = [f"#SBATCH --array=1-{tasks}%{self.draw.choice([1, 1, 1, 2, 3])}"] if tasks else []
        more += ["#SBATCH --hold"] if self.draw.random() < 0.2 else []
        more += ["#SBATCH --requeue" if self.draw.random() < 0.3 else "#SBATCH --no-requeue"]
        name = f"s{self.seed}j{len(self.jobs)}"
        script = SCRIPT.format(name=name, node=self.node, more="\n".join(more), folder=self.folder)
        path = os.path.join(self.folder, name + ".sh")
        with open(path, "w", encoding="utf-8") as f:
            f.write(script)
        real = self.cluster.run("sbatch", "--parsable", path).stdout.strip()
        said = self.model.ask(argv=["sbatch", "--parsable", path], script=script.replace(self.node, "n0001"))
        self.jobs.append((name, tasks, real, said["out"].strip()))
        self.story.append(f"submit job {len(self.jobs) - 1}: {' '.join(more).replace('#SBATCH ', '')}")

    def command(self, *argv, root=False):
        """{J} in a word is the job's id, {N} the node."""
        n = self.draw.randrange(len(self.jobs))
        task = f"_{self.draw.randint(1, max(1, self.jobs[n][1]))}" if self.jobs[n][1] and self.draw.random() < 0.6 else ""
        words = [[w.replace("{J}", self.jobs[n][2 + side]).replace("{T}", self.jobs[n][2 + side] + task).replace("{N}", node) for w in argv]
                 for side, node in ((0, self.node), (1, "n0001"))]
        self.story.append(" ".join(argv).replace("{J}", f"job {n}").replace("{T}", f"job {n}{task}"))
        done = self.cluster.run(*words[0], root=root, ok=False)
        said = self.model.ask(argv=words[1])
        self.codes = (argv[:2], done.returncode != 0, said["rc"] != 0, (done.stderr or said["err"]).strip())

    def end(self):
        """A task's script ends by itself."""
        view = self.view_of_model()
        runs = sorted((n, task) for (kind, n, task), fact in view.facts.items() if kind == "squeue" and fact[0] == "RUNNING")
        if not runs:
            return self.submit()
        n, task = self.draw.choice(runs)
        code = self.draw.choice([0, 0, 1, 3, 137])
        number = 0 if task == "rest" else int(task)
        fifo = os.path.join(self.folder, f"{self.jobs[n][0]}.{number}")

        def written():
            with contextlib.suppress(OSError):
                pipe = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
                os.write(pipe, f"{code}\n".encode())
                os.close(pipe)
                return True
        self.story.append(f"job {n}, task {task} ends with {code}")
        self.site.wait(written, SETTLES_S, f"the script of {fifo}: {self.tell()}")
        self.model.ask(end=int(self.jobs[n][3]), task=number, code=code)

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
        self.cluster.run("scontrol", "update", f"NodeName={self.node}", "State=RESUME", root=True, ok=False)

    def draw_operation(self):
        self.codes = None
        if not self.jobs or self.draw.random() < 0.15:
            return self.submit()
        if self.draw.random() < 0.25:
            return self.end()
        argv, root = self.draw.choice([
            (("scancel", "{J}"), False), (("scancel", "{T}"), False), (("scancel", "{T}"), False), (("scancel", "--state=PENDING", "{J}"), False),
            (("scancel", "--state=PENDING", "{T}"), False), (("scontrol", "hold", "{T}"), False), (("scontrol", "release", "{T}"), False),
            (("scontrol", "release", "{J}"), False), (("scontrol", "requeue", "{T}"), False), (("scontrol", "suspend", "{T}"), True),
            (("scontrol", "resume", "{T}"), True), (("scontrol", "update", "JobId={T}", "TimeLimit=3000"), True),
            (("scontrol", "update", "JobId={J}", "ExcNodeList=n08"), False), (("scontrol", "update", "JobId={J}", "ExcNodeList="), False),
            (("scontrol", "update", "NodeName={N}", "State=DOWN", "Reason=fan"), True),
            (("scontrol", "update", "NodeName={N}", "State=DRAIN", "Reason=fan"), True),
            (("scontrol", "update", "NodeName={N}", "State=RESUME"), True), (("scontrol", "update", "NodeName={N}", "State=RESUME"), True)])
        return self.command(*argv, root=root)

    def view_of_model(self):
        rows, numbers, details, nodes = (self.model.ask(argv=a, **{"pass": 0})["out"] for a in (
            ["squeue", "-o", ROWS], ["squeue", "-j", ",".join(j[3] for j in self.jobs) or "0", "-O", NUMBERS], ["scontrol", "show", "job", "-o"], ["sinfo"]))
        return View(self.known(1), rows, numbers, details, nodes)

    def tell(self):
        return f"seed {self.seed}: " + "; ".join(self.story)


def ask_real(cluster):
    def say(*argv):
        return cluster.run(*argv, ok=False, env=cluster.environment(SLURM_TIME_FORMAT="%s")).stdout
    nodes = say("sinfo", "-a", "-N", "-h", "-o", NODES).splitlines()
    return (say("squeue", "-a", "-h", "-r", "-t", "all", "-o", ROWS), say("squeue", "-a", "-h", "-r", "-t", "all", "-O", NUMBERS),
            say("scontrol", "show", "job", "-o"), {line.split("\x1f")[0]: line for line in nodes})


def excused():
    """Lines "WHERE<tab>PATTERN<tab>REASON": what of a difference's text is known, and why it does not matter."""
    with open(os.path.join(HERE, "model_differences.txt"), encoding="utf-8") as f:
        return [re.compile(line.split("\t")[0]) for line in f if line.strip() and not line.startswith("#")]


def compare(lane, answers, known):
    """What differs now, as text."""
    model = lane.view_of_model()
    real = View(lane.known(0), *answers[:3], answers[3].get(lane.node, ""))
    found = []
    for key in sorted(set(model.facts) | set(real.facts)):
        if model.facts.get(key) != real.facts.get(key):
            found.append(f"{key[0]} job {key[1]} task {key[2]}: SLURM {real.facts.get(key)}, model {model.facts.get(key)}")
    if lane.codes and lane.codes[1] != lane.codes[2]:
        found.append(f"exit of {' '.join(lane.codes[0])}: SLURM {lane.codes[1]}, model {lane.codes[2]}: {lane.codes[3]}")
    return [f for f in found if not any(k.search(f) for k in known)]


def play(site, seeds, folder, known):
    """All sequences, one a node at a time. Returns (played, the differences)."""
    free = [f"n{n + 1:02}" for n in range(LANES)]
    lanes, different, played, since_restart = [], [], 0, 0
    seeds = iter(seeds)
    try:
        while True:
            settled = [lane for lane in lanes if lane.until == 0]
            if since_restart < RESTART_AFTER:
                for lane in settled:
                    lane.step()
                since_restart += len(settled)
                while free and (seed := next(seeds, None)) is not None:
                    lanes.append(Lane(site, free.pop(0), seed, folder))
                    lanes[-1].step()
            elif len(settled) == len(lanes):  # what the controller knew, it knows
                for lane in lanes:
                    lane.story.append("(the controller is restarted)")
                    lane.codes = None
                site.cluster.stop("slurmctld", 15)
                site.cluster.start_controller()
                # A node that has not registered yet cannot be resumed; of a drained one, sinfo does not show that.
                site.wait(lambda: "State=UNKNOWN" not in site.cluster.run("scontrol", "show", "node", "-o").stdout, SETTLES_S, "the nodes to register")
                since_restart = 0
                for lane in lanes:
                    lane.settles()
            if not lanes:
                return played, different
            answers = ask_real(site.cluster)
            for lane in [lane for lane in lanes if lane.until != 0]:
                text = compare(lane, answers, known)
                if text and time.monotonic() < lane.until:
                    continue
                lane.until = 0
                if text:
                    different.append(f"{lane.tell()}\n    " + "\n    ".join(text))
                    print(different[-1], flush=True)
                if text or lane.operations >= OPERATIONS:
                    played += 1
                    lanes.remove(lane)
                    lane.close()
                    free.append(lane.node)
    finally:
        for lane in lanes:
            lane.close()


@by_commands
def model_agrees(site):
    """Random operations: the model of SLURM that the simulator uses answers as SLURM does."""
    if not os.path.exists(os.path.join(_harness.BIN, "slurm_model")):
        raise Unavailable("the bundle in this root has no slurm_model")
    folder = os.path.join(site.cluster.scratch, "model")
    os.mkdir(folder)
    os.chown(folder, site.cluster.uid, site.cluster.gid)
    count = int(os.environ.get("STOKER_SEQUENCES", LONG_SEQUENCES if os.environ.get("STOKER_LONG") else CI_SEQUENCES))
    first = int(os.environ.get("STOKER_SEED", 1))
    began = time.monotonic()
    played, different = play(site, range(first, first + count), folder, excused())
    seconds = time.monotonic() - began
    print(f"{played} sequences of {OPERATIONS} operations, from seed {first}: {len(different)} differ, {seconds:.0f} s", flush=True)
    if "STOKER_PROVED" in os.environ:
        version = site.cluster.run("squeue", "--version").stdout.split()[-1]
        proved.write_down(os.environ["STOKER_PROVED"], "tests/slurm/real/model.py with STOKER_LONG and STOKER_PROVED",
                          f"model, slurmctld {version}", f"sequences of {OPERATIONS} operations", "differ",
                          [(first, first + played - 1, len(different), seconds)])
    check(not different, "\n".join(different))


model_agrees.cluster = dict(scheduler_parameters="sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0",
                            min_job_age=900, return_to_service=1, cred_expire=15, cpus=64)

if __name__ == "__main__":
    main(model_agrees)
