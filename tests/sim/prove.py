#!/usr/bin/env python3
"""What the simulator proves, one line a check: "ok NAME" or "not ok NAME: why"; exit 1 when one failed.

The guards: each that is taken out must be caught within 1,000 seeds. Chaos: `--seeds` of them, no safety and no
liveness violation. The scenarios: what they expect. `--long`: chaos for 10^6 run-hours over 10^4 seeds, 10^6 calm hours
without a false alarm, steps of speed in 10^5 hours; g++ and clang++ alike. It goes on where it was stopped as long as what
it simulates is the same (`--only`, `--chunks`: a part of it), and its results are written into tests/sim/proved.txt.
"""
import argparse
import concurrent.futures
import glob
import hashlib
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
STOKER = os.path.join(os.environ.get("STOKER_BIN", os.path.join(ROOT, "build", "bin")), "stoker")
SCENARIOS = os.path.join(ROOT, "sim", "scenarios")
GUARDS = ["fencing", "blind-is-not-dead", "submit-token", "journal-first", "budget", "exclusion-cap",
          "verify-checkpoint", "stale-phase", "lease", "dedupe", "keep-good", "keep-pinned", "rollback-pin", "archive-first",
          "end-mark", "follow-once", "follow-proof", "follow-kept", "last-lines", "stillness", "stale-attempt", "early-start", "claim", "lineage"]
LIMIT_S = 1800
PROVED = os.path.join(ROOT, "tests", "sim", "proved.txt")
ONCE_FAILED = [6, 13, 16, 18, 19, 20, 21, 34, 52, 81, 96, 159, 180, 232, 334, 442, 880, 166, 352, 383, 479, 1105, 1225, 1352, 1551, 35, 1605, 4953, 5854, 8733, 20305, 20768]  # seeds of chaos that found something
failed = 0


def tell(name, good, why=""):
    global failed
    failed += not good
    print(f"{'ok' if good else 'not ok'} {name}{'' if good else ': ' + why}", flush=True)


def simulate(scenario, *options):
    run = subprocess.run([STOKER, "sim", os.path.join(SCENARIOS, scenario), "--json", *options], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
    report = json.loads(run.stdout) if run.stdout.startswith("{") else {}
    return run.returncode, report, run.stderr[-1500:]


def guards():
    for guard in GUARDS:
        scenario = {"archive-first": "archive.yaml", "end-mark": "ends.yaml", "last-lines": "script.yaml", "stillness": "script.yaml"}.get(guard, "chaos.yaml")
        if guard.startswith("follow-"):
            scenario = "followers.yaml"
        code, report, said = simulate(scenario, "--break", guard, "--runs", "1000")
        tell(f"sim: --break {guard} is caught within 1,000 seeds", code == 2 and report.get("safety", 0) > 0,
             f"exit {code} after {report.get('runs')} seeds: {said}")


def without_violation(name, seeds):
    code, report, said = simulate(f"{name}.yaml", "--seeds", f"1-{seeds}")
    tell(f"sim: {name}, {report.get('runs')} seeds and {report.get('hours', 0):.0f} hours without a violation",
         code == 0 and report.get("runs", 0) >= 1, f"exit {code}: {said}")


SIMULATED = ["common", "configs", "core", "diagnose", "lead", "recipe", "sim", "slurm", "watch", "wire"]  # what a simulated life is made of


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False).stdout


def sources():
    """What a proof holds for: the committed state of these folders, with a mark when they were changed since."""
    trees = git("rev-parse", *(f"HEAD:{folder}" for folder in SIMULATED))
    changed = git("status", "--porcelain", "-uno", "--", *SIMULATED)
    return hashlib.sha256(trees.encode()).hexdigest()[:16] + ("+" if changed.strip() else "")


def commit():
    """The newest one that changed what is simulated."""
    return git("log", "-1", "--format=%h", "--abbrev=12", "--", *SIMULATED).strip()


# name: scenario, hours, seeds, seeds in a chunk, hours of a seed (None: the scenario's)
PROOFS = {"chaos": ("chaos.yaml", 1_000_000, 10_000, 200, 105), "script": ("script.yaml", 100_000, 5_000, 200, None), "calm": ("calm.yaml", 1_000_000, 400, 20, None),
          "steps-of-speed": ("steps-of-speed.yaml", 100_000, 200, 20, None)}
STORMS = ("chaos", "script")  # everything goes wrong in them
SUMS = ("hours", "faults", "hangs", "slows", "slowdowns", "false_hangs", "false_slows")


def wrong_of(name, done):
    """What speaks against the proof; empty: nothing."""
    wrong = [f"seed {seed}" for seed in done["failed"][:50]]
    wrong += [f"{done[kind]:.0f} {kind}" for kind in ("false_hangs", "false_slows") if name not in STORMS and done[kind]]
    wrong += [f"{n} alerts {kind}" for kind, n in sorted(done["alerts"].items()) if name == "calm"]
    if name == "steps-of-speed" and not (done["slows"] and done["slow_found"] <= 600e9):
        wrong.append(f"found after {done['slow_found'] / 60e9:.1f} min")
    if name == "steps-of-speed" and done["slows"] < done["slowdowns"]:
        wrong.append(f"{done['slowdowns'] - done['slows']} steps not found")
    return wrong


def told(name, done):
    text = f"{name}: commit {done['commit']}, {done['seeds']} seeds, {done['hours']:.0f} run-hours, {done['faults']:.0f} faults"
    if name in STORMS:
        return f"{text}, {len(done['failed'])} with a violation"
    text += f", {done['false_hangs']:.0f} false hangs, {done['false_slows']:.0f} false steps"
    if done["slows"]:
        text += f", {done['slows']:.0f} of {done['slowdowns']:.0f} steps of 6 % found, the slowest after {done['slow_found'] / 60e9:.1f} min"
    return text


def write_proved(states):
    """One line a proof; what was proved last of a proof that did not run now stays."""
    lines = {}
    if os.path.exists(PROVED):
        with open(PROVED, encoding="utf-8") as file:
            lines = {line.split(":")[0]: line for line in file if not line.startswith("#")}
    for name, done in states.items():
        if done["seeds"]:
            lines[name] = told(name, done) + "".join(f"; {what}" for what in wrong_of(name, done)) + "\n"
    with open(PROVED, "w", encoding="utf-8") as file:
        file.write("# Written by tests/sim/prove.py --long\n" + "".join(lines[name] for name in PROOFS if name in lines))


def add(done, report):
    """The report of a chunk of seeds to what was done before."""
    done["seeds"] += report["runs"]
    done["failed"] += report["failed_seeds"]
    done["slow_found"] = max(done["slow_found"], report["slow_found"])
    for key in SUMS:
        done[key] += report[key]
    for kind, n in report["alerts"].items():
        done["alerts"][kind] = done["alerts"].get(kind, 0) + n


def proofs(folder, names, chunks=None, jobs=os.cpu_count()):
    """Each until its hours and seeds are done, in chunks, `jobs` of them side by side; what is done is kept in `folder`.
    Stops after `chunks` of them."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "proofs.json")
    states = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            states = json.load(file)
    fresh = {"sources": sources(), "commit": commit(), "seeds": 0, "failed": [], "alerts": {}, "slow_found": 0, **dict.fromkeys(SUMS, 0)}
    states = {name: states[name] if states.get(name, {}).get("sources") == fresh["sources"] else json.loads(json.dumps(fresh)) for name in PROOFS}
    left = chunks
    for name in names:
        scenario, hours, seeds, chunk, life = PROOFS[name]
        done = states[name]
        while (done["hours"] < hours or done["seeds"] < seeds) and left != 0:
            beside = jobs if left is None else min(jobs, left)
            left = None if left is None else left - beside
            firsts = [done["seeds"] + 1 + at * chunk for at in range(beside)]
            with concurrent.futures.ThreadPoolExecutor(beside) as pool:
                lives = ["--hours", str(life)] if life else []
                ran = list(pool.map(lambda first: simulate(scenario, "--seeds", f"{first}-{first + chunk - 1}", *lives), firsts))
            for code, report, said in ran:
                if code not in (0, 2, 3) or report.get("runs") != chunk:
                    tell(f"sim: {name} runs", False, f"exit {code}: {said}")
                    return
                add(done, report)
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(states, file)
            os.replace(path + ".new", path)
            write_proved(states)
            print(f"    {told(name, done)}", flush=True)
        wrong = wrong_of(name, done)
        enough = done["hours"] >= hours and done["seeds"] >= seeds
        tell(f"sim: {told(name, done)}", not wrong and (enough or chunks is not None), ", ".join(wrong) or "not done")


def once_failed():
    for seed in ONCE_FAILED:
        code, _, said = simulate("chaos.yaml", "--seed", str(seed))
        tell(f"sim: chaos, seed {seed} again", code == 0, f"exit {code}: {said}")


def scenarios(lives):
    """`lives` of the long ones, ten days each; the others as they are."""
    for path in sorted(glob.glob(os.path.join(SCENARIOS, "**", "*.yaml"), recursive=True)):
        name = os.path.relpath(path, SCENARIOS)
        if name in ("chaos.yaml", "script.yaml", "hangs.yaml", "steps-of-speed.yaml"):  # judged by their seeds, or by the bench
            continue
        long_ones = ("llama3-54-days.yaml", "rsc1-16k.yaml", "bytedance-mix.yaml", "calm.yaml")
        code, report, said = simulate(name, *(["--hours", "240", "--seeds", f"1-{lives}"] if name in long_ones else []))
        tell(f"sim: {name[:-5]}, ETTR {report.get('ettr', 0):.3f}", code == 0, f"exit {code}: {said}")


def chronicles():
    run = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "sim", "chronicles.py"), "--check"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    tell("sim: docs/chronicles.md is what the simulator gives", run.returncode == 0, run.stdout[-300:])


def recorded():
    """What every change of the decisions or the words changes: eight seconds, so the unit tests bring it."""
    chronicles()
    traces()


def traces(*options):
    run = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "sim", "traces.py"), *options],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    print(run.stdout, end="", flush=True)
    global failed
    failed += run.returncode != 0


def closed_form():
    """E[ETTR] = (1 - N r_f (u0 + dt / 2)) / (1 + w / dt), arXiv 2410.21680, at the failure rate of RSC-1."""
    interval, write, overhead = 1800, 60, 4 + 60 + 60  # seconds: between saves, of a save, of a restart
    for nodes in (256, 1024, 2048):
        between = 86400 / (nodes * 6.5e-3)
        expected = (1 - (overhead + interval / 2) / between) / (1 + write / interval)
        text = f"""name: closed-form
about: only crashes, restarted inside the allocation
for: 10d
cluster: {{nodes: {nodes + 2}, queue_wait: 1min, tells_nodes: false}}
training: {{iteration: 10s, startup: 60s, load: 60s, save_every: {interval // 10}, save: {write}s}}
policy: {{nodes: {nodes}, spares: 2, time_limit: 30d, restarts: 1000, without_progress: 100, exclude_at_most: 0%, floor: 5min}}
faults: {{rank_crash: {between:.0f}s}}
"""
        with tempfile.TemporaryDirectory(prefix="stoker-sim-") as folder:
            path = os.path.join(folder, "closed-form.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            code, report, said = simulate(path, "--runs", "2")
        got = report.get("ettr", 0)
        tell(f"sim: {nodes * 8} GPUs, ETTR {got:.4f}, the closed form says {expected:.4f}",
             code == 0 and abs(got / expected - 1) <= 0.05, f"exit {code}: {said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=16, help="of chaos, and of script")
    parser.add_argument("--long", action="store_true", help="10^6 hours of chaos and of calm, and both compilers")
    parser.add_argument("--only", choices=list(PROOFS), action="append", help="of the long form, these proofs and nothing else")
    parser.add_argument("--state", default=os.path.join(ROOT, "build"), help="folder where a long run keeps what it has done")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="chunks of a proof side by side")
    parser.add_argument("--chunks", type=int, help="of the long form: stop after so many chunks of seeds, the next run goes on")
    parser.add_argument("--recorded", action="store_true", help="the recorded traces and docs/chronicles.md, and nothing else")
    options = parser.parse_args()
    if options.recorded:
        recorded()
        return 1 if failed else 0
    if options.only or options.chunks:
        proofs(options.state, options.only or list(PROOFS), options.chunks, options.jobs)
        return 1 if failed else 0
    guards()
    scenarios(lives=4 if options.long else 1)
    once_failed()
    closed_form()
    if options.long:
        traces("--compilers")
        proofs(options.state, list(PROOFS), jobs=options.jobs)
    else:
        without_violation("chaos", options.seeds)
        without_violation("script", options.seeds)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
