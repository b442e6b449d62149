#!/usr/bin/env python3
"""One seed, one trace, bit for bit: tests/sim/traces.txt has the XXH3 of several, which every build must give again.

Without options: compares what STOKER_BIN's stoker gives. --write: rewrites them, after a change of what is decided or
said. --compilers: builds `stoker` with clang++ too (build-clang), and both must give them, and more seeds alike.
"""
import difflib
import os
import shutil
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
STOKER = os.path.join(os.environ.get("STOKER_BIN", os.path.join(ROOT, "build", "bin")), "stoker")
SCENARIOS = os.path.join(ROOT, "sim", "scenarios")
RECORD = os.path.join(ROOT, "tests", "sim", "traces.txt")
CLANG = os.path.join(ROOT, "build-clang")
HEAD = "# XXH3 of the traces of seeds; written by tests/sim/traces.py --write\n"
RECORDED = [("chaos.yaml", "1-4"), ("bytedance-mix.yaml", "1-1", "--hours", "48"), ("chronicles/eleven-rollbacks.yaml", "1-1"),
            ("chronicles/bad-node-handed-back.yaml", "1-1"), ("chronicles/slow-gpu.yaml", "1-1")]
MORE = [("chaos.yaml", "5-30"), ("rsc1-16k.yaml", "1-1", "--hours", "48"), ("chronicles/a-gpu-a-week.yaml", "1-3")]


def digests(stoker, runs):
    text = ""
    for scenario, seeds, *options in runs:
        run = subprocess.run([stoker, "sim", os.path.join(SCENARIOS, scenario), "--seeds", seeds, "--digest", *options],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
        text += run.stdout
    return text


def same(name, one, other):
    diff = [line for line in difflib.unified_diff(one.split("\n"), other.split("\n"), lineterm="", n=0) if line[:2] not in ("--", "++", "@@")]
    print(f"{'not ok' if diff else 'ok'} sim: {name}{': ' + ' '.join(diff[:6]) if diff else ''}", flush=True)
    return not diff


def build_with_clang():
    options = ["-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_C_COMPILER=clang", "-DSTOKER_TESTS=OFF", "-DSTOKER_TRAIN=OFF", "-DCMAKE_UNITY_BUILD=ON",
               "-DCMAKE_CXX_FLAGS=-w", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2"]
    for argv in (["cmake", "-G", "Ninja", "-S", ROOT, "-B", CLANG, *options], ["cmake", "--build", CLANG, "--target", "stoker"]):
        run = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode:
            print(run.stdout[-4000:])
            return False
    return True


def main():
    now = HEAD + digests(STOKER, RECORDED)
    if "--write" in sys.argv:
        with open(RECORD, "w", encoding="utf-8") as file:
            file.write(now)
        return 0
    with open(RECORD, encoding="utf-8") as file:
        good = same("the recorded traces come again, bit for bit (else tests/sim/traces.py --write)", file.read(), now)
    if "--compilers" in sys.argv:
        if not shutil.which("clang++"):
            print("ok sim: one trace of both compilers # SKIP clang++ is not here")
            return 0 if good else 1
        if not build_with_clang():
            print("not ok sim: clang++ builds stoker")
            return 1
        runs = RECORDED + MORE
        good = same("g++ and clang++ give the same traces", digests(STOKER, runs), digests(os.path.join(CLANG, "bin", "stoker"), runs)) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
