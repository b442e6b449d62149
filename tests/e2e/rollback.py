"""`stoker rollback RUN --to ITERATION`: the checkpoint of that iteration becomes the next start; the orders carry the rest."""
import glob
import json
import os
import re

from e2e._harness import check, main

SHAPE = dict(samples=60000, hidden=64, ffn=256, sequence=64, save_every=20)


def newest_orders(site):
    with open(sorted(glob.glob(os.path.join(site.directory, "orders", "*.json")))[-1], encoding="utf-8") as f:
        return json.load(f)


def logs(site):
    """The merged logs of all generations, oldest first."""
    paths = sorted(glob.glob(os.path.join(site.directory, "gen-*", "main.log")))
    return "".join(open(p, encoding="utf-8", errors="replace").read() for p in paths)


def audited(site):
    """The checkpoints that were resumed from, in order."""
    return re.findall(r"resume audit: (step-\d+\.g\d+)", logs(site))


def back_to_an_iteration(site):
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, **SHAPE), "--yes")
    site.wait_iteration(90)
    wrong = site.stoker("rollback", site.run, "--to", "41", "--reason", "no such checkpoint", ok=False)
    check(wrong.returncode == 1 and "41" in wrong.stderr and len(wrong.stderr.splitlines()) == 1,
          f"a rollback to nothing: {wrong.returncode} {wrong.stderr}")
    before = site.status()
    dry = site.stoker("rollback", site.run, "--to", "40", "--dry-run", "--reason", "look")
    check("40" in dry.stdout + dry.stderr, f"--dry-run: {dry.stdout}{dry.stderr}")
    check(site.status()["generation"] == before["generation"], "--dry-run acted")
    site.stoker("rollback", site.run, "--to", "40", "--lr-scale", "0.5", "--skip-samples", "64", "--reason", "loss spike")
    site.wait(lambda: site.status().get("state") == "training" and
              any("from the checkpoint of 40" in e["reason"] or "resuming at iteration 40" in e["reason"]
                  for e in site.events()), 60, "a start from iteration 40")
    told = json.dumps([e for e in site.events() if e["kind"] == "operator_asked"])
    check("loss spike" in told and '"40"' in told, f"the journal does not say who asked for what: {told[-600:]}")
    site.wait(lambda: logs(site).count("iteration       42/") == 2, 60, "iteration 42 once more")
    text = logs(site)
    again = text[text.rindex("resume audit: step-000040"):]
    check("skipping 64 samples of data" in again, f"the data window was not skipped:\n{again[:2000]}")
    rates = [float(line.split("learning rate:")[1].split("|")[0]) for line in text.splitlines() if "iteration       41/" in line]
    check(len(rates) == 2 and abs(rates[1] / rates[0] - 0.5) < 0.01, f"learning rates of iteration 41: {rates}")
    site.wait_iteration(60)
    site.stoker("stop", site.run, "--reason", "enough")
    done, audits = site.wait_state("stopped", 60), audited(site)
    # Neither checkpoint of the lost future is taken again.
    site.stoker("resume", site.run, "--reason", "go on")
    site.wait(lambda: audited(site) != audits, 60, "training again")
    stopped_at = done["checkpoint"]["iteration"]  # 80 where a fast machine came that far once more
    check(audited(site)[-1].startswith(f"step-{stopped_at:06}."), f"resumed from {audited(site)}, stopped at {done['checkpoint']}")
    site.audit()


def falls_back_behind_the_rollback(site):
    """All that was saved since a rollback is damaged: the start behind it leaves the same data out again."""
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, **SHAPE), "--yes")
    site.wait_iteration(50)
    site.stoker("rollback", site.run, "--to", "40", "--skip-samples", "64", "--reason", "loss spike")
    site.wait(lambda: "skipping 64 samples of data" in logs(site), 60, "the start without the data window")
    site.wait(lambda: glob.glob(os.path.join(site.directory, "checkpoints", "step-*.g000002", "manifest.json")), 60,
              "a checkpoint behind the rollback")
    site.stoker("pause", site.run, "--reason", "look")
    site.stoker("stop", site.run, "--now", "--reason", "damage")
    site.wait_state("stopped", 60)
    for path in glob.glob(os.path.join(site.directory, "checkpoints", "step-*")):
        step, generation = os.path.basename(path)[5:].split(".g")
        if int(step) > 40 and int(generation) > 1:
            with open(next(p for p in glob.glob(path + "/*") if not p.endswith("manifest.json")), "r+b") as f:
                f.write(b"damaged")
    site.stoker("resume", site.run, "--reason", "go on")
    site.wait(lambda: logs(site).count("resume audit: step-000040") == 2, 60, "a start from the checkpoint of 40 once more")
    site.wait(lambda: logs(site).count("skipping 64 samples of data") == 2, 60, "the data window left out once more")
    site.wait(lambda: site.status().get("state") == "training", 60, "training")
    site.audit()


main(back_to_an_iteration, falls_back_behind_the_rollback)
