#!/usr/bin/env python3
"""A training that is killed with -9 at any moment and resumed ends with the very bits of an undisturbed one.

Losses, parameters and optimizer state, dropout on, through ramp-up steps, on 1, 2 and 4 ranks. STOKER_KILLS sets how many
kills a topology gets (default 3).
"""
import os
import random
import re
import time

from _train import Training, check, run_test

KILLS = int(os.environ.get("STOKER_KILLS", "3"))


def wait_for_iteration(training, ranks, target, limit=60):
    end = time.monotonic() + limit
    while time.monotonic() < end and all(r.poll() is None for r in ranks):
        seen = re.findall(r"iteration +(\d+)/", training.log())
        if target == 0 or (seen and int(seen[-1]) >= target):
            return
        time.sleep(0.002)


def exact(world, dtype, kills, seed, asynchronous="false"):
    training = Training(dtype=dtype, asynchronous=asynchronous)
    try:
        began = time.monotonic()
        training.run(world)
        whole = time.monotonic() - began
        names = training.checkpoints()
        want = {n: training.inspect(n)["digest"] for n in names}
        losses = training.losses()
        check(len(names) >= 5, f"only {len(names)} checkpoints")
        os.rename(os.path.join(training.folder, "checkpoints"), os.path.join(training.folder, "undisturbed"))

        rng = random.Random(seed)
        for i in range(kills):
            ranks = training.start(world)
            # Somewhere in this stretch of iterations, then any moment: forward, sum, save, start of the next one.
            wait_for_iteration(training, ranks, int((i + rng.random()) / kills * len(losses)))
            time.sleep(rng.uniform(0, 1.5 * whole / len(losses)))
            training.kill([rng.choice(ranks)])  # one dies by -9; the others must not go on without it
            time.sleep(0.05)
            training.kill(ranks)
        training.run(world)
        log = training.log()
        check("resume audit:" in log and "guarantee: bitwise" in log, "the last start did not resume bitwise")
        got = {n: training.inspect(n)["digest"] for n in training.checkpoints()}
        check(got == want, f"digests differ: {[n for n in want if got.get(n) != want[n]]}")
        check(training.losses() == losses, "losses differ")
        how = ", saving asynchronously" if asynchronous == "true" else ""
        print(f"{world} ranks, {dtype}{how}: {kills} x kill -9 and resumed, {len(got)} checkpoints and {len(losses)} losses "
              "identical", flush=True)
    finally:
        training.remove()


def restarts_are_exact():
    exact(1, "f32", KILLS, 1)
    exact(1, "bf16", 1, 2)
    exact(2, "f32", KILLS, 5, "true")
    exact(2, "f32", KILLS, 3)
    exact(4, "f32", max(1, KILLS - 1), 4)


run_test(restarts_are_exact)
