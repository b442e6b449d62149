"""The simulator's SLURM against the real one: the same random operations on both, the same answers afterwards.

Each sequence has a node and a model of its own; several go side by side on one cluster. After every operation the answers that
stoker asks for (both forms of squeue, scontrol show job, sinfo) are compared without ids, times and what model_differences.txt
lists; the real ones may take a moment. STOKER_SEED draws the sequences, STOKER_SEQUENCES is their number (500 with STOKER_LONG).
"""
import contextlib
import json
import os
import random
import re
import subprocess
import time

from e2e import _harness
from e2e._harness import check
from slurm.cluster import Unavailable
from slurm.real._site import main

HERE = os.path.dirname(os.path.abspath(__file__))
# As slurm/queue_poll.cpp and slurm/node_states.cpp ask.
ROWS = "\x1f".join(f"%{letter}" for letter in "AFKTrSeVNUuojk")
NUMBERS = "JobArrayID:64,RestartCnt:16,exit_code:16"
NODES = "%N\x1f%T\x1f%E"
LANES, OPERATIONS = 7, 30
BUDGET_S = 170  # in CI; with STOKER_LONG all sequences are played
SETTLES_S = 20
SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --comment={name}
#SBATCH --nodes=1
#SBATCH --time=30-00:00:00
#SBATCH --output=/dev/null
#SBATCH --nodelist={node}
{more}
fifo={folder}/$SLURM_JOB_NAME.${{SLURM_ARRAY_TASK_ID:-0}}
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
            held = reason == "JobHeldUser" and state == "PENDING"
            self.facts["squeue", index[array], task] = (state, "held" if held else "", "placed" if where else "", "own" if raw != array else "array's",
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

    def __init__(self, site, number, seed, folder):
        self.site, self.cluster, self.folder, self.seed = site, site.cluster, folder, seed
        self.node = f"n{number + 1:02}"
        self.draw = random.Random(seed)
        self.model = Model()
        self.jobs = []  # (name, tasks, real id, model's id)
        self.story, self.codes = [], None

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
        self.codes = None
        if not self.jobs or self.draw.random() < 0.15:
            return self.submit()
        if self.draw.random() < 0.25:
            return self.end()
        argv, root = self.draw.choice([
            (("scancel", "{J}"), False), (("scancel", "{T}"), False), (("scancel", "{T}"), False), (("scancel", "--state=PENDING", "{J}"), False),
            (("scancel", "--state=PENDING", "{J}"), False), (("scontrol", "hold", "{T}"), False), (("scontrol", "release", "{T}"), False),
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
    """One sequence a lane, in step. Returns the differences."""
    lanes = [Lane(site, n, seed, folder) for n, seed in enumerate(seeds)]
    different = []
    try:
        for operation in range(OPERATIONS):
            if operation == OPERATIONS // 2:  # what it knew, it knows
                site.cluster.stop("slurmctld", 15)
                site.cluster.start_controller()
            for lane in lanes:
                lane.step()
            until = time.monotonic() + SETTLES_S
            left = {lane: None for lane in lanes}
            while left:
                answers = ask_real(site.cluster)
                left = {lane: text for lane in left if (text := compare(lane, answers, known))}
                if left and time.monotonic() > until:
                    break
                if left:
                    time.sleep(0.2)
            for lane, text in left.items():
                different.append(f"{lane.tell()}\n    " + "\n    ".join(text))
                lanes.remove(lane)
                lane.model.close()
    finally:
        for lane in lanes:
            lane.model.close()
        site.cluster.run("scancel", "-u", site.cluster.user, ok=False)
        for number in range(LANES):
            site.cluster.run("scontrol", "update", f"NodeName=n{number + 1:02}", "State=RESUME", root=True, ok=False)
    return different


def model_agrees(site):
    """Random operations: the model of SLURM that the simulator uses answers as SLURM does."""
    if not os.environ.get("STOKER_LONG") and not os.environ.get("STOKER_SEQUENCES"):
        # Exit codes of scontrol on ended jobs, nodes that come back, exit codes of requeued tasks.
        raise Unavailable("the model still differs from SLURM in known ways: STOKER_SEQUENCES=21 or --long shows them")
    folder = os.path.join(site.cluster.scratch, "model")
    os.mkdir(folder)
    os.chown(folder, site.cluster.uid, site.cluster.gid)
    count = int(os.environ.get("STOKER_SEQUENCES", 500 if os.environ.get("STOKER_LONG") else 21))
    first = int(os.environ.get("STOKER_SEED", 1))
    began, played, different = time.monotonic(), 0, []
    known = excused()
    while played < count and (os.environ.get("STOKER_LONG") or time.monotonic() - began < BUDGET_S):
        seeds = range(first + played, first + min(count, played + LANES))
        different += play(site, seeds, folder, known)
        played += len(seeds)
        site.wait(lambda: not site.cluster.live_jobs(), 60, "the end of the jobs")
    print(f"{played} sequences of {OPERATIONS} operations, from seed {first}: {len(different)} differ", flush=True)
    check(not different, "\n".join(different))


model_agrees.cluster = dict(scheduler_parameters="sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0",
                            min_job_age=3600)

if __name__ == "__main__":
    main(model_agrees)
