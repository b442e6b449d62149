"""What really happens around one run, seen from outside: the training's own diary, processes in /proc, the scheduler's list, and what
stoker publishes. A thread samples twice a second into a history: plain values, one JSON object each, in the order in which they were
learned, that _rules.py judges.

    {"t", "kind": "sample", "well", "status", "ranks", "count"}     well: the daemon runs and nothing here keeps it from publishing
    {"t", "kind": "order", "verb", "argv", "exit", "said", "sure"}  sure: false where the command could not learn whether it was done
    {"t", "kind": "deed", "name", …}                                what was done behind stoker's back
    {"t", "kind": "witness", "what", "pid", "rank", "count", …}     a line of the diary
    {"t", "kind": "job", "job"}                                     a submission that the scheduler had not shown before
    {"t", "kind": "queue", "jobs"}                                  the scheduler's list of this run, when it has changed
    {"t", "kind": "row", "seq", "event", "decision", "reason"}      the journal, at the end
"""
import contextlib
import json
import os
import threading
import time

PERIOD_S = 0.5
YOUNG_S = 5
KEYS = ("state", "conditions", "reason", "job", "generation", "attempt", "iteration", "published", "checkpoint", "alerts", "restarts")


class Witness:
    def __init__(self, world):
        self.world = world
        self.history = []
        self.lock = threading.Lock()
        self.known = {}       # (pid, start) -> what it is, or None
        self.busy = {}        # pid -> processor time at the sample before
        self.read_to = 0      # of the diary
        self.jobs, self.listed = set(), []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    # ---- what others write down
    def add(self, kind, t=None, **fields):
        with self.lock:
            self.history.append({"t": round(time.monotonic() if t is None else t, 3), "kind": kind, **fields})

    def samples(self):
        with self.lock:
            return [h for h in self.history if h["kind"] == "sample"]

    def last(self):
        found = self.samples()
        return found[-1] if found else {"status": {}, "ranks": [], "count": 0, "well": False}

    # ---- the thread
    def start(self):
        self.thread.start()

    def stop(self):
        self.over.set()
        self.thread.join()
        self.look()

    def watch(self):
        while not self.over.wait(PERIOD_S):
            self.look()

    def look(self):
        self.read_diary()
        listed = self.world.jobs()
        for job in sorted({j[0] for j in listed}):
            if job not in self.jobs:
                self.jobs.add(job)
                self.add("job", job=job)
        if listed != self.listed:
            self.listed = listed
            self.add("queue", jobs=listed)
        status = self.world.published()
        self.add("sample", well=self.world.well(), status={k: status[k] for k in KEYS if k in status}, ranks=self.ranks(),
                 count=self.count())

    def read_diary(self):
        with contextlib.suppress(OSError):
            with open(self.world.diary, "rb") as f:
                f.seek(self.read_to)
                text = f.read()
            whole = text[:text.rfind(b"\n") + 1]
            self.read_to += len(whole)
            for line in whole.splitlines():
                with contextlib.suppress(ValueError):
                    self.add("witness", **json.loads(line))

    def count(self):
        with self.lock:
            return max((h["count"] for h in self.history if h["kind"] == "witness"), default=0)

    def ranks(self):
        """The training's own processes: who has a rank in its environment and is no program of stoker's but stoker-train."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{pid}/stat", "rb") as f:
                    stat = f.read().rpartition(b") ")[2].split()
                if stat[0] in (b"Z", b"X"):
                    continue
                key, now = (pid, stat[19]), time.monotonic()
                since, what = self.known.get(key, (now, None))
                if what is None and now - since < YOUNG_S:  # between fork and exec it is somebody else
                    what = self.world.rank_of(int(pid))
                self.known[key] = since, what
                if what:
                    ticks = int(stat[11]) + int(stat[12])
                    busy = ticks > self.busy.get(pid, ticks)
                    self.busy[pid] = ticks
                    if busy or not what["standby"]:
                        found.append({"pid": int(pid), **what, "busy": busy, "stopped": stat[0] == b"T"})
        return found


def environment(pid):
    with open(f"/proc/{pid}/environ", "rb") as f:
        return dict(e.decode(errors="replace").split("=", 1) for e in f.read().split(b"\0") if b"=" in e)


def command_line(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        return f.read().decode(errors="replace").split("\0")
