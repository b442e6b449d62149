"""A real embedded scheduler with real jobs, and what it shows, in the words of the contract's model (contract.py)."""
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

from e2e import _harness
from e2e._harness import run_program
from embedded import contract
from embedded.contract import ENDED

SETTLES_S = 60
SECOND = 10 ** 9
SCRIPT = """\
me="$SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_RESTART_COUNT $SLURMD_NODENAME"
trap 'echo "signal $me" >> lines' USR1
[ $1 = stubborn ] && trap '' TERM
mkfifo "${me// /.}"; exec 3<> "${me// /.}"
echo "start $me $$ $PPID" >> lines
read what n <&3
[ $what = signal ] && kill -$n $$
[ $what = orphan ] && (setsid sleep 1000 & setsid sleep 1000 &)
exit $n
"""


class Differs(Exception):
    pass


class Scheduler:
    """The process of one cluster folder, and the ways to ask it."""

    def __init__(self, state):
        self.state, self.folder = state, os.path.join(state, "local")
        os.mkdir(state)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "STOKER_LOCAL"))}
        self.start()

    def start(self):
        argv = [os.path.join(_harness.BIN, "stokerd"), "local-scheduler", "--folder", self.folder]
        with open(os.path.join(self.state, "said"), "ab") as said:  # a pipe would stay open as long as it lives
            until = time.monotonic() + SETTLES_S
            while time.monotonic() < until:  # one that leaves holds the folder a moment longer than its socket
                subprocess.run(argv, env=self.environment, timeout=SETTLES_S, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=True)
                with contextlib.suppress(OSError), self.connect():
                    return
        raise Differs("the scheduler does not start")

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(SETTLES_S)
        try:
            s.connect(os.path.join(self.folder, "scheduler.sock"))
        except OSError:
            s.close()
            raise
        return s

    def kill(self, s=None):
        """kill -9; the kernel says who serves the socket."""
        try:
            s = s or self.connect()
        except OSError:  # it has left by itself
            return b""
        with s:
            pid = struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            os.kill(pid, signal.SIGKILL)
            while alive(pid):  # till then it holds the folder, and takes connections
                time.sleep(0.001)
            text = b""
            with contextlib.suppress(ConnectionError):
                while part := s.recv(1 << 20):
                    text += part
        return text

    def ask(self, kind, killed_after=None, **fields):
        """The answer. `killed_after`: the scheduler is killed that long after it was asked, started and, without an answer, asked again."""
        try:
            s = self.connect()
        except OSError:  # without work it leaves by itself
            self.start()
            s = self.connect()
        s.sendall((json.dumps(dict(fields, kind=kind)) + "\n").encode())
        if killed_after is not None:
            time.sleep(killed_after)
            text = self.kill(s)
            self.start()
            return json.loads(text) if text.endswith(b"\n") else self.ask(kind, **fields)
        with s:
            text = b""
            while not text.endswith(b"\n"):
                part = s.recv(1 << 20)
                if not part:
                    raise Differs(f"{kind}: the scheduler left without an answer")
                text += part
        return json.loads(text)

    def wait_until_left(self):
        until = time.monotonic() + SETTLES_S
        with contextlib.suppress(OSError):
            while time.monotonic() < until:
                self.connect().close()
                time.sleep(0.01)
            raise Differs("the scheduler does not leave")

    def admin(self, *words):
        return run_program("stokerd", "local-admin", "--state", self.state, *words, ok=False, env=self.environment)


class Site:
    """One scheduler, its worlds and its story."""

    def __init__(self, seed):
        self.seed, self.draw = seed, random.Random(seed)
        self.root = tempfile.mkdtemp(prefix="stoker-contract-")
        self.work = os.path.join(self.root, "work")
        os.mkdir(self.work)
        with open(os.path.join(self.root, "job.sh"), "w", encoding="utf-8") as f:
            f.write(SCRIPT)
        self.scheduler = Scheduler(os.path.join(self.root, "state"))
        self.size = self.draw.choice([2, 3, 3, 4])
        self.worlds, self.story = [contract.World()], []
        self.requests, self.limits, self.newest = {}, {}, 0  # of submissions, by token; time limits by job
        self.ended, self.ends_at, self.pids = {}, {}, {}

    # ---- what the scheduler shows
    def look(self):
        """What it shows now, as World.seen() would; ended tasks' times are remembered."""
        answer, facts = self.scheduler.ask("list"), {}
        for line in answer["lines"]:
            seen = line["seen"]
            job, task = map(int, seen["job"].split("_"))
            facts[seen["job"]] = (seen["state"], seen["reason"], seen["restart"], tuple(seen["nodes"]), (seen["exit_code"], seen["signal"]),
                                  (seen["cancelled_by_uid"], seen["cancelled_by_us"]))
            if seen["state"] in ENDED:
                self.ended[job, task] = line["ended"]
            if seen["ends_at"]:
                self.ends_at[job, task] = seen["ends_at"] / SECOND
                if seen["ends_at"] - line["started"] != self.limits[job]:
                    facts[seen["job"]] += (f"its time limit is over {(seen['ends_at'] - line['started']) / SECOND} s after its start",)
            if not 0 < line["submitted"] <= (line["started"] or line["submitted"]) <= (line["ended"] or 1 << 62):
                facts[seen["job"]] += ("times in a wrong order",)
        for node in answer["nodes"]:
            facts[node["node"]] = (node["state"], node["reason"]) + (() if node["usable"] == (node["state"] in ("IDLE", "ALLOCATED")) else ("usable",))
        return facts

    def lines(self):
        """What the jobs' processes say: the starts, the signals."""
        path = os.path.join(self.work, "lines")
        if not os.path.exists(path):
            return set(), set()
        with open(path, encoding="utf-8") as f:
            words = [line.split() for line in f]
        found = {"start": [], "signal": []}
        for what, job, task, restart, node, *pids in words:
            found[what].append((int(job), int(task), int(restart), node))
            if pids:
                self.pids[found[what][-1]] = tuple(map(int, pids))
        for what, keys in found.items():
            if twice := [k for k in keys if keys.count(k) > 1]:
                raise Differs(f"two lines \"{what}\" of {twice[0]}")
        return set(found["start"]), set(found["signal"])

    @staticmethod
    def differences(world, facts, starts, signals):
        found = [f"{k}: shown {facts.get(k)}, contract {world[0].get(k)}" for k in {**world[0], **facts} if facts.get(k) != world[0].get(k)]
        found += [f"started, against the contract: {s}" for s in sorted(starts - world[1].starts)]
        found += [f"has not started: {key} on {node}" for key, node in world[1].up()
                  if (*key, world[1].tasks[key].restart, node) not in starts]
        found += [f"has not got its signal: {s}" for s in sorted(world[1].signals - signals)]
        return found + [f"got a signal that it did not ask for: {s}" for s in signals if s[0] in world[1].jobs and not world[1].jobs[s[0]].signal]

    def compare(self, worlds):
        """Waits until one of the worlds is what is shown, and still is a turn later; those that fit are left."""
        worlds = [(w.seen(), w) for w in worlds]
        until, agreed = time.monotonic() + SETTLES_S, 0
        while True:
            facts, (starts, signals) = self.look(), self.lines()
            found = [self.differences(w, facts, starts, signals) for w in worlds]
            fit = [w[1] for w, text in zip(worlds, found) if not text]
            agreed = agreed + 1 if fit else 0
            if agreed == 2:
                self.worlds = fit[:20]
                return
            if not fit and time.monotonic() > until:
                raise Differs("\n    ".join(min(found, key=len)))
            time.sleep(0 if fit else 0.01)

    def settle(self):
        self.compare(contract.settled(self.worlds))

    # ---- the end
    def ours(self):
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/cmdline", "rb") as a, open(f"/proc/{pid}/environ", "rb") as b:
                    text = a.read() + b"\0" + b.read()
                    if self.root.encode() in text:
                        found[int(pid)] = text.decode(errors="replace").replace("\0", " ")[:80]
        return found

    def close(self):
        """Everything is cancelled, and no process is left."""
        self.story.append("shutdown --cancel-jobs")
        done = self.scheduler.admin("shutdown", "--cancel-jobs")
        until = time.monotonic() + SETTLES_S
        while self.ours():
            if done.returncode or time.monotonic() > until:
                raise Differs(f"shutdown: {done.returncode} {done.stderr}; left are {self.ours()}")
            time.sleep(0.02)

    def clean(self):
        for _ in range(3):
            for pid in self.ours():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)


def alive(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        return not re.search(r"\) [ZX] ", f.read())
    return False
