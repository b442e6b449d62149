#!/usr/bin/env python3
"""Damaged checkpoints are named and passed over: the newest good one is loaded, and the training still ends bit for bit.

Torn, truncated, bit-flipped, stray (.orig), missing, of an older generation, with a manifest that lies; a full disk while
saving; a resume whose configuration has changed.
"""
import json
import os
import re
import shutil
import subprocess

from _train import Training, check, run_test


def shard(training, name):
    return os.path.join(training.folder, "checkpoints", name, "shard-00000-of-00001.bin")


def truncate(path):
    os.truncate(path, os.path.getsize(path) - 100)


def flip(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))


def edit_manifest(training, name, change):
    path = os.path.join(training.folder, "checkpoints", name, "manifest.json")
    with open(path) as file:
        manifest = json.load(file)
    change(manifest)
    with open(path, "w") as file:
        json.dump(manifest, file)


def damages(training, names):
    """what -> (a function that does it to a checkpoint's name, what the refusal must say)."""
    folder = os.path.join(training.folder, "checkpoints")
    older = names[0]

    def stray(name):
        shutil.copy(shard(training, name), shard(training, name) + ".orig")

    def of_older(name):
        shutil.copy(shard(training, older), shard(training, name))

    def whole_older(name):
        shutil.copytree(os.path.join(folder, older), os.path.join(folder, name), dirs_exist_ok=True)

    def drop_tensor(manifest):
        manifest["tensors"] = manifest["tensors"][1:]

    def overlap(manifest):
        manifest["ranges"][0]["begin"] += 1

    def renamed(manifest):
        manifest["tensors"][3]["name"] = "blocks.0.unknown"

    return {
        "truncated": (lambda n: truncate(shard(training, n)), "truncated or torn"),
        "bit-flipped": (lambda n: flip(shard(training, n)), "the content has changed"),
        "stray": (stray, ".orig: a file that the manifest does not know"),
        "missing": (lambda n: os.remove(shard(training, n)), "cannot open"),
        "older shard": (of_older, "the content has changed"),
        "older whole": (whole_older, "its manifest is that of " + older),
        "torn manifest": (lambda n: truncate(os.path.join(folder, n, "manifest.json")), "manifest.json"),
        "no tensor": (lambda n: edit_manifest(training, n, drop_tensor), "is missing"),
        "overlap": (lambda n: edit_manifest(training, n, overlap), "at element"),
        "unknown tensor": (lambda n: edit_manifest(training, n, renamed), "is missing"),
    }


def test_damage(training, names, want):
    folder = os.path.join(training.folder, "checkpoints")
    keep = folder + ".keep"
    shutil.copytree(folder, keep)
    newest, before = names[-1], names[-2]
    for what, (damage, text) in damages(training, names).items():
        shutil.rmtree(folder)
        shutil.copytree(keep, folder)
        damage(newest)
        exact = training.run(expect=21, STOKER_LOAD=os.path.join("checkpoints", newest))
        check(text in training.log(), f"{what}: the refusal does not say \"{text}\":\n{training.log()}")
        if what in ("no tensor", "overlap", "unknown tensor"):
            print(f"{what}: every file is whole, the strict load refuses with exit 21", flush=True)
            continue
        training.run(expect=0)
        log = training.log()
        check(newest in log and f"resume audit: {before}" in log, f"{what}: did not go on from {before}:\n{log[:900]}")
        check(training.inspect(newest)["digest"] == want[newest], f"{what}: the end differs")
        print(f"{what}: named, exit {exact[0]} when ordered, passed over when not", flush=True)
    shutil.rmtree(folder)
    shutil.copytree(keep, folder)


def test_shared_check(training):
    """Two ranks check half of the files each: what only the second one reads is found too, and both go on from the one before."""
    shutil.rmtree(os.path.join(training.folder, "checkpoints"))
    training.run(world=2, expect=0)
    before, newest = training.checkpoints()[-2:]
    want = training.inspect(newest)["digest"]
    second = os.path.join(training.folder, "checkpoints", newest, "shard-00001-of-00002.bin")
    flip(second)
    training.run(world=2, expect=21, STOKER_LOAD=os.path.join("checkpoints", newest))
    check(": rank 1: " in training.log() and "the content has changed" in training.log(), training.log())
    training.run(world=2, expect=0)
    log = training.log()
    check(len(re.findall(f"damaged checkpoint {newest}: .*: rank 1: ", log)) == 1 and f"resume audit: {before}" in log, log[:1500])
    check(training.inspect(newest)["digest"] == want, "the end differs")
    print("two ranks, the second one's file is damaged: named once, both go on from the checkpoint before", flush=True)


def test_audit(training, names):
    shutil.rmtree(os.path.join(training.folder, "checkpoints", names[-1]))
    text = open(os.path.join(training.folder, "train.yaml")).read()
    for what, pattern, new in (("model", r"heads: 4", "heads: 8"), ("learning rate schedule", r"decay_samples: 300", "decay_samples: 3000"),
                               ("learning rate", r"max: 1.0e-3", "max: 2.0e-3"), ("rng", r"seed: 42", "seed: 43"),
                               ("data position", r"seed: 1234", "seed: 1235"),
                               ("consumed samples", r"increment: 4", "increment: 2")):
        with open(os.path.join(training.folder, "other.yaml"), "w") as file:
            file.write(re.sub(pattern, new, text))
        training.run(expect=21, config="other.yaml")
        check(f"{what} CHANGED" in training.log(), f"{what}: not named:\n{training.log()}")
        print(f"resume with another {what}: refused", flush=True)
    training.run(expect=0)


def test_full_disk(training):
    """A tmpfs that is too small: periodic saves fail with a warning, the last one with exit 23; nothing partial stays."""
    small = os.path.join(training.folder, "small")
    os.makedirs(small)
    size = os.path.getsize(shard(training, training.checkpoints()[0]))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={int(2.5 * size)}", "tmpfs", small], capture_output=True)
    if mounted.returncode != 0:
        print("full disk: not tried, mounting a small tmpfs needs root")
        return
    try:
        training.configure("small.yaml", directory="small/checkpoints")
        training.run(expect=23, config="small.yaml")
        log = training.log()
        check("was not saved: rank 0: " in log and "disk full" in log, f"the warning is missing:\n{log[-800:]}")
        names = os.listdir(os.path.join(small, "checkpoints"))
        check(len(names) >= 1 and not [n for n in names if "partial" in n], f"left behind: {names}")
        for name in names:
            training.inspect(name, "small/checkpoints")
        print(f"full disk: {len(names)} older checkpoints intact, no partial one, training went on, exit 23 at the end")
    finally:
        subprocess.run(["umount", small], check=False)


def main():
    training = Training(samples=160)
    try:
        training.run()
        names = training.checkpoints()
        want = {n: training.inspect(n)["digest"] for n in names}
        test_damage(training, names, want)
        test_full_disk(training)
        test_audit(training, names)
        test_shared_check(training)
    finally:
        training.remove()


run_test(main)
