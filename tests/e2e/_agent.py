"""Starts real agents for one test: nodes on this host, scripted ranks, their events, and the proof that nothing is left.

Ranks are Python scripts written into the run directory. Every process of a test carries STOKER_TEST_MARK in its environment.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BIN = os.environ.get("STOKER_BIN") or os.path.join(ROOT, "build", "bin")
AGENT = os.path.join(BIN, "stoker-agent")


# A rank that iterates and prints it.
STEPS = """
from heartbeat_client import Heartbeat
beat = Heartbeat()
beat.phase("iteration")
for i in range(1, 100000):
    beat.step(i, loss=1.0, seconds=0.02)
    time.sleep(0.02)
"""


class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


def wait_for(condition, limit=60.0, what="condition", every=0.01):
    """Waits until condition() is true; returns its value."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(every)
    raise Failed(f"not within {limit} s: {what() if callable(what) else what}")


class Allocation:
    def __init__(self, nodes=1, spares=0, ranks=1, orders=None, run="run"):
        self.folder = tempfile.mkdtemp(prefix="stoker-agent-")
        self.directory = os.path.join(self.folder, run)
        os.makedirs(self.directory)
        self.nodes = [f"n{i + 1:02}" for i in range(nodes + spares)]
        self.mark = uuid.uuid4().hex
        self.agents, self.job, self.restart = {}, 77, 0
        self.control = {"run": run, "epoch": 1, "generation": 1, "level": "run", "save": 0, "stacks": 0, "restart": 0}
        self.orders = {"run": run, "number": 1, "epoch": 1, "nodes": nodes, "ranks_per_node": ranks, "spares": spares,
                       "checkpoint_format": "pattern", "orphan_grace": 600 * 10**9, "stop_grace": 10**9, **(orders or {})}

    def script(self, text, name="rank.py"):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(f"import os, sys, time, signal, subprocess\nsys.path.insert(0, {os.path.join(ROOT, 'wire')!r})\n" + text)
        self.orders["command"] = [sys.executable, path]

    def write_orders(self):
        os.makedirs(os.path.join(self.directory, "orders"), exist_ok=True)
        path = os.path.join(self.directory, "orders", "%06d.json" % self.orders["number"])
        with open(path, "w") as file:
            json.dump(self.orders, file)

    def environment(self, node, **more):
        count = len(self.nodes)
        return {"PATH": os.environ["PATH"], "HOME": self.folder, "STOKER_TEST_MARK": self.mark, "SLURM_JOB_ID": str(self.job),
                "SLURM_JOB_NODELIST": f"n[01-{count:02}]" if count > 1 else "n01", "STOKER_TOKEN": "run-1-abc",
                "SLURM_RESTART_COUNT": str(self.restart), "SLURM_NODEID": str(self.nodes.index(node)),
                "SLURMD_NODENAME": node, "STOKER_RUN": "run",
                "STOKER_NODE_ADDRESSES": ",".join(f"{n}=127.0.0.1" for n in self.nodes), **more}

    def start(self, nodes=None, **more):
        self.write_orders()
        for node in nodes or self.nodes:
            log = open(os.path.join(self.folder, f"agent.{node}.log"), "ab")
            self.agents[node] = subprocess.Popen([AGENT, "run", "--run-dir", self.directory, "--node", node], stdout=log,
                                                 stderr=log, env=self.environment(node, **more), start_new_session=True)
            log.close()

    def lines(self, file="lead.jsonl", generation=1):
        path = os.path.join(self.directory, f"gen-{generation:06}", file)
        if not os.path.exists(path):
            return []
        with open(path, errors="replace") as handle:
            return [json.loads(line.rsplit("\t", 1)[0]) for line in handle.read().split("\n") if "\t" in line]

    def events(self, kind, generation=1, **match):
        return [e for e in self.lines(generation=generation) if e["body"]["kind"] == kind
                and all(e["body"].get(k) == v for k, v in match.items())]

    def wait_event(self, kind, limit=60.0, generation=1, **match):
        return wait_for(lambda: self.events(kind, generation, **match), limit, f"event {kind} {match}")[0]["body"]

    def write_control(self, **change):
        self.control.update(change)
        path = os.path.join(self.directory, "control.json")
        with open(path + ".new", "w") as file:
            json.dump(self.control, file)
        os.rename(path + ".new", path)

    def read(self, name):
        with open(os.path.join(self.directory, name), "rb") as file:
            return file.read()

    def logged(self, generation=1):
        """main.log; what a rank has printed may come there later than its events, and the file with the first line."""
        try:
            return self.read(f"gen-{generation:06}/main.log")
        except FileNotFoundError:
            return b""

    def processes(self):
        """Every living process of this test: pid -> (name, command line)."""
        found = {}
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if f"STOKER_TEST_MARK={self.mark}".encode() not in file.read():
                        continue
                with open(f"/proc/{entry}/stat") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] in "ZX":
                        continue
                name = open(f"/proc/{entry}/comm").read().strip()
                found[int(entry)] = (name, open(f"/proc/{entry}/cmdline", "rb").read().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found

    def exit_code(self, node="n01", limit=30.0):
        return self.agents[node].wait(timeout=limit)

    def nothing_left(self, limit=20.0):
        wait_for(lambda: not self.processes(), limit, lambda: f"nothing survives; left: {self.processes()}")

    def close(self):
        for process in self.agents.values():
            if process.poll() is None:
                process.kill()
                process.wait()
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if not os.environ.get("STOKER_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def story(self):
        """For a failed test: what the agents said."""
        text = []
        for node in self.nodes:
            path = os.path.join(self.folder, f"agent.{node}.log")
            text.append(f"--- {path}\n" + (open(path).read()[-2000:] if os.path.exists(path) else ""))
        for generation in (1, 2):
            kept = [e["body"] for e in self.lines(generation=generation) if e["body"]["kind"] != "beat"]
            text += [json.dumps(body)[:400] for body in kept[-40:]]
        return "\n".join(text)


def run_cases(cases):
    """Runs each case with an Allocation factory; exit 1 when one fails."""
    if not os.path.exists(AGENT):
        print(f"SKIPPED: {AGENT} is not built")
        sys.exit(77)
    failed, only = 0, sys.argv[1:]
    for case in cases:
        if only and case.__name__ not in only:
            continue
        made = []

        def allocation(**options):
            made.append(Allocation(**options))
            return made[-1]
        begin = time.monotonic()
        try:
            case(allocation)
            print(f"ok: {case.__doc__} ({time.monotonic() - begin:.1f} s)", flush=True)
        except (Failed, subprocess.TimeoutExpired, KeyError, IndexError, OSError) as error:
            failed += 1
            print(f"FAILED: {case.__doc__}: {type(error).__name__}: {error}", flush=True)
            for one in made:
                print(one.story(), flush=True)
        for one in made:
            one.close()
    sys.exit(1 if failed else 0)
