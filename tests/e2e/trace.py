#!/usr/bin/env python3
"""`stoker-train --trace`: what four ranks of TP2 x PP2 did in two steps is what the schedule says, in its order."""
import collections
import json
import os

from _train import Training, check, run_test

ROWS = ("iteration", "F forward", "I, B input gradient", "W weight gradient", "send", "receive", "reduce", "optimizer", "check",
        "save", "save, beside", "collective calls")


def read(training, name):
    with open(os.path.join(training.folder, name)) as file:
        return json.load(file)["traceEvents"]


def traced(training):
    more = "parallel: {tensor: 2, pipeline: 2, schedule: zb-h1}"
    training.configure(samples=200, every=5, asynchronous="true", more=more)
    training.run(4, flags=("--trace", "step.json", "--trace-iterations", "15-16"))
    check("trace of iterations 15-16 written to step.rank0000.json" in training.log(), training.log()[-600:])
    shown = training.command("trace", "step.json").stdout
    check(shown.count("\n") == 5 and "F forward" in shown and "receive" in shown, shown)
    events = read(training, "step.json")
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    rows = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            rows[e["pid"], names[e["pid"], e["tid"]]].append(e)
    for (rank, row), found in rows.items():
        for one, other in zip(found, found[1:]):
            check(other["ts"] >= one["ts"] + one["dur"] - 0.002, f"rank {rank}, {row}: {one} and {other} overlap")
    missing = [(rank, row) for rank in range(4) for row in ROWS if not rows[rank, row]]
    check(not missing, f"no events in {missing}")
    return rows, shown


def agrees_with_schedule(training, rows):
    """The batch is 16, a replica has 16 micro-batches; ranks 0 and 1 are the first stage."""
    plan = json.loads(training.command("schedule", "--kind", "zb-h1", "--stages", "2", "--micro-batches", "16", "--json").stdout)
    for rank in range(4):
        done = sorted((e for (r, _), found in rows.items() if r == rank for e in found if e["cat"] == "operation"), key=lambda e: e["ts"])
        want = plan["ranks"][rank // 2]["operations"]
        for iteration in (15, 16):
            names = [e["name"] for e in done if e["args"]["iteration"] == iteration]
            check(names == want, f"rank {rank}, iteration {iteration}: {names}\nthe schedule: {want}")
    return len(want)


def refused(training):
    training.run(1, expect=22, flags=("--trace", "nowhere/step.json"), STOKER_LOAD="none")
    log = training.log()
    check(log.count("\n") == 1 and "nowhere/step.json: no trace can be written" in log, log)
    training.command("--config", "train.yaml", "--trace", "t.json", "--trace-iterations", "4-3", expect=2)
    failed = training.command("trace", "none.json", expect=1)
    check(failed.stderr.count("\n") == 1 and "there is no trace of several ranks" in failed.stderr, failed.stderr)


def trace():
    training = Training(samples=140)
    try:
        refused(training)
        rows, shown = traced(training)
        count = agrees_with_schedule(training, rows)
        print(f"TP2 x PP2: {count} operations a rank and step, as the schedule says; no overlap on any row\n{shown}", end="", flush=True)
    finally:
        training.remove()


run_test(trace)
