"""checkpoints.archive: copies in the background, a full archive disk, kill -9 in the middle of a copy; nothing that is due is deleted
before its copy was read back, and a copy carries on a run of its own."""
import json
import os
import shutil
import signal
import subprocess

from e2e._harness import check, main, run_program, skip

SHAPE = dict(samples=6000, save_every=10, hidden=64, ffn=256, sequence=64)


def archive_yaml(folder, every=50, without="false", keep=2):
    return f"checkpoints: {{keep: {{last: {keep}}}, archive: {{to: {folder}, every: {every}, without_optimizer: {without}}}}}"


def copies(folder):
    return sorted(n for n in os.listdir(folder) if n.startswith("step-"))


def saved(site):
    folder = os.path.join(site.directory, "checkpoints")
    return sorted(n for n in os.listdir(folder) if os.path.exists(os.path.join(folder, n, "manifest.json")))


def published(site):
    with open(os.path.join(site.directory, "status.json"), encoding="utf-8") as f:
        return json.load(f)


def parameters(checkpoint):
    """{tensor: bytes} of the parameters alone, put together from the shards by the manifest."""
    with open(os.path.join(checkpoint, "manifest.json"), encoding="utf-8") as f:
        manifest = json.load(f)
    found = {}
    for r in sorted(manifest["ranges"], key=lambda r: (r["tensor"], r["begin"])):
        if r["part"] != "parameter":
            continue
        with open(os.path.join(checkpoint, r["file"]), "rb") as f:
            f.seek(r["file_offset"])
            found[r["tensor"]] = found.get(r["tensor"], b"") + f.read(r["count"] * (8 if r["dtype"] == "f64" else 4))
    return found


def copies_away_and_back(site):
    """Whole copies: reported, shown, and one of them is a resume point again once it is put back."""
    store = os.path.join(site.folder, "store")
    prefix = site.prepare_data()
    site.start_daemon()
    config = site.write_files(prefix, more=archive_yaml(store), **SHAPE)
    refused = site.stoker("run", config, "--yes", ok=False)
    check(refused.returncode == 2 and "mkdir" in refused.stderr, f"an archive that is not there was taken: {refused.stderr}")
    os.makedirs(store)
    site.stoker("run", config, "--yes")
    site.wait(lambda: copies(store), 60, "a copy")
    newest = site.wait(lambda: published(site).get("archive"), 20, "the archive in the published status")
    check(newest["iteration"] % 50 == 0 and newest["path"].startswith(store), f"{newest} was copied")
    os.kill(site.rank_pid(0), signal.SIGKILL)
    done = site.wait_state("finished", 180)
    last = done["iteration"]
    due = [i for i in range(50, last + 1, 50)]
    site.wait(lambda: len(copies(store)) == len(due), 30, f"the copies of {due}")
    check([int(n[5:11]) for n in copies(store)] == due, f"copied: {copies(store)}")
    for name in copies(store):
        site.digest(os.path.join(store, name))
    gone = [n for n in copies(store) if n not in saved(site)]
    check(gone, f"no checkpoint was deleted after its copy: {saved(site)}")
    check(len([n for n in saved(site) if int(n[5:11]) % 50]) <= 3, f"kept too many: {saved(site)}")
    check(any("read back" in e["reason"] for e in site.events()), "no event reports a copy")
    shutil.copytree(os.path.join(store, gone[-1]), os.path.join(site.directory, "checkpoints", gone[-1]))
    site.digest(os.path.join(site.directory, "checkpoints", gone[-1]))
    site.audit()


def parameters_alone(site):
    """Without the optimizer: a third of the bytes, the same parameters, and refused as a resume point by its name."""
    store = os.path.join(site.folder, "store")
    os.makedirs(store)
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, more=archive_yaml(store, without="true", keep=900), **SHAPE), "--yes")
    site.wait(lambda: copies(store), 60, "a copy")
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    name = copies(store)[0]
    copy, source = os.path.join(store, name), os.path.join(site.directory, "checkpoints", name)
    check(parameters(copy) == parameters(source), "other parameters than those that were saved")
    small, whole = (sum(f["size"] for f in site.digest(c)["files"]) for c in (copy, source))
    check(0.32 < small / whole < 0.36, f"{small} of {whole} bytes")
    check(site.digest(copy)["optimizer"] is False, "inspect does not tell that the optimizer's state is missing")
    train = os.path.join(site.folder, f"{site.run}.train.yaml")
    done = run_program("stoker-train", "--config", train, ok=False, cwd=site.folder,
                       env=dict(site.env, STOKER_LOAD=copy, RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1",
                                MASTER_PORT="29517"))
    check(done.returncode == 21 and "no optimizer state" in done.stdout + done.stderr,
          f"exit {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")


def archive_alerts(site):
    """None: the status was not published."""
    status = site.status()
    return [a for a in status["alerts"] if a["kind"] == "archive_failed"] if status else None


def full_archive(site):
    """The archive's disk is full: an alert, the training goes on, what is due stays, what is not goes; then there is room."""
    disk = os.path.join(site.folder, "disk")
    os.makedirs(disk)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "stoker-test", disk], check=True)
    try:
        prefix = site.prepare_data()
        site.start_daemon()
        site.stoker("run", site.write_files(prefix, more=archive_yaml(disk, every=30), **dict(SHAPE, samples=800000)), "--yes")
        alert = site.wait(lambda: archive_alerts(site), 60, "an alert")[0]
        check("No space left" in alert["summary"], f"the alert says {alert['summary']}")
        reached = site.status()["iteration"]
        site.wait_iteration(reached + 60)
        check(not copies(disk), f"half a copy has a name: {copies(disk)}")
        kept = [int(n[5:11]) for n in saved(site)]
        check(30 in kept and 60 in kept, f"deleted before its copy: {kept}")
        check(len([s for s in kept if s % 30]) <= 3, f"what is not due was kept: {kept}")
        subprocess.run(["mount", "-o", "remount,size=900m", disk], check=True)
        site.wait(lambda: archive_alerts(site) == [], 60, "the alert to end")
        site.wait(lambda: 30 not in [int(n[5:11]) for n in saved(site)], 60, "what is copied to be deleted")
        site.digest(os.path.join(disk, copies(disk)[0]))
    finally:
        site.stoker("stop", site.run, "--now", "--reason", "test ends", ok=False)
        site.close()
        subprocess.run(["umount", "-l", disk])


def killed_while_it_copies(site):
    """kill -9 of the lead agent in the middle of a copy: no half copy has a name, the next generation ends it."""
    store = os.path.join(site.folder, "store")
    os.makedirs(store)
    prefix = site.prepare_data()
    site.start_daemon()
    shape = dict(SHAPE, samples=800000, hidden=256, ffn=1024, layers=4, save_every=20)
    site.stoker("run", site.write_files(prefix, more=archive_yaml(store, every=20), **shape), "--yes")
    site.wait(lambda: any(n.startswith("archiving.") for n in os.listdir(store)), 90, "a copy to begin")
    agents = site.programs("stoker-agent", "run")
    for pid in agents:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    for name in copies(store):
        site.digest(os.path.join(store, name))
    half = [n for n in os.listdir(store) if n.startswith("archiving.")]
    site.wait(lambda: site.status().get("generation", 0) >= 2, 120, "the next generation")
    names = [n[len(f"archiving.{site.run}."):].rsplit(".", 1)[0] for n in half]
    site.wait(lambda: all(n in copies(store) for n in names), 90, f"the end of the copies {names}")
    for name in names:
        site.digest(os.path.join(store, name))
    check(not [n for n in os.listdir(store) if n in half], f"left behind: {os.listdir(store)}")
    site.stoker("stop", site.run, "--now", "--reason", "test ends", ok=False)
    site.audit()


if os.geteuid() != 0:
    skip("mounting a small disk needs root")
main(copies_away_and_back, parameters_alone, full_archive, killed_while_it_copies)
