"""A folder whose lock another user keeps in the kernel, so that each look into it sleeps: the rest of that run and all others go on,
and where nothing of a run can be read, its training is left alone.
Needs root for three users, and /dev/fuse."""
import os
import subprocess
import time

from e2e._harness import check, main, skip
from e2e._locked import LockedSite
from e2e._users import MATE, OWNER, STRANGER, make_users


def goes_on(site, what):
    """Both runs are read on while the folder is locked; no job of theirs ends; then it is read again."""
    site.wait(lambda: what in site.log_text() and "passed over until it answers" in site.log_text(), 40, "a message about the folder")
    seen = {run: site.of(run) for run in ("shared", "other")}
    for run, before in seen.items():
        site.wait(lambda run=run, before=before: site.of(run)["iteration"] > before["iteration"] + 100, 40,
                  f"news of {run} while the folder is locked")
    site.wait(lambda: any("passed over until it answers" in (e["reason"] or "") for e in site.events()), 10, "an event of shared that names it")
    site.wait(lambda: any(a["kind"] == "folder_silent" and what in a["summary"] for a in site.of("shared")["alerts"]), 20, "an alert")
    site.stoker("stop", "other", "--now", "--reason", "its orders count")
    site.wait(lambda: site.of("other")["state"] == "stopped", 40, "the stop of the other run")
    site.let_go()
    site.wait(lambda: "answers again" in site.log_text(), 40, "the folder's answer")
    site.wait(lambda: not any(a["kind"] == "folder_silent" for a in site.of("shared")["alerts"]), 20, "the end of the alert")
    after = site.of("shared")
    check(after["state"] == "training" and after["generation"] == seen["shared"]["generation"] and after["restarts"] == 0, str(after))


def a_colleague_locks_the_switch_folder(site):
    site.start_both()
    site.lock(MATE, os.path.join(site.directory, "switch"))
    goes_on(site, "the switch folder")
    site.as_user(MATE, "touch", os.path.join(site.directory, "switch", "kill"), ok=True)
    site.wait_state("stopped", 40)


def an_order_without_a_daemon(site):
    """The daemon is away, and the switch folder is locked: the command says so instead of waiting."""
    site.start_both()
    site.lock(MATE, os.path.join(site.directory, "switch"))
    site.kill_daemon()
    began = time.monotonic()
    done = site.stoker("stop", "shared", "--reason", "enough", ok=False)
    check(done.returncode == 1 and "switch: cannot write a switch file: no answer for 10s" in done.stderr, done.stdout + done.stderr)
    check(time.monotonic() - began < 60, f"it took {time.monotonic() - began:.0f} s")
    site.let_go()


def a_stranger_locks_a_folder_of_logs(site):
    logs = os.path.join(site.folder, "logs")
    os.mkdir(logs)
    os.chmod(logs, 0o1777)
    site.start_both(logs)
    site.lock(STRANGER, logs)
    goes_on(site, "a log of watch.logs")


def a_colleague_reads_the_run_directory(site):
    """The run itself is unread, and left alone; the other run goes on; then all that happened is published. The long form lasts
    beyond the three minutes after which silent agents end a job."""
    site.start_both()
    before = site.of("shared")
    site.lock_by_reading(MATE, site.directory)
    site.wait(lambda: any(a["kind"] == "folder_silent" and a["severity"] == "critical" for a in site.of("shared")["alerts"]), 90,
              "an alert that the run directory does not answer")
    time.sleep(200 if os.environ.get("STOKER_LONG") else 0)
    seen = site.of("other")["iteration"]
    site.wait(lambda: site.of("other")["iteration"] > seen + 100, 40, "news of the other run")
    site.stoker("stop", "other", "--now", "--reason", "its orders count")
    site.wait(lambda: site.of("other")["state"] == "stopped", 40, "the stop of the other run")
    site.let_go()
    site.wait(lambda: not site.of("shared")["alerts"] and site.of("shared")["iteration"] > before["iteration"] + 100, 60, "news of the run")
    after = site.of("shared")
    check(after["state"] == "training" and after["generation"] == before["generation"] and after["restarts"] == 0, str(after))
    site.wait(lambda: {"answers again", "left alone"} <= {w for e in site.events() for w in ("answers again", "left alone")
                                                         if w in (e["reason"] or "")}, 20, "the events of that time")


def a_colleague_reads_what_is_published(site):
    """events.jsonl: only what is published of the run waits; the training is watched. The folder of the site cannot be opened."""
    site.start_both()
    refused = site.as_user(MATE, "ls", os.path.join(site.state, "published"))
    check(refused.returncode != 0 and "Permission denied" in refused.stderr, refused.stdout + refused.stderr)
    before = site.of("shared")
    site.lock_by_reading(MATE, os.path.join(site.directory, "events.jsonl"))
    what = "what is published (status.json, events.jsonl)"
    site.wait(lambda: what + ": no answer" in site.log_text(), 60, "a message about it")
    site.stoker("restart", "shared", "--reason", "it is watched")
    site.wait(lambda: "attempt 2 of generation 1 started" in site.log_text(), 40, "the restart")
    site.let_go()
    site.wait(lambda: what + " answers again" in site.log_text(), 40, "the answer")
    site.wait(lambda: any("attempt 2 of generation 1 started" in (e["reason"] or "") for e in site.events()), 20, "the events of that time")
    check(site.of("shared")["generation"] == before["generation"], str(site.of("shared")))


def a_killed_daemon_sleeps_on(site):
    """A thread of the killed daemon sleeps in the kernel, so the daemon's files stay open and its lock stays held: the next one works."""
    site.start_both()
    site.lock_by_reading(MATE, site.directory)
    site.wait(lambda: "has not answered for" in site.log_text(), 60, "a message about the run directory")
    killed = site.daemon
    killed.kill()
    time.sleep(1)
    check(killed.poll() is None, "the killed daemon has ended: no thread of it slept")
    seen = site.of("other")["iteration"]
    began = time.monotonic()
    done = site.stoker("save", "other", "--reason", "who listens is dead", ok=False)
    check(time.monotonic() - began < 3, f"the client waited {time.monotonic() - began:.0f} s for a dead daemon: {done.stdout + done.stderr}")
    site.start_daemon()
    check("there is no page" not in site.log_text(), "the page's socket counts as taken")
    site.wait(lambda: site.of("other")["iteration"] > seen + 100, 40, "news of the other run")
    second = subprocess.run([os.path.join(site.bin, "stokerd"), "--state", site.state], **site.become(OWNER), stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=40)
    check(second.returncode != 0 and f"pid {site.daemon.pid} on" in second.stderr, second.stdout + second.stderr)
    site.let_go()
    killed.wait(timeout=20)
    site.wait(lambda: site.of("shared").get("iteration", 0) > seen, 60, "news of the shared run")
    after = site.of("shared")
    check(after["state"] == "training" and after["restarts"] == 0, str(after))


if not os.path.exists("/dev/fuse"):
    skip("a root user and /dev/fuse are needed")
make_users()
main(a_colleague_locks_the_switch_folder, an_order_without_a_daemon, a_stranger_locks_a_folder_of_logs, a_colleague_reads_the_run_directory,
     a_colleague_reads_what_is_published, a_killed_daemon_sleeps_on, site_of=LockedSite)
