"""How fast `stoker diagnose` scans: against the least that reading lines costs, against ripgrep, from its start, on two cores."""
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

import log_lines

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("STOKER_BIN", os.path.join(ROOT, "build", "bin"))
STOKER = os.path.join(BIN, "stoker")
LOG_MB = int(os.environ.get("STOKER_SCAN_MB", "1024"))


def seconds(argv, times=3, environment=None):
    """The median wall time."""
    taken = []
    for _ in range(times):
        began = time.monotonic()
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, check=False)
        taken.append(time.monotonic() - began)
    return statistics.median(taken)


def cpu_seconds(argv, times=3):
    """The median CPU time, of user and system."""
    taken = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(taken)


def speed(folder):
    log = os.path.join(folder, "main.log")
    log_lines.write(log, LOG_MB << 20)
    done = subprocess.run([os.path.join(BIN, "scan_speed"), log], stdout=subprocess.PIPE, text=True, check=True)
    told = json.loads(done.stdout)
    ratio = told["floor_s"] / told["scan_s"]
    gb = os.path.getsize(log) / 1e9
    yield dict(name="scan: speed / read() and line split", value=ratio, unit="x", goal=">= 0.19", ok=ratio >= 0.19,
               note=f"{gb:.2f} GB, one thread, {told['signatures']} signatures, {told['lines']} lines, {told['iteration_lines']} of them "
                    f"iterations: {gb / told['scan_s']:.2f} GB/s against {gb / told['floor_s']:.2f} GB/s")
    yield from ripgrep(log, told)


def ripgrep(log, told):
    name = "scan: ripgrep's time / ours"
    if shutil.which("rg") is None:
        yield dict(name=name, value=None, unit="x", goal=">= 4", ok=True, note="rg is not installed here")
        return
    patterns = os.path.join(os.path.dirname(log), "patterns")
    with open(patterns, "w", encoding="utf-8") as file:
        file.write(signatures())
    argv = ["rg", "--no-config", "-j1", "-c", "-a", "-f", patterns, log]
    if subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode > 1:
        yield dict(name=name, value=None, unit="x", goal=">= 4", ok=False, note="rg refuses the patterns")
        return
    ratio = cpu_seconds(argv) / told["scan_s"]
    in_bytes = cpu_seconds([*argv, "--no-unicode"]) / told["scan_s"]
    yield dict(name=name, value=ratio, unit="x", goal=">= 4", ok=ratio >= 4,
               note=f"CPU time of rg -j1 -a -c -f, the same patterns; {in_bytes:.1f}x with lines as bytes (--no-unicode); ours parses too")


def signatures():
    """The patterns of our signatures, one a line."""
    found = []
    folder = os.path.join(ROOT, "configs", "signatures")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            for line in file:
                key, _, value = line.strip().partition(": ")
                if key == "pattern":
                    found.append(json.loads(value) if value.startswith('"') else value.strip("'").replace("''", "'"))
    return re.sub(r"\(\?P<\w+>", "(?:", "\n".join(found)) + "\n"  # names may come once only there


def start(folder):
    log = os.path.join(folder, "start.log")
    with open(log, "wb") as file:
        file.write(log_lines.text(2000))
    environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(folder, "cache"))

    def first_byte():
        began = time.monotonic()
        with subprocess.Popen([STOKER, "diagnose", "--json", log], stdout=subprocess.PIPE, env=environment) as process:
            process.stdout.read(1)
            taken = time.monotonic() - began
            process.stdout.read()
        return 1000 * taken

    cold = first_byte()
    warm = statistics.median(first_byte() for _ in range(9))
    yield dict(name="scan: start to first byte", value=warm, unit="ms", goal="<= 120", ok=warm <= 120,
               note=f"compiled patterns from the cache; {cold:.0f} ms the first time, without")


def many(folder, files=10_000, size=50_000):
    logs = os.path.join(folder, "ranks")
    os.makedirs(logs)
    parts = [log_lines.text(size, seed, tuple(log_lines.PRINTERS[seed % 3:seed % 3 + 2])) for seed in range(24)]
    for rank in range(files):
        with open(os.path.join(logs, f"{rank}.log"), "wb") as file:
            file.write(parts[rank % len(parts)])
    argv = [STOKER, "diagnose", "--json", logs]
    one, two = [seconds([*argv, "--threads", str(count)]) for count in (1, 2)]
    cores = len(os.sched_getaffinity(0))
    ratio = one / two
    yield dict(name="scan: 10,000 files, one thread / two", value=ratio, unit="x", goal=">= 1.7", ok=ratio >= 1.7 or cores < 2,
               note=f"{files * len(parts[0]) / 1e6:.0f} MB in all, {one:.2f} s and {two:.2f} s, {cores} cores here")


def names(folder):
    """A log in which each line accuses another node: `stoker replay` asks the decider about all of them."""
    def cost(count):
        log = os.path.join(folder, f"names-{count}.log")
        with open(log, "w", encoding="utf-8") as f:
            for n in range(count):
                stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1_790_000_000 + n))
                f.write(f"{stamp} node-{n:06}.c kernel: NVRM: Xid (PCI:0000:cb:00): 79, pid=1, GPU has fallen off the bus.\n")
                if n % 100 == 0:
                    f.write(f"[{stamp}] iteration {n + 1:8}/ 9000000 | elapsed time per iteration (ms): 100.0 | lm loss: 2.5E+00 |\n")
        return cpu_seconds([STOKER, "replay", log, "--json"], times=1)
    few, many_names = cost(20_000), cost(80_000)
    yield dict(name="replay: 80,000 accused names / 20,000", value=many_names / few, unit="x", goal="<= 6", ok=many_names <= 6 * few,
               note=f"CPU time of one process, {few:.1f} s and {many_names:.1f} s; 4x is a line's share")


def scan():
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        yield from speed(folder)
        yield from start(folder)
        os.unlink(os.path.join(folder, "main.log"))
        yield from names(folder)
        yield from many(folder, size=1_000_000 if os.environ.get("STOKER_LONG") else 50_000)
