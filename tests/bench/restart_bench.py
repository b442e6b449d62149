"""Crash -> first new iteration, against torchrun and ft_launcher on this machine; and silent hang -> verdict."""
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from e2e._harness import Site, run_program
from kept import kept

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPE = dict(layers=4, hidden=64, ffn=256, sequence=32, micro=2, global_batch=4, ramp_start=4, ramp_samples=4,
             samples=40000, save_every=10, ranks_per_node=2, nodes=1, floor="2s")
BEFORE_DEATH_S = 110  # at most, in which the standbys import torch; beyond hang.floor it would be a hang
SCRIPT = """\
run: script
directory: {directory}
scheduler: {{kind: local, nodes: 1}}
train: {{command: ['{python}', '{script}', checkpoint.pt, '{wait}'], ranks_per_node: 2, preload: {preload}, finished: exit_zero}}
watch: {{progress: {{iteration: 'STEP (\\d+)'}}}}
hang: {{floor: 2min}}
"""


def follow(path, pattern, seconds):
    """Waits for a line that matches, looking every millisecond; returns (time seen, match)."""
    end = time.monotonic() + seconds
    position, rest = 0, ""
    while time.monotonic() < end:
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as f:
                f.seek(position)
                text = f.read()
                position = f.tell()
            rest += text
            *lines, rest = rest.split("\n")
            for line in lines:
                m = re.search(pattern, line)
                if m:
                    return time.monotonic(), m
        time.sleep(0.001)
    raise RuntimeError(f"waited {seconds}s for {pattern} in {path}")


def our_restart_seconds(rounds=5):
    site = Site("bench")
    try:
        prefix = site.prepare_data()
        site.start_daemon()
        # An exclusion that outlives the next crash would end the job: the ranks are to restart in it.
        site.stoker("run", site.write_files(prefix, restarts=50, without_progress=20, excluded="1s", **SHAPE), "--yes")
        figures = []
        for _ in range(rounds):
            start = site.status().get("iteration", 0)
            site.wait_iteration(start + 60, 60)
            time.sleep(2.5)  # the standby processes are warm again
            pid = site.rank_pid(1)
            log = os.path.join(site.directory, "gen-000001", "main.log")
            size = os.path.getsize(log)
            began = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            with open(log, "rb") as f:
                f.seek(size)
                end = began + 60
                text = b""
                while time.monotonic() < end:
                    text += f.read()
                    # the first iteration line after the new attempt has spoken of its resume
                    m = re.search(rb"resume[^\n]*\n(?:.*\n)*?[^\n]*iteration +\d+/", text)
                    if m:
                        break
                    time.sleep(0.001)
            figures.append(time.monotonic() - began)
        return figures
    finally:
        site.close()


def peer_environment():
    """A virtual environment with torch and nvidia-resiliency-ext; None with the reason when it cannot be made."""
    folder = os.environ.get("STOKER_BENCH_VENV") or kept("bench-venv")
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(os.path.join(folder, "complete")):
        print("making a virtual environment with torch (about two minutes, 6 GB) …", file=sys.stderr, flush=True)
        for argv in ([sys.executable, "-m", "venv", folder],
                     [python, "-m", "pip", "install", "-q", "torch", "numpy", "nvidia-resiliency-ext"]):
            done = subprocess.run(argv, text=True, capture_output=True)
            if done.returncode != 0:
                return None, (done.stderr.strip().split("\n") or ["failed"])[-1]
        open(os.path.join(folder, "complete"), "w").close()
    return folder, ""


def peer_restart_seconds(folder, launcher, port):
    """The same crash under another launcher: rank 1 kills itself, rank 0 prints when it is further. None: it hung twice."""
    for again in range(2):
        with tempfile.TemporaryDirectory() as work:
            argv = [os.path.join(folder, "bin", launcher), "--nproc-per-node", "2", "--max-restarts", "3"]
            if launcher == "torchrun":
                argv += ["--master-port", str(port + again)]
            else:
                argv += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port + again}",
                         "--ft-param-initial_rank_heartbeat_timeout", "30", "--ft-param-rank_heartbeat_timeout", "30"]
            argv += [os.path.join(HERE, "peer_train.py"), os.path.join(work, "checkpoint.pt"), "0"]
            process = subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=work)
            try:
                out, err = process.communicate(timeout=60)
                return seconds_of(out, launcher, err)
            except RuntimeError:  # seen of torchrun: the second attempt ends with an error of its own
                if again:
                    raise
            except subprocess.TimeoutExpired:  # seen of torchrun: no restart, without a word
                process.terminate()  # it ends its ranks
                try:
                    process.communicate(timeout=40)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
    return None


def seconds_of(output, launcher, more=""):
    """From the death of rank 1 to the first step behind the checkpoint, by the script's own clock."""
    killed = re.search(r"DIES ([\d.]+)", output)
    further = re.search(r"STEP 21 ([\d.]+)", output[killed.end():]) if killed else None
    if not further:
        raise RuntimeError(f"{launcher}: no restart seen: {more[-400:] or output[-400:]}")
    return float(further.group(1)) - float(killed.group(1))


def idle_standbys(site):
    """{pid: CPU time} of the warm Python standbys."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read().split(b"\0")
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                name, _, rest = file.read().rpartition(")")
        except OSError:
            continue
        ours = f"STOKER_RUN_DIR={site.directory}".encode() in environment and "(python" in name
        if ours and any(entry.startswith(b"STOKER_STANDBY_FD=") for entry in environment):
            found[pid] = rest.split()[11:13]
    return found


def wait_standbys(site, seconds):
    """Until two standbys have imported all and use no CPU any more."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = idle_standbys(site)
        time.sleep(2)
        if len(before) == 2 and idle_standbys(site) == before:
            return


def script_restart_seconds(folder, preload):
    """The same script under stoker; `preload`: with standbys that have imported torch."""
    site = Site("script")
    try:
        config = os.path.join(site.folder, "script.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(SCRIPT.format(directory=site.directory, python=os.path.join(folder, "bin", "python"),
                                     script=os.path.join(HERE, "peer_train.py"), wait=BEFORE_DEATH_S if preload else 0,
                                     preload="[torch, torch.nn.parallel]" if preload else "[]"))
        site.start_daemon()
        site.stoker("run", config, "--yes")
        log = os.path.join(site.directory, "gen-000001", "main.log")

        def written():
            if not os.path.exists(log):
                return ""
            with open(log, encoding="utf-8", errors="replace") as file:
                return file.read()
        if preload:
            site.wait(lambda: "STEP 25 " in written(), 200, "the step before the death")
            wait_standbys(site, BEFORE_DEATH_S)
            open(os.path.join(site.directory, "checkpoint.pt.go"), "w").close()
        site.wait(lambda: "STEP 60 " in written(), 400, "the last step")  # not by `stoker status`, which would use a core
        site.wait_state("finished", 60)
        return seconds_of(written(), "stoker")
    finally:
        site.close()


COLD, WARM = "the peers' script under stoker", "the same with train.preload"


def script_figures(folder, rounds=7, warm=3):
    """{who: seconds of each round}, in turns: what else the machine does hurts all of them. Without standbys a restart is torch's
    imports, under every launcher, and swings by a second: it takes seven rounds to compare them."""
    figures = {"ft_launcher": [], "torchrun": [], COLD: [], WARM: []}
    for number in range(rounds):
        for place, launcher in enumerate(("ft_launcher", "torchrun")):
            if os.path.exists(os.path.join(folder, "bin", launcher)):
                figures[launcher].append(peer_restart_seconds(folder, launcher, 29611 + 10 * number + 4 * place))
        figures[COLD].append(script_restart_seconds(folder, False))
        if number < warm:
            figures[WARM].append(script_restart_seconds(folder, True))
    return {who: [x for x in seen if x is not None] for who, seen in figures.items()}


def restart():
    ours = our_restart_seconds()
    mine = statistics.median(ours)
    yield dict(name="restart: stoker", value=mine, unit="s", goal="", ok=True,
               note="crash -> first new iteration, two CPU ranks, median of " + ", ".join(f"{x:.2f}" for x in ours))
    folder, why = peer_environment()
    if not folder:
        yield dict(name="restart: ratio to the faster peer", value=None, unit="x", goal="<= 0.25", ok=True,
                   note=f"not measured: no virtual environment with torch could be made: {why}")
        return
    figures = script_figures(folder)
    middle = {who: statistics.median(seen) for who, seen in figures.items() if seen}
    load = f"load {os.getloadavg()[1]:.1f}"
    for who, seconds in middle.items():
        yield dict(name=f"restart: {who}", value=seconds, unit="s", goal="", ok=True,
                   note=f"the same crash, {load}, median of " + ", ".join(f"{x:.2f}" for x in figures[who]))
    cold, warm = middle[COLD], middle[WARM]
    best = min((middle[launcher] for launcher in ("ft_launcher", "torchrun") if launcher in middle), default=None)
    for name, seconds, goal in (("ratio to the faster peer", mine, 0.25), ("without preload / the faster peer", cold, 1.0),
                                ("with train.preload / the faster peer", warm, 0.3)):
        yield dict(name=f"restart: {name}", value=seconds / best if best else None, unit="x", goal=f"<= {goal}",
                   ok=not best or seconds / best <= goal, note="in one run on one machine, in turns" if best else "no peer restarted")
    yield dict(name="restart: ratio of the two", value=warm / cold, unit="x", goal="<= 0.5", ok=warm / cold <= 0.5,
               note="with train.preload / without")


def hang():
    """SIGSTOP of a rank -> the decision; the limit is max(3 x p99 of the iterations, floor)."""
    site = Site("bench")
    try:
        prefix = site.prepare_data()
        site.start_daemon()
        site.stoker("run", site.write_files(prefix, **dict(SHAPE, save_every=1000000)), "--yes")
        site.wait_iteration(200, 90)
        began = time.monotonic()
        os.kill(site.rank_pid(1), signal.SIGSTOP)
        site.wait(lambda: site.status().get("state") in ("suspect", "recovering"), 60, "the verdict")
        seconds = time.monotonic() - began
        limit = max(site.status().get("deadline_s") or 0, 2.0)
        yield dict(name="hang: verdict / limit", value=seconds / limit, unit="x", goal="<= 1.05", ok=seconds <= limit * 1.05,
                   note=f"{seconds:.2f} s; limit max(3 x p99, floor 2 s) = {limit:.2f} s; the rest is reading and polling")
    finally:
        site.close()
