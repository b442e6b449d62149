"""Runs the cases of tests/slurm/real, several clusters side by side, and beside them those of tests/slurm/fake; each case is one test.

    run.py [--version V] [--way rest] [--side N] [--match WORD] [--random N] [--training core|loop|both] [--tries N] [--until T]

A fault that is the same for the training core and for a foreign loop is played once, with the one that its case names (half
of them each); --training plays it with this one or with both, --random draws the training too. `--way rest` plays those of
real/ over slurmrestd that do not name their way. Prints "passed: NAME (SECONDSs)"
lines and what a failed case said; exit 0, 1 (a case failed) or 77 (no SLURM here).
"""
import argparse
import concurrent.futures
import glob
import os
import random
import re
import subprocess
import sys
import time

import roots

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path.insert(0, TESTS)

from scripted import run_once  # noqa: E402

LIMIT_S = 900 if not os.environ.get("STOKER_LONG") else 4 * 3600  # a hundred faults in a row
# Cases that take longest go first, so that no worker is left alone with them at the end.
LONGEST = ["model_agrees", "model_agrees_with_accounts", "stopped", "stopped_while_a_job_ends", "killed_at_each_point", "munge_stopped",
           "squeue_slow_failing_empty_garbage", "agents_fall_silent", "faults_in_a_row", "nobody_left_to_tell",
           "rate_of_questions", "script_in_limbo", "id_given_to_a_stranger",
           "forgotten_by_slurmctld", "squeue_fails_lies_and_is_slow", "script_loses_a_node", "no_kill_wants_both", "probe_that_fails",
           "slurmd_alone", "batch_host_dies", "killed_after_sbatch", "reservation_ends", "suspended", "time_limit", "node_death"]
TRAININGS = ("core", "loop")


def environment(**more):
    path = os.environ.get("PYTHONPATH")
    return dict(os.environ, PYTHONPATH=TESTS + (":" + path if path else ""), **more)


def cases(folder, way=""):
    """[(script, case, training)] of all scripts; training: core, loop, or - where the case leaves no choice. `way`: rest, only those
    that can go over slurmrestd, and do not anyway."""
    found = []
    for script in sorted(glob.glob(os.path.join(HERE, folder, "*.py"))):
        if os.path.basename(script).startswith("_"):
            continue
        listed = subprocess.run([sys.executable, script, "--list"], env=environment(), capture_output=True, text=True)
        if listed.returncode == 77:
            print((listed.stdout + listed.stderr).strip().split("\n")[-1])
            return []
        listed.check_returncode()
        words = [(line.split() + ["-", "-"])[:3] for line in listed.stdout.splitlines()]
        found += [(script, case, training) for case, training, own in words if not way or own == "-"]
    return sorted(found, key=lambda c: LONGEST.index(c[1]) if c[1] in LONGEST else len(LONGEST))


def trained_by(chosen, wanted):
    """The cases, each with the training that is wanted where it has the choice: core, loop, both, or "" for its own."""
    both = [(script, case, other if own != "-" else own) for script, case, own in chosen
            for other in {"": [own], "both": TRAININGS}.get(wanted, [wanted])]
    return list(dict.fromkeys(both))


def run_case(script, case, training, tries, until):
    """The last of at most `tries` runs, none begun after `until`: (exit code, what it said, seconds, what the failed ones said)."""
    before = []
    if time.time() > until:
        return 77, "no time was left for it", 0, before
    while True:
        code, said, seconds = timed(script, case, training)
        if code in (0, 77) or len(before) + 1 == tries or time.time() > until:
            return code, said, seconds, before
        before.append(said)


def timed(script, case, training):
    began = time.monotonic()
    play = environment(**({"STOKER_TRAINING": training} if training != "-" else {}))
    code, said = run_once([script, case], play, LIMIT_S)
    return code, said, time.monotonic() - began


def inside():
    return roots.ROOT == roots.INSIDE


def in_root(options, version):
    """Runs this script inside the root, with the bundle's programs; the training core is not in it, so the loop trains."""
    programs = os.path.realpath(os.environ.get("STOKER_BIN", os.path.join(roots.ROOT, "build", "bin")))
    bundle = os.path.relpath(os.path.join(os.path.dirname(programs), "bundle", "bin"), roots.ROOT)
    if bundle.startswith("..") or not os.path.exists(os.path.join(roots.ROOT, bundle, "stokerd")):
        print(f"skipped: slurm: cases on {version} (0s)\nreason: no root of this SLURM without a bundle in {bundle}: ./dev build --bundle")
        return 77
    try:
        inner = ["env", f"STOKER_BIN={roots.INSIDE}/{bundle}", f"PYTHONPATH={roots.INSIDE}/tests", "python3", "tests/slurm/run.py",
                 "--training", "loop", "--side", str(options.side), "--match", options.match, "--tries", str(options.tries),
                 "--until", str(options.until)]
        inner += ["--way", options.way] if options.way else []
        done = subprocess.Popen(roots.entering(version, inner), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace")
    except roots.Unavailable as reason:
        print(f"skipped: slurm: cases on {version} (0s)\nreason: no root of this SLURM: {reason}")
        return 77
    for line in done.stdout:  # the names say which SLURM it was
        print(re.sub(r"^(passed|failed|skipped|again): slurm: ", rf"\1: slurm: {version} ", line), end="", flush=True)
    return done.wait()


def draw(real, options):
    seed = int(os.environ.get("STOKER_SEED", time.time_ns() % 100000))
    print(f"STOKER_SEED={seed}", flush=True)
    by_chance = random.Random(seed)
    once = [c for c in real if "random_faults" not in c[0]]
    drawn = by_chance.choices(once, k=options.random) + [c for c in real if "random_faults" in c[0]]
    return [trained_by([c], options.training if options.training in TRAININGS else by_chance.choice(TRAININGS))[0] for c in drawn]


def play(options):
    """All chosen cases on the SLURM that is here: exit code."""
    way = options.way
    os.environ["STOKER_WAY"] = way
    real = [c for c in cases("real", way) if options.match in c[1]]
    played = [c for c in cases("fake") if options.match in c[1]] if not way else []
    chosen = draw(real, options) if options.random else trained_by(real, options.training)
    if not real and not played:
        return 0 if options.match else 77
    failed = 0
    # The played ones hardly compute: they wait beside the clusters.
    with concurrent.futures.ThreadPoolExecutor(options.side) as pool, concurrent.futures.ThreadPoolExecutor(options.side + 1) as beside:
        running = {pool.submit(run_case, *c, options.tries, options.until): c for c in chosen}
        running.update({beside.submit(run_case, *c, options.tries, options.until): c for c in played})
        for future in concurrent.futures.as_completed(running):
            script, case, training = running[future]
            code, said, seconds, before = future.result()
            name = f"{way + ' ' if way else ''}{os.path.basename(script)[:-3]}.{case}" + (f", {training}" if training != "-" else "")
            outcome = {0: "passed", 77: "skipped"}.get(code, "failed")
            failed += outcome == "failed"
            for text in before:
                print(f"again: slurm: {name} (it had failed)\n{text[-6000:]}", flush=True)
            print(f"{outcome}: slurm: {name} ({seconds:.0f}s)", flush=True)
            if outcome == "skipped":
                print(f"reason: {said.strip().splitlines()[-1] if said.strip() else ''}", flush=True)
            elif outcome != "passed":
                print(said[-6000:], flush=True)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=3, help="clusters side by side")
    parser.add_argument("--match", default="", help="only cases with this in their name")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N cases drawn by chance instead of each once")
    parser.add_argument("--training", default="", choices=[*TRAININGS, "both"], help="what trains in the cases that have the choice")
    parser.add_argument("--tries", type=int, default=1, help="how often a failed case is run at most")
    parser.add_argument("--until", type=float, default=float("inf"), metavar="T", help="seconds since 1970 after which no run begins")
    parser.add_argument("--way", default="", choices=["", "rest"], help="over slurmrestd")
    parser.add_argument("--versions", action="store_true", help="also over slurmrestd, and on every other version, there over slurmrestd too")
    parser.add_argument("--version", default="", choices=["", *roots.SUITES], help="in a root with this version of SLURM, by the bundle beside STOKER_BIN")
    options = parser.parse_args()
    if options.version:
        return in_root(options, options.version)
    code = play(options)
    if code != 77 and options.versions:
        over_rest = argparse.Namespace(**{**vars(options), "way": "rest", "random": 0})
        codes = [play(over_rest)]
        for version in roots.SUITES:
            codes += [in_root(options, version)] + [in_root(over_rest, version)] * (version in roots.REST)
        code = 1 if {code, *codes} - {0, 77} else 0
    elif not options.match and not options.way and not inside():
        print("not played here: SLURM " + " and ".join(roots.SUITES) + ", and every case over slurmrestd: ./dev test --slurm --long does it", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
