"""Odd, slow, foreign and lying answers: unknown is never dead, and nothing is submitted twice."""
import os
import shutil
import time

from slurm.fake._site import LIMIT, check, main


def banners_and_a_cluster_name(site):
    """sbatch among the site's banners, with the cluster's name behind the id."""
    with site.changing() as cluster:
        cluster["sbatch_says"] = f"auks: credential forwarded\nID;{cluster['name']}\nYour project has 1200 hours left"
    site.begin()
    site.trains()
    check(site.status()["job"].startswith("1000"), site.status()["job"])
    site.stays(1, 3)


def answer_lost_then_found(site):
    """sbatch submitted and then failed in silence: the token finds the job."""
    site.bend("sbatch", after=True, out="", err="", code=1)
    site.begin()
    site.wait(lambda: len(site.jobs()) == 1, LIMIT, "the submission")
    site.straighten()
    site.trains()
    site.stays(1, 3)


def refused_in_words_that_are_known(site):
    """Each refusal is quoted with what to do, and tried again."""
    site.bend("sbatch", out="", err="sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's "
              "size and/or time limits)\n", code=1)
    site.begin()
    site.wait(lambda: any("violates accounting" in str(e) and "have the limit raised" in str(e) for e in site.events()), LIMIT, "the advice")
    site.straighten()
    site.wait_jobs(1)


def squeue_fails_lies_and_is_slow(site):
    """No answer of this kind ends, submits or cancels anything."""
    site.begin()
    site.trains()
    for how in (dict(err="slurm_load_jobs error: Unable to contact slurm controller\n", code=1), dict(out="Bienvenue sur la machine\n"), dict(out=""), dict(cut=20),
                dict(out="erreur : connexion impossible\n", code=1), dict(sleep=4)):
        site.bend("squeue", **how)
        site.trains(20)
        time.sleep(2)
        site.straighten()
        site.wait(lambda: "scheduler_blind" not in site.status().get("conditions", []), LIMIT, "a good answer")
    check(site.status()["restarts"] == 0 and site.status()["state"] == "training", f"{site.status()}")
    check(not site.calls("scancel"), f"cancelled: {site.calls('scancel')}")
    site.stays(1, 2)


def one_bad_line_among_good_ones(site):
    """A row in an unknown state makes the answer unusable; of a job that is none of ours it does not matter."""
    site.begin()
    site.trains()
    stranger = {"id": 9, "array": False, "name": "other", "comment": "", "uid": 7, "user": site.cluster()["user"], "command": "", "submitted": 1, "exclude": "",
                "tasks": {"1": {"state": "GELAUFEN", "reason": "?", "start": 0, "nodes": "", "exit": 0, "signal": 0, "restarts": 0}}}
    with site.changing() as cluster:
        cluster["jobs"].insert(0, stranger)
    site.trains(20)
    check("scheduler_blind" not in site.status()["conditions"], "a stranger's odd row made us blind")
    site.end_task("GELAUFEN")
    site.wait(lambda: "scheduler_blind" in site.status()["conditions"], LIMIT, "blindness")
    check(len(site.jobs()) == 2, "submitted while blind")


def forgotten_by_slurmctld(site):
    """Gone from squeue and denied by scontrol: proven by two denials a minute apart and the silence of its log."""
    site.begin()
    site.trains()
    with site.changing() as cluster:
        cluster["jobs"] = []
    site.stays(0, 20)  # one denial proves nothing
    site.wait_jobs(1, 200)


def id_given_to_a_stranger(site):
    """A wrapped or reused id: the stranger's job is left alone, ours is gone and not COMPLETED."""
    site.begin()
    site.trains()
    with site.changing() as cluster:
        cluster["jobs"][0].update(name="strange", comment="", user="somebody", command="/home/somebody/x.sh")
        cluster["jobs"][0]["tasks"]["1"]["state"] = "RUNNING"
    site.wait_jobs(2, 300)  # asked once a minute, believed at the third time
    check(not site.calls("scancel"), "the stranger's job was touched")
    check(site.jobs()[0]["tasks"]["1"]["state"] == "RUNNING", "the stranger's job was cancelled")


def accounts(site, *rows):
    with site.changing() as cluster:
        job = cluster["jobs"][-1]
        cluster["accounts"] = [[job["id"], state, code, job["submitted"] + later, "n01", user or cluster["user"], job["name"], comment]
                               for state, code, later, user, comment in rows]
        cluster["jobs"] = []


def sacct_proves_the_end(site):
    """slurmctld has forgotten the job, sacct has not: how it ended is known at once."""
    with site.changing() as cluster:
        cluster["accounts"] = []
    site.begin()
    site.trains()
    accounts(site, ("OUT_OF_MEMORY", "0:125", 0, "", ""))
    site.wait_jobs(1, 50)
    check(any("OUT_OF_MEMORY" in str(e) for e in site.events()), "how it ended is not reported")
    check(site.calls("sacct"), "sacct was not asked")


def sacct_lags_or_speaks_of_another(site):
    """Still RUNNING there, an older job of that id, another user's: nothing is proven by sacct; two denials must do."""
    with site.changing() as cluster:
        cluster["accounts"] = []
    site.begin()
    site.trains()
    accounts(site, ("RUNNING", "0:0", 0, "", ""), ("COMPLETED", "0:0", -100_000_000, "", ""), ("COMPLETED", "0:0", 0, "somebody", ""),
             ("FAILED", "1:0", 0, "", "another-token"))
    site.stays(0, 20)


def colleagues_job_is_in_the_way(site):
    """A live job with the run's name that is none of ours holds all submissions, with an alert, until it is gone."""
    rival = {"id": 77, "array": False, "name": "story", "comment": "", "uid": 7, "user": site.cluster()["user"], "command": "/home/x/mine.slurm", "submitted": 1,
             "exclude": "", "tasks": {"1": {"state": "RUNNING", "reason": "None", "start": 5, "nodes": "n03", "exit": 0, "signal": 0, "restarts": 0}}}
    with site.changing() as cluster:
        cluster["jobs"].append(rival)
    site.begin()
    site.wait(lambda: "rival" in site.status().get("conditions", []), LIMIT, "the condition")
    check(any(a["kind"] == "rival" for a in site.status()["alerts"]), f"no alert: {site.status()['alerts']}")
    site.stays(1, 20)
    with site.changing() as cluster:
        cluster["jobs"] = []
    site.wait_jobs(1)
    site.trains()
    check("rival" not in site.status()["conditions"], "it is still in the way")
    with site.changing() as cluster:  # and while ours trains: an alert, and nothing is cancelled
        cluster["jobs"].append(rival)
    site.wait(lambda: "rival" in site.status().get("conditions", []), LIMIT, "the condition")
    site.trains()
    check(not site.calls("scancel"), "something was cancelled")


def exclusions_never_starve(site):
    """All nodes are excluded: sbatch --test-only says so, and the job is submitted with them rather than not at all."""
    site.begin()
    site.trains()
    site.stoker("exclude", "n[01-04]", "--reason", "all of them")
    site.end_task("FAILED", exit=1)
    site.wait_jobs(2, 90)
    check(site.jobs()[-1]["exclude"] == "", f"submitted with --exclude={site.jobs()[-1]['exclude']}")
    check(any("too few nodes" in str(e) for e in site.events()), "it is not reported")


def link_programs(site):
    """The interpreter that the played commands need, and nothing of SLURM."""
    programs = os.path.join(site.folder, "programs")
    os.makedirs(programs, exist_ok=True)
    for name in ("env", "python3"):
        os.symlink(shutil.which(name), os.path.join(programs, name))
    return programs


def commands_missing_or_not_executable(site):
    """No sbatch, no rights to squeue: said in one line; nothing is lost when they are back."""
    folder = os.path.join(site.fake, "bin")
    os.chmod(os.path.join(folder, "squeue"), 0o644)
    os.rename(os.path.join(folder, "sbatch"), os.path.join(folder, "away"))
    site.env["PATH"] = folder + ":" + link_programs(site)  # SLURM's own commands, where this machine has them, take no part
    site.begin()
    site.wait(lambda: any("squeue" in str(e) or "sbatch" in str(e) for e in site.events()), LIMIT, "the complaint")
    check(not site.jobs(), "submitted by an unknown caller")
    os.chmod(os.path.join(folder, "squeue"), 0o755)
    os.rename(os.path.join(folder, "away"), os.path.join(folder, "sbatch"))
    site.wait_jobs(1)
    site.trains()


def commands_of_another_cluster(site):
    """After a change of PATH or SLURM_CONF another cluster answers, which knows none of our jobs: that is no end of them, and nothing is submitted there."""
    site.begin()
    site.trains()
    site.kill_daemon()
    with site.changing() as cluster:
        jobs = cluster["jobs"]
        cluster.update(name="other", jobs=[])
    site.start_daemon("--slurm-pace", "1")
    blind = site.wait(lambda: next((e for e in site.site_events() if "the cluster other answers, but the jobs are on fake" in e.get("reason", "")), None), LIMIT,
                      "the daemon to say why it is blind")
    check(any(a.startswith("send_alert") for a in blind["actions"]), f"no alert: {blind}")
    site.wait(lambda: "scheduler_blind" in site.status()["conditions"], LIMIT, "the condition")
    site.stays(0, 4)
    site.kill_daemon()
    with site.changing() as cluster:
        cluster.update(name="fake", jobs=jobs)
    site.start_daemon("--slurm-pace", "1")
    site.trains()
    site.stays(1, 1)


def rate_of_questions(site):
    """Everything that is asked counts: while it trains, at most one question in 30 s on average (with the pace of a real cluster)."""
    site.start_daemon("--slurm-pace", "15")
    site.begin()
    site.trains()
    began, before = time.time(), len(site.calls())
    site.trains(40)
    time.sleep(max(0, began + 60 - time.time()))
    asked = [c[1] for c in site.calls()[before:]]
    check(len(asked) <= 3, f"{len(asked)} questions in a minute: {asked}")


def end_seen_to_next_submission(site):
    """The end of a job is seen, and the next submission follows when the last lines of its logs were awaited (7 s)."""
    site.begin()
    site.trains()
    site.end_task("FAILED", exit=1)
    site.wait(lambda: any("FAILED" in str(e) for e in site.events()), LIMIT, "the end to be seen")
    seen = time.monotonic()
    site.wait_jobs(2)
    took = time.monotonic() - seen
    check(took <= 10, f"{took:.1f}s from the end seen to the next submission")
    print(f"end seen -> next submission: {took:.1f}s", flush=True)


if __name__ == "__main__":
    main(banners_and_a_cluster_name, answer_lost_then_found, refused_in_words_that_are_known, squeue_fails_lies_and_is_slow, one_bad_line_among_good_ones,
         forgotten_by_slurmctld, id_given_to_a_stranger, sacct_proves_the_end, sacct_lags_or_speaks_of_another, colleagues_job_is_in_the_way,
         exclusions_never_starve, commands_missing_or_not_executable, rate_of_questions, commands_of_another_cluster, end_seen_to_next_submission)
