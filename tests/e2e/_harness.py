"""A site of its own for one test: state directory, daemon, data, run files, and waiting with a limit.

Used by the end-to-end tests and by the demo. Everything lives under one temporary folder; `close()` ends what was started, by
process id, and the audit replays the journal from zero.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(os.environ.get("STOKER_BIN") or os.path.join(os.path.dirname(__file__), "..", "..", "build", "bin"))

TRAIN = """\
model: {{layers: {layers}, hidden: {hidden}, heads: 2, ffn: {ffn}, sequence: {sequence}, vocabulary: 257, dropout: 0.1}}
data: {{train: [{{prefix: {prefix}, weight: 1.0}}], split: [969, 30, 1], seed: 1234}}
batch: {{micro: {micro}, global: {global_batch}, ramp_up: {{start: {ramp_start}, increment: {ramp_start}, samples: {ramp_samples}}}}}
train: {{samples: {samples}, dtype: f32, clip: 1.0, seed: 42}}
optimizer: {{kind: adamw, beta1: 0.9, beta2: 0.95, eps: 1.0e-8, weight_decay: 0.1}}
lr: {{max: 1.0e-3, min: 1.0e-4, warmup_samples: {warmup}, decay_samples: {samples}, style: cosine}}
checkpoint: {{directory: checkpoints, save: [{{every: {save_every}}}], asynchronous: {asynchronous}, samples_log: samples.log}}
log: {{every: 1}}
"""

RUN = """\
run: {run}
directory: {directory}
scheduler: {{kind: local, nodes: {nodes}, spares: {spares}, time_limit: {time_limit}, array: {{tasks: {tasks}, top_up_below: 2}}}}
train:
  command: [{command}]
  ranks_per_node: {ranks_per_node}
  exit_before_limit: {exit_before_limit}
hang: {{floor: {floor}, ceiling: {ceiling}, phases: {{startup: 30s, load: 30s, checkpoint: 30s, evaluation: 30s, shutdown: 30s}}}}
recover: {{restarts: {{total: {restarts}, without_progress: {without_progress}, refill: 24h}}, exclude: {{for: {excluded}, at_most: 50%}}}}
{more}
"""


def on_any_disk(text):
    """RUN.yaml without alerts about free space, unless it has limits of its own: a test may run on a disk that is nearly full."""
    if "min_free" in text:
        return text
    limits = "disk: {min_free: 0%, min_free_inodes: 0%}"
    return text.replace("watch: {", f"watch: {{{limits}, ", 1) if "watch: {" in text else f"{text}\nwatch: {{{limits}}}\n"


class Failed(Exception):
    pass


def check(condition, text):
    """Fails the test with a sentence."""
    if not condition:
        raise Failed(text)


def run_program(*argv, ok=True, env=None, cwd=None, limit=120, input=None):
    """Runs one of stoker's programs; returns the finished process. `ok`: anything but exit 0 fails the test."""
    done = subprocess.run([os.path.join(BIN, argv[0]), *map(str, argv[1:])], text=True, capture_output=True, env=env,
                          cwd=cwd, timeout=limit, input=input, errors="replace")
    if ok and done.returncode != 0:
        raise Failed(f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


class Site:
    def __init__(self, name="run", folder=None, keep=False):
        self.folder = folder or tempfile.mkdtemp(prefix="stoker-test-")
        self.keep = keep or bool(os.environ.get("STOKER_KEEP"))
        self.state = os.path.join(self.folder, "state")
        self.run = name
        self.directory = os.path.join(self.folder, name)
        self.daemon = None
        os.makedirs(self.state, exist_ok=True)
        self.env = dict(os.environ, STOKER_STATE=self.state, PATH=BIN + ":" + os.environ["PATH"])
        self.log = open(os.path.join(self.folder, "stokerd.log"), "ab")

    def use_run(self, name):
        """From now on the site's run is another one."""
        self.run = name
        self.directory = os.path.join(self.folder, name)

    def admin(self, *argv, ok=True):
        """The operator of the embedded scheduler: kill-node, drain, resume, requeue, list."""
        return run_program("stokerd", "local-admin", "--state", self.state, *argv, ok=ok, env=self.env)

    # ---- files of a run
    def prepare_data(self, texts=None):
        prefix = os.path.join(self.folder, "data")
        if not texts:
            texts = [os.path.join(self.folder, "text.txt")]
            with open(texts[0], "w", encoding="utf-8") as f:
                for i in range(4000):
                    f.write(f"Line {i}: the stoker keeps the fire going, {i * 7919 % 1009} shovels of coal at a time.\n")
                    if i % 40 == 39:
                        f.write("\n\n")
        run_program("stoker-train", "prepare", *texts, "-o", prefix, "--bytes", env=self.env)
        return prefix

    def write_files(self, prefix, more="", command="stoker-train, --config, TRAIN", **options):
        o = dict(layers=2, hidden=32, ffn=64, sequence=32, micro=1, global_batch=8, ramp_start=4, ramp_samples=64,
                 samples=800, warmup=64, save_every=10, asynchronous="true", nodes=1, spares=0, time_limit="1h", tasks=6, ranks_per_node=2,
                 exit_before_limit="10s", floor="2s", ceiling="20s", restarts=20, without_progress=3, excluded="24h",
                 memory_every=0)
        o.update(options)
        memory = f", memory: {{every: {o['memory_every']}}}" if o["memory_every"] else ""
        train = os.path.join(self.folder, f"{self.run}.train.yaml")
        config = os.path.join(self.folder, f"{self.run}.yaml")
        with open(train, "w", encoding="utf-8") as f:
            f.write(TRAIN.format(prefix=prefix, **o).replace("samples.log}", f"samples.log{memory}}}"))
        with open(config, "w", encoding="utf-8") as f:
            f.write(on_any_disk(RUN.format(run=self.run, directory=self.directory, command=command.replace("TRAIN", train), more=more, **o)))
        return config

    def switch(self, name, text=""):
        """A switch file of the run."""
        with open(os.path.join(self.directory, "switch", name), "w", encoding="utf-8") as f:
            f.write(text)

    # ---- the daemon
    def start_daemon(self, *arguments):
        self.daemon = subprocess.Popen([os.path.join(BIN, "stokerd"), "--state", self.state, *arguments], env=self.env,
                                       stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        self.wait(lambda: run_program("stoker", "--state", self.state, "status", "--json", ok=False,
                                      env=self.env).returncode == 0 and os.path.exists(
                                          os.path.join(self.state, "stokerd.sock")), 15, "the daemon's socket")

    def kill_daemon(self, how=signal.SIGKILL):
        self.daemon.send_signal(how)
        self.daemon.wait(timeout=20)
        self.daemon = None

    def stoker(self, *argv, ok=True):
        return run_program("stoker", "--state", self.state, *argv, ok=ok, env=self.env)

    def status(self):
        done = self.stoker("status", self.run, "--json", ok=False)
        return json.loads(done.stdout) if done.returncode == 0 and done.stdout.strip() else {}

    def events(self):
        done = self.stoker("events", self.run, "--json", ok=False)  # exit 1: nothing is published yet
        return [] if done.returncode else [json.loads(line) for line in done.stdout.splitlines() if line.strip()]

    def site_events(self):
        """What happened to the site as a whole: its daemon, its nodes, its scheduler."""
        path = os.path.join(self.state, "published", "events.jsonl")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]

    # ---- waiting
    def wait(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.1)
        raise Failed(f"waited {seconds}s for {what}\nstatus: {json.dumps(self.status())}\n{self.tail_of_log()}")

    def wait_state(self, state, seconds=60):
        return self.wait(lambda: self.status().get("state") == state and self.status(), seconds, f"state {state}")

    def wait_iteration(self, iteration, seconds=120):
        return self.wait(lambda: self.status().get("iteration", 0) >= iteration and self.status(), seconds,
                         f"iteration {iteration}")

    def tail_of_log(self):
        with open(os.path.join(self.folder, "stokerd.log"), encoding="utf-8", errors="replace") as f:
            return "stokerd said:\n" + "".join(f.readlines()[-25:])

    # ---- what runs where
    def ranks(self):
        """{rank: pid} of the training processes of the newest attempt, by their environment."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    environment = dict(e.split(b"=", 1) for e in f.read().split(b"\0") if b"=" in e)
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    argv = f.read().split(b"\0")
            except OSError:
                continue
            if environment.get(b"STOKER_RUN_DIR", b"").decode() != self.directory or b"RANK" not in environment:
                continue
            if os.path.basename(argv[0]) in (b"stoker-agent",) or b"guardian" in argv:
                continue
            found.setdefault(int(environment[b"RANK"]), []).append(int(pid))
        return {rank: min(pids) for rank, pids in found.items()}

    def rank_pid(self, rank):
        """The pid that the rank itself wrote into its heartbeat page."""
        return self.wait(lambda: self.page_pids().get(rank), 20, f"the heartbeat page of rank {rank}")

    def page_pids(self):
        return {rank: pid for rank, (pid, _) in self.pages().items()}

    def pages(self):
        """{rank: (pid, iteration)} of the living ranks, as their heartbeat pages say: sooner than `status`, which is published."""
        import glob
        import struct
        found = {}
        for path in glob.glob("/dev/shm/stoker*/**", recursive=True) + glob.glob("/dev/shm/stoker*"):
            if not os.path.isfile(path):
                continue
            try:
                with open(path, "rb") as f:
                    page = f.read(256)
            except OSError:
                continue
            if page[:8] != b"STOKERHB":
                continue
            iteration, pid = struct.unpack_from("<Q", page, 40)[0], struct.unpack_from("<I", page, 128)[0]
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    ours = f"STOKER_RUN_DIR={self.directory}" in f.read().decode(errors="replace").split("\0")
                with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as f:
                    alive = path in f.read()  # a page left behind names a pid that may be anybody's by now
            except OSError:
                continue
            rank = path.rpartition(".")[2]
            if ours and alive and rank.isdigit():
                found[int(rank)] = pid, iteration
        return found

    def newest_checkpoint(self):
        folder = os.path.join(self.directory, "checkpoints")
        names = sorted(n for n in os.listdir(folder) if os.path.exists(os.path.join(folder, n, "manifest.json")))
        return os.path.join(folder, names[-1]) if names else None

    def digest(self, checkpoint=None):
        done = run_program("stoker-train", "inspect", checkpoint or self.newest_checkpoint(), "--verify", "--json",
                           env=self.env)
        return json.loads(done.stdout)

    def losses(self):
        """{iteration: loss text} of main.log over all generations; the last line of an iteration counts."""
        import re
        found = {}
        for generation in sorted(n for n in os.listdir(self.directory) if n.startswith("gen-")):
            path = os.path.join(self.directory, generation, "main.log")
            if not os.path.exists(path):
                continue
            with open(path, encoding="utf-8", errors="replace") as f:
                for line in f:
                    m = re.search(r"iteration\s+(\d+)/.*lm loss: (\S+)", line)
                    if m:
                        found[int(m.group(1))] = m.group(2)
        return found

    # ---- the end
    def audit(self):
        """The journal, replayed from zero, gives the same state bit for bit; it has no gap."""
        if self.daemon:
            self.kill_daemon(signal.SIGTERM)
        run_program("stokerd", "--state", self.state, "--audit", env=self.env)

    def our_processes(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    text = f.read()
            except OSError:
                continue
            if self.folder.encode() in text and int(pid) != os.getpid():
                found.append(int(pid))
        return found

    def programs(self, name, word):
        """Our processes that are `NAME WORD ...`."""
        found = []
        for pid in self.our_processes():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    argv = f.read().decode(errors="replace").split("\0")
            except OSError:
                continue
            if os.path.basename(argv[0]) == name and word in argv[1:2]:
                found.append(pid)
        return found

    def close(self):
        if self.daemon and self.daemon.poll() is None:
            try:
                self.kill_daemon(signal.SIGTERM)
            except subprocess.TimeoutExpired:
                print("the daemon did not leave and is killed", flush=True)
        for _ in range(3):
            for pid in self.our_processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.2)
        self.log.close()
        if self.keep:
            print(f"kept: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def main(*tests, site_of=Site):
    """Runs test functions (or those named on the command line), each with a site of its own; exit 1 with the first
    failure's sentence."""
    for test in (t for t in tests if not sys.argv[1:] or t.__name__ in sys.argv[1:]):
        site = site_of()
        try:
            test(site)
            print(f"ok {test.__name__}", flush=True)
        except (Failed, subprocess.TimeoutExpired) as failure:
            print(f"not ok {test.__name__}: {failure}", flush=True)
            site.keep = bool(os.environ.get("STOKER_KEEP"))
            sys.exit(1)
        finally:
            site.close()


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)
