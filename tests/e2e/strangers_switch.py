"""The daemon is away, and a colleague does all that a member of the group may do in switch/: the owner's order by file is obeyed by
the agents in time nevertheless. Needs root for three users."""
import grp
import os
import signal
import sys

from e2e._harness import main
from e2e._users import GROUP, MATE, OWNER, SharedSite, make_users

TOUCH = """
import os, sys, time
print("here", flush=True)
while True:
    for path in sys.argv[1:]:
        try:
            open(path, "a").close()
            os.utime(path)
        except OSError:
            pass
    time.sleep(0.3)
"""


def silent(site):
    site.start()
    site.kill_daemon(signal.SIGKILL)
    return os.path.join(site.directory, "switch")


def gone(site):
    site.wait(lambda: not site.ranks(), 30, "the end of the ranks")


def a_colleagues_kill_delays_no_kill_of_the_owner(site):
    folder = silent(site)
    site.background(MATE, TOUCH, f"{folder}/KILL", f"{folder}/Kill")
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    gone(site)


def a_touched_stop_of_the_owner_counts(site):
    """A file that the owner made by hand, with an umask that lets the group write it: a colleague touches it all the time."""
    folder = silent(site)
    path = f"{folder}/stop"
    with open(path, "w", encoding="utf-8"):
        os.chown(path, site.ids(OWNER)[0], grp.getgrnam(GROUP).gr_gid)
        os.chmod(path, 0o664)
    site.background(MATE, TOUCH, path, f"{folder}/STOP")
    gone(site)


make_users()
main(a_colleagues_kill_delays_no_kill_of_the_owner, a_touched_stop_of_the_owner_counts, site_of=SharedSite)
