#!/usr/bin/env python3
"""Numbers that cannot be trusted: an element of a layer norm changes in the memory of tensor rank 1 while it trains.

The next comparison finds it, names it and ends the training with 24; with `on_drift: repair` it is repaired and goes on. Replays
and norms change no bit of the training.
"""
import os
import re
import signal
import struct
import sys
import time

from _train import Training, check, run_test

HIDDEN = 32
LINE = 4 * 64  # parameters begin at multiples of 64 elements
ELEMENT = 5


def layer_norm_of(pid):
    """Where the first layer norm lies in a rank's memory: weights near 1, padding, biases near 0, padding."""
    zeros = bytes(LINE - 4 * HIDDEN)
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            fields = line.split()
            begin, end = (int(x, 16) for x in fields[0].split("-"))
            if len(fields) > 5 or not fields[1].startswith("rw") or end - begin > 4 << 20:
                continue
            data = os.pread(memory.fileno(), end - begin, begin)
            for at in range(0, len(data) - 2 * LINE + 1, LINE):
                if data[at + 4 * HIDDEN:at + LINE] != zeros or data[at + LINE + 4 * HIDDEN:at + 2 * LINE] != zeros:
                    continue
                weight = struct.unpack_from(f"{HIDDEN}f", data, at)
                bias = struct.unpack_from(f"{HIDDEN}f", data, at + LINE)
                if all(0.5 < w < 1.5 for w in weight) and all(abs(b) < 0.5 for b in bias):
                    return begin + at
    return None


def wait_for_iteration(training, ranks, number):
    end = time.monotonic() + 60
    while not re.search(rf"iteration +{number}/", training.log()):
        check(time.monotonic() < end and all(r.poll() is None for r in ranks), training.log()[-600:])
        time.sleep(0.005)


def disturbed(training, expect, **check_keys):
    """Trains on two tensor ranks and changes one element on the second."""
    keys = ", ".join(f"{k}: {v}" for k, v in check_keys.items())
    training.configure(samples=800, every=1000, directory=f"disturbed-{expect}",
                       more=f"parallel: {{tensor: 2}}\ncheck: {{{keys}}}")
    ranks = training.start(2)
    wait_for_iteration(training, ranks, 12)
    for rank in ranks:
        rank.send_signal(signal.SIGSTOP)
    try:
        at = layer_norm_of(ranks[1].pid)
        check(at is not None, "no layer norm found in the memory of rank 1")
        with open(f"/proc/{ranks[1].pid}/mem", "r+b", buffering=0) as memory:
            old, = struct.unpack("f", os.pread(memory.fileno(), 4, at + 4 * ELEMENT))
            os.pwrite(memory.fileno(), struct.pack("f", old + 0.25), at + 4 * ELEMENT)
    except PermissionError as error:
        training.kill(ranks)
        print(f"SKIPPED: the memory of a child cannot be written: {error}")
        sys.exit(77)
    for rank in ranks:
        rank.send_signal(signal.SIGCONT)
    codes = training.finish(ranks)
    check(set(codes) == {expect}, f"exit codes {codes}:\n{training.log()[-1500:]}")
    return training.log()


def drift(training):
    log = disturbed(training, 24, replicas_every=4)
    named = f"blocks.0.norm1.weight[{ELEMENT}]: its parameter on rank 1 differs from that on rank 0"
    check(log.count("stoker-train: error: " + named) == 2, log[-1500:])
    event = re.search(r'^stoker-event (.*"numbers_differ".*)$', log, re.M)
    check(event and '"check":"replicas"' in event.group(1) and '"ranks":[1]' in event.group(1), log[-1500:])
    print("one element on tensor rank 1: named by the next comparison, exit 24", flush=True)
    log = disturbed(training, 0, replicas_every=4, on_drift="repair")
    check(log.count("stoker-train: warning: " + named) == 1 and "masters and moments were copied from rank 0" in log, log[-1500:])
    check(log.count("numbers_differ") == 1 and '"repaired":true' in log, log[-1500:])
    print("the same with on_drift: repair: repaired, and the training ends with 0", flush=True)


def carried(training):
    """The heartbeat page ends with the norms of the last iteration, as the log has them."""
    path = os.path.join(training.folder, "page")
    page = bytearray(8192)
    struct.pack_into("<8sI", page, 0, b"STOKERHB", 1)
    with open(path, "wb") as file:
        file.write(page)
    training.configure(samples=140, directory="carried", more="log: {norms: true, every: 2}")
    training.run(1, STOKER_HEARTBEAT=path)
    with open(path, "rb") as file:
        page = file.read()
    at, count = struct.unpack_from("<QI", page, 152)
    norms = [f"{x:.4g}" for x in struct.unpack_from(f"<{min(count, 256)}f", page, 164)]
    line = re.findall(r" gradient norms at iteration (\d+) \| embedding: (\S+) \| layer 0: (\S+) \| layer 1: (\S+) \| final norm: (\S+) \|",
                      training.log())[-1]
    check(count == 4 and [str(at), *norms] == list(line), f"{at} {count} {norms} on the page, {line} in the log")


def replays(training):
    digests = []
    for name, more in (("plain", ""), ("checked", "check: {replay_every: 2, replicas_every: 1}\nlog: {norms: true, every: 2}")):
        training.configure(samples=140, directory=name, more=more)
        training.run(2)
        digests.append([training.inspect(n, name)["digest"] for n in training.checkpoints(name)])
    check(digests[0] == digests[1] and len(digests[0]) >= 3, f"digests differ: {digests}")
    log = training.log()
    lines = re.findall(r" gradient norms at iteration \d+ \| embedding: \S+ \| layer 0: \S+ \| layer 1: \S+ \| final norm: \S+ \|", log)
    check(len(lines) >= 5 and re.search(r"grad norm: \S+ \| num zeros: \d+\.0 \| params norm: \S+ \| number of skipped", log), log[:900])
    check("numbers_differ" not in log, log)
    carried(training)
    print(f"replays and norms on two replicas: {len(digests[0])} digests of the plain run", flush=True)


def trust():
    training = Training(samples=140)
    try:
        drift(training)
        replays(training)
    finally:
        training.remove()


run_test(trust)
