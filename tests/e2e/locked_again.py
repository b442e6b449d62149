"""Who keeps the lock of a folder lets go and takes it again, or had the folder open before it was closed: the other runs are watched, and
the next daemon starts. Needs root for three users, and /dev/fuse."""
import os
import signal
import time

from e2e._harness import check, main, skip
from e2e._locked import LockedSite
from e2e._users import GROUP, MATE, OWNER, STRANGER, make_users

HOLD = "import fcntl, os, sys, time\nfcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_SH)\nprint('here', flush=True)\ntime.sleep(1000)\n"


def longest_standstill(site, run, seconds):
    """Of this run's iteration in `status`."""
    longest, seen, since = 0, None, time.monotonic()
    end = since + seconds
    while time.monotonic() < end:
        if (now := site.of(run).get("iteration")) != seen:
            seen, since = now, time.monotonic()
        longest = max(longest, time.monotonic() - since)
        time.sleep(0.5)
    return longest


def the_run_directory_again_and_again(site):
    """The first hold is waited for: a file system may pause. From then on the other run does not wait."""
    site.start_both()
    for _ in range(2):
        site.lock_by_reading(MATE, site.directory)
        before = site.log_text().count("has not answered for")
        stood = longest_standstill(site, "other", 45)
        site.let_go()
        site.wait(lambda: site.log_text().count("answers again") > 0 and not site.of("shared")["alerts"], 60, "news of the shared run")
    check(before > 0, "the first hold was not noticed")
    check(stood < 15, f"the other run stood still for {stood:.0f} s")
    seen = site.of("shared")
    site.wait(lambda: site.of("shared")["iteration"] > seen["iteration"] + 50, 40, "the shared run's training")
    check(site.of("shared")["restarts"] == 0 and site.of("shared")["generation"] == seen["generation"], str(site.of("shared")))
    with open(os.path.join(site.directory, "events.jsonl"), encoding="utf-8") as f:
        rows = [line.split('"seq":', 1)[1].split(",", 1)[0].split("}")[0] for line in f if '"seq":' in line]
    check(rows and rows == sorted(set(rows), key=int), "events.jsonl has a row twice, or out of order")


def the_page_of_the_site(site):
    """A member may read <state>/published/site.json. The daemon is restarted, and the group taken away."""
    site.start_both()
    site.lock_by_reading(MATE, os.path.join(site.state, "published", "site.json"))
    site.wait(lambda: "site: what is published" in site.log_text(), 60, "a message about it")
    before = site.daemon
    before.send_signal(signal.SIGTERM)
    time.sleep(12)  # it leaves, but for the thread that sleeps
    site.start_daemon()
    seen = site.of("other")["iteration"]
    site.wait(lambda: site.of("other")["iteration"] > seen + 100, 40, "news of the other run")
    with open(site.config(), encoding="utf-8") as f:
        text = f.read()
    path = site.config()
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace(f"group: {GROUP}\n", ""))
    site.stoker("run", path, "--yes")
    seen = site.of("other")["iteration"]
    site.wait(lambda: site.of("other")["iteration"] > seen + 100, 40, "news of the other run without the group")
    site.let_go()
    before.wait(timeout=20)
    site.wait(lambda: os.stat(os.path.join(site.state, "published")).st_mode & 0o777 == 0o700, 40, "the folder is closed to the group")


def the_state_directory_before_it_was_closed(site):
    """It was made with mode 0755; who opened it then keeps a lock on it."""
    os.chmod(site.state, 0o755)
    held = site.background(STRANGER, HOLD, site.state)
    for _ in range(2):
        site.start_daemon()
        site.kill_daemon(signal.SIGTERM)
    held.kill()
    with open(os.path.join(site.state, "kept"), "w", encoding="utf-8"):
        pass
    os.chmod(site.state, 0o755)
    site.start_daemon()
    check("was open to other users until now (mode 0755)" in site.log_text(), site.log_text()[-2000:])


if not os.path.exists("/dev/fuse"):
    skip("a root user and /dev/fuse are needed")
make_users()
main(the_run_directory_again_and_again, the_page_of_the_site, the_state_directory_before_it_was_closed, site_of=LockedSite)
