#!/usr/bin/env python3
"""Fuzzes every parser of hostile bytes with libFuzzer under ASan and UBSan.

Each target begins with seeds made here from the signatures' own examples, and with the inputs kept from runs before
(build-fuzz/corpus), and keeps what it learns. Without options: short, for CI. --long: ten million executions a target.
The last line is "N passed, N failed, N skipped".
"""
import argparse
import glob
import json
import os
import pickle
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "build-fuzz")
SECONDS = 7
LONG_RUNS = 10_000_000


def build():
    os.makedirs(FOLDER, exist_ok=True)
    flags = ["-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_BUILD_TYPE=None", "-G", "Ninja"]
    if shutil.which("ccache"):
        flags.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    for argv in (["cmake", "-S", os.path.join(ROOT, "tests", "fuzz"), "-B", FOLDER, *flags],
                 ["cmake", "--build", FOLDER, "-j", str(os.cpu_count() or 1)]):
        run = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if run.returncode:
            print(run.stdout[-6000:])
            return False
    return True


def named(name):
    """The program under the name that chooses its target."""
    link = os.path.join(FOLDER, "bin", name)
    if not os.path.lexists(link):
        os.symlink("stoker-fuzz", link)
    return link


def flight_dump(protocol):
    entry = {"pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 81, "profiling_name": "nccl:all_reduce",
             "state": "started", "is_p2p": False, "frames": [{"name": "step", "filename": "t.py", "line": 7}]}
    done = dict(entry, collective_seq_id=80, state="completed")
    return pickle.dumps({"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
                         "pg_status": {"0": {"last_enqueued_collective": 81, "last_completed_collective": 80}},
                         "entries": [done, entry], "seconds": 1.5, "kinds": frozenset((1, 2**40))}, protocol)


def seeds():
    """Seeds of each target, as bytes."""
    files = sorted(glob.glob(os.path.join(ROOT, "configs", "signatures", "*.yaml")))
    families = [open(path, encoding="utf-8").read() for path in files]
    lines = [line.split(":", 1)[1].strip().strip("'\"") for text in families for line in text.split("\n")
             if line.strip().startswith("example:")]
    log = ["\n".join(lines[i:i + 8]).encode() for i in range(0, len(lines), 8)]
    rows = " iteration 12/ 100 | consumed samples: 24 | lm loss: 2.1E+00 | loss scale: 1.0 |\n{'loss': 2.1, 'epoch': 0.1}\n"
    ras = "#0-0 (27a079b828ff1a75) MISMATCH\n  26 ranks have launched up to operation 6650\n" \
          "  6 ranks have launched up to operation 6649\n  Rank 0 -- GPU 0 managed by process 4 on node 172.16.64.210\n"
    watchdog = "[PG ID 1 PG GUID 5(tp) Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81, OpType=" \
               "ALLREDUCE)\n[PG 0 Rank 2] Timeout at NCCL work: 1, last enqueued NCCL work: 4, last completed NCCL work: 0\n"
    export = "__REALTIME_TIMESTAMP=1700000000000000\n_TRANSPORT=kernel\n_HOSTNAME=n01\nMESSAGE=NVRM: Xid (PCI:0000:3b:00): 79\n\n"
    threads = 'Thread 0x7f01 (most recent call first):\n  File "t.py", line 7 in step\nThread 12 (idle): "main"\n    recv (s.py:3)\n'
    event = json.dumps({"version": 1, "at": 1, "wall": 1, "body": {"beat": {}}}) + " 00000000"
    sieve = log + [line.encode() for line in rows.split("\n")]
    clocks = "Dec 31 23:59:00 n01 kernel: x\n2026-05-01T10:00:00.5+08:00 y\nE1218 20:27:21.4 z\nn01:1:2 [0] NCCL INFO comm 0x1 rank 1 " \
             "nranks 2 cudaDev 0 busId cb000 - Init COMPLETE\n** Starting validation **\n iteration 2/ 3 | elapsed time per iteration " \
             "(ms): 5.0 | lm loss: 2.0 |\n:::MLLOG {\"time_ms\": 1696564728839, \"key\": \"eval_stop\"}\n"
    return {"log": log, "rank_log": log, "sieve": sieve, "kernel": log, "origin": [line.encode() for line in lines], "metrics": [rows.encode()],
            "journal": [export.encode()], "pickle": [flight_dump(p) for p in range(6)], "stacks": [threads.encode()],
            "collectives": [ras.encode(), watchdog.encode()], "signatures": [text[:3000].encode() for text in families],
            "agent_event": [event.encode()], "clocks": [clocks.encode()]}


def fuzz(name, limits):
    kept = os.path.join(FOLDER, "corpus", name)
    os.makedirs(kept, exist_ok=True)
    found = os.path.join(FOLDER, "found", name) + "-"
    os.makedirs(os.path.dirname(found), exist_ok=True)
    argv = [named(name), kept, "-close_fd_mask=1", "-timeout=10", "-rss_limit_mb=2048", "-max_len=16384",
            f"-artifact_prefix={found}", "-print_final_stats=1", *limits]
    start = os.path.join(FOLDER, "seeds", name)
    os.makedirs(start, exist_ok=True)
    for number, seed in enumerate(seeds().get(name, [])):
        with open(os.path.join(start, str(number)), "wb") as file:
            file.write(seed)
    argv.insert(2, start)
    run = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", env=dict(os.environ, ASAN_OPTIONS="detect_leaks=1"))
    runs = [line.split()[-1] for line in run.stdout.split("\n") if line.startswith("stat::number_of_executed_units")]
    print(f"{'passed' if run.returncode == 0 else 'failed'}: fuzz: {name} ({runs[0] if runs else '?'} executions)", flush=True)
    if run.returncode:
        print(run.stdout[-5000:], flush=True)
    return run.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="ten million executions a target")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of each target in the short form")
    parser.add_argument("target", nargs="*", help="all by default")
    options = parser.parse_args()
    if shutil.which("clang++") is None:
        print("clang++ is not here")
        return 77
    if not build():
        print("failed: fuzz: builds")
        return 1
    targets = options.target or subprocess.run([named("names")], stdout=subprocess.PIPE, text=True).stdout.split()
    limits = [f"-runs={LONG_RUNS}"] if options.long else [f"-max_total_time={options.seconds}"]
    good = [fuzz(name, limits) for name in targets]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed, 0 skipped")
    return 0 if good and all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
