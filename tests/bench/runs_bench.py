"""What a site of many runs costs: putting each under supervision, what that writes, and the daemon's CPU while nothing moves.

STOKER_RUNS=N measures N runs instead of 1,000."""
import json
import os
import socket
import time

from daemon_bench import cpu_seconds, resident_mb
from e2e._harness import Site

RUNS = int(os.environ.get("STOKER_RUNS", "1000"))
IDLE_S = 60
RUN = """\
run: {name}
directory: {directory}
scheduler: {{kind: local, nodes: 1, time_limit: 24h, array: {{tasks: 1, top_up_below: 1}}}}
train: {{command: [sleep, 86400], ranks_per_node: 1}}
"""


def written_mb(pid):
    with open(f"/proc/{pid}/io", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("write_bytes")) / 1e6


def ask(state, request):
    """One line to the daemon, one back, as the command line does it."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(os.path.join(state, "stokerd.sock"))
        s.sendall(json.dumps(request).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            got = s.recv(65536)
            if not got:
                break
            answer += got
    return json.loads(answer)


def runs():
    site = Site("bench")
    try:
        site.start_daemon()
        pid = site.daemon.pid
        before, wrote, used = time.monotonic(), written_mb(pid), cpu_seconds(pid)
        slowest = 0.0
        for i in range(RUNS):
            name = f"run{i:04}"
            directory = os.path.join(site.folder, "runs", name)
            config = os.path.join(site.folder, f"{name}.yaml")
            text = RUN.format(name=name, directory=directory)
            with open(config, "w", encoding="utf-8") as f:
                f.write(text)
            began = time.monotonic()
            answer = ask(site.state, {"version": 1, "verb": "run", "text": text, "arguments": {"path": config}})
            if not answer.get("ok"):
                raise RuntimeError(f"{name}: {answer}")
            slowest = max(slowest, time.monotonic() - began)
        took = (time.monotonic() - before) / RUNS
        spent = (cpu_seconds(pid) - used) / RUNS
        yield dict(name=f"runs: one of {RUNS} registered", value=took, unit="s", goal="<= 0.1", ok=took <= 0.1,
                   note=f"{spent:.3f} s of CPU, the slowest took {slowest:.2f} s")
        time.sleep(75)  # what was begun comes to its end, and a run is quiet after a minute without news
        yield dict(name=f"runs: written for {RUNS}", value=written_mb(pid) - wrote, unit="MB", goal="", ok=True,
                   note="by the daemon, as the kernel counts")
        used, began = cpu_seconds(pid), time.monotonic()
        time.sleep(IDLE_S)
        share = 100 * (cpu_seconds(pid) - used) / (time.monotonic() - began)
        yield dict(name=f"runs: CPU with {RUNS} idle", value=share, unit="%", goal="< 3", ok=share < 3,
                   note=f"of one core over {IDLE_S} s; RSS {resident_mb(pid):.0f} MB")
    finally:
        site.close()
