#!/usr/bin/env python3
"""./dev test: build, unit and golden tests, lint, end-to-end tests, bundle, sanitizers; one tally at the end.

Each part reports its tests as (name, outcome); a part that cannot even start is one failed test. The last line is
"N passed, N failed, N skipped". `./dev test CASE...` runs the tests of that name alone (pick.py), `--quick` stops after the
unit tests, `--only PART` runs one part, `--long` adds what does not fit into CI. The build folder keeps times (ledger.py).
"""
import argparse
import concurrent.futures
import glob
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import pick
from beside import Beside, write_result
from checker import run_checker
from gpu_build import gpu_build
from ledger import Ledger, Progress
from scripted import run_once
from tally import Tally, closing_words, outcomes

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
E2E_LIMIT_S = 1500  # on two busy cores; quiet, none takes a fifth of it
E2E_SIDE = 3  # end-to-end tests side by side: they wait most of their time
# Those that take longest go first, so that none is left alone at the end.
LONGEST = ["exact_restart", "demo_story", "recipes", "bad_input", "damaged_journal", "after", "archive", "dry_run", "parallel_training",
           "checkpoint_damage", "limbo", "lead_dies", "curriculum", "three_users", "operators", "numerics_portable", "agent_recovery"]
# Of CI's hour, on two cores that had compiled nothing before and have packages to install first. What computes beside may not be
# done by then; no test that waits begins, or is tried again, after the second limit.
BUDGET_S, LAST_BEGIN_S = 50 * 60, 44 * 60
SKIP_EXIT = 77
# As in ./dev: a clone that was never built compiles many files at once, from nothing in half the time.
PRESET = "dev" if os.path.exists(os.path.join(ROOT, "build", "build.ninja")) else "once"


def folder_of(preset):
    return "build" if preset == "dev" else f"build-{preset}"


BIN = os.path.join(ROOT, folder_of(PRESET), "bin")
LEDGER = Ledger(os.path.join(ROOT, folder_of(PRESET), "tests.jsonl"))
Tally.ledger = LEDGER


def title(text):
    print(f"\n==> {text}", flush=True)


def command(argv, limit=3600, **kwargs):
    return subprocess.run(argv, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=limit, **kwargs).returncode


def build(tally, preset=PRESET, targets=(), as_it_is=False):
    """Configures and builds a preset; True when that worked. `as_it_is`: a change of flags would compile everything again."""
    folder = os.path.join(ROOT, folder_of(preset))
    os.environ.update(CCACHE_SLOPPINESS="pch_defines,time_macros", CCACHE_NOHASHDIR="1", CCACHE_BASEDIR=ROOT)
    strict = preset == PRESET  # the sanitizers are built with warnings off
    configured = as_it_is and os.path.exists(os.path.join(folder, "build.ninja"))
    good = configured or command(["cmake", "--preset", preset, f"-DSTOKER_WERROR={'ON' if strict else 'OFF'}"],
                   stdout=subprocess.DEVNULL) == 0
    argv = ["cmake", "--build", folder, "-j", str(os.cpu_count())]
    for target in targets:
        argv += ["--target", target]
    good = good and command(argv) == 0
    tally.add(f"build: {preset}{', warnings are errors' if strict and not configured else ''}", "passed" if good else "failed")
    return good


def ctest(tally, folder, prefix="", select="", most_tries=1):
    """Runs the doctest cases of a build folder; each case is one test."""
    report = os.path.join(ROOT, folder, "ctest.xml")
    argv = ["ctest", "--test-dir", folder, "-j", str(os.cpu_count()), "--output-junit", report,
            "--output-on-failure", "--quiet", "--no-tests=error", "--test-output-size-passed", "65536"]
    worked = command(argv + (["-R", select] if select else [])) == 0
    if not os.path.exists(report):
        tally.add(f"{prefix}ctest {folder}", "failed", "no report")
        return
    found = outcomes(report)
    if not worked and most_tries > 1:
        command([*argv, "--rerun-failed"])
        for case, result in outcomes(report).items():
            if found[case][0] == "failed" and result[0] == "passed":
                tally.again.append(prefix + case)
            found[case] = result
    for case, (outcome, detail, seconds) in found.items():
        LEDGER.note(prefix + case, outcome, seconds, 2 if prefix + case in tally.again else 1)
        tally.add(prefix + case, outcome, detail)


def tries(options):
    """CI gives a test that failed a second try, aloud: it shares two cores with other tests. Asked for by name, none."""
    return 1 if options.long or options.only or options.case else 2


def part_unit(tally, options):
    title("unit and golden tests, recorded lives")
    ctest(tally, folder_of(PRESET), most_tries=tries(options))
    run_checker(tally, "sim: recorded", ["tests/sim/prove.py", "--recorded"], ROOT, BIN)


def script_test(tally, name, script, environment, limit, most_tries, until, progress):
    """A test that is a program: exit 0 passed, 77 skipped with the reason in its last line, else failed."""
    if time.time() > until:
        tally.no_time.append(name)
        return tally.add(name, "skipped", "no time was left for it")
    for attempt in range(1, most_tries + 1):
        began = time.monotonic()
        code, output = run_once(script, environment, limit, ROOT)
        outcome = {0: "passed", SKIP_EXIT: "skipped"}.get(code, "failed")
        seconds = time.monotonic() - began
        last = outcome != "failed" or attempt == most_tries or time.time() > until
        print(f"{outcome}: {name} ({seconds:.0f}s)" + (f" [{progress.done(name)}]" if last else ""), flush=True)
        if last:
            LEDGER.note(name, outcome, seconds, attempt)
            break
        print(f"once more, because it ended with {code}:\n{output[-6000:]}", flush=True)
        tally.again.append(name)
    if outcome == "failed" and name in tally.again:
        tally.again.remove(name)
    tally.add(name, outcome, f"exit {code}\n{output[-6000:]}" if outcome == "failed"
              else output.strip().split("\n")[-1] if outcome == "skipped" else "")


def e2e_scripts(match):
    """The programs of tests/e2e, the longest first."""
    found = {os.path.basename(f)[:-3]: f for f in sorted(glob.glob(os.path.join(ROOT, "tests", "e2e", "*.py")))}
    chosen = [name for name in found if not name.startswith("_") and match in name]
    return {name: found[name] for name in sorted(chosen, key=lambda n: LONGEST.index(n) if n in LONGEST else len(LONGEST))}


def part_e2e(tally, options):
    title("end-to-end tests")
    environment = dict(os.environ, STOKER_BIN=BIN, PYTHONPATH=os.path.join(ROOT, "tests"))
    if options.long:
        environment["STOKER_LONG"] = "1"
    limit = E2E_LIMIT_S * (6 if options.long else 1)
    scripts = options.scripts if options.case else e2e_scripts(options.match)
    progress = Progress(LEDGER, [f"e2e: {name}" for name in scripts], E2E_SIDE)
    with concurrent.futures.ThreadPoolExecutor(E2E_SIDE) as pool:
        running = [pool.submit(script_test, tally, f"e2e: {name}", [script], environment, limit, tries(options), options.until,
                               progress) for name, script in scripts.items()]
        for test in running:
            test.result()


def part_slurm(tally, options):
    title("real SLURM: every fault once" if not options.long else "real SLURM: 100 faults by chance")
    argv = [sys.executable, "tests/slurm/run.py", "--match", options.match, "--tries", str(tries(options)),
            "--until", str(options.until)]
    argv += ["--random", "100", "--versions"] if options.long else []
    environment = dict(os.environ, STOKER_BIN=BIN, **({"STOKER_LONG": "1"} if options.long else {}))
    run = subprocess.Popen(argv, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, text=True, errors="replace",
                           stdout=subprocess.PIPE)
    said = skipped = ""
    for line in run.stdout:
        print(line, end="", flush=True)
        said += line
        outcome, _, name = line.partition(": ")
        if outcome == "reason" and skipped:
            tally.add(skipped, "skipped", name.strip())
            skipped = ""
        if outcome in ("passed", "skipped", "failed") and name.startswith("slurm: "):
            name, _, seconds = name.rstrip().rpartition(" (")
            LEDGER.note(name, outcome, float(seconds.rstrip("s)") or 0), 2 if name in tally.again else 1)
            if outcome == "skipped":
                skipped = name
            else:
                tally.add(name, outcome)
        elif outcome == "again" and name.startswith("slurm: "):
            tally.again.append(name.rpartition(" (")[0])
    if (code := run.wait()) not in (0, 1):
        skips = code == SKIP_EXIT
        tally.add("slurm: real cluster", "skipped" if skips else "failed", said.strip().split("\n")[-1] if skips else f"exit {code}\n{said[-3000:]}")


def lint(tally, *options):
    run_checker(tally, "lint: runs", ["tests/lint/lint.py", "--build", folder_of(PRESET), *options], ROOT, BIN)


def part_tidy(tally, _options):
    title("clang-tidy")
    lint(tally, "--tidy")


def part_lint(tally, options):
    title("lint")
    if options.long:
        build(tally, "dev", ["programs"])  # file by file: batches hide an include that is missing
    lint(tally, "--fast")
    for script in scripts_with_tests():
        about = pathlib.Path(ROOT, script).read_text(encoding="utf-8").split('"""')[1].split("\n")[0].rstrip(".")
        tally.add(f"{script}: {about}", "passed" if command([sys.executable, script]) == 0 else "failed")


def scripts_with_tests():
    """The unit tests of the scripts; those of tests/e2e are end-to-end tests and run with them."""
    return sorted(f for f in glob.glob("tests/**/*_test.py", root_dir=ROOT, recursive=True) if not f.startswith("tests/e2e/"))


def part_packages(tally, options):
    title("packages: Debian, wheel")
    for script in ["debian.py", "pip_install.py"] + ["clean_root.py"] * options.long:
        argv = [f"tests/packages/{script}", folder_of(PRESET)] + ["--long"] * (options.long and script == "pip_install.py")
        run_checker(tally, f"packages: {script}", argv, ROOT, BIN)


def part_bundle(tally, options):
    title("relocatable bundle in an empty chroot")
    good = command([sys.executable, "deploy/bundle.py", "--build", folder_of(PRESET), "--pack"]) == 0
    tally.add("bundle: builds, and is at most 35 MB when packed", "passed" if good else "failed")
    if not good:
        return
    if os.geteuid() != 0:
        tally.add("bundle: runs in an empty chroot, and its self-test by another user", "skipped", "chroot needs root")
        return
    proved = command([sys.executable, "deploy/bundle.py", "--build", folder_of(PRESET), "--prove"])
    tally.add("bundle: runs in an empty chroot, and its self-test by another user", "failed" if proved else "passed")
    if options.long:
        made = all(command([sys.executable, "deploy/bundle.py", "--build", folder_of(PRESET), "--train", what]) == 0 for what in ("--pack", "--prove"))
        tally.add("bundle with the training core: trains and saves", "passed" if made else "failed")
        code = command([sys.executable, "tests/slurm/day_one.py", folder_of(PRESET)])
        tally.add("bundle: day one in bare roots", {0: "passed", SKIP_EXIT: "skipped"}.get(code, "failed"), "no root of another Debian")


# The folders of tests/ whose programs run under a sanitizer. cli has no memory of its own to lose and is the slowest to
# build: --long has it. Threads are in these five only.
THREADED = ["alerts", "common", "daemon", "agent", "train"]
SANITIZED_E2E = ["switch_files", "daemon_killed"]
SANITIZER_OPTIONS = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1", "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}


def untorched(without=()):
    """The folders of tests/ that hold unit tests and need neither LibTorch nor a GPU."""
    found = {os.path.basename(os.path.dirname(f)) for f in glob.glob(os.path.join(ROOT, "tests", "*", "*_test.cpp"))}
    return sorted(found - {"train_torch", "gpu", *without})


def sanitizer(tally, options, preset, folders, programs=()):
    """Unit and golden tests of these folders under a sanitizer; True when they could be built."""
    title(f"unit and golden tests under {preset}")
    os.environ.update(SANITIZER_OPTIONS)
    if not build(tally, preset, [f"test_{folder}" for folder in folders] + list(programs)):
        return False
    ctest(tally, folder_of(preset), prefix=f"{preset}: ", select="|".join(f"^{folder}:" for folder in folders),
          most_tries=tries(options))
    return True


def sanitized_e2e(tally):
    """End-to-end tests with sanitized daemon, client and agent (and the ordinary training): a report fails the test."""
    title("end-to-end tests under asan")
    with tempfile.TemporaryDirectory(prefix="stoker-asan-") as folder:
        for name, preset in (("stokerd", "asan"), ("stoker", "asan"), ("stoker-agent", "asan"), ("stoker-train", PRESET)):
            os.symlink(os.path.join(ROOT, folder_of(preset), "bin", name), os.path.join(folder, name))
        where = os.path.join(folder, "report")
        environment = dict(os.environ, STOKER_BIN=folder, PYTHONPATH=os.path.join(ROOT, "tests"),
                           ASAN_OPTIONS=f"detect_leaks=1:log_path={where}", UBSAN_OPTIONS=f"log_path={where}")
        for name in SANITIZED_E2E:
            code = command([sys.executable, f"tests/e2e/{name}.py"], limit=3 * E2E_LIMIT_S, env=environment)
            reports = sorted(glob.glob(where + "*"))
            tally.add(f"asan: e2e: {name}", "failed" if code or reports else "passed",
                      "".join(open(r, errors="replace").read(4000) for r in reports[:3]))
            for report in reports:
                os.unlink(report)


def part_asan(tally, options):
    everything = options.long or options.only
    if not everything:
        sanitizer(tally, options, "asan", untorched(without={"cli", "cuda_on_cpu"}), ["stoker-agent"])  # a test of configs looks for the agent
    elif sanitizer(tally, options, "asan", untorched(), ["stokerd", "stoker", "stoker-agent"]) and build(tally):
        sanitized_e2e(tally)


def part_tsan(tally, options):
    sanitizer(tally, options, "tsan", THREADED)


def part_fuzz(tally, options):
    title("every parser fuzzed under asan and ubsan")
    argv = [sys.executable, "tests/fuzz/fuzz.py"] + ["--long"] * options.long
    run = subprocess.run(argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace")
    print(run.stdout, end="", flush=True)
    for line in run.stdout.split("\n"):
        outcome, _, name = line.partition(": ")
        if outcome in ("passed", "failed") and name.startswith("fuzz: "):
            tally.add(name.partition(" (")[0], outcome)
    if run.returncode == SKIP_EXIT:
        tally.add("fuzz: parsers", "skipped", "clang++ is not here")
    elif run.returncode not in (0, 1):
        tally.add("fuzz: parsers", "failed", f"exit {run.returncode}")


def part_sim(tally, options):
    title("simulated lives: every guard, every scenario, chaos")
    run_checker(tally, "sim: runs", ["tests/sim/prove.py", *(["--long"] if options.long else ["--seeds", "150"])], ROOT, BIN)


# What waits most of its time for daemons and clusters runs side by side once the unit tests are done; what computes, beside it
# at the lowest priority.
WAITING = {"unit": part_unit, "e2e": part_e2e, "slurm": part_slurm}
COMPUTING = {"bundle": part_bundle, "packages": part_packages, "sim": part_sim, "lint": part_lint, "fuzz": part_fuzz, "asan": part_asan, "tsan": part_tsan, "tidy": part_tidy, "cuda": lambda tally, options: gpu_build(tally, options, command, ctest)}
PARTS = {**WAITING, **COMPUTING}
TURNS = ["asan", "tsan", "tidy"]


def run_parts(names, tally, options, done=lambda name: None):
    for name in names:
        began = time.monotonic()
        PARTS[name](tally, options)
        seconds = time.monotonic() - began
        usual = LEDGER.usual(f"part: {name}")
        print(f"    {name}: {seconds:.0f}s" + (f" (usually {usual:.0f}s)" if usual else ""), flush=True)
        LEDGER.note(f"part: {name}", "passed", seconds)
        done(name)


def run_picked(tally, options):
    """./dev test CASE...: only what these need is built."""
    picked = pick.Picked(options.case, e2e_scripts(""))
    if not picked:
        print(f"no test is called {' or '.join(options.case)}: the names are those that the tests print", file=sys.stderr)
        return tally.add(f"a test called {' or '.join(options.case)}", "failed")
    if build(tally, targets=picked.targets(), as_it_is=True):
        pick.run_doctests(picked, tally, BIN)
        if picked.e2e:
            options.scripts = picked.e2e
            part_e2e(tally, options)
        os.environ.update(STOKER_BIN=BIN)
        pick.run_slurm(picked, tally)


def computing_parts():
    """What there may be no time for comes last, and by turns: each is first in one of three commits."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    sure, turns = [n for n in COMPUTING if n not in TURNS], list(TURNS)
    first = int(head[:8] or "0", 16) % len(turns)
    return sure + turns[first:] + turns[:first]


def run_beside(path, names, tally, options):
    """The other end of Beside."""
    parts = []

    def done(name):
        parts.append(name)
        write_result(path, tally, parts, LEDGER.run)

    run_parts(names, tally, options, done)


def all_parts(tally, options, began):
    run_parts(["unit"], tally, options)
    with Beside(os.path.abspath(__file__), computing_parts(), options) as beside:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for part in [pool.submit(run_parts, [name], tally, options) for name in WAITING if name != "unit"]:
                part.result()
        beside.join(tally, LEDGER, None if options.long else max(0, began + BUDGET_S - time.monotonic()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", metavar="CASE", help="only the tests of this name; a part of it is enough, or * and ?")
    parser.add_argument("--quick", action="store_true", help="build, unit tests, recorded lives of the simulator")
    parser.add_argument("--long", action="store_true", help="also what takes too long for CI")
    parser.add_argument("--only", choices=sorted(PARTS), help="one part")
    parser.add_argument("--slurm", dest="only", action="store_const", const="slurm", help="the part on a real SLURM")
    parser.add_argument("--match", default="", help="of the end-to-end tests, those with this in their name")
    parser.add_argument("--beside", nargs="+", help=argparse.SUPPRESS)  # a file for the tally, and parts
    options = parser.parse_args()
    tally = Tally()
    began = time.monotonic()
    options.until = float("inf") if options.long or options.only or options.case else time.time() + LAST_BEGIN_S
    if options.beside:
        return run_beside(options.beside[0], options.beside[1:], tally, options) or 0
    title("build")
    if options.case:
        run_picked(tally, options)
    elif options.only in ("asan", "tsan", "cuda") or build(tally):
        if options.only or options.quick:
            run_parts([options.only or "unit"], tally, options)
        else:
            all_parts(tally, options, began)
    print(f"\n{time.monotonic() - began:.0f}s in all")
    LEDGER.save()
    closing_words(tally, LEDGER)
    print(f"{len(tally.passed)} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
