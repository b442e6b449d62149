"""Trainings for one test: a folder with prepared text and train.yaml, ranks as plain processes, what their checkpoints hold.

The text is made here from a fixed rule, so that a test needs no file of the system.
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BIN = os.environ.get("STOKER_BIN") or os.path.join(ROOT, "build", "bin")
TRAIN = os.path.join(BIN, "stoker-train")

CONFIG = """
model: {{layers: 2, hidden: 32, heads: 4, ffn: 64, sequence: 32, vocabulary: 257, dropout: 0.1}}
data: {{train: [{{prefix: data/text, weight: 1.0}}], split: [90, 10, 0], seed: 1234}}
batch: {{micro: 1, global: 16, ramp_up: {{start: 4, increment: 4, samples: 80}}}}
train: {{samples: {samples}, dtype: {dtype}, clip: 1.0, seed: 42, deadline: {deadline}}}
optimizer: {{kind: adamw}}
lr: {{max: 1.0e-3, min: 1.0e-4, warmup_samples: 40, decay_samples: 300}}
checkpoint: {{directory: {directory}, save: [{{every: {every}}}], asynchronous: {asynchronous}, samples_log: samples.log}}
evaluate: {{every: 10, iterations: 1}}
{more}
"""


class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_test(test):
    """Runs test() and ends the program with its outcome."""
    if not os.path.exists(TRAIN):
        print(f"SKIPPED: {TRAIN} was not built")
        sys.exit(77)
    try:
        test()
    except Failed as failure:
        print(f"FAILED: {failure}")
        sys.exit(1)


class Training:
    def __init__(self, **settings):
        self.folder = tempfile.mkdtemp(prefix="stoker-train-")
        words = ("engine fire coal water steam gauge valve rail night wheel signal brake").split()
        text, x = [], 7
        for i in range(6000):
            x = (x * 1103515245 + 12345) % 2**31
            text.append(words[(x >> 16) % len(words)] + ("\n\n" if i % 40 == 39 else " "))
        with open(os.path.join(self.folder, "text.txt"), "w") as file:
            file.write("".join(text))
        self.command("prepare", "text.txt", "-o", "data/text", "--bytes", "--documents", "paragraph")
        self.configure(**settings)
        self.attempt = 0

    def configure(self, name="train.yaml", **settings):
        values = {"samples": 420, "dtype": "f32", "deadline": "60s", "directory": "checkpoints", "every": 5, "asynchronous": "false", "more": ""}
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(CONFIG.format(**{**values, **settings}))

    def command(self, *arguments, expect=0):
        os.makedirs(os.path.join(self.folder, "data"), exist_ok=True)
        done = subprocess.run([TRAIN, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=120)
        check(expect is None or done.returncode == expect,
              f"stoker-train {' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()[-600:]}")
        return done

    def environment(self, rank, world, port, more):
        return {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "STOKER_ATTEMPT": str(self.attempt),
                "STOKER_STORE_PREFIX": f"test.0.{self.attempt}", **more}

    def start(self, world=1, config="train.yaml", flags=(), **more):
        """Starts all ranks; each writes its own log."""
        self.attempt += 1
        port = free_port()
        ranks = []
        for rank in range(world):
            log = open(os.path.join(self.folder, f"log.{self.attempt}.{rank}"), "w")
            ranks.append(subprocess.Popen([TRAIN, "--config", config, *flags], cwd=self.folder, stdout=log,
                                          stderr=subprocess.STDOUT, env=self.environment(rank, world, port, more)))
            log.close()
        return ranks

    def finish(self, ranks, limit=240):
        end = time.monotonic() + limit
        try:
            return [r.wait(max(0.1, end - time.monotonic())) for r in ranks]
        except subprocess.TimeoutExpired:
            raise Failed(f"not finished within {limit} s: {self.log()[-400:]}")
        finally:
            self.kill(ranks)

    def run(self, world=1, expect=0, **more):
        codes = self.finish(self.start(world, **more))
        check(expect is None or set(codes) == {expect}, f"exit codes {codes}, expected {expect}:\n{self.log()[-1500:]}")
        return codes

    @staticmethod
    def kill(ranks):
        for rank in ranks:
            if rank.poll() is None:
                rank.send_signal(signal.SIGKILL)
                rank.wait()

    def log(self, attempt=None):
        attempt = attempt or self.attempt
        names = sorted(n for n in os.listdir(self.folder) if n.startswith(f"log.{attempt}."))
        return "".join(open(os.path.join(self.folder, n), errors="replace").read() for n in names)

    def losses(self):
        """iteration -> (loss, grad norm) as printed; an iteration made twice must have printed the same."""
        found = {}
        for attempt in range(1, self.attempt + 1):
            for m in re.finditer(r"iteration +(\d+)/.*lm loss: (\S+) \| grad norm: (\S+) ", self.log(attempt)):
                value = m.group(2, 3)
                check(found.setdefault(m.group(1), value) == value,
                      f"iteration {m.group(1)} gave {found[m.group(1)]}, then {value}")
        return found

    def checkpoints(self, directory="checkpoints"):
        path = os.path.join(self.folder, directory)
        return sorted(n for n in os.listdir(path) if re.fullmatch(r"step-\d+\.g\d+", n)) if os.path.isdir(path) else []

    def inspect(self, name, directory="checkpoints"):
        return json.loads(self.command("inspect", f"{directory}/{name}", "--verify", "--json").stdout)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
