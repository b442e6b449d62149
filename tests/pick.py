"""./dev test CASE...: the tests of that name, wherever they are, with as little building as they need.

CASE is the name of a doctest case, of a golden transcript, of an end-to-end test or of a case on SLURM, as the tests print it
("e2e: held", "slurm: script_hangs"); a part of the name is enough, * and ? are wildcards.
"""
import fnmatch
import glob
import importlib.util
import os
import re
import subprocess
import sys
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
CASE = re.compile(r'TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')


def fits(pattern, *names):
    wanted = pattern if re.search(r"[*?]", pattern) else f"*{pattern}*"
    return any(fnmatch.fnmatchcase(name.lower(), wanted.lower()) for name in names)


def doctest_cases():
    """[(folder, case)] as the sources say; nothing is built for it."""
    found = []
    tests = os.path.join(ROOT, "tests")
    for path in sorted(glob.glob(os.path.join(tests, "*", "**", "*_test.cpp"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            for words in CASE.findall(file.read()):
                name = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', words)).replace('\\"', '"')
                found.append((os.path.relpath(path, tests).split(os.sep)[0], name))  # its program has the folders below it, too
    return found


def slurm_runner():
    folder = os.path.join(ROOT, "tests", "slurm")
    spec = importlib.util.spec_from_file_location("slurm_run", os.path.join(folder, "run.py"))
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)  # it imports what lies beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


class Picked:
    def __init__(self, patterns, e2e_scripts):
        cases = [(folder, name, [name, f"{folder}:{name}", f"{folder}: {name}"]) for folder, name in doctest_cases()]
        stems = [os.path.basename(p)[:-4] for p in sorted(glob.glob(os.path.join(ROOT, "tests", "golden", "*.txt")))]
        cases += [("golden", stem, [stem, f"golden: {stem}"]) for stem in stems]
        cases += [("e2e", name, [name, f"e2e: {name}"]) for name in e2e_scripts]
        exact = {p for p in patterns if any(p in names for _, _, names in cases)}  # a whole name is that test alone

        def named(*names):
            return any(p in names if p in exact else fits(p, *names) for p in patterns)
        chosen = [(kind, name) for kind, name, names in cases if named(*names)]
        self.golden = [name for kind, name in chosen if kind == "golden" and name in stems]
        self.e2e = {name: e2e_scripts[name] for kind, name in chosen if kind == "e2e"}
        self.doctests = {}
        for kind, name in chosen:
            if kind != "e2e" and name not in self.golden:
                self.doctests.setdefault(kind, []).append(name)
        self.slurm = []
        if any(p.startswith("slurm") for p in patterns) or not (self.doctests or self.golden or self.e2e):
            self.runner = slurm_runner()
            self.slurm = [c for folder in ("real", "fake") for c in self.runner.cases(folder)
                          if named(c[1], f"slurm: {c[1]}", f"slurm: {os.path.basename(c[0])[:-3]}.{c[1]}")]

    def __bool__(self):
        return bool(self.doctests or self.golden or self.e2e or self.slurm)

    def targets(self):
        some = [f"test_{folder}" for folder in self.doctests] + ["test_golden"] * bool(self.golden)
        return sorted(set(some)) + ["programs"] * bool(self.e2e or self.slurm)


def run_program(argv, **environment):
    began = time.monotonic()
    done = subprocess.run(argv, cwd=ROOT, env=dict(os.environ, **environment), stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
    return done.returncode == 0, done.stdout, time.monotonic() - began


def run_doctests(picked, tally, binaries):
    for folder, names in picked.doctests.items():
        for name in names:
            chosen = re.sub(r"([\\,*])", lambda m: "?" if m[1] == "*" else "\\" + m[1], name)  # doctest's own filter
            good, said, seconds = run_program([os.path.join(binaries, f"test_{folder}"), f"-tc={chosen}"])
            ran = re.search(r"test cases:\s+([1-9]\d*)", said) is not None
            tally.tell(f"{folder}: {name}", "passed" if good and ran else "failed", seconds, said if not (good and ran) else "")
    for stem in picked.golden:
        good, said, seconds = run_program([os.path.join(binaries, "test_golden")], STOKER_GOLDEN=stem)
        tally.tell(f"golden: {stem}", "passed" if good else "failed", seconds, "" if good else said)


def run_slurm(picked, tally):
    for script, case, training in picked.slurm:
        code, said, seconds, _ = picked.runner.run_case(script, case, training, 1, float("inf"))
        outcome = {0: "passed", 77: "skipped"}.get(code, "failed")
        tally.tell(f"slurm: {os.path.basename(script)[:-3]}.{case}", outcome, seconds, "" if code == 0 else said[-6000:])
