#!/usr/bin/env python3
"""What a colleague can do to an export: links beside the data set, and a folder of the group in which the model is made."""
import os
import shutil
import subprocess
import threading
import time

import _train
from _train import TRAIN, Training, check, run_test
from e2e import _users
from e2e._users import MATE, OWNER

SECRET = "PRIVATE KEY OF THE OWNER"


def ids(user):
    entry = _users.pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid


def as_owner(training, *arguments):
    """The program is copied: the folder of the build may be closed to others."""
    program = os.path.join(training.folder, "stoker-train")
    if not os.path.exists(program):
        shutil.copy(TRAIN, program)
    user, group = ids(OWNER)
    groups = os.getgrouplist(OWNER, group)
    return subprocess.run([program, *arguments], user=user, group=group, extra_groups=groups, umask=0o022, cwd="/", timeout=120,
                          capture_output=True, text=True, check=False, env={**os.environ, "HOME": "/", "OMP_NUM_THREADS": "1"})


def owned(path, mode):
    os.chown(path, *ids(OWNER))
    os.chmod(path, mode)
    return path


def link_is_not_read(training, checkpoint, private):
    """The data set's folder is the colleague's: what he leads its merges to is not copied into the model."""
    merges = os.path.join(training.folder, "data", "text.merges.txt")
    os.symlink(os.path.join(private, "id_rsa"), merges)
    os.lchown(merges, *ids(MATE))
    out = os.path.join(training.folder, "public")
    done = as_owner(training, "export", checkpoint, "-o", os.path.join(out, "model"), "--tokenizer", os.path.join(training.folder, "data/text"))
    os.unlink(merges)
    check(done.returncode == 0, done.stderr)
    text = open(os.path.join(out, "model", "merges.txt")).read()
    check(text == "#version: 0.2\n", f"merges.txt: {text!r}")
    print("a colleague's link beside the data: not copied", flush=True)


def exchanged(shared, private, stop, done):
    """As soon as weights are in a new folder: it goes, and a link to the owner's private folder has its name."""
    while not stop.is_set():
        for name in os.listdir(shared):
            path = os.path.join(shared, name)
            if ".partial." in name and not name.endswith(".away") and os.path.exists(os.path.join(path, "model.safetensors")):
                try:
                    os.rename(path, path + ".away")
                    os.symlink(private, path)
                    os.lchown(path, *ids(MATE))
                    done.append(path)
                    return
                except OSError:
                    pass
        time.sleep(0.0002)


def folder_is_exchanged(training, checkpoint, private):
    shared = os.path.join(training.folder, "shared")
    os.mkdir(shared)
    os.chown(shared, 0, _users.grp.getgrnam(_users.GROUP).gr_gid)
    os.chmod(shared, 0o2775)
    before = {name: open(os.path.join(private, name)).read() for name in os.listdir(private)}
    for turn in range(60):
        stop, done = threading.Event(), []
        thread = threading.Thread(target=exchanged, args=(shared, private, stop, done))
        thread.start()
        out = os.path.join(shared, f"model{turn}")
        export = as_owner(training, "export", checkpoint, "-o", out, "--tokenizer", os.path.join(training.folder, "data/text"))
        stop.set()
        thread.join()
        after = {name: open(os.path.join(private, name)).read() for name in os.listdir(private)}
        check(after == before, f"the owner's private folder changed: {sorted(after)}")
        if not done:
            check(export.returncode == 0, export.stderr)
            continue
        if export.returncode != 0:
            check("another user has put something else in its place" in export.stderr or "cannot rename" in export.stderr, export.stderr)
            check(os.path.islink(done[0]), "the link is the colleague's to remove")
            print(f"a folder that a colleague exchanges for a link: refused (try {turn + 1})", flush=True)
            return
        check(sorted(os.listdir(done[0] + ".away")) != [], "exchanged behind the last file")
    raise _train.Failed("the folder could not be exchanged in time in 60 tries")


def main():
    _users.make_users()
    training = Training(samples=40)
    try:
        training.run()
        os.chmod(training.folder, 0o755)
        for path, folders, files in os.walk(training.folder):
            for name in [*folders, *files]:
                os.chown(os.path.join(path, name), *ids(OWNER))
        data = os.path.join(training.folder, "data")
        os.chown(data, *ids(MATE))
        public = os.path.join(training.folder, "public")
        private = os.path.join(training.folder, "private")
        os.mkdir(public)
        os.mkdir(private)
        owned(public, 0o755)
        owned(private, 0o700)
        for name in ("id_rsa", "config.json", "merges.txt"):
            path = os.path.join(private, name)
            with open(path, "w") as file:
                file.write(SECRET)
            owned(path, 0o600)
        checkpoint = os.path.join(training.folder, "checkpoints", training.checkpoints()[-1])
        link_is_not_read(training, checkpoint, private)
        folder_is_exchanged(training, checkpoint, private)
    finally:
        training.remove()


run_test(main)
