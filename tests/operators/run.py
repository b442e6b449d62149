#!/usr/bin/env python3
"""Random operators on real systems: random sequences of orders and of what people do behind stoker's back, judged from outside.

    run.py [--sequences N] [--from SEED] [--world embedded|slurm|both] [--training core|loop|script] [--side N] [--keep FOLDER]
    run.py --seed N --world W --training T        repeats one sequence
    run.py --seed N … --shrink                    finds the shortest sequence that still breaks the same rule
    run.py --seed N … --steps JSON                plays these steps instead of those that the seed draws

Without --from the sequences are those of CI. Prints "ok NAME", "not ok NAME: …" a sequence; exit 0, 1 or 77 (nothing can run here).
"""
import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import proved  # noqa: E402
from e2e._harness import Site  # noqa: E402
from slurm.cluster import why_not  # noqa: E402

LIMIT_S = {"embedded": 400, "slurm": 1200}
CI_SEED, CI_SEQUENCES = 1, 10
TRAININGS = {"embedded": ("loop", "core"), "slurm": ("loop", "script", "core")}


def known():
    """[(rule, pattern, why)] of known.txt, the pattern of a sentence and " steps NAME NAME …": what is known to be broken, and is reported without failing."""
    found = []
    with open(os.path.join(HERE, "known.txt"), encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                rule, pattern, why = (part.strip() for part in line.split(" | "))
                found.append((rule, re.compile(pattern), why))
    return found


def prepare(folder):
    """The training core's data, once for all sequences."""
    site = Site(folder=os.path.join(folder, "data-site"))
    os.makedirs(site.folder, exist_ok=True)
    made = site.prepare_data()
    for ending in (".bin", ".idx"):
        shutil.copy(made + ending, os.path.join(folder, "data" + ending))
    site.log.close()


def play(case, shared, keep, steps=None):
    given = {**case, "shared": shared, "keep": keep, "steps": steps}
    command = [sys.executable, os.path.join(HERE, "_play.py"), json.dumps(given)]
    nothing = {**case, "steps": [], "violations": [], "seconds": 0}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", stdin=subprocess.DEVNULL) as playing:
        try:
            said, errors = playing.communicate(timeout=LIMIT_S[case["world"]])
        except subprocess.TimeoutExpired:
            playing.terminate()
            playing.communicate()
            return {**nothing, "broken": "no end within the limit"}
    lines = said.strip().splitlines()
    return json.loads(lines[-1]) if lines else {**nothing, "broken": errors[-3000:]}


def cases(options):
    draw = random.Random(options.first)
    worlds = ["embedded", "slurm"] if options.world == "both" else [options.world]
    for number in range(options.sequences):
        world = worlds[0] if len(worlds) == 1 or draw.random() < 0.8 else worlds[1]
        training = options.training or draw.choices(TRAININGS[world], (7, 3) if world == "embedded" else (4, 4, 2))[0]
        yield {"world": world, "training": training, "seed": options.first + number}


def name_of(case):
    return f"operators: {case['world']}, {case['training']}, seed {case['seed']}"


def judge(case, answer):
    """Prints what came of one sequence; True when no rule was broken in a way that is not known."""
    name, new, given = name_of(case), [], " steps " + " ".join(step[0] for step in answer["steps"])
    for rule, text in answer["violations"]:
        why = next((why for r, pattern, why in known() if r == rule and pattern.search(text + given)), None)
        print(f"known: {name}: {rule}: {why}" if why else f"broken rule: {name}: {rule}: {text}", flush=True)
        if not why:
            new.append(rule)
    if answer["broken"]:
        print(f"no verdict: {name}: {answer['broken']}", flush=True)
    good = not new and not answer["broken"]
    print(f"{'ok' if good else 'not ok'} {name}{'' if good else ': ' + ', '.join(new) + ' steps ' + json.dumps(answer['steps'])}", flush=True)
    return good


def shrink(case, shared, keep, answer):
    """Leaves out one operation after another, as long as the same rule breaks; twice each, because threads race."""
    rules = {rule for rule, _ in answer["violations"]}
    steps, index = answer["steps"], 0
    while index < len(steps):
        fewer = steps[:index] + steps[index + 1:]
        for _ in range(2):
            found = play(case, shared, keep, fewer)
            if rules & {rule for rule, _ in found["violations"]}:
                steps, answer = fewer, found
                print(f"{len(steps)} steps still break {sorted(rules)}", flush=True)
                break
        else:
            index += 1
    print(f"shortest: {json.dumps(steps)}")
    for rule, text in answer["violations"]:
        print(f"  {rule}: {text}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=CI_SEQUENCES)
    parser.add_argument("--from", type=int, dest="first", default=CI_SEED, help="the first seed")
    parser.add_argument("--within", type=float, default=None, metavar="S", help="begin no sequence after so many seconds")
    parser.add_argument("--world", choices=["embedded", "slurm", "both"], default="embedded")
    parser.add_argument("--training", choices=["core", "loop", "script"])
    parser.add_argument("--side", type=int, default=3, help="sequences side by side")
    parser.add_argument("--proved", metavar="FILE", help="what was played is written down there, sequence by sequence (one world)")
    parser.add_argument("--keep", metavar="FOLDER", help="histories of broken rules go there")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--steps", type=json.loads)
    parser.add_argument("--random", action="store_true", help="the first seed by chance")
    options = parser.parse_args()
    if options.random:
        options.first = time.time_ns() % 1_000_000 + 1000
    if options.seed is not None:
        options.first, options.sequences = options.seed, 1
    return options


def write_down(options, case, good, seconds):
    """Every sequence as it is judged: a run that is cut off has proved what it has played."""
    proved.write_down(options.proved, "tests/operators/run.py --proved", f"operators, {case['world']}", "sequences",
                      "broke a rule or had no verdict", [(case["seed"], case["seed"], 0 if good else 1, seconds)])


def main():
    options = parse()
    if options.world != "embedded" and why_not():
        print(f"SKIPPED: no SLURM can be started here: {why_not()}")
        if options.world == "slurm":
            return 77
        options.world = "embedded"
    began, good, played = time.monotonic(), True, 0
    with tempfile.TemporaryDirectory(prefix="stoker-operators-") as shared:
        prepare(shared)
        with concurrent.futures.ThreadPoolExecutor(options.side) as pool:
            def one(case):
                if options.within and time.monotonic() - began > options.within:
                    return case, None
                return case, play(case, shared, options.keep, options.steps)
            for case, answer in pool.map(one, cases(options)):
                if answer is None:
                    print(f"not begun: {name_of(case)}: no time was left", flush=True)
                    continue
                played += 1
                right = judge(case, answer)
                good = right and good
                if options.proved:
                    write_down(options, case, right, answer["seconds"])
                if options.shrink and answer["violations"]:
                    shrink(case, shared, options.keep, answer)
    print(f"{played} of {options.sequences} sequences from seed {options.first}, {time.monotonic() - began:.0f}s")
    return 0 if good and played else 1


if __name__ == "__main__":
    sys.exit(main())
