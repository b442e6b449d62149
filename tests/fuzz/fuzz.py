#!/usr/bin/env python3
"""Fuzzes every parser of hostile bytes with libFuzzer under ASan and UBSan.

Each target begins with the inputs in tests/fuzz/corpus/TARGET.zip, with those of seeds.py, and with what runs before have
learnt (build-fuzz/corpus); it has the limits that production has, and MEMORY_MB.
Without options: short, for CI; its time is shared out among the targets, and with its build it ends within --minutes.
--long: --runs executions a target (10^6), counted in build-fuzz/counted; broken off, it goes on there until the program
changes. With --record each end is a line of tests/fuzz/executed.tsv.
--coverage: how many lines of each parser those of the repository reach (coverage.py); less than 80 % fails.
--memcheck: the inputs of tests/fuzz/corpus and seeds.py under valgrind, which sees what is read before it is written;
MemorySanitizer would need each library built with it.
--minimise: the smallest inputs that reach most go to tests/fuzz/corpus, one file a target.
An input that fails is printed with the command that repeats it. The last line is "N passed, N failed, N skipped".
"""
import argparse
import base64
import concurrent.futures
import datetime
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

import coverage
from seeds import seeds

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "build-fuzz")
COUNTING = os.path.join(ROOT, "build-fuzz", "counting")  # a build of its own
KEPT = os.path.join(ROOT, "tests", "fuzz", "corpus")
EXECUTED = os.path.join(ROOT, "tests", "fuzz", "executed.tsv")
KEPT_MOST, KEPT_LARGEST = 64, 2048  # inputs of a target; bytes of an input
LONGEST = {"sieve": 512, "slurm_json": 9216, "adopt": 4096}  # bytes of an input that it makes; the sieve learns each line of it
MEMORY_MB = 512  # resident, with the sanitizers' share: what production may take for any input
SECONDS = 120  # of all targets together in the short form, shared out among them; less if the build took too long
FEWEST_SECONDS = 2
START_SECONDS = {"log": 4, "rank_log": 4, "sieve": 4, "kernel": 4}  # what a target needs beside; the others: 1
LONG_RUNS = 1_000_000
ROUND_SECONDS = 600  # of the long form, between two counts
RECORDING = threading.Lock()


def build(folder, counting=False):
    os.makedirs(folder, exist_ok=True)
    flags = ["-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_BUILD_TYPE=None", f"-DCOUNTING={'ON' if counting else 'OFF'}", "-G", "Ninja"]
    if shutil.which("ccache"):
        flags.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    for argv in (["cmake", "-S", os.path.join(ROOT, "tests", "fuzz"), "-B", folder, *flags],
                 ["cmake", "--build", folder, "-j", str(os.cpu_count() or 1)]):
        run = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if run.returncode:
            print(run.stdout[-6000:])
            return False
    return True


def named(name, folder=FOLDER):
    """The program under the name that chooses its target."""
    link = os.path.join(folder, "bin", name)
    if not os.path.lexists(link):
        os.symlink("stoker-fuzz", link)
    return link


def command(name, *more):
    # What costs more than the parsers: long inputs, entropic scheduling (it weighs all of the corpus again after each run), a search for
    # leaks after each run that allocates (there is one at the end).
    return [named(name), "-close_fd_mask=1", "-timeout=10", f"-rss_limit_mb={MEMORY_MB}", f"-max_len={LONGEST.get(name, 2048)}", "-entropic=0",
            "-detect_leaks=0", *more]


def run(argv):
    with tempfile.TemporaryDirectory(prefix="stoker-fuzz-", dir="/dev/shm") as scratch:
        return run_in(scratch, argv)


def run_in(scratch, argv, **more):
    environment = dict(os.environ, TMPDIR=scratch, ASAN_OPTIONS="detect_leaks=1:malloc_context_size=4:quarantine_size_mb=8", **more)
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", env=environment, check=False)


def inputs(name):
    """The folders that a target begins with; the first one is where it puts what it learns."""
    folders = [os.path.join(FOLDER, kind, name) for kind in ("corpus", "seeds", "kept")]
    for folder in folders[1:]:
        shutil.rmtree(folder, ignore_errors=True)
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    for number, seed in enumerate(seeds().get(name, [])):
        with open(os.path.join(folders[1], str(number)), "wb") as file:
            file.write(seed)
    if os.path.exists(packed_path(name)):
        with zipfile.ZipFile(packed_path(name)) as packed:
            packed.extractall(folders[2])
    return folders


def packed_path(name):
    return os.path.join(KEPT, name + ".zip")


def pack(name, paths):
    """The inputs as one file, which is the same for the same inputs."""
    contents = sorted({open(path, "rb").read() for path in paths})
    os.makedirs(KEPT, exist_ok=True)
    with zipfile.ZipFile(packed_path(name), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for content in contents:
            packed.writestr(zipfile.ZipInfo(hashlib.sha1(content).hexdigest()[:16], (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)


def show_failure(name, path):
    """How to repeat it, here and where only this output is at hand."""
    with open(path, "rb") as file:
        text = base64.b64encode(file.read()).decode()
    print(f"repeat: ./dev fuzz --repeat {os.path.relpath(path, ROOT)} {name}\n"
          f"elsewhere: echo {text} | base64 -d >input && ./dev fuzz --repeat input {name}", flush=True)


def round_of(name, limits):
    """One run of libFuzzer: whether it found nothing, its executions, and the most memory that it had, in MB."""
    found = os.path.join(FOLDER, "found", name) + "-"
    os.makedirs(os.path.dirname(found), exist_ok=True)
    for old in glob.glob(found + "*"):
        os.unlink(old)
    done = run(command(name, *inputs(name), f"-artifact_prefix={found}", "-print_final_stats=1", *limits))
    said = {line.split()[0]: int(line.split()[-1]) for line in done.stdout.split("\n") if line.startswith("stat::")}
    if done.returncode:
        print(done.stdout[-5000:], flush=True)
        for path in sorted(glob.glob(found + "*")):
            show_failure(name, path)
    return done.returncode == 0, said.get("stat::number_of_executed_units:", 0), said.get("stat::peak_rss_mb:", 0)


def tell(name, good, runs, peak_mb):
    print(f"{'passed' if good else 'failed'}: fuzz: {name} ({runs} executions, {peak_mb} MB)", flush=True)
    return good


def record(name, runs, peak_mb):
    """Replaces the target's line of executed.tsv."""
    lines = {}
    if os.path.exists(EXECUTED):
        with open(EXECUTED, encoding="ascii") as file:
            lines = {line.split("\t")[0]: line for line in file.read().splitlines()[1:]}
    lines[name] = f"{name}\t{runs}\t{peak_mb}\t{datetime.date.today()}"
    with open(EXECUTED, "w", encoding="ascii") as file:
        file.write("\n".join(["target\texecutions\tpeak MB\tday", *(lines[n] for n in sorted(lines))]) + "\n")


def fuzz(name, limits):
    return tell(name, *round_of(name, limits))


def fuzz_long(name, wanted, recorded):
    """`wanted` executions of this very program, in rounds; what was counted before counts."""
    with open(os.path.join(FOLDER, "bin", "stoker-fuzz"), "rb") as file:
        program = hashlib.file_digest(file, "sha256").hexdigest()
    path = os.path.join(FOLDER, "counted", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    counted = {"program": program, "executions": 0, "peak_mb": 0}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            before = json.load(file)
        counted.update(before if before["program"] == program else {})
    while counted["executions"] < wanted:
        limits = [f"-runs={wanted - counted['executions']}", f"-max_total_time={ROUND_SECONDS}"]
        good, runs, peak_mb = round_of(name, limits)
        if not good or runs == 0:
            return tell(name, False, counted["executions"], peak_mb)
        counted["executions"] += runs
        counted["peak_mb"] = max(counted["peak_mb"], peak_mb)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(counted, file)
        os.replace(path + ".new", path)
        if recorded:
            with RECORDING:
                record(name, counted["executions"], counted["peak_mb"])
    return tell(name, True, counted["executions"], counted["peak_mb"])


def minimise(name):
    """Of all that is known the smallest inputs that reach as much, in bounds, to tests/fuzz/corpus."""
    best = os.path.join(FOLDER, "best", name)
    shutil.rmtree(best, ignore_errors=True)
    os.makedirs(best)
    found = os.path.join(FOLDER, "found", name) + "-"
    os.makedirs(os.path.dirname(found), exist_ok=True)
    done = run(command(name, "-merge=1", f"-artifact_prefix={found}", best, *inputs(name)))
    sizes = sorted((os.path.getsize(path), path) for path in glob.glob(os.path.join(best, "*")))
    fit = [path for size, path in sizes if 0 < size <= KEPT_LARGEST]
    chosen = fit if len(fit) <= KEPT_MOST else [fit[i * len(fit) // KEPT_MOST] for i in range(KEPT_MOST)]  # small and large ones
    pack(name, chosen)
    print(f"{'failed' if done.returncode else 'passed'}: fuzz: {name} minimised to {len(chosen)} inputs, "
          f"{sum(map(os.path.getsize, chosen))} bytes", flush=True)
    return done.returncode == 0


def count(name):
    """The lines of the target's parsers that the inputs of the repository reach; not those that were learnt here."""
    def run_counted(environment):
        with tempfile.TemporaryDirectory(prefix="stoker-fuzz-", dir="/dev/shm") as scratch:
            done = run_in(scratch, [named(name, COUNTING), "-runs=0", "-rss_limit_mb=0", "-close_fd_mask=1", *inputs(name)[1:]], **environment)
            if done.returncode:
                print(done.stdout[-5000:], flush=True)
        return named(name, COUNTING)
    if name not in coverage.PARSERS:
        print(f"failed: fuzz: coverage of {name}: it has no row in coverage.py", flush=True)
        return False
    return coverage.tell(ROOT, name, coverage.measure(ROOT, name, run_counted))


def memcheck(name):
    """What was never written and decides something, on the inputs that are in the repository."""
    checked = ["valgrind", "--quiet", "--error-exitcode=9", "--num-callers=12", named(name, COUNTING), "-runs=0", "-rss_limit_mb=0", "-timeout=1200"]
    with tempfile.TemporaryDirectory(prefix="stoker-fuzz-", dir="/dev/shm") as scratch:
        done = run_in(scratch, [*checked, *inputs(name)[1:]], LLVM_PROFILE_FILE=os.path.join(scratch, "raw"))
    if done.returncode:
        print(done.stdout[-6000:], flush=True)
    print(f"{'failed' if done.returncode else 'passed'}: fuzz: memcheck of {name}", flush=True)
    return done.returncode == 0


def repeat(name, path):
    done = run(command(name, path))
    print(done.stdout[-8000:])
    print(f"{'failed' if done.returncode else 'passed'}: fuzz: {name} on {path}")
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="--runs executions of each target")
    parser.add_argument("--runs", type=int, default=LONG_RUNS, help="of the long form (10^6)")
    parser.add_argument("--record", action="store_true", help="the long form writes tests/fuzz/executed.tsv")
    parser.add_argument("--seconds", type=int, help="of each target in the short form")
    parser.add_argument("--minutes", type=float, default=4.5, help="of all, with the build, in the short form")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at once")
    parser.add_argument("--minimise", action="store_true", help="rewrite tests/fuzz/corpus from what was learnt")
    parser.add_argument("--coverage", action="store_true", help="lines of each parser that the inputs reach")
    parser.add_argument("--memcheck", action="store_true", help="the kept inputs under valgrind")
    parser.add_argument("--repeat", metavar="FILE", help="run this input once, on the target named")
    parser.add_argument("target", nargs="*", help="all by default")
    options = parser.parse_args()
    began = time.monotonic()
    if shutil.which("clang++") is None:
        print("clang++ is not here")
        return 77
    counting = options.coverage or options.memcheck  # valgrind wants no sanitizer
    folder = COUNTING if counting else FOLDER
    missing = coverage.missing_tools() if options.coverage else ["valgrind"] if options.memcheck and not shutil.which("valgrind") else []
    if missing:
        print(f"{' and '.join(missing)}: not here")
        return 77
    if not build(folder, counting):
        print("failed: fuzz: builds")
        return 1
    targets = options.target or subprocess.run([named("names", folder)], stdout=subprocess.PIPE, text=True).stdout.split()
    if options.repeat:
        return 0 if repeat(targets[0], options.repeat) else 1
    left = (options.minutes * 60 - (time.monotonic() - began)) * options.jobs - sum(START_SECONDS.get(name, 1) for name in targets)
    each = options.seconds or max(FEWEST_SECONDS, int(min(SECONDS, left) / len(targets)))
    work = count if options.coverage else memcheck if options.memcheck else minimise
    if not options.minimise and not counting:
        work = (lambda name: fuzz_long(name, options.runs, options.record)) if options.long else lambda name: fuzz(name, [f"-max_total_time={each}"])
    subprocess.run([named(targets[0], folder), "-runs=0"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=False)  # compiles the patterns once for all
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        good = list(pool.map(work, targets))
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed, 0 skipped")
    return 0 if good and all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
