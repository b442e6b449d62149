#!/usr/bin/env python3
"""A curriculum in real processes: samples of 8, 16, 24 and then 32 tokens.

Killed in its middle and resumed to the bit, on a mesh whose activations change their size; the tokens are counted, saved and
audited; evaluations read whole samples; checkpoints of before load; what does not fit is refused in one line.
"""
import json
import os
import re
import shutil
import signal
import time

from _train import Training, check, run_test

TOTAL = 14
CURRICULUM = f"{{kind: fixed_linear, min: 8, max: 32, total: {TOTAL}, step: 8}}"
MESH = "parallel: {tensor: 2, pipeline: 2}"


def configure(training, directory, curriculum=CURRICULUM, more="", name="train.yaml"):
    training.configure(name, samples=140, directory=directory, more=more)
    path = os.path.join(training.folder, name)
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace("clip: 1.0", f"clip: 1.0, curriculum: {curriculum}") if curriculum else text)


def length(iteration):
    exact = iteration * 24 // TOTAL + 8
    return min(32, exact - exact % 8)


def lines_of(log):
    """iteration -> (consumed samples, consumed tokens, curriculum seqlen)"""
    found = re.findall(r"iteration +(\d+)/.*consumed samples: +(\d+) \| consumed tokens: +(\d+) .*curriculum seqlen: +(\d+) \|", log)
    return {int(n): (int(samples), int(tokens), int(sequence)) for n, samples, tokens, sequence in found}


def counted(training, directory):
    lines = lines_of(training.log())
    check(len(lines) >= 15, training.log()[-900:])
    samples = tokens = 0
    for n in sorted(lines):
        tokens += (lines[n][0] - samples) * length(n)
        samples = lines[n][0]
        check(lines[n] == (samples, tokens, length(n)), f"iteration {n}: {lines[n]}, not {(samples, tokens, length(n))}")
    check({s for _, _, s in lines.values()} == {8, 16, 24, 32}, f"{lines}")
    for name in training.checkpoints(directory):
        saved = training.inspect(name, directory)
        check(saved["consumed_tokens"] == lines[saved["iteration"]][1], f"{name}: {saved}")
    print(f"{len(lines)} iterations of 8 to 32 tokens a sample: {tokens} tokens counted and saved", flush=True)


def killed_and_resumed(training):
    configure(training, "undisturbed", more=MESH)
    training.run(4)
    counted(training, "undisturbed")
    want = {n: training.inspect(n, "undisturbed")["digest"] for n in training.checkpoints("undisturbed")}
    configure(training, "killed", more=MESH)
    ranks = training.start(4)
    end = time.monotonic() + 120
    while not training.checkpoints("killed") and time.monotonic() < end and all(r.poll() is None for r in ranks):
        time.sleep(0.005)
    ranks[2].send_signal(signal.SIGKILL)
    codes = training.finish(ranks)
    check(codes[2] == -9 and set(codes[:2] + codes[3:]) == {20}, f"exit codes {codes}\n{training.log()[-800:]}")
    training.run(4)
    log = training.log()
    begun = min(lines_of(log))
    check("guarantee: bitwise" in log and 5 < begun < TOTAL, f"begun at {begun}:\n{log[:900]}")
    check(f"curriculum fixed_linear 8 to 32 over {TOTAL} iterations, in steps of 8" in log, log[:1500])
    got = {n: training.inspect(n, "killed")["digest"] for n in training.checkpoints("killed")}
    check(got == want and len(want) >= 3, f"digests differ: {[n for n in want if got.get(n) != want[n]]}")
    print(f"TP2 x PP2, one rank killed with -9 and resumed at iteration {begun}: {len(got)} checkpoints identical", flush=True)


def on_another_mesh(training):
    """And the evaluation at iteration 10, whose step trained on 24 tokens, is that of whole samples."""
    log = training.log(1)
    whole = dict(re.findall(r"iteration +(\d+)/.*lm loss: (\S+) \|", log))
    first = training.checkpoints("undisturbed")[0]
    configure(training, "moved", more="check: {replay_every: 3}")
    training.run(1, STOKER_LOAD=os.path.join("undisturbed", first))
    moved = dict(re.findall(r"iteration +(\d+)/.*lm loss: (\S+) \|", training.log()))
    check(len(moved) >= 10, training.log()[-900:])
    worst = max(abs(float(moved[n]) - float(whole[n])) / float(whole[n]) for n in moved)
    check(worst < 1e-4, f"losses differ by {worst}")
    logged = float(re.search(r"validation loss at iteration 10 \| lm loss value: (\S+) ", training.log()).group(1))
    done = training.command("evaluate", "--checkpoint", f"moved/{[n for n in training.checkpoints('moved') if '000010' in n][0]}", "--json")
    measured = json.loads(done.stdout)["loss"]
    check(abs(logged - measured) < 1e-5 * measured, f"{logged} in the log, {measured} of whole samples")
    print(f"resumed on one rank, with replays: {len(moved)} losses within {worst:.1e}; evaluation at full length", flush=True)
    document = json.loads(training.command("samples", "--iteration", "3", "--json").stdout)
    check(document["sequence"] == 8 and all(sum(p["length"] for p in s["documents"]) == 9 for s in document["samples"]), f"{document}")


def audited(training):
    configure(training, "killed", curriculum=CURRICULUM.replace("total: 14", "total: 20"), more=MESH)
    shutil.rmtree(os.path.join(training.folder, "killed", training.checkpoints("killed")[-1]))
    training.run(4, expect=21)
    log = training.log()
    check(re.search(r"consumed tokens CHANGED from \d+ to \d+", log) and "| curriculum CHANGED from fixed_linear 8 to 32 over 14" in log,
          log[:1500])
    print("another curriculum: refused with 21 by the names of curriculum and consumed tokens", flush=True)


def before_curricula(training):
    """A checkpoint as a build without curricula left it."""
    configure(training, "old", curriculum=None)
    training.run(1)
    names = training.checkpoints("old")
    want = training.inspect(names[-1], "old")["digest"]
    shutil.rmtree(os.path.join(training.folder, "old", names[-1]))
    path = os.path.join(training.folder, "old", names[-2], "manifest.json")
    with open(path) as file:
        manifest = json.load(file)
    del manifest["training"]["position"]["consumed_tokens"], manifest["training"]["curriculum"]
    os.chmod(path, 0o644)
    with open(path, "w") as file:
        json.dump(manifest, file)
    training.run(1)
    check("guarantee: bitwise" in training.log(), training.log()[:900])
    last = training.inspect(training.checkpoints("old")[-1], "old")
    check(last["digest"] == want and last["consumed_tokens"] == 32 * last["consumed_samples"], f"{last}")
    print("a checkpoint of before: resumed to the bit, its tokens go on", flush=True)


def refused(training):
    for what, curriculum, says in (
            ("min", "{min: 12, total: 9, step: 8}", ":5:64: error: min: 12 is not a multiple of step 8 above 0"),
            ("max", "{min: 8, max: 64, total: 9}", ":5:72: error: max: 64 is above the model's sequence 32"),
            ("total", "{min: 8, total: 0}", ":5:74: error: total: must be between 1 and "),
            ("kind", "{kind: root, min: 8, total: 9}", ":5:65: error: kind: expected one of fixed_linear"),
            ("key", "{min: 8, total: 9, steps: 8}", ":5:77: error: ")):
        configure(training, "none", curriculum=curriculum, name="refused.yaml")
        training.run(1, expect=22, config="refused.yaml", STOKER_LOAD="none")
        log = training.log()
        check(f"refused.yaml{says}" in log and log.count("\n") == 1, f"{what}: {log}")
    print("a curriculum that does not fit: refused with 22, by file, line and column", flush=True)


def curriculum():
    training = Training(samples=140)
    try:
        killed_and_resumed(training)
        on_another_mesh(training)
        audited(training)
        before_curricula(training)
        refused(training)
    finally:
        training.remove()


run_test(curriculum)
