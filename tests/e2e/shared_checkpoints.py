"""A checkpoint folder and an archive where all users may write (sticky, as scratch folders are): what a stranger puts there
overwrites, deletes and stops nothing of the owner's. Needs root for three users."""
import os
import pwd
import shutil
import signal
import sys

from e2e._harness import BIN, TRAIN, check, main, on_any_disk
from e2e._users import OWNER, STRANGER, SharedSite, make_users, remove_users

RUN = """\
run: {run}
directory: {directory}
scheduler: {{kind: local, nodes: 1, time_limit: 1h, array: {{tasks: 3, top_up_below: 1}}}}
train: {{command: [stoker-train, --config, {config}], ranks_per_node: 1, exit_before_limit: 4s}}
checkpoints: {{directory: {checkpoints}, keep: {{last: 2}}, archive: {{to: {archive}, every: 100}}}}
"""
PRECIOUS = "what the owner has in another place\n"
FIRST, LAST = 10, 2000  # names that can be foreseen

# In the stranger's hands: folders aside of saves to come, links in them; names of pruning and of copies.
PLANTS = """
import os, sys
checkpoints, archive, precious, first, last = sys.argv[1:]
for step in range(int(first), int(last), 10):
    name = f"step-{step:06d}.g000001"
    aside = f"{checkpoints}/{name}.partial.1"
    os.mkdir(aside)
    for file in ("shard-00000-of-00001.bin.tmp", "shard-00000-of-00001.bin", "manifest.json"):
        os.symlink(precious, f"{aside}/{file}")
    os.symlink(os.path.dirname(precious), f"{checkpoints}/pruned.{name}")
    os.mkdir(f"{archive}/archiving.shared.{name}.g000001")
os.mkdir(f"{archive}/step-000200.g000001")
"""
# Copies of the owner's newest good checkpoint, as if they were the newest of all.
COPIES = """
import json, os, shutil, sys
checkpoints = sys.argv[1]
def complete(name):
    return name.startswith("step-") and ".partial." not in name and os.path.exists(f"{checkpoints}/{name}/manifest.json")
for name in sorted(filter(complete, os.listdir(checkpoints)), reverse=True):
    try:
        for step in (999000, 999100):
            target = f"{checkpoints}/step-{step}.g000001"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(f"{checkpoints}/{name}", target)
            with open(target + "/manifest.json") as f:
                manifest = json.load(f)
            manifest["iteration"] = step
            with open(target + "/manifest.json", "w") as f:
                json.dump(manifest, f)
        break
    except OSError:
        continue  # it was deleted meanwhile
"""


def complete_of(folder, user):
    """Steps of the checkpoints there that are this user's."""
    found = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith("step-") and os.path.exists(os.path.join(path, "manifest.json")) and \
                ".partial." not in name and pwd.getpwuid(os.stat(path).st_uid).pw_name == user:
            found.append(int(name[5:name.index(".")]))
    return sorted(found)


def what_a_stranger_puts_there_hurts_nothing(site):
    shutil.copy(os.path.join(BIN, "stoker-train"), site.bin)
    site.prepare_data()
    checkpoints, archive, home = (os.path.join(site.folder, name) for name in ("checkpoints", "archive", "home"))
    for folder, mode in ((checkpoints, 0o1777), (archive, 0o1777), (home, 0o755)):
        os.mkdir(folder)
        os.chmod(folder, mode)
        os.chown(folder, *site.ids(OWNER))
    precious = os.path.join(home, "manifest.json")
    with open(precious, "w", encoding="utf-8") as f:
        f.write(PRECIOUS)
    os.chown(precious, *site.ids(OWNER))
    config = os.path.join(site.folder, "train.yaml")
    with open(config, "w", encoding="utf-8") as f:
        f.write(TRAIN.format(prefix=os.path.join(site.folder, "data"), layers=1, hidden=16, ffn=32, sequence=16, micro=1, global_batch=8,
                             ramp_start=4, ramp_samples=64, samples=4000000, warmup=64, save_every=10, asynchronous="false")
                .replace("directory: checkpoints", f"directory: {checkpoints}"))
    path = os.path.join(site.folder, "shared.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(on_any_disk(RUN.format(run=site.run, directory=site.directory, config=config, checkpoints=checkpoints, archive=archive)))
    os.chmod(path, 0o600)
    os.chown(path, *site.ids(OWNER))
    python = "/usr/bin/python3"
    site.as_user(STRANGER, python, "-c", PLANTS, checkpoints, archive, precious, FIRST, LAST, ok=True)

    site.start_daemon("--listen", "none")
    site.stoker("run", path, "--yes")
    site.wait(lambda: len(complete_of(checkpoints, OWNER)) >= 2, 90, "two checkpoints of the owner's")
    site.as_user(STRANGER, python, "-c", COPIES, checkpoints, ok=True)
    check(complete_of(checkpoints, STRANGER) == [999000, 999100], "the stranger could copy nothing")
    site.wait(lambda: {100, 300} <= set(complete_of(archive, OWNER)), 240, "copies of two checkpoints in the archive")
    site.wait(lambda: any("does not count" in e.get("reason", "") for e in site.events()), 60, "a word on the stranger's checkpoints")
    kept = complete_of(checkpoints, OWNER)
    check(len(kept) >= 2, f"of the owner's checkpoints {kept} are left")
    with open(precious, encoding="utf-8") as f:
        check(f.read() == PRECIOUS, "a file of the owner's was overwritten")

    newest = kept[-1]
    for pid in site.ranks().values():
        os.kill(pid, signal.SIGKILL)
    site.wait(lambda: site.status().get("iteration", 0) > newest and complete_of(checkpoints, OWNER)[-1:] > [newest], 120,
              "a save after the restart")
    check(site.status()["iteration"] < 999000, "the run resumed from the stranger's checkpoint")


make_users()
try:
    main(what_a_stranger_puts_there_hurts_nothing, site_of=SharedSite)
finally:
    remove_users()
    sys.stdout.flush()
