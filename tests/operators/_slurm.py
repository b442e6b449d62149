"""The world of the random operators on a real SLURM: a cluster of its own for one sequence, everything as its ordinary user."""
import contextlib
import os
import shutil
import signal
import subprocess

from operators._worlds import World
from slurm.cluster import Cluster
from slurm.real._site import SlurmSite

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --time=01:00:00
#SBATCH --output=logs/%x-%j.out

set -e
LOGS_PATH={folder}/logs
CMD="{python} {training} {tree} --megatron --until {until} --every {every}"
srun --kill-on-bad-exit=1 $CMD \\
    --kill-switch-path {kill_switch} 2>&1 | tee -a $LOGS_PATH/main_log.txt
"""
SCRIPT_MORE = """\
directory: {directory}
hang: {{floor: 5s, ceiling: 60s, phases: {{startup: 60s, load: 30s, checkpoint: 20s}}}}
recover: {{restarts: {{total: 100, without_progress: 20, refill: 24h}}}}
"""



class OnSlurm(World):
    kind = "slurm"
    effect_s, grace_s, settle_s = 75, 30, 150

    def __init__(self, training, draw, shared):
        self.cluster = Cluster()
        self.cluster.__enter__()
        try:
            site = SlurmSite(self.cluster, training="core" if training == "core" else "loop")
            super().__init__(site, training, draw)
            self.shared = shared
            for path in (self.tree, os.path.join(self.folder, "logs")):
                os.makedirs(path)
                os.chown(path, self.cluster.uid, self.cluster.gid)
            site.shim("sbatch", f'echo "$(date +%s.%N) $*" >> {self.folder}/sbatch.log; exec "$REAL" "$@"')
        except BaseException:
            self.cluster.close()
            raise

    def site_python(self):
        return self.site.python

    def programs(self):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_training.py")
        shutil.copy(source, self.folder)
        os.chmod(os.path.join(self.folder, "_training.py"), 0o644)
        return self.folder

    def core_program(self):
        return os.path.join(self.site.bin, "stoker-train")

    def without(self):
        """No disk of its own, no embedded scheduler; a script has no ranks of ours to stop for a moment."""
        return ("disk_full", "scheduler_killed", "drain", *(() if self.has_switch else ("kill_switch",)),
                *(("kill_agent",) if self.training == "script" else ()))

    def begin(self):
        if self.training == "core":
            for ending in (".bin", ".idx"):
                shutil.copy(os.path.join(self.shared, "data" + ending), self.folder)
                os.chmod(os.path.join(self.folder, "data" + ending), 0o644)
            self.write_core(os.path.join(self.folder, "data"))
        self.write_run()
        self.site.start_daemon(pace="1")
        self.site.stoker("run", self.config, "--yes")

    def write_run(self, **more):
        if self.training != "script":
            return super().write_run(**more)
        script = os.path.join(self.folder, "train.slurm")
        with open(script, "w", encoding="utf-8") as f:
            f.write(SCRIPT.format(folder=self.folder, python=self.site.python, training=os.path.join(self.programs(), "_training.py"), tree=self.tree,
                                  until=self.until, every=0.1, kill_switch=self.kill_switch))
        if not os.path.exists(self.config):
            self.site.stoker("adopt", script, "-o", self.config)
            with open(self.config, encoding="utf-8") as f:
                self.adopted = f.read()
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(self.adopted + SCRIPT_MORE.format(directory=self.site.directory))
            f.write("scheduler: {time_limit: 2h}\n" if "time_limit" in more and "scheduler:" not in self.adopted else "")
        os.chown(self.config, self.cluster.uid, self.cluster.gid)

    def command_of(self, state, *words, limit=90):
        return self.cluster.run(os.path.join(self.site.bin, "stoker"), "--state", state, *words, ok=False, env=self.site.env, limit=limit)

    def other_daemon(self, state):
        os.makedirs(state, exist_ok=True)
        os.chown(state, self.cluster.uid, self.cluster.gid)
        return self.cluster.popen([os.path.join(self.site.bin, "stokerd"), "--state", state, "--slurm-pace", "1"],
                                  env={**self.site.env, "STOKER_STATE": state}, stdout=self.site.log, stderr=self.site.log, start_new_session=True)

    def update_job(self, job, change):
        self.cluster.run("scontrol", "update", f"JobId={job.rstrip('_')}", change, ok=False, root=True)

    def touch(self, path):
        super().touch(path)
        os.chown(path, self.cluster.uid, self.cluster.gid)

    def start_daemon(self):
        self.site.start_daemon(pace="1")

    # ---- SLURM
    def jobs(self):
        done = self.cluster.run("squeue", "-a", "-h", "-r", "-t", "all", "-n", self.site.run, "-o", "%F %K %T", ok=False)
        found = [tuple(line.split()) for line in done.stdout.splitlines() if len(line.split()) == 3]
        return sorted(((a, t if t.isdigit() else "", s) for a, t, s in found), key=lambda j: (int(j[0]), int(j[1] or 0)))

    def scheduler(self, verb, job):
        job = job.rstrip("_")
        words = {"cancel": ["scancel", job], "hold": ["scontrol", "hold", job], "release": ["scontrol", "release", job],
                 "requeue": ["scontrol", "requeue", job]}[verb]
        return self.cluster.run(*words, ok=False).stdout

    def release(self):
        for array, task, state in self.jobs():
            if state == "PENDING":
                self.scheduler("release", f"{array}_{task}")

    def audit(self):
        return self.site.program("stokerd", "--state", self.site.state, "--audit", ok=False)


    def close(self):
        self.thaw()
        with contextlib.suppress(Exception):
            if self.site.daemon:
                self.site.kill_daemon(signal.SIGKILL)
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            self.site.log.close()
        self.cluster.close()
