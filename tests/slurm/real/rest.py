"""slurmrestd as the only way in: a token over loopback, a socket of one's own; a server that dies, a token that is no good."""
import json
import os
import signal

from e2e._harness import check
from slurm.cluster import Unavailable
from slurm.real._liar import LIES, Liar
from slurm.real._site import LIMIT, PROGRESS, main, with_either
from slurm.real.script import adopt, loops

BLIND = LIMIT + 60


def start_daemon(site):
    """Without slurm.conf SLURM's commands are no help."""
    site.start_daemon(env={"SLURM_CONF": os.path.join(site.folder, "no-slurm.conf")})


def restarted(site, before):
    """The ranks were restarted inside the allocation, and are past where they were."""
    def there():
        s = site.status()
        return s.get("attempt", 0) > before["attempt"] and s["state"] == "training" and s["iteration"] > before["iteration"] and s
    after = site.wait(there, LIMIT, "the ranks to be restarted")
    check(after["job"] == before["job"], f"restarted in {after['job']}, not in {before['job']}")
    return after


def count(site, kind):
    return sum(kind in json.dumps(event) for event in site.site_events())


def replace(site, token):
    with open(site.cluster.token_file, "w", encoding="utf-8") as f:
        f.write(token)


@with_either("loop", rest=True)
def rest_life(site):
    """Submitted, crashed and restarted, a node excluded, the daemon killed, paused and resumed, stopped: all over slurmrestd."""
    start_daemon(site)
    site.run_training(nodes=2, ranks_per_node=1)
    before = site.wait_training(beyond=20)
    check(len(site.submissions()) == 1, f"submissions: {site.submissions()}")
    os.kill(site.rank_pid(0), signal.SIGKILL)
    after = restarted(site, before)
    site.stoker("exclude", "n08", "--reason", "a test")
    array = site.job_id()
    site.wait(lambda: "ExcNodeList=n08" in site.cluster.run("scontrol", "show", "job", array).stdout, LIMIT, "the waiting tasks to exclude it")
    show = site.cluster.run("scontrol", "show", "job", array).stdout
    check("Requeue=1" not in show, f"a task may be requeued:\n{show}")
    known = site.status()["iteration"]
    site.kill_daemon(signal.SIGKILL)
    start_daemon(site)
    again = site.wait_training(beyond=known + 20)  # what the daemon before published is no answer
    check(again["generation"] == after["generation"] and again["job"] == after["job"], "the restarted daemon took the job for another one")
    site.stoker("pause", site.run, "--reason", "upgrade")
    site.wait(lambda: not site.waiting_jobs(), LIMIT, "nothing to wait in the queue")
    on = site.wait_training(beyond=again["iteration"] + 30)
    check(on["job"] == again["job"], "the running task was not watched to its end")
    site.stoker("resume", site.run, "--reason", "done")
    site.wait(lambda: site.waiting_jobs(), LIMIT, "the next array")
    site.wait_training(beyond=on["iteration"])
    site.stoker("stop", site.run, "--now", "--reason", "done")
    site.wait(lambda: not site.submissions(), LIMIT, "everything to be cancelled")


@with_either("-", rest=True)
def rest_finish(site):
    """A training that ends by itself: finished, and nothing is left in the queue."""
    start_daemon(site)
    tree = os.path.join(site.folder, "tree")
    config = site.write_run([site.python, site.ours("_loop.py"), tree, "--until", "300"], train="  finished: {iteration: 300}",
                            more=f"watch: {{{PROGRESS}}}")
    site.stoker("run", config, "--yes")
    site.wait_training(beyond=20)
    site.wait_state("finished", LIMIT)
    site.wait(lambda: not site.submissions(), LIMIT, "its array to leave the queue")
    arrays = {j[0] for j in site.cluster.jobs() if j[4] == site.run}
    check(len(arrays) == 1, f"finished, and submitted again: {arrays}")


@with_either("loop", rest=True)
def rest_server_dies(site):
    """slurmrestd is killed, and comes back: blind in between, and the training never notices. Then its token is no good."""
    start_daemon(site)
    site.run_training()
    before = site.wait_training(beyond=20)
    site.cluster.stop("slurmrestd")
    site.wait_event("scheduler_blind", BLIND)
    check(site.status()["state"] == "training", f"blind, the run became {site.status()['state']}")
    site.cluster.start_rest()
    site.wait_event("scheduler_sees", BLIND)
    site.wait_training(beyond=before["iteration"] + 30)
    for why, spoil in (("wrong", lambda: replace(site, "x")), ("empty", lambda: replace(site, "")),
                       ("expired", lambda: site.cluster.write_token(lifespan=3))):
        blind, sees = count(site, "scheduler_blind"), count(site, "scheduler_sees")
        spoil()
        site.wait(lambda n=blind: count(site, "scheduler_blind") > n, BLIND, f"a token that is {why} to blind")
        site.cluster.write_token()
        site.wait(lambda n=sees: count(site, "scheduler_sees") > n, BLIND, "the new token to be read")
    check("has expired at" in json.dumps(site.site_events()), "an expired token is not named")
    after = site.wait_training(beyond=before["iteration"] + 30)
    check(after["job"] == before["job"] and after["restarts"] == before["restarts"], "an absence of slurmrestd cost a restart")
    check(len(site.submissions()) == 1, f"submissions: {site.submissions()}")


@with_either("-", rest=True)
def rest_each_version(site):
    """Each version of the API in turn, alone, while the job runs: read, excluded, signalled, cancelled, submitted, and a token that ends."""
    apis = site.cluster.rest_apis()
    if len(apis) == 1:
        raise Unavailable(f"{apis[0]} is the only version here: rest_life plays it")
    start_daemon(site)
    site.cluster.offer_rest(apis[0])
    adopt(site, nodes=1, tasks=4, loop=" --saves-on-usr1", keys=("save_signal: USR1",))
    asked = os.path.join(site.folder, "tree", "asked")
    for turn, api in enumerate(apis, 1):
        if turn > 1:
            site.cluster.offer_rest(api)
        before = site.wait_training(beyond=20, generation=turn)
        doctor = site.stoker("doctor", os.path.join(site.folder, "run.yaml"), ok=False).stdout
        check(api in doctor, f"doctor does not name {api}:\n{doctor}")
        array = site.job_id()
        site.stoker("exclude", "n08", "--reason", "a test")
        site.wait(lambda a=array: "n08" in excluded_by_waiting(site, a), LIMIT, f"{api}: the waiting tasks to exclude n08")
        site.stoker("include", "n08")
        site.stoker("save", site.run)
        site.wait(lambda n=turn: os.path.exists(asked) and len(open(asked, encoding="utf-8").readlines()) == n, LIMIT, f"{api}: the signal")
        check(site.waiting_jobs(), f"{api}: nothing waits that could be cancelled")
        site.stoker("pause", site.run, "--reason", "a test")
        site.wait(lambda: not site.waiting_jobs(), LIMIT, f"{api}: nothing to wait in the queue")
        site.stoker("resume", site.run, "--reason", "a test")
        blind, sees = count(site, "scheduler_blind"), count(site, "scheduler_sees")
        site.cluster.write_token(lifespan=3)
        site.wait(lambda n=blind: count(site, "scheduler_blind") > n, BLIND, f"{api}: a token that ends to blind")
        site.cluster.write_token()
        site.wait(lambda n=sees: count(site, "scheduler_sees") > n, BLIND, f"{api}: the new token to be read")
        after = site.wait_training(beyond=site.status()["iteration"])
        check(after["job"] == before["job"] and after["restarts"] == before["restarts"], f"{api}: the running task was touched: {after}")
        for pid in loops(site, after["nodes"][0]):  # the job ends, and the next one is submitted
            os.kill(pid, signal.SIGKILL)
        site.wait_training(generation=turn + 1, beyond=after["iteration"])
    check("has expired at" in json.dumps(site.site_events()), "an expired token is not named")
    site.stoker("stop", site.run, "--now", "--reason", "done")
    site.wait(lambda: not site.submissions(), LIMIT, "everything to be cancelled")


def excluded_by_waiting(site, array):
    """The nodes that the waiting tasks exclude."""
    shown = site.cluster.run("scontrol", "show", "job", "-o", array).stdout.splitlines()
    return " ".join(word for line in shown if "JobState=PENDING" in line for word in line.split() if word.startswith("ExcNodeList="))


@with_either("loop", rest=True)
def rest_left(site):
    """A server that is gone for good: its RUN.yaml moves the run to SLURM's commands, and the dead server blinds nothing any more."""
    site.start_daemon()
    site.run_training()
    before = site.wait_training(beyond=20)
    site.cluster.stop("slurmrestd")
    site.wait_event("scheduler_blind", BLIND)
    config = os.path.join(site.folder, f"{site.run}.yaml")
    with open(config, encoding="utf-8") as f:
        text = f.read()
    with open(config, "w", encoding="utf-8") as f:
        f.write(text.replace(f", rest: {site.rest_of_run()}", ""))
    site.stoker("run", config, "--yes")
    site.wait_event("scheduler_sees")
    os.kill(site.rank_pid(0), signal.SIGKILL)
    restarted(site, before)


@with_either("loop", rest=True)
def rest_socket(site):
    """A socket that knows its caller: no token. SLURM's commands are there for what the API lacks, and name the same cluster."""
    site.cluster.start_rest_socket()
    site.rest = f"{{url: 'unix:{site.cluster.rest_socket}'}}"
    site.cluster.run("sbatch", "-H", "-o", "/dev/null", "--wrap", "true")  # 22.05 names its cluster by its jobs alone
    site.start_daemon()
    site.run_training(nodes=2, ranks_per_node=1, scheduler=", extra: ['--hint=nomultithread']")  # no field: sbatch submits
    before = site.wait_training(beyond=20)
    os.kill(site.rank_pid(0), signal.SIGKILL)
    restarted(site, before)
    site.stoker("stop", site.run, "--now", "--reason", "done")
    site.wait(lambda: not site.submissions(), LIMIT, "everything to be cancelled")


@with_either("loop", rest=True)
def rest_lies(site):
    """A server that lies about a job that trains: blind each time, nothing is cancelled, submitted or taken for ended."""
    liar = Liar(site.cluster.rest_url)
    site.rest = f"{{url: '{liar.url}', token_file: {site.cluster.token_file}}}"
    start_daemon(site)
    site.run_training()
    before = site.wait_training(beyond=20)
    for lie in LIES:
        liar.tell(lie)
        liar.wait_asked(2)
        orders = [seen for seen in liar.seen if seen[0] != "GET"]
        check(not orders, f"{lie}: {orders}")
        check(site.status()["state"] == "training", f"{lie}: the run became {site.status()['state']}")
        liar.tell("")
        liar.wait_asked(2)
    after = site.wait_training(beyond=site.status()["iteration"])
    check(after["job"] == before["job"] and after["restarts"] == before["restarts"], "a lie cost a restart")
    check(site.submissions() == [site.job_id()], f"submissions: {site.submissions()}")
    liar.close()


if __name__ == "__main__":
    main(rest_life, rest_finish, rest_server_dies, rest_each_version, rest_left, rest_socket, rest_lies)
