"""A run of an existing script on a SLURM that is only played (_commands.py): real stokerd, real files, scripted answers.

The "training" is a log that the test writes; how its job ends is what the test says. No root and no SLURM are needed.
"""
import contextlib
import fcntl
import getpass
import json
import os
import shutil
import subprocess
import sys
import time

from e2e import _harness
from e2e._harness import Failed, Site, check

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 60
RUN = """\
run: {run}
directory: {directory}
{group}scheduler: {{kind: slurm, nodes: {nodes}, time_limit: 10h, array: {{tasks: {tasks}, top_up_below: 1}}{scheduler}}}
train: {{batch_script: {script}{train}}}
watch: {{logs: [{log}]}}
hang: {{floor: 5s, ceiling: {ceiling}, phases: {{startup: 60s, load: 60s, checkpoint: 60s}}}}
recover: {{restarts: {{total: 20, without_progress: 8, refill: 24h}}, exclude: {{for: 24h, at_most: 50%}}{recover}}}
{more}"""


class FakeSite(Site):
    def __init__(self):
        super().__init__("story")
        self.fake = os.path.join(self.folder, "fake")
        os.makedirs(os.path.join(self.fake, "bin"))
        for name in ("squeue", "sbatch", "scontrol", "scancel", "sinfo", "sacct", "srun"):
            path = os.path.join(self.fake, "bin", name)
            shutil.copy(os.path.join(HERE, "_commands.py"), path)
            os.chmod(path, 0o755)
        self.write_cluster({"name": "fake", "jobs": [], "next": 1000, "starts": True, "gives": "n01", "bend": {}, "sbatch_says": "ID", "version": "22.05.8",
                            "accounts": None, "steps": [["0", "n01", "train"]], "inside": {"n01": 2}, "batch_node": "", "user": getpass.getuser(), "nodes_here": 4,
                            "nodes": {f"n{i:02}": ["idle", "none"] for i in range(1, 5)}})
        self.env["PATH"] = os.path.join(self.fake, "bin") + ":" + self.env["PATH"]
        self.log_path = os.path.join(self.folder, "main.log")
        self.iteration = 0

    # ---- the cluster
    def write_cluster(self, cluster):
        path = os.path.join(self.fake, "cluster.json")
        with open(path + ".test", "w", encoding="utf-8") as f:
            json.dump(cluster, f)
        os.rename(path + ".test", path)

    def cluster(self):
        with open(os.path.join(self.fake, "cluster.json"), encoding="utf-8") as f:
            return json.load(f)

    @contextlib.contextmanager
    def changing(self):
        """The cluster, written back at the end of the block; no command runs meanwhile."""
        with open(os.path.join(self.fake, "lock"), "a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            cluster = self.cluster()
            yield cluster
            self.write_cluster(cluster)

    def bend(self, command, **how):
        with self.changing() as cluster:
            cluster["bend"][command] = how

    def straighten(self):
        with self.changing() as cluster:
            cluster["bend"] = {}

    def jobs(self):
        return self.cluster()["jobs"]

    def end_task(self, state, job=-1, task="1", **what):
        """The job's task is over, or in another state, in squeue's words."""
        with self.changing() as cluster:
            cluster["jobs"][job]["tasks"][task].update(state=state, **what)

    def calls(self, command=""):
        with contextlib.suppress(FileNotFoundError):
            with open(os.path.join(self.fake, "calls.log"), encoding="utf-8") as f:
                return [c for c in map(json.loads, f) if not command or c[1] == command]
        return []

    # ---- the run
    def begin(self, tasks=1, nodes=1, scheduler="", train="", recover="", group="", ceiling="60s", more="", daemon=(), pace="1"):
        script = os.path.join(self.folder, "train.slurm")
        with open(script, "w", encoding="utf-8") as f:
            f.write("#!/bin/bash\n#SBATCH --nodes=1\nsrun ./train\n")
        open(self.log_path, "a", encoding="utf-8").close()
        config = os.path.join(self.folder, "story.yaml")
        with open(config, "w", encoding="utf-8") as f:
            f.write(_harness.on_any_disk(RUN.format(
                run=self.run, directory=self.directory, tasks=tasks, nodes=nodes, script=script, log=self.log_path, scheduler=scheduler,
                train=train, recover=recover, ceiling=ceiling, more=more, group=f"group: {group}\n" if group else "")))
        if not self.daemon:
            self.start_daemon("--slurm-pace", pace, *daemon)
        self.stoker("run", config, "--yes")

    def begin_agents(self):
        """A run with agents, whose batch script the test plays itself (play_batch)."""
        config = os.path.join(self.folder, "story.yaml")
        loop = os.path.join(os.path.dirname(HERE), "real", "_loop.py")
        with open(config, "w", encoding="utf-8") as f:
            f.write(f"run: {self.run}\ndirectory: {self.directory}\n"
                    "scheduler: {kind: slurm, nodes: 1, time_limit: 10h, array: {tasks: 3, top_up_below: 1}}\n"
                    f"train: {{command: [{sys.executable}, {loop}, {self.folder}/tree], ranks_per_node: 1}}\n"
                    "watch: {progress: {iteration: 'step=(\\d+)', loss: 'loss=([0-9.]+)'}}\n"
                    "hang: {floor: 5s, ceiling: 10min, phases: {startup: 60s, load: 60s}}\n"
                    "recover: {restarts: {total: 20, without_progress: 8, refill: 24h}}\n")
        self.start_daemon("--slurm-pace", "1")
        self.stoker("run", config, "--yes")
        self.wait_jobs(1)

    def play_batch(self, task="1"):
        """The batch script of the newest job, on this host as n01: a process group of its own."""
        job = self.jobs()[-1]
        env = {**self.env, "SLURM_JOB_ID": str(job["id"] + int(task)), "SLURM_ARRAY_JOB_ID": str(job["id"]), "SLURM_ARRAY_TASK_ID": task,
               "SLURM_JOB_NODELIST": "n01", "SLURM_NODELIST": "n01", "SLURM_STEP_NODELIST": "n01", "SLURM_JOB_NUM_NODES": "1", "SLURM_NNODES": "1",
               "SLURM_NODEID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURMD_NODENAME": "n01"}
        return subprocess.Popen(["/bin/bash", job["command"]], env=env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                start_new_session=True)

    def trains(self, iterations=5):
        """The job writes lines, and the run is seen to train beyond them."""
        def lines():
            self.iteration += 1
            with open(self.log_path, "a", encoding="utf-8") as f:
                f.write(f" iteration {self.iteration:8d}/  100000 | consumed samples: {self.iteration * 8:12d} | elapsed time per iteration (ms): 100.0 | "
                        f"learning rate: 1.000E-04 | global batch size: 8 | lm loss: {1 + 1 / self.iteration:.6E} |\n")
            s = self.status()
            return s.get("state") == "training" and s.get("iteration", 0) > goal and s
        goal = self.iteration + iterations
        return self.wait(lines, LIMIT, f"training beyond iteration {goal}")

    def wait_jobs(self, count, seconds=LIMIT):
        """So many submissions there have been."""
        self.wait(lambda: len(self.jobs()) >= count, seconds, f"submission number {count}")
        check(len(self.jobs()) == count, f"{len(self.jobs())} submissions, not {count}")

    def stays(self, count, seconds=4):
        """No further submission."""
        time.sleep(seconds)
        check(len(self.jobs()) == count, f"{len(self.jobs())} submissions, not {count}")

    def close(self):
        if self.daemon:
            self.kill_daemon()
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def main(*cases):
    if sys.argv[1:] == ["--list"]:
        print("\n".join(c.__name__ for c in cases))
        return
    failed = 0
    for case in [c for c in cases if not sys.argv[1:] or c.__name__ in sys.argv[1:]]:
        began = time.monotonic()
        site = FakeSite()
        try:
            case(site)
            site.audit()
            print(f"ok {case.__name__} ({time.monotonic() - began:.0f}s)", flush=True)
        except (Failed, RuntimeError, subprocess.TimeoutExpired) as failure:
            failed += 1
            print(f"{site.tail_of_log()}\nnot ok {case.__name__} ({time.monotonic() - began:.0f}s): {failure}", flush=True)
        finally:
            site.close()
    sys.exit(1 if failed else 0)


__all__ = ["FakeSite", "Failed", "check", "main", "_harness", "LIMIT"]
