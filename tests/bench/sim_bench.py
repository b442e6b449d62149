"""What the simulator shows: its speed, the figures of recovery, what the detectors find and what they see that is not there."""
import json
import os
import re
import resource
import subprocess
import tempfile

import last

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SCENARIOS = os.path.join(ROOT, "sim", "scenarios")


def simulate(scenario, *options):
    """The report of a scenario (a file, or its text) and the CPU seconds that it took: other programs count less so."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        path = os.path.join(SCENARIOS, scenario)
        if "\n" in scenario:
            path = os.path.join(folder, "bench.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(scenario)
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = subprocess.run([os.path.join(os.environ["STOKER_BIN"], "stoker"), "sim", path, "--json", *options], text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    if not run.stdout.startswith("{"):
        raise RuntimeError(f"stoker sim {scenario[:60]}: exit {run.returncode}: {run.stderr[-300:]}")
    report = json.loads(run.stdout)
    return dict(report, exit=run.returncode, violations=report["safety"] + report["liveness"]), took


def figure(name, value, unit, goal, ok, note):
    return dict(name=name, value=value, unit=unit, goal=goal, ok=ok, note=note)


def closed_form(nodes):
    """E[ETTR] = (1 - N r_f (u0 + dt / 2)) / (1 + w / dt), arXiv 2410.21680, and a scenario with its assumptions."""
    interval, write, overhead = 1800, 60, 4 + 60 + 60  # seconds: between saves, of a save, of a restart
    between = 86400 / (nodes * 6.5e-3)
    expected = (1 - (overhead + interval / 2) / between) / (1 + write / interval)
    return expected, f"""name: closed-form
about: only crashes, restarted inside the allocation
for: 10d
cluster: {{nodes: {nodes + 2}, queue_wait: 1min, tells_nodes: false}}
training: {{iteration: 10s, startup: 60s, load: 60s, save_every: {interval // 10}, save: {write}s}}
policy: {{nodes: {nodes}, spares: 2, time_limit: 30d, restarts: 1000, without_progress: 100, exclude_at_most: 0%, floor: 5min}}
faults: {{rank_crash: {between:.0f}s}}
"""


def lives(long):
    seeds = 10_000 if long else 60
    report, took = simulate("chaos.yaml", "--seeds", f"1-{seeds}", "-j", "1")
    yield figure("sim: run-hours a second and core", report["hours"] / took, "h/s", "-", True, "chaos: all faults and liars on")
    yield figure("sim: violations in chaos", report["violations"], "", "0", report["violations"] == 0,
                 f"{report['runs']} seeds, {report['hours']:.0f} h, {report['faults']} faults")
    report, took = simulate("llama3-54-days.yaml")
    yield figure("sim: llama3-54-days, 2,048 agents", took, "s", "<= 10", took <= 10, "CPU time of its one thread; 1,296 h and 24 h without faults")
    ratio, good, note = last.compare("sim: llama3-54-days", took, last.unit(), record=bool(os.environ.get("STOKER_RECORD")))
    yield figure("sim: the same / the last figure", ratio, "x", f"<= {last.AT_MOST}", good, note)
    yield figure("sim: its ETTR", report["ettr"], "", ">= 0.97", report["ettr"] >= 0.97, f"{report['faults']} faults")
    yield figure("sim: its incidents that need an operator", report["manual"], "", "<= 3", report["manual"] <= 3, f"of {report['incidents']}")
    for nodes in (256, 1024, 2048):
        expected, text = closed_form(nodes)
        got = simulate(text, "--runs", "2")[0]["ettr"]
        yield figure(f"sim: ETTR of {nodes * 8} GPUs / closed form", got / expected, "x", "0.95-1.05", abs(got / expected - 1) <= 0.05,
                     f"{got:.4f}, the formula says {expected:.4f}")


def hangs():
    report, _ = simulate("hangs.yaml", "--runs", "10")
    limit = max(3 * 1.02 * 10, 60)  # seconds: three times the p99 of an iteration, or the floor
    seen = report["hang_verdict"] / 1e9
    yield figure("sim: slowest verdict of an iteration's hang", seen, "s", f"<= {limit:.0f}", 0 < seen <= limit and report["hangs"] > 100,
                 f"{report['hangs']} hangs in all phases, the limit is max(3 x p99, 60 s); {report['doubled']} of them not counted: the "
                 "limit had been doubled, because it was hit twice in a row without progress")


def slows():
    report, _ = simulate("steps-of-speed.yaml", "--runs", "10")
    seen = report["slow_found"] / 6e10
    yield figure("sim: slowest find of a step of 6 %", seen, "min", "<= 10", 0 < seen <= 10 and report["slows"] > 20,
                 f"{report['slows']} of {report['slowdowns']} found in {report['hours']:.0f} h with 1 % of noise and of daily swing")
    yield figure("sim: false steps beside them", report["false_slows"], "", "0", report["false_slows"] == 0, "")


def calm(long):
    """Nothing goes wrong, and no detector may say so. The 10^6 hours: prove.py --long --only calm, which can be stopped."""
    report, took = simulate("calm.yaml", "--runs", "420" if long else "5")
    hours = report["hours"]
    false = report["false_hangs"] + report["alerts"].get("hang", 0)
    note = f"in {hours:.0f} h, {hours / took:.0f} h/s; 10^6 h: {proved('calm')}"
    yield figure("sim: false hangs", false, "", "0", false == 0, note)
    false = report["false_slows"] + report["alerts"].get("slow", 0)
    yield figure("sim: false steps of speed", false, "", "0", false == 0, note)
    others = {kind: n for kind, n in report["alerts"].items() if kind not in ("hang", "slow")}
    yield figure("sim: other alerts of a calm run", sum(others.values()), "", "0", not others, str(others or ""))


def proved(name):
    """What the last long run has written down."""
    path = os.path.join(ROOT, "tests", "sim", "proved.txt")
    if not os.path.exists(path):
        return "not run yet"
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.startswith(name + ":")]
    return lines[0] if lines else "not run yet"


def confusion():
    """The table that tests/core/loss_test.cpp makes of the seeds' curves and of generated ones."""
    program = os.path.join(os.environ["STOKER_BIN"], "test_core")
    run = subprocess.run([program, "--success", "--no-colors=true", "-tc=loss: generated curves*"], text=True,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    rows = re.findall(r"MESSAGE: (.+?): ((?:[A-Za-z ]+? \d+\s*)+)$", run.stdout, re.M)
    for name, words in dict(rows).items():
        counts = {word.strip(): int(n) for word, n in re.findall(r"([A-Za-z ]+?) (\d+)", words)}
        total, best = sum(counts.values()), max(counts, key=counts.get)
        yield figure(f"loss: {name} -> {best}", 100 * counts[best] / total, "%", ">= 97", 100 * counts[best] >= 97 * total,
                     ", ".join(f"{word} {n}" for word, n in counts.items()))
    if not rows or run.returncode != 0:
        yield figure("loss: confusion table", None, "", ">= 97", False, "test_core did not print it")


def sim():
    long = bool(os.environ.get("STOKER_LONG"))
    yield from lives(long)
    yield from hangs()
    yield from slows()
    yield from calm(long)
    yield from confusion()
