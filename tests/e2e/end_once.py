"""The end of a run happens once: a finished or stopped training is not run again by the next task of its array, even while the daemon is
away. Real daemon, embedded scheduler, agents and processes."""
import concurrent.futures
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import proved
from e2e._harness import Failed, Site, check, main, on_any_disk

# Each execution leaves one line; `go` lets it end.
JOB = """
import os, signal, sys, time
with open({log!r}, "a") as f:
    f.write(f"{{os.environ['STOKER_GENERATION']}}.{{os.environ['STOKER_ATTEMPT']}} begins\\n")
if {obeys}:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
i = 0
while not os.path.exists({go!r}) and not ({switch!r} and os.path.exists({switch!r})):
    i += 1
    print(f"step={{i}} loss=1.5", flush=True)
    time.sleep(0.05)
"""
WATCH = "watch: {progress: {iteration: 'step=(\\d+)', loss: 'loss=([0-9.]+)'}}"
RUN = """\
run: {run}
directory: {directory}
scheduler: {{kind: local, nodes: 1, time_limit: 1h, array: {{tasks: 5, top_up_below: 1}}}}
train: {{command: [{python}, {script}], ranks_per_node: 1, finished: exit_zero{more}}}
{watch}
"""


def supervise(site, switch="", more="", obeys=True):
    site.began = os.path.join(site.folder, "began")
    site.go = os.path.join(site.folder, "go")
    script = os.path.join(site.folder, "train.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write(JOB.format(log=site.began, go=site.go, switch=switch, obeys=obeys))
    config = os.path.join(site.folder, "foreign.yaml")
    with open(config, "w", encoding="utf-8") as f:
        f.write(on_any_disk(RUN.format(run=site.run, directory=site.directory, python=sys.executable, script=script, watch=WATCH, more=more)))
    site.start_daemon()
    site.stoker("run", config, "--yes")
    site.wait_iteration(5)


def executions(site):
    with open(site.began, encoding="utf-8") as f:
        return f.read().split("\n")[:-1]


def open_gate(site):
    with open(site.go, "w", encoding="utf-8"):
        pass


def jobs(site):
    """The tasks of the embedded scheduler and their states."""
    return site.admin("list").stdout


def array_is_over(site):
    text = jobs(site)
    return "RUNNING" not in text and "PENDING" not in text and "COMPLETING" not in text


def mark(site, generation=1):
    path = os.path.join(site.directory, f"gen-{generation:06}", "end.json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def finished_while_the_daemon_is_away(site):
    supervise(site)
    site.kill_daemon(signal.SIGKILL)
    open_gate(site)
    site.wait(lambda: array_is_over(site), 90, "the end of all tasks")
    check(executions(site) == ["1.1 begins"], f"the finished job ran again: {executions(site)}")
    check(mark(site)["kind"] == "finished", f"the end mark says {mark(site)}")
    iteration = json.load(open(os.path.join(site.directory, "status.json")))["iteration"]
    site.start_daemon()
    done = site.wait_state("finished", 60)
    check(done["iteration"] >= iteration > 0, f"status fell back to iteration {done['iteration']} from {iteration}")
    check(executions(site) == ["1.1 begins"], f"the finished job ran again: {executions(site)}")
    check(done["restarts"] == 0, "a finished run counts a restart")
    site.audit()


def stopped_by_a_switch_while_the_daemon_is_away(site):
    supervise(site)
    site.kill_daemon(signal.SIGKILL)
    site.switch("stop", "enough")
    site.wait(lambda: mark(site), 60, "the end mark")
    os.unlink(os.path.join(site.directory, "switch", "stop"))  # nothing but the mark is left
    site.wait(lambda: array_is_over(site), 90, "the end of all tasks")
    check(executions(site) == ["1.1 begins"], f"the stopped job ran again: {executions(site)}")
    site.start_daemon()
    done = site.wait_state("stopped", 60)
    check("switch stop" in done["reason"], f"the reason does not name the switch: {done['reason']}")
    time.sleep(3)
    check(site.status()["state"] == "stopped" and len(executions(site)) == 1, "the stopped run goes on by itself")
    site.stoker("resume", site.run, "--reason", "go on")
    site.wait(lambda: len(executions(site)) == 2, 60, "the second execution after resume")
    site.audit()


def halted(site):
    with open(os.path.join(site.directory, "control.json"), encoding="utf-8") as f:
        return json.load(f).get("halt")


def stop_that_the_daemon_could_not_finish(site):
    """The word to stop is in control.json, and the daemon dies: the array's other tasks start nothing."""
    supervise(site)
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    site.wait(lambda: halted(site), 20, "the halt in control.json")
    site.kill_daemon(signal.SIGKILL)
    site.wait(lambda: array_is_over(site), 90, "the end of all tasks")
    check(executions(site) == ["1.1 begins"], f"the stopped job ran again: {executions(site)}")
    site.start_daemon()
    site.wait_state("stopped", 60)
    check(executions(site) == ["1.1 begins"], f"the stopped job ran again: {executions(site)}")
    site.stoker("resume", site.run, "--reason", "go on")
    site.wait(lambda: len(executions(site)) == 2, 60, "the second execution after resume")
    site.audit()


def a_persons_kill_switch_is_a_stop(site):
    switch = os.path.join(site.folder, "STOP_TRAINING")
    supervise(site, switch=switch, more=f", kill_switch: {switch}")
    with open(switch, "w", encoding="utf-8"):
        pass
    done = site.wait(lambda: site.status().get("state") in ("stopped", "held", "finished") and site.status(), 60, "the end")
    check(done["state"] == "stopped", f"a person's kill switch made the run {done['state']}: {done['reason']}")
    check(switch in done["reason"] and "set by" in done["reason"], f"the reason does not name it: {done['reason']}")
    check(os.path.exists(switch), "the kill switch of a person was taken away")
    check(len(executions(site)) == 1, f"it ran again: {executions(site)}")
    site.audit()


def rows(site):
    """Rows of the journal so far."""
    journal = sqlite3.connect(f"file:{os.path.join(site.state, 'journal.db')}?mode=ro", uri=True, timeout=10)
    try:
        return journal.execute("SELECT max(seq) FROM rows").fetchone()[0]
    finally:
        journal.close()


def kill(site, victim):
    if victim == "daemon":
        return site.kill_daemon(signal.SIGKILL)
    for pid in site.programs(*{"lead": ("stoker-agent", "run"), "scheduler": ("stokerd", "local-scheduler")}[victim]):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def one_end(site, how, victim, row):
    """Ends the run by `how`; kills `victim` when the journal has `row` more rows than at the first word of the end."""
    supervise(site, obeys=how != "kill")
    before = rows(site)
    if how == "finish":
        open_gate(site)
    elif how == "switch":
        site.switch("stop", "enough")
    else:
        site.stoker("stop", site.run, *(["--now"] if how == "kill" else []), "--reason", "enough")
    began = lambda: mark(site) or halted(site)  # from here on the end is a fact for everybody
    end = time.monotonic() + 60
    while not began() and time.monotonic() < end:
        time.sleep(0.005)
    first = max(before, rows(site))
    calm = time.monotonic() + 2  # there may be no further row
    while rows(site) < first + row and time.monotonic() < calm:
        time.sleep(0.002)
    at = rows(site) - before
    kill(site, victim)
    if victim != "daemon":
        site.kill_daemon(signal.SIGKILL)
    if victim == "scheduler":
        time.sleep(1)
        site.start_daemon()  # who brings the scheduler back, and dies again
        site.kill_daemon(signal.SIGKILL)
    site.wait(lambda: array_is_over(site) or len(executions(site)) > 1, 120, "the end of all tasks")
    check(len(executions(site)) == 1, f"{how}, {victim} killed {at} rows after the word: ran again: {executions(site)}")
    site.start_daemon()
    wanted = "finished" if how == "finish" else "stopped"
    site.wait_state(wanted, 60)
    check(len(executions(site)) == 1, f"{how}, {victim} killed {at} rows after the word: ran again: {executions(site)}")
    site.audit()
    print(f"   {how}: {victim} killed {at} rows after the word", flush=True)


POINTS = [(how, victim, row) for row in range(6) for how in ("finish", "stop", "kill", "switch")
          for victim in ("daemon", "lead", "scheduler")]


def end_number(number):
    """What went wrong with this end; "" = nothing. The points come by turns."""
    one = Site("run")
    try:
        one_end(one, *POINTS[number % len(POINTS)])
        return ""
    except (Failed, OSError, sqlite3.Error, subprocess.TimeoutExpired) as failure:
        return f"end {number}, {POINTS[number % len(POINTS)]}: {failure}"
    finally:
        one.close()


def ends_side_by_side(first, count, side):
    """Many ends; with STOKER_PROVED each is written down when it is over, so that a later run can go on from there."""
    wrong = []
    with concurrent.futures.ThreadPoolExecutor(side) as pool:
        for number, failure in enumerate(pool.map(end_number, range(first, first + count)), first):
            wrong += [failure] if failure else []
            if failure:
                print(failure, flush=True)
            if "STOKER_PROVED" in os.environ:
                proved.write_down(os.environ["STOKER_PROVED"], "tests/e2e/end_once.py with STOKER_LONG and STOKER_PROVED", "ends", "runs",
                                  "not exactly one execution", [(number, number, int(bool(failure)), 0)])
    check(not wrong, f"{len(wrong)} of {count} ends: {wrong[:3]}")


def killed_at_each_row_of_the_end(site):
    """A handful of points by chance: the seed is printed, STOKER_SEED repeats it. With STOKER_LONG=1 runs 1 to 1,000: from STOKER_SEED
    on, STOKER_SEQUENCES of them, STOKER_SIDE side by side."""
    if os.environ.get("STOKER_LONG"):
        return ends_side_by_side(*(int(os.environ.get(f"STOKER_{name}", usual)) for name, usual in (("SEED", 1), ("SEQUENCES", 1000), ("SIDE", 3))))
    seed = int(os.environ.get("STOKER_SEED", time.time_ns() % 1000000))
    chosen = random.Random(seed).sample(range(len(POINTS)), 4)
    print(f"seed {seed}, ends {chosen}", flush=True)
    wrong = [failure for failure in map(end_number, chosen) if failure]
    check(not wrong, "; ".join(wrong))


if __name__ == "__main__":
    main(finished_while_the_daemon_is_away, stopped_by_a_switch_while_the_daemon_is_away,
         stop_that_the_daemon_could_not_finish, a_persons_kill_switch_is_a_stop, killed_at_each_row_of_the_end)
