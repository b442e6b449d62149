#!/usr/bin/env python3
"""Tensor, pipeline and data parallel training in real processes.

Against one rank; killed and resumed on the same mesh to the bit; resumed on other meshes from the same checkpoint. What does
not fit is refused in one line.
"""
import os
import re
import shutil
import signal
import time

from _train import Training, check, run_test


def configure(training, parallel, name="train.yaml", directory="checkpoints"):
    training.configure(name, samples=140, directory=directory, more=f"parallel: {{{parallel}}}")


def losses_of(training, attempt):
    return {int(n): float(x) for n, x in re.findall(r"iteration +(\d+)/.*lm loss: (\S+) \|", training.log(attempt))}


def close(one, other, what):
    check(len(one) >= 10 and one.keys() == other.keys(), f"{what}: iterations {sorted(one)} and {sorted(other)}")
    worst = max(abs(one[n] - other[n]) / one[n] for n in one)
    check(worst < 1e-4, f"{what}: losses differ by {worst}")
    return worst


def against_one_rank(training):
    training.run(1)
    want = losses_of(training, training.attempt)
    for mesh, parallel, world in (("TP2 x PP2", "tensor: 2, pipeline: 2", 4),
                                  ("TP2 with sequence parallelism x PP2", "tensor: 2, pipeline: 2, sequence: true", 4),
                                  ("PP2 x DP2, zb-h1", "pipeline: 2, schedule: zb-h1", 4)):
        configure(training, parallel, directory=f"on-{world}-{len(parallel)}")
        training.run(world)
        worst = close(want, losses_of(training, training.attempt), mesh)
        print(f"{mesh} in {world} processes: {len(want)} losses within {worst:.1e} of one rank's", flush=True)


def killed_and_resumed(training):
    configure(training, "tensor: 2, pipeline: 2", directory="undisturbed")
    training.run(4)
    whole = losses_of(training, training.attempt)
    names = training.checkpoints("undisturbed")
    check(training.inspect(names[0], "undisturbed")["mesh"] == {"tp": 2, "pp": 2, "dp": 1}, "another mesh was saved")
    want = {n: training.inspect(n, "undisturbed")["digest"] for n in names}
    configure(training, "tensor: 2, pipeline: 2", directory="killed")
    ranks = training.start(4)
    end = time.monotonic() + 120
    while len(training.checkpoints("killed")) < 2 and time.monotonic() < end and all(r.poll() is None for r in ranks):
        time.sleep(0.005)
    ranks[3].send_signal(signal.SIGKILL)
    codes = training.finish(ranks)
    check(codes[3] == -9 and set(codes[:3]) == {20}, f"exit codes {codes}\n{training.log()[-800:]}")
    check("peer lost: rank 3 " in training.log(), f"the lost rank is not named:\n{training.log()[-800:]}")
    training.run(4)
    check("guarantee: bitwise" in training.log(), training.log()[:800])
    got = {n: training.inspect(n, "killed")["digest"] for n in training.checkpoints("killed")}
    check(got == want, f"digests differ: {[n for n in want if got.get(n) != want[n]]}")
    print(f"TP2 x PP2, one rank killed with -9: the others exit 20 and name it; resumed, {len(got)} checkpoints identical",
          flush=True)
    return whole


def on_other_meshes(training, whole):
    """From one checkpoint of TP2 x PP2 on other meshes: loaded whole (the digest is compared), and the loss goes on."""
    first = training.checkpoints("undisturbed")[0]
    start = int(first[5:11])
    for mesh, parallel, world in (("one rank", "", 1), ("TP4", "tensor: 4", 4), ("DP4", "", 4),
                                  ("PP2 x DP2", "pipeline: 2", 4)):
        shutil.rmtree(os.path.join(training.folder, "moved"), ignore_errors=True)
        configure(training, parallel, directory="moved")
        training.run(world, STOKER_LOAD=os.path.join("undisturbed", first))
        log = training.log()
        check("guarantee: tolerance" in log and "the topology differs" in log, f"{mesh}: {log[:600]}")
        losses = losses_of(training, training.attempt)
        rest = {n: x for n, x in whole.items() if n in losses}
        check(min(losses) == start + 1, f"{mesh}: began with iteration {min(losses)}")
        worst = close(rest, losses, mesh)
        print(f"TP2 x PP2 resumed on {mesh}: {len(losses)} losses within {worst:.1e}", flush=True)


def shared_and_recomputed(training):
    """ZeRO-1 and recomputation, saved and resumed without them and back: the digests of a plain run, all along."""
    digests = {}
    for name, parallel, change in (("plain", "", "recompute: none"), ("shared", "zero: 1", "recompute: {every: 2}")):
        configure(training, parallel, directory=name)
        path = os.path.join(training.folder, "train.yaml")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace("clip: 1.0", f"clip: 1.0, {change}"))
        training.run(2)
        digests[name] = [training.inspect(n, name)["digest"] for n in training.checkpoints(name)]
    check(digests["shared"] == digests["plain"] and len(digests["plain"]) >= 3, f"digests differ: {digests}")
    shutil.rmtree(os.path.join(training.folder, "shared"))
    training.run(2, STOKER_LOAD=os.path.join("plain", training.checkpoints("plain")[0]))
    check("guarantee: bitwise" in training.log(), training.log()[:800])
    rest = [training.inspect(n, "shared")["digest"] for n in training.checkpoints("shared")]
    check(rest == digests["plain"][1:], f"digests differ after the resume: {rest}, {digests['plain']}")
    print(f"ZeRO-1 and recomputation on two ranks: {len(rest) + 1} digests of the plain run, from scratch and from its checkpoint",
          flush=True)


def refused(training):
    for what, parallel, world, says in (
            ("heads", "tensor: 3", 3, "train.yaml:10:20: error: tensor: 4 heads are not a multiple of tensor 3"),
            ("world", "tensor: 2", 3, "3 ranks do not split into groups of 2 (tensor 2 x pipeline 1)"),
            ("layers", "pipeline: 3", 3, "2 layers do not split over 3 stages"),
            ("chunks", "pipeline: 2, schedule: broken.csv", 2, "broken.csv:1:1: ")):
        with open(os.path.join(training.folder, "broken.csv"), "w") as file:
            file.write("0B0,0F0\n1F0,1B0\n")
        configure(training, parallel, name="refused.yaml")
        training.run(world, expect=22, config="refused.yaml", STOKER_LOAD="none")
        log = training.log()
        check(says.replace("train.yaml", "refused.yaml") in log, f"{what}: {log}")
        check(log.count("\n") == world, f"{what}: more than one line a rank:\n{log}")
        print(f"{what}: refused with 22 in one line", flush=True)


def parallel_training():
    training = Training(samples=140)
    try:
        against_one_rank(training)
        on_other_meshes(training, killed_and_resumed(training))
        shared_and_recomputed(training)
        refused(training)
    finally:
        training.remove()


run_test(parallel_training)
