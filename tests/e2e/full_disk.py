"""A full disk while saving: older checkpoints stay good, it is reported, and saving goes on when there is room again."""
import os
import subprocess

from e2e._harness import check, main, run_program, skip

# However fast the machine: training outlasts the test, and checkpoints alone (1.5 MB each) never fill the disk.
SHAPE = dict(samples=800000, hidden=64, ffn=256, sequence=64, save_every=100, more="checkpoints: {keep: {last: 3}}")


def fill(path):
    """Takes all room there is; other writers may have taken some meanwhile."""
    try:
        with open(path, "wb") as f:
            while True:
                f.write(b"x" * 65536)
                f.flush()
    except OSError:
        held = subprocess.run(["du", "-ka", os.path.dirname(path)], capture_output=True, text=True).stdout
        check(os.path.exists(path) and os.path.getsize(path) > 1 << 20, f"the disk was full before the test filled it:\n{held}")


def full_disk_hurts_nothing(site):
    disk = os.path.join(site.folder, "disk")
    os.makedirs(disk)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "stoker-test", disk], check=True)
    try:
        site.directory = os.path.join(disk, site.run)
        prefix = site.prepare_data()
        site.start_daemon()
        site.stoker("run", site.write_files(prefix, **SHAPE), "--yes")
        site.wait(lambda: site.status().get("checkpoint"), 60, "a checkpoint")
        good = site.newest_checkpoint()
        fill(os.path.join(disk, "ballast"))
        site.wait(lambda: any("disk" in a["summary"] + a["reason"] or "space" in a["reason"] for a in site.status()["alerts"]),
                  90, "an alert about the disk")
        run_program("stoker-train", "inspect", good, "--verify", env=site.env)
        os.remove(os.path.join(disk, "ballast"))
        newest = site.newest_checkpoint()
        site.wait(lambda: site.newest_checkpoint() > newest, 120, "a checkpoint after there was room again")
    finally:
        site.stoker("stop", site.run, "--now", "--reason", "test ends", ok=False)
        site.close()
        subprocess.run(["umount", "-l", disk])


def a_full_state_disk_is_told(site):
    """No room for the journal: nothing is done, the pulse log and `status` say so, and the training runs on."""
    os.makedirs(site.state, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "stoker-test", site.state], check=True)
    try:
        prefix = site.prepare_data()
        site.start_daemon()
        site.stoker("run", site.write_files(prefix, **SHAPE), "--yes")
        site.wait_iteration(20)
        site.wait(lambda: os.path.exists(os.path.join(site.state, "pulse.log")), 30, "the room for the pulse log")
        pids = site.page_pids()
        fill(os.path.join(site.state, "ballast"))
        asked = site.wait(lambda: "cannot write its journal" in site.stoker("status", ok=False).stderr, 90, "status to say why nothing is done")
        check(asked, "status")
        now = site.status()
        check(now["stale"], f"the old state is not marked: {now}")
        site.wait(lambda: "journal_stuck" in site.status()["conditions"], 30, "the condition")
        with open(os.path.join(site.state, "pulse.log"), encoding="utf-8") as f:
            check("***ALERT nothing is done: the journal cannot be written" in f.read(), "the pulse log does not say it")
        os.remove(os.path.join(site.state, "ballast"))
        site.wait(lambda: not site.status()["stale"] and not site.status()["conditions"], 60, "the state to be fresh again")
        check(site.page_pids() == pids, "the training was touched")
    finally:
        site.stoker("stop", site.run, "--now", "--reason", "test ends", ok=False)
        site.close()
        subprocess.run(["umount", "-l", site.state])


if os.geteuid() != 0:
    skip("mounting a small disk needs root")
main(full_disk_hurts_nothing, a_full_state_disk_is_told)
