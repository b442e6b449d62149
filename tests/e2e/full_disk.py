"""A full disk while saving: older checkpoints stay good, it is told, and saving goes on when there is room again."""
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


if os.geteuid() != 0:
    skip("mounting a small disk needs root")
main(full_disk_hurts_nothing)
