"""Switch files by any group member: save, pause, resume, stop, kill, ack; hostile ones are refused and reported."""
import json
import os
import signal

from e2e._harness import check, main

SHAPE = dict(samples=40000, save_every=100000, hidden=64, ffn=256, sequence=64)


def drop(site, name, content=""):
    with open(os.path.join(site.directory, "switch", name), "w", encoding="utf-8") as f:
        f.write(content)


def start(site):
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, **SHAPE), "--yes")
    site.wait_iteration(10)


def save_goes_on(site):
    start(site)
    drop(site, "save", json.dumps({"by": "alice", "reason": "before the maintenance"}))
    site.wait(lambda: site.status().get("checkpoint"), 20, "a checkpoint")
    site.wait(lambda: not os.path.exists(os.path.join(site.directory, "switch", "save")), 20, "the file to be consumed")
    told = [e for e in site.events() if e["kind"] == "operator_asked" and e["event"].get("verb") == "save"]
    check(told and "alice" in json.dumps(told), "the author is not recorded")
    now = site.status()["iteration"]
    site.wait_iteration(now + 20)


def stop_saves_and_leaves(site):
    start(site)
    drop(site, "STOP")
    done = site.wait_state("stopped", 40)
    check(done["checkpoint"], "stopped without a checkpoint")
    check(not site.page_pids(), "ranks survive a stop")
    site.stoker("resume", site.run, "--reason", "go on")
    site.wait_iteration(done["iteration"] + 5, 60)
    check(site.status()["generation"] == 2, "the resumed run is no new generation")


def kill_works_on_a_hung_training(site):
    start(site)
    for pid in site.page_pids().values():
        os.kill(pid, signal.SIGSTOP)
    drop(site, "kill", "I want the nodes")
    site.wait_state("stopped", 60)
    check(not site.page_pids(), "frozen ranks survive a kill")


def hostile_files_are_refused(site):
    start(site)
    folder = os.path.join(site.directory, "switch")
    os.symlink("/etc/passwd", os.path.join(folder, "stop"))
    os.mkfifo(os.path.join(folder, "kill"))
    with open(os.path.join(folder, "restart"), "wb") as f:
        f.truncate(50 << 20)
    site.wait(lambda: len([e for e in site.events() if e["kind"] == "switch_refused"]) >= 3, 20, "three refusals")
    now = site.status()
    check(now["state"] == "training", f"a hostile switch file acted: {now['state']}")


def ack_says_who_looks_after_it(site):
    """Of a held run: its alerts are acknowledged, nothing else changes; a second file finds nothing to acknowledge."""
    site.start_daemon()
    site.stoker("run", site.write_files(os.path.join(site.folder, "data"), command="sh, -c, 'echo no luck; exit 3'",
                                        without_progress=1, restarts=1), "--yes")
    site.wait_state("held", 90)

    def alerts():
        return json.loads(site.stoker("alerts", "--json", ok=False).stdout)
    site.wait(lambda: any(not a["acknowledged"] for a in alerts()), 20, "an open alert")
    drop(site, "ack", "I look at it")
    site.wait(lambda: alerts() and all(a["acknowledged"] for a in alerts()), 20, "the acknowledgement")
    check(site.status()["state"] == "held", "an acknowledgement moved the run")
    said = [e["reason"] for e in site.events() if "acknowledged the alert" in e["reason"]]
    check(said and "(by switch file)" in said[-1] and '"I look at it"' in said[-1], f"{said}")
    check(not os.path.exists(os.path.join(site.directory, "switch", "ack")), "the file is still there")
    drop(site, "ACK")
    site.wait(lambda: any("no alert of run is open" in e["reason"] for e in site.events()), 20, "the second file")


main(ack_says_who_looks_after_it, save_goes_on, stop_saves_and_leaves, kill_works_on_a_hung_training, hostile_files_are_refused)
