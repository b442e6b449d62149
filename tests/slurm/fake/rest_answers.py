"""The lies of answers.py over HTTP: a slurmrestd whose answers are late, torn, foreign or wrong. Unknown is never dead, and nothing is
submitted twice."""
import os
import time

from slurm.fake._rest import UNKNOWN, PlayedRest
from slurm.fake._site import LIMIT, check, main

EMPTY = '{"meta": {"slurm": {"cluster": "fake"}}, "errors": [], "jobs": []}'
ERROR = EMPTY.replace('"errors": []', '"errors": [{"error": "Unspecified error", "error_number": -1}]')


def begin(site, **options):
    """A run over HTTP alone: without slurm.conf SLURM's commands are no help."""
    site.rest = PlayedRest(site)
    site.env["SLURM_CONF"] = os.path.join(site.folder, "no-slurm.conf")
    site.begin(scheduler=site.rest.way, pace="0.2", **options)


def blind(site):
    return "scheduler_blind" in site.status().get("conditions", [])


def orders(site):
    return [c for c in site.calls() if c[1] in ("POST", "DELETE")]


def questions_that_fail_or_lie(site):
    """HTTP errors, half answers, errors beside an empty list, redirects, refusals, pages: blind each time, and nothing else."""
    begin(site)
    site.trains()
    before = len(orders(site))
    for how in (dict(status=500, body=EMPTY), dict(status=503, body="upstream"), dict(body=ERROR), dict(cut=40), dict(body=EMPTY[:50]),
                dict(body="<html>Welcome</html>"), dict(body='{"errors": []}'), dict(body=""), dict(status=302, body="", headers={"Location": "/elsewhere"}),
                dict(status=401, body="Authentication failure"), dict(status=404, body="Unable find requested URL."), dict(silent=True),
                dict(body=EMPTY.replace('"fake"', '"other"'))):
        site.bend("GET jobs", **how)
        site.wait(lambda: blind(site), LIMIT, f"{how} to blind")
        site.trains(10)
        site.straighten()
        site.wait(lambda: not blind(site), LIMIT, f"a good answer after {how}")
    check(site.status()["restarts"] == 0 and site.status()["state"] == "training", f"{site.status()}")
    check(len(orders(site)) == before, f"ordered: {orders(site)[before:]}")
    site.stays(1, 2)


def answers_that_are_slow(site):
    """A server that takes its time is asked less often, and believed."""
    begin(site)
    site.trains()
    site.bend("GET jobs", sleep=4)
    site.trains(20)
    check(not blind(site), "a slow answer is an answer")
    site.stays(1, 2)


def submission_answered_by_nothing(site):
    """slurmrestd submitted, and its answer was lost: the token finds the job."""
    site.bend("POST job/submit", after=True, silent=True)
    begin(site)
    site.wait(lambda: len(site.jobs()) == 1, LIMIT, "the submission")
    site.straighten()
    site.trains()
    site.stays(1, 3)


def submission_beside_an_error(site):
    """An error about a field, and a job all the same (v0.0.42): found by its token, never submitted again."""
    site.bend("POST job/submit", after=True, status=500, body='{"job_id": 1000, "errors": [{"error": "Unknown flag", "error_number": 9207}]}')
    begin(site)
    site.wait(lambda: len(site.jobs()) == 1, LIMIT, "the submission")
    site.straighten()
    site.trains()
    site.stays(1, 3)


def refused_in_words_that_are_known(site):
    """A refusal is quoted with what to do, and tried again."""
    site.bend("POST job/submit", status=500, body='{"errors": [{"error": "Job violates accounting/QOS policy (job submit limit, user\'s size and/or time limits)"}]}')
    begin(site)
    site.wait(lambda: any("violates accounting" in str(e) and "have the limit raised" in str(e) for e in site.events()), LIMIT, "the advice")
    site.straighten()
    site.wait_jobs(1)


def token_that_ends(site):
    """The end of the token is named; the next one in the file is read without a restart. So is one that the server does not know."""
    begin(site)
    site.trains()
    site.rest.write_token(lifespan=-5, right=False)
    site.wait(lambda: blind(site), LIMIT, "the token's end to blind")
    site.wait(lambda: any("has expired at" in str(e) for e in site.site_events()), LIMIT, "the token's end to be named")
    site.rest.write_token()
    site.wait(lambda: not blind(site), LIMIT, "the new token to be read")
    site.rest.write_token(right=False)
    site.wait(lambda: blind(site), LIMIT, "a foreign token to blind")
    site.wait(lambda: any("refuses the token" in str(e) for e in site.site_events()), LIMIT, "the refusal to be named")
    site.rest.write_token()
    site.trains()
    site.stays(1, 2)


def forgotten_by_slurmctld(site):
    """Gone from the list and denied by its id: proven by two denials a minute apart and the silence of its log."""
    begin(site)
    site.trains()
    with site.changing() as cluster:
        cluster["jobs"] = []
    site.stays(0, 20)  # one denial proves nothing
    check(any(c[2][0].startswith("job/1000") for c in site.calls("GET")), "the id was not asked for")
    site.wait_jobs(1, 200)


def denied_by_another_cluster(site):
    """"Invalid job id" beside another cluster's name proves nothing, however often."""
    begin(site)
    site.trains()
    foreign = '{"meta": {"slurm": {"cluster": "other"}}, "jobs": [], "errors": [%s]}' % str(UNKNOWN).replace("'", '"')
    with site.changing() as cluster:
        cluster["jobs"] = []
        cluster["bend"]["GET job/1000"] = dict(status=404, body=foreign)
    site.stays(0, 110)  # an honest denial is believed after 70 s
    check(len([c for c in site.calls("GET") if c[2] == ["job/1000"]]) >= 2, "the id was not asked for twice")


def id_given_to_a_stranger(site):
    """A reused id: no order goes to the stranger's job."""
    begin(site)
    site.trains()
    before = len(site.calls("DELETE"))
    with site.changing() as cluster:
        cluster["jobs"][0].update(name="strange", comment="", user="somebody", command="/home/somebody/x.sh")
    site.wait_jobs(2, 300)
    check(len(site.calls("DELETE")) == before, "the stranger's job was touched")
    check(site.jobs()[0]["tasks"]["1"]["state"] == "RUNNING", "the stranger's job was cancelled")


def exclusions_come_and_go(site):
    """Sent again after a failure; the last one is taken away again too."""
    begin(site, tasks=3)
    site.trains()
    site.bend("POST job/1000", status=404, body="Unable find requested URL.")
    site.stoker("exclude", "n04", "--reason", "a test")
    site.wait(lambda: any("set_exclusions failed" in str(e) for e in site.events() + site.site_events()), LIMIT, "the failure to be named")
    check(site.jobs()[0]["exclude"] == "", f"excluded: {site.jobs()[0]['exclude']}")
    site.straighten()
    site.wait(lambda: site.jobs()[0]["exclude"] == "n04", LIMIT, "the exclusion to be sent again")
    site.stoker("include", "n04")
    site.wait(lambda: site.jobs()[0]["exclude"] == "", LIMIT, "the exclusion to be taken away")


def cancelled_without_an_answer(site):
    """A cancellation whose answers are lost is given again until its job is seen to be over."""
    begin(site, tasks=3)
    site.trains()
    site.bend("DELETE", silent=True)
    site.stoker("stop", site.run, "--now", "--reason", "a test")
    site.wait(lambda: len(site.calls("DELETE")) >= 2, LIMIT, "the cancellation to be repeated")
    check(site.jobs()[0]["tasks"]["1"]["state"] == "RUNNING", "cancelled without an order")
    site.straighten()
    site.wait(lambda: not [t for t in site.jobs()[0]["tasks"].values() if t["state"] in ("RUNNING", "PENDING")], LIMIT, "the job to be cancelled")
    time.sleep(2)
    check(len(site.jobs()) == 1, "submitted again")


if __name__ == "__main__":
    main(questions_that_fail_or_lie, answers_that_are_slow, submission_answered_by_nothing, submission_beside_an_error, refused_in_words_that_are_known,
         token_that_ends, forgotten_by_slurmctld, denied_by_another_cluster, id_given_to_a_stranger, exclusions_come_and_go,
         cancelled_without_an_answer)
