"""A run on a real SLURM: the cluster, stokerd and the trainings of one case, as the cluster's ordinary user.

Each script of this folder holds cases; `NAME.py CASE` runs one, `NAME.py` all. After each case the invariants are checked:
never two live trainings on one checkpoint tree (each rank holds an exclusive lock on its shard; who finds it taken writes a
line into `overlap`), the journal replays to the same state, and no more than one job of a run is left running.

A fault that is the same for the training core and for a foreign command is a case `@with_either` of the two: it is played
with the one it names, STOKER_TRAINING=core or loop plays it with the other. STOKER_WAY=rest plays a case over slurmrestd, all but
those that are `by_commands` and those that are about slurmrestd anyway.
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from e2e import _harness
from e2e._harness import Failed, Site, check
from slurm.cluster import Cluster, Unavailable, why_not

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 120  # seconds to wait for anything: a loaded machine with two cores

RUN = """\
run: {run}
directory: {directory}
scheduler: {{kind: slurm, nodes: {nodes}, spares: {spares}, time_limit: {time_limit}, array: {{tasks: {tasks}, top_up_below: {top_up_below}}}{scheduler}}}
train:
  command: [{command}]
  ranks_per_node: {ranks_per_node}
  exit_before_limit: {exit_before_limit}
{train}
hang: {{floor: 5s, ceiling: 60s, phases: {{startup: 90s, load: 60s, checkpoint: 60s, evaluation: 60s, shutdown: 60s}}}}
recover: {{restarts: {{total: {restarts}, without_progress: 5, refill: 24h}}, exclude: {{for: 24h, at_most: 50%{exclude}}}{recover}}}
{more}
"""
DEFAULTS = dict(restarts=20, nodes=1, spares=0, time_limit="1h", tasks=6, top_up_below=2, ranks_per_node=2, exit_before_limit="20s",
                scheduler="", exclude="", recover="", more="", train="")
PROGRESS = "progress: {iteration: 'step=(\\d+)', loss: 'loss=([0-9.]+)'}"  # of the loop's lines


def with_either(usual, **cluster):
    """A case that calls run_training(); `usual`: core or loop, what plays it unless STOKER_TRAINING says so; `cluster`: options of its Cluster."""
    def mark(case):
        case.training, case.cluster = usual, cluster
        return case
    return mark


def on_cluster(**options):
    """A case whose Cluster has these options."""
    def mark(case):
        case.cluster = options
        return case
    return mark


def by_commands(case):
    """A case about SLURM's commands themselves: nothing of it would go over slurmrestd."""
    case.way = "commands"
    return case


def way_of(case):
    """commands or rest, where a case leaves no choice; else "-"."""
    return getattr(case, "way", "rest" if getattr(case, "cluster", {}).get("rest") else "-")


def way_in():
    """Options of a Cluster: by SLURM's commands, or over slurmrestd."""
    return {"rest": True} if os.environ.get("STOKER_WAY") == "rest" else {}


class SlurmSite(Site):
    def __init__(self, cluster, name="run", training="loop"):
        self.cluster = cluster
        self.training = training
        self.rest = ""  # a case's own scheduler.rest
        super().__init__(name, folder=os.path.join(cluster.scratch, "site"), keep=True)  # the cluster's janitor removes it
        os.chown(self.folder, cluster.uid, cluster.gid)
        os.chown(self.state, cluster.uid, cluster.gid)
        self.bin = self.reachable_programs()
        self.python = next(p for p in (sys.executable, "/usr/bin/python3")
                           if cluster.run("test", "-x", p, ok=False).returncode == 0)
        self.shims = os.path.join(self.folder, "shims")
        os.mkdir(self.shims, 0o777)
        self.env = cluster.environment(STOKER_STATE=self.state)
        self.env["PATH"] = f"{self.shims}:{self.bin}:{self.env['PATH']}"
        self.daemons = []

    def reachable_programs(self):
        """Where the cluster's user can execute our programs: the build folder, or a copy."""
        if self.cluster.run("test", "-x", os.path.join(_harness.BIN, "stokerd"), ok=False).returncode == 0:
            return _harness.BIN
        folder = os.path.join(self.folder, "bin")
        os.mkdir(folder)
        for name in ("stoker", "stokerd", "stoker-agent", "stoker-train"):
            source = os.path.join(_harness.BIN, name)
            if os.path.exists(source):
                shutil.copy(source, folder)
        return folder

    def ours(self, name):
        """A script of this folder, copied to where the cluster's user can read it."""
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            shutil.copy(os.path.join(HERE, name), path)
            os.chmod(path, 0o644)
        return path

    # ---- as the cluster's user
    def program(self, *argv, ok=True, limit=180):
        done = self.cluster.run(os.path.join(self.bin, argv[0]), *argv[1:], ok=False, env=self.env, limit=limit)
        if ok and done.returncode != 0:
            raise Failed(f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done

    def stoker(self, *argv, ok=True):
        return self.program("stoker", "--state", self.state, *argv, ok=ok)

    def start_daemon(self, *arguments, pace="1", env=None):
        argv = [os.path.join(self.bin, "stokerd"), "--state", self.state, "--slurm-pace", pace, *arguments]
        self.daemon = self.cluster.popen(argv, env={**self.env, **(env or {})}, stdout=self.log, stderr=self.log,
                                         start_new_session=True)

        def answers():  # itself: what one before it published is no answer
            check(self.daemon.poll() is None, f"the daemon ended with {self.daemon.returncode} at once\n{self.tail_of_log()}")
            done = self.stoker("status", "--json", ok=False)
            return done.returncode == 0 and "last published" not in done.stderr
        self.wait(answers, LIMIT, "the daemon's answer")

    def kill_daemon(self, how=signal.SIGKILL):
        """It may be waiting for a slow squeue."""
        self.daemon.send_signal(how)
        self.daemon.wait(timeout=LIMIT)
        self.daemon = None

    def audit(self):
        if self.daemon:
            self.kill_daemon(signal.SIGTERM)
        if not glob.glob(os.path.join(self.state, "journal*.db")):
            return  # a case of SLURM alone: no daemon has run
        self.program("stokerd", "--state", self.state, "--audit")

    def digest(self, checkpoint=None):
        return json.loads(self.program("stoker-train", "inspect", checkpoint or self.newest_checkpoint(), "--verify",
                                       "--json").stdout)

    def prepare_data(self, texts=None):
        if not os.path.exists(os.path.join(self.bin, "stoker-train")):
            raise Unavailable("the bundle in this root has no training core")
        if not texts:
            texts = [os.path.join(self.folder, "text.txt")]
            with open(texts[0], "w", encoding="utf-8") as f:
                for i in range(4000):
                    f.write(f"Line {i}: the stoker keeps the fire going, {i * 7919 % 1009} shovels.\n" + "\n" * (i % 40 == 39))
        self.program("stoker-train", "prepare", *texts, "-o", os.path.join(self.folder, "data"), "--bytes")
        return os.path.join(self.folder, "data")

    # ---- runs
    def rest_of_run(self):
        """The value of scheduler.rest."""
        return self.rest or f"{{url: '{self.cluster.rest_url}', token_file: {self.cluster.token_file}}}"

    def write_run(self, command, lock=True, **options):
        if self.cluster.rest:
            options["scheduler"] = options.get("scheduler", "") + f", rest: {self.rest_of_run()}"
        locked = [self.python, self.ours("_lock.py"), self.folder] if lock else []
        config = os.path.join(self.folder, f"{self.run}.yaml")
        with open(config, "w", encoding="utf-8") as f:
            f.write(_harness.on_any_disk(RUN.format(run=self.run, directory=self.directory,
                                                    command=", ".join([*locked, *command]),
                                                    **{**DEFAULTS, **options})))
        return config

    def run_training(self, **options):
        """Puts the training core or the foreign loop under supervision, whichever plays this case."""
        {"core": self.run_core, "loop": self.run_loop}[self.training](**options)

    def run_loop(self, watch=(), **options):
        """A foreign training: a Python loop that saves its iteration. `watch`: more keys of the run's `watch`."""
        config = self.write_run([self.python, self.ours("_loop.py"), os.path.join(self.folder, "tree")],
                                more=f"watch: {{{', '.join([PROGRESS, *watch])}}}", **options)
        self.stoker("run", config, "--yes")

    def run_core(self, watch=(), **options):
        """The training core."""
        prefix = self.prepare_data()
        shape = dict(layers=2, hidden=32, ffn=64, sequence=32, micro=1, global_batch=8, ramp_start=4, ramp_samples=64,
                     samples=5_000_000, warmup=64, save_every=20, asynchronous="true")
        train = os.path.join(self.folder, f"{self.run}.train.yaml")
        with open(train, "w", encoding="utf-8") as f:
            f.write(_harness.TRAIN.format(prefix=prefix, **shape))
        # Its exit codes mean something because of its name: the lock is taken by a script of the same name. A polite one:
        # the ranks compute all the time, and the daemons of three clusters share this machine with them.
        wrapper = os.path.join(self.folder, "locked", "stoker-train")
        os.makedirs(os.path.dirname(wrapper), exist_ok=True)
        with open(wrapper, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/bash\nexec nice {self.python} {self.ours('_lock.py')} {self.folder} {self.bin}/stoker-train \"$@\"\n")
        os.chmod(wrapper, 0o755)
        more = f"checkpoints: {{keep: {{last: 10}}}}\nwatch: {{{', '.join(watch)}}}"  # it saves several times a second
        self.stoker("run", self.write_run([wrapper, "--config", train], lock=False, more=more, **options), "--yes")

    def is_rank(self, command_line):
        """A process of the training itself: no guardian of one, whose command line ends like the rank's."""
        program = "stoker-train" if self.training == "core" else "_loop.py"
        return program in command_line and "guardian" not in command_line

    def rank_pid(self, rank):
        """The core writes its pid into its heartbeat page; the loop has none."""
        return super().rank_pid(rank) if self.training == "core" else self.wait(lambda: self.ranks().get(rank), 20, f"rank {rank}")

    def by_rest(self, text):
        """A RUN.yaml, over slurmrestd where the cluster of this case has one."""
        if not self.cluster.rest:
            return text
        between = ", " if "{kind: slurm" in text else "\n  "
        return text.replace("kind: slurm", f"kind: slurm{between}rest: {self.rest_of_run()}")

    def write_files(self, prefix, *arguments, **options):
        """The run files of the demo, on SLURM."""
        config = super().write_files(prefix, *arguments, **options)
        with open(config, encoding="utf-8") as f:
            text = self.by_rest(f.read().replace("kind: local", "kind: slurm"))
        with open(config, "w", encoding="utf-8") as f:
            f.write(text)
        return config

    def admin(self, verb, node):
        """The operator's words of the embedded scheduler, as far as the demo needs them."""
        check(verb == "kill-node", f"no {verb} here")
        self.cluster.kill_node(node)

    # ---- what is true at any time
    def job(self):
        return self.status().get("job", "")

    def job_id(self):
        return str(self.job()).split("_")[0]

    def running_jobs(self):
        return [j for j in self.cluster.jobs() if j[2] == "RUNNING" and j[4] == self.run]

    def waiting_jobs(self):
        return [j for j in self.cluster.jobs() if j[2] == "PENDING" and j[4] == self.run]

    def submissions(self):
        """Array ids that SLURM knows of this run, live ones."""
        return sorted({j[0] for j in self.cluster.jobs()
                       if j[4] == self.run and j[2] in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")})

    def wait_training(self, beyond=None, generation=None, seconds=LIMIT):
        """The run trains, is past an iteration, in a generation or a later one."""
        def there():
            s = self.status()
            if s.get("state") in ("held", "finished", "stopped"):
                raise Failed(f"the run is {s['state']}: {s.get('reason')}\n{self.tail_of_log()}")
            good = s.get("state") == "training" and not s.get("stale")
            return good and (beyond is None or s.get("iteration", 0) > beyond) and \
                (generation is None or s.get("generation", 0) >= generation) and s
        return self.wait(there, seconds, f"training beyond iteration {beyond}, generation {generation}")

    def wait_event(self, text, seconds=LIMIT):
        """A decision whose sentence holds this text."""
        return self.wait(lambda: next((e for e in self.events() + self.site_events() if text in json.dumps(e)), None),
                         seconds, f"the journal to say \"{text}\"")

    def switch(self, name, text=""):
        """A switch file, made by the cluster's user."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chown(path, self.cluster.uid, self.cluster.gid)
        os.rename(path, os.path.join(self.directory, "switch", name))

    def shim(self, command, text):
        """Puts a script before the real command in stokerd's PATH; REAL is the real one."""
        real = shutil.which(command)
        path = os.path.join(self.shims, command)
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write("#!/bin/bash\nREAL=" + real + "\n" + text + "\n")
        os.chmod(path + ".new", 0o755)
        os.rename(path + ".new", path)

    def unshim(self, command):
        os.unlink(os.path.join(self.shims, command))

    def only_one_trains(self):
        """The invariants that hold after every case."""
        overlap = os.path.join(self.folder, "overlap")
        check(not os.path.exists(overlap), "two live trainings on one checkpoint tree: " +
              (open(overlap).read() if os.path.exists(overlap) else ""))
        self.wait(lambda: len(self.running_jobs()) <= 1, LIMIT, "an empty shell beside the running job to be cancelled")


def main(*cases):
    """Runs the cases named on the command line, or all, each on a cluster of its own."""
    if reason := why_not():
        _harness.skip(f"no SLURM can be started here: {reason}")
    if sys.argv[1:] == ["--list"]:
        print("\n".join(f"{c.__name__} {getattr(c, 'training', '-')} {way_of(c)}" for c in cases))
        return
    chosen = [c for c in cases if not sys.argv[1:] or c.__name__ in sys.argv[1:]]
    failed, skipped = 0, 0
    for case in chosen:
        began = time.monotonic()
        try:
            if way_in() and way_of(case) == "commands":
                raise Unavailable("it is about SLURM's commands")
            with Cluster(**{**way_in(), **getattr(case, "cluster", {})}) as cluster:
                site = SlurmSite(cluster, training=os.environ.get("STOKER_TRAINING") or getattr(case, "training", "loop"))
                try:
                    case(site)
                    site.only_one_trains()
                    site.audit()
                except Exception:
                    story = site.tail_of_log() + cluster.tail("slurmctld")
                    print(story, flush=True)
                    raise
            print(f"ok {case.__name__} ({time.monotonic() - began:.0f}s)", flush=True)
        except Unavailable as reason:  # this case wants more of SLURM than is here
            skipped += 1
            print(f"skipped {case.__name__}: {reason}", flush=True)
        except (Failed, RuntimeError, subprocess.TimeoutExpired) as failure:
            failed += 1
            print(f"not ok {case.__name__} ({time.monotonic() - began:.0f}s): {failure}", flush=True)
    sys.exit(1 if failed else 77 if skipped == len(chosen) else 0)
