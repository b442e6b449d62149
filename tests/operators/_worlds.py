"""The two worlds in which the random operators work: the embedded scheduler of this host (here), and a real SLURM (_slurm.py). Both run the same
operations on a run of one of three kinds: core (stoker-train), loop (a foreign training under agents), script (adopted; SLURM only).
"""
import contextlib
import json
import os
import signal
import socket
import subprocess
import time

from e2e import _harness
from e2e._harness import Site
from operators._witness import command_line, environment

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = """\
run: {run}
directory: {directory}
scheduler: {{kind: {scheduler}, nodes: 1, time_limit: {time_limit}, array: {{tasks: {tasks}, top_up_below: {top_up}}}}}
train:
  command: [{command}]
  ranks_per_node: 2
  exit_before_limit: 4s
{train}
hang: {{floor: 3s, ceiling: 60s, phases: {{startup: 60s, load: 60s, checkpoint: 30s, evaluation: 30s, shutdown: 30s}}}}
recover: {{restarts: {{total: 100, without_progress: 20, refill: 24h}}, exclude: {{for: 24h, at_most: 50%}}}}
watch: {{{watch}}}
checkpoints: {{keep: {{last: 5}}}}
"""

class World:
    """What both worlds have; `site` is the Site of the end-to-end tests."""

    def __init__(self, site, training, draw):
        self.site, self.training = site, training
        self.folder = site.folder
        self.tree = os.path.join(site.folder, "tree")
        self.diary = os.path.join(self.tree, "witness.jsonl")
        self.kill_switch = os.path.join(site.folder, "kill-switch")
        self.config = os.path.join(site.folder, f"{site.run}.yaml")
        self.until = draw.choice([60, 150]) if training != "core" and draw.random() < 0.3 else 10_000_000
        self.tasks, self.top_up = draw.choice([(1, 1), (2, 1), (6, 2)])
        self.has_switch = training == "script" or training == "loop" and draw.random() < 0.5
        self.frozen = self.full = self.use_disk = False
        self.witness = None
        self.ballast = os.path.join(site.directory, "ballast")
        self.mounted = None

    # ---- the run
    def loop_command(self):
        return ", ".join([self.site_python(), os.path.join(self.programs(), "_training.py"), self.tree, "--until", f'"{self.until}"', "--every", '"0.05"',
                          "--kill-switch-path", self.kill_switch])

    def write_run(self, **more):
        if self.training == "core":
            command = f"{self.core_program()}, --config, {self.site.folder}/{self.site.run}.train.yaml"
            train, watch = "", ""
        else:
            command = self.loop_command()
            train = f"  save_signal: USR1\n  finished: exit_zero"
            train += f"\n  kill_switch: {self.kill_switch}" if self.has_switch else ""
            watch = "progress: {iteration: 'step=(\\d+)', loss: 'loss=([0-9.]+)'}"
        values = dict(run=self.site.run, directory=self.site.directory, scheduler=self.kind, time_limit="1h", tasks=self.tasks,
                      top_up=self.top_up, command=command, train=train, watch=watch)
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(_harness.on_any_disk(RUN.format(**{**values, **more})))

    def write_core(self, prefix):
        shape = dict(layers=1, hidden=16, ffn=32, sequence=32, micro=1, global_batch=8, ramp_start=4, ramp_samples=64,
                     samples=5_000_000, warmup=64, save_every=50, asynchronous="true")
        with open(os.path.join(self.site.folder, f"{self.site.run}.train.yaml"), "w", encoding="utf-8") as f:
            f.write(_harness.TRAIN.format(prefix=prefix, **shape))

    # ---- people
    def command(self, *words, limit=60):
        """A command of `stoker`, with any result."""
        return self.command_of(self.site.state, *words, limit=limit)

    def command_of(self, state, *words, limit=60):
        return _harness.run_program("stoker", "--state", state, *words, ok=False, env=self.site.env, limit=limit)

    def write_switch(self, verb, text):
        self.site.switch(verb, text)

    def touch(self, path):
        with open(path, "w", encoding="utf-8"):
            pass

    def is_ours(self, pid):
        """It still is a rank of this run."""
        try:
            return self.rank_of(pid) is not None
        except OSError:
            return False

    # ---- what the witness asks
    def published(self):
        newest = {}
        for path in (os.path.join(self.site.directory, "status.json"),
                     os.path.join(self.site.state, "published", "runs", self.site.run, "status.json")):
            with contextlib.suppress(OSError, ValueError):
                with open(path, encoding="utf-8") as f:
                    found = json.load(f)
                if found.get("published", "") > newest.get("published", ""):
                    newest = found
        return newest

    def well(self):
        return self.site.daemon is not None and self.site.daemon.poll() is None and not self.frozen and not self.full

    def rank_of(self, pid):
        argv = command_line(pid)
        if "guardian" in argv:
            return None
        env = environment(pid)
        if self.training == "core":
            ours = os.path.basename(argv[0]) == "stoker-train" and env.get("STOKER_RUN_DIR") == self.site.directory
        else:
            ours = "python" in os.path.basename(argv[0]) and self.tree in argv[1:4] and argv[1].endswith("_training.py")
        if not ours:
            return None
        array = env.get("SLURM_ARRAY_JOB_ID")
        # A standby process of the core has no rank yet: it counts while it computes.
        standby = "RANK" not in env and self.training == "core"
        return {"rank": int(env.get("RANK", env.get("SLURM_PROCID", "0"))), "standby": standby, "generation": int(env.get("STOKER_GENERATION", "0")),
                "attempt": int(env.get("STOKER_ATTEMPT", "0")),
                "job": f"{array}_{env.get('SLURM_ARRAY_TASK_ID')}" if array else env.get("SLURM_JOB_ID", "") + "_1"}

    def processes(self, chosen):
        """Pids of this run's jobs whose command line and environment are chosen."""
        found = []
        for pid in self.site.our_processes():
            with contextlib.suppress(OSError):
                if chosen(command_line(pid), environment(pid)):
                    found.append(pid)
        return sorted(found)

    # ---- the daemon
    def thaw(self):
        if self.frozen and self.site.daemon:
            os.kill(self.site.daemon.pid, signal.SIGCONT)
        self.frozen = False

    def freeze(self):
        os.kill(self.site.daemon.pid, signal.SIGSTOP)
        self.frozen = True

    def kill_daemon(self, how):
        self.thaw()
        if self.site.daemon:
            self.site.kill_daemon(how)

    def second_daemon(self, seconds):
        """Another daemon, with a state directory of its own, which is given the same RUN.yaml."""
        state = os.path.join(self.folder, "other-state")
        with self.other_daemon(state) as other:
            time.sleep(seconds)
            self.command_of(state, "run", "--yes", self.config)
            time.sleep(1)
            other.kill()

    # ---- the disk
    def mount_disk(self):
        """The run directory on a small disk of its own."""
        os.makedirs(self.site.directory, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m,mode=0777", "stoker-operators", self.site.directory], check=True)
        self.mounted = self.site.directory

    def fill_disk(self):
        self.full = True
        with contextlib.suppress(OSError):
            with open(self.ballast, "wb", buffering=0) as f:
                while True:
                    f.write(b"x" * 65536)

    def free_disk(self):
        with contextlib.suppress(OSError):
            os.unlink(self.ballast)
        self.full = False

    def unmount(self):
        if self.mounted:
            subprocess.run(["umount", "-l", self.mounted], check=False)


class Embedded(World):
    kind = "local"
    effect_s, grace_s, settle_s = 30, 12, 60  # an order's effect; two polls of a busy machine; trains again

    def __init__(self, training, draw, shared):
        site = Site(folder=None)
        site.env.update(STOKER_LOCAL_KILL_WAIT="3s")
        super().__init__(site, training, draw)
        self.shared = shared

    def site_python(self):
        return os.environ.get("STOKER_PYTHON", "/usr/bin/python3")

    def programs(self):
        return HERE

    def core_program(self):
        return "stoker-train"

    def without(self):
        """Operations that this world has not."""
        return ("update_job",) if self.has_switch else ("update_job", "kill_switch")

    def other_daemon(self, state):
        os.makedirs(state, exist_ok=True)
        return subprocess.Popen([os.path.join(_harness.BIN, "stokerd"), "--state", state], env={**self.site.env, "STOKER_STATE": state},
                                stdin=subprocess.DEVNULL, stdout=self.site.log, stderr=self.site.log, start_new_session=True)

    def begin(self):
        if self.use_disk:
            self.mount_disk()
        if self.training == "core":
            self.write_core(os.path.join(self.shared, "data"))
        self.write_run()
        self.site.start_daemon()
        self.site.stoker("run", self.config, "--yes")

    def start_daemon(self):
        self.site.start_daemon()

    def ask(self, **request):
        """One request to the embedded scheduler's socket, as its own clients send it; None: it does not answer."""
        folder = os.open(os.path.join(self.site.state, "local"), os.O_RDONLY)
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(5)
                s.connect(f"/proc/self/fd/{folder}/scheduler.sock")
                s.sendall((json.dumps(request) + "\n").encode())
                text = b""
                while not text.endswith(b"\n"):
                    part = s.recv(1 << 20)
                    if not part:
                        return None
                    text += part
            return json.loads(text)
        finally:
            os.close(folder)

    def jobs(self):
        """[(array, task, state)] of the run that the scheduler has, newest last."""
        try:
            answer = self.ask(kind="list")
        except OSError:
            return []
        lines = [line["seen"] for line in (answer or {}).get("lines", []) if line["name"] == self.site.run]
        found = []
        for seen in lines:
            array, _, task = str(seen["job"]).partition("_")
            found.append((array, task or "1", {"pending": "PENDING", "running": "RUNNING"}.get(seen["state"].lower(), seen["state"].upper())))
        return sorted(found, key=lambda j: (int(j[0]), int(j[1])))

    def scheduler(self, verb, job):
        """cancel, hold, release, requeue of JOB or JOB_TASK, by hand. A task that has just ended is not requeued: an error."""
        return self.site.admin(verb, job, ok=verb != "requeue").stdout

    def node(self, verb, node):
        self.site.admin(verb, node)

    def release(self):
        """Held jobs and drained nodes are free again."""
        for array, task, state in self.jobs():
            if state == "PENDING":
                self.site.admin("release", f"{array}_{task}")
        self.site.admin("resume", "n01")

    def audit(self):
        return _harness.run_program("stokerd", "--state", self.site.state, "--audit", ok=False, env=self.site.env)

    def close(self):
        self.free_disk()
        self.thaw()
        with contextlib.suppress(Exception):
            self.site.admin("shutdown", "--cancel-jobs")
        self.site.close()
        self.unmount()
        if not self.site.keep and os.path.isdir(self.folder):
            subprocess.run(["rm", "-rf", self.folder], check=False)
