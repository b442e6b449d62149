"""What the daemon costs while it only watches, and how fast the reading commands answer."""
import os
import re
import statistics
import subprocess
import time

from e2e._harness import BIN, Site

SHAPE = dict(layers=2, hidden=32, ffn=64, sequence=32, samples=4000000, nodes=1, ranks_per_node=1, save_every=100000,
             floor="60s", ceiling="30min")  # the defaults


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024


def idle(seconds=60):
    site = Site("bench")
    try:
        prefix = site.prepare_data()
        site.start_daemon()
        # one iteration in about half a second: an ordinary run, not one that floods its log
        config = site.write_files(prefix, command="sh, -c, 'i=0; while :; do i=$((i+1)); echo \" iteration $i/ 100000 | "
                                  "consumed samples: $i | elapsed time per iteration (s): 0.50 | lm loss: 2.0E+00 |\"; sleep 0.5; done'",
                                  **SHAPE)
        site.stoker("run", config, "--yes")
        site.wait_iteration(5, 60)
        time.sleep(5)
        before, began = cpu_seconds(site.daemon.pid), time.monotonic()
        time.sleep(seconds)
        share = 100 * (cpu_seconds(site.daemon.pid) - before) / (time.monotonic() - began)
        rss = resident_mb(site.daemon.pid)
        yield dict(name="daemon: CPU with one run", value=share, unit="%", goal="< 0.5", ok=share < 0.5,
                   note=f"of one core over {seconds} s")
        yield dict(name="daemon: RSS", value=rss, unit="MB", goal="<= 40", ok=rss <= 40, note="")
    finally:
        site.close()


def journal():
    """A day of one run's heartbeats through the engine into the real journal, in virtual time (a test's own figure)."""
    if not os.path.exists(os.path.join(BIN, "test_daemon")):
        yield dict(name="journal: a month of one run", value=None, unit="MB", goal="<= 50", ok=True,
                   note="test_daemon is not built: ./dev test --quick builds it")
        return
    done = subprocess.run([os.path.join(BIN, "test_daemon"), "-tc=journal: a month*"], text=True, capture_output=True)
    found = re.search(r"journal: ([\d.]+) MB a month and run, (\d+) rows an hour", done.stdout)
    if not found:
        raise RuntimeError("test_daemon printed no size of the journal:\n" + done.stdout[-2000:])
    size = float(found.group(1))
    yield dict(name="journal: a month of one run", value=size, unit="MB", goal="<= 50", ok=size <= 50,
               note=f"512 ranks, {found.group(2)} rows an hour")


def milliseconds(site, *argv, times=7):
    taken = []
    for _ in range(times):
        began = time.monotonic()
        subprocess.run([os.path.join(BIN, "stoker"), "--state", site.state, *argv], env=site.env, capture_output=True)
        taken.append(1000 * (time.monotonic() - began))
    return statistics.median(taken)


def commands():
    site = Site("bench")
    try:
        prefix = site.prepare_data()
        site.start_daemon()
        site.stoker("run", site.write_files(prefix, **SHAPE), "--yes")
        site.wait_iteration(30, 60)
        log = os.path.join(site.directory, "gen-000001", "main.log")
        with open(log, "ab") as f:
            line = (" iteration 1/ 2 | lm loss: 2.0E+00 |" + " " * 90 + "\n").encode() * 8192
            for _ in range(1 + (1 << 30) // len(line)):
                f.write(line)
        reading = [("status", "bench", "--json"), ("status",), ("why", "bench"), ("pulse", "bench"), ("nodes", "--json"),
                   ("events", "bench", "--since", "1h"), ("alerts",), ("logs", "bench", "-n", "50")]
        for state in ("up", "down"):
            if state == "down":
                site.kill_daemon()
            slowest = max((milliseconds(site, *argv), argv[0]) for argv in reading)
            yield dict(name=f"commands: slowest, daemon {state}", value=slowest[0], unit="ms", goal="< 100",
                       ok=slowest[0] < 100, note=f"stoker {slowest[1]}, with a main.log of 1 GB; median of 7")
        version = max(milliseconds(site, "--version"), 0)
        yield dict(name="commands: start of a program", value=version, unit="ms", goal="< 50", ok=version < 50,
                   note="stoker --version")
    finally:
        site.close()
