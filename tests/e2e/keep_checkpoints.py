"""checkpoints.keep: old checkpoints go after a newer one is verified; multiples, pinned ones and strangers stay; what is left
still carries an exact restart."""
import os
import shutil
import signal

from e2e._harness import check, main

SHAPE = dict(samples=4000, save_every=10)
KEEP = "checkpoints: {keep: {last: 2, every: 50, pin: [30]}}"


def names(site):
    return sorted(os.listdir(os.path.join(site.directory, "checkpoints")))


def steps(site, generation=None):
    return [int(n[5:11]) for n in names(site) if n.startswith("step-") and (generation is None or n.endswith(generation))]


def old_ones_go(site):
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, more=KEEP, **SHAPE), "--yes")
    folder = os.path.join(site.directory, "checkpoints")
    pinned = os.path.join(folder, "step-000030.g000001")
    site.wait(lambda: os.path.exists(os.path.join(pinned, "manifest.json")), 60, "a checkpoint")
    stranger = os.path.join(folder, "step-000010.g000999")  # of no ancestor: a late writer's, or another's
    shutil.copytree(pinned, stranger)
    site.wait(lambda: 10 not in steps(site, "g000001"), 30, "step 10 to be deleted")
    site.wait_iteration(70)
    os.kill(site.rank_pid(0), signal.SIGKILL)
    done = site.wait_state("finished", 120)
    check(done["restarts"] == 1, f"{done['restarts']} restarts instead of 1")
    last = done["checkpoint"]["iteration"]
    newest = sorted(steps(site))[-1]
    check(newest == last, f"the newest is {newest}, not {last}")
    kept = site.wait(lambda: (lambda s: len([x for x in s if x % 50 and x != 30]) <= 2 and s)(steps(site, "g000001")), 20,
                     "the old ones to go")
    check(30 in kept and all(s in kept for s in range(50, last + 1, 50)), f"pinned or regular ones are gone: {kept}")
    check(os.path.exists(os.path.join(stranger, "manifest.json")), "a stranger's directory was deleted")
    check(not [n for n in names(site) if n.startswith("pruned.")], f"half-deleted ones are left: {names(site)}")
    site.digest(os.path.join(folder, f"step-{last:06}.g000001"))
    told = [e for e in site.events() if "were deleted" in e["reason"]]
    check(told, "no event reports a deletion")
    refused = site.stoker("rollback", site.run, "--to", "20", "--reason", "spike", ok=False)
    check(refused.returncode != 0, "a rollback to a deleted checkpoint was taken")
    site.audit()


main(old_ones_go)
