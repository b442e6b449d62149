#!/usr/bin/env python3
"""`stoker-train --dry-run`: the published trainings rank by rank in one process, and what a start would refuse, as it would."""
import os
import re

from _train import ROOT, Training, check, run_test

NODE = ("--dry-run", "--ranks-per-node")


def published(training):
    """BLOOM on 384 ranks, and the two before it; illegal numbers of ranks end with 22 at their place."""
    for name, ranks, per_node, stages in (("tr11", 384, 8, 12), ("tr8", 256, 4, 32), ("tr1", 128, 4, 4)):
        config = os.path.join(ROOT, "configs", "examples", name, "train.yaml")
        done = training.command("--config", config, *NODE, str(per_node), "--ranks", str(ranks), "--without-data")
        rows = re.findall(r"^(\d+) +(\d+)-(\d+) ", done.stdout, re.M)
        each = ranks // stages
        check(rows == [(str(i), str(i * each), str(i * each + each - 1)) for i in range(stages)], f"{name}: {done.stdout}")
        check("none hangs" in done.stdout and "not read (--without-data)" in done.stdout, done.stdout)
        done = training.command("--config", config, "--dry-run", "--ranks", str(ranks - 1), "--without-data", expect=22)
        check(re.fullmatch(rf"stoker-train: {re.escape(config)}:\d+:\d+: error: parallel: {ranks - 1} ranks do not split .*\n",
                           done.stderr) and not done.stdout, done.stderr)
        print(f"{name}: {ranks} ranks walked", flush=True)


def as_a_start(training):
    """Refused where a start is refused, and with its code; where it is not, a start goes on."""
    training.configure(samples=60)
    fresh = training.command("--config", "train.yaml", "--dry-run").stdout
    check("at sample 0: no checkpoint in checkpoints" in fresh, fresh)
    check(not os.path.exists(os.path.join(training.folder, "checkpoints")), "the dry run has made a folder")
    training.run(1)
    newest = training.checkpoints()[-1]
    again = training.command("--config", "train.yaml", "--dry-run").stdout
    check(f"checkpoints/{newest}" in again and "guarantee     bitwise" in again, again)
    training.configure(samples=60, more="parallel: {tensor: 2}")
    other = training.command("--config", "train.yaml", "--dry-run", "--ranks", "2").stdout
    check("guarantee     tolerance" in other, other)
    text = open(os.path.join(training.folder, "train.yaml")).read()
    with open(os.path.join(training.folder, "changed.yaml"), "w") as file:
        file.write(text.replace("max: 1.0e-3", "max: 2.0e-3"))
    dry = training.command("--config", "changed.yaml", "--dry-run", "--ranks", "2", expect=21)
    check("learning rate schedule CHANGED from" in dry.stderr, dry.stderr)
    training.run(2, config="changed.yaml", expect=21)
    training.command("--config", "changed.yaml", "--dry-run", "--ranks", "2", "--accept", "learning rate schedule", "--accept",
                     "learning rate")
    training.configure(samples=420, directory="fresh")
    for ranks in (3, 5):  # a global batch of 16, four at first
        dry = training.command("--config", "train.yaml", "--dry-run", "--ranks", str(ranks), expect=22)
        training.run(ranks, expect=22, STOKER_LOAD="none")
        said = re.sub(r"stoker-train: ", "", training.log())
        place = re.search(r"train.yaml:\d+:\d+: error: ", dry.stderr)
        check(place and place.group() in said, f"{ranks} ranks: {dry.stderr} a start: {said}")
    with open(os.path.join(training.folder, "none.yaml"), "w") as file:
        file.write(text.replace("data/text", "data/none"))
    dry = training.command("--config", "none.yaml", "--dry-run", "--ranks", "2", expect=22)
    check(re.match(r"stoker-train: none.yaml:3:\d+: error: .*data/none", dry.stderr), dry.stderr)
    training.command("--config", "none.yaml", "--dry-run", "--ranks", "2", "--without-data")
    training.command("--config", "train.yaml", "--ranks", "2", expect=2)  # without --dry-run
    print("as a start: resumed, refused with 21 and 22 at the same places", flush=True)


def dry_run():
    training = Training()
    try:
        published(training)
        as_a_start(training)
    finally:
        training.remove()


run_test(dry_run)
