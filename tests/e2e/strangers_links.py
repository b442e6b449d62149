"""Links that a stranger or a colleague puts where stoker would follow them: as run directory, state directory, checkpoint folder,
archive or switch/; names of files aside that can be foreseen. Needs root for three users."""
import json
import os
import shutil
import signal
import subprocess
import sys

from e2e._harness import check, main
from e2e._users import MATE, OWNER, STRANGER, SharedSite, make_users, remove_users

PRECIOUS = "what the owner has in another place\n"
# In the colleague's hands: the files that a process of one of the next numbers would put aside in switch/.
TAKE_NAMES = """
import os, sys
folder, first = sys.argv[1], int(sys.argv[2])
top = int(open("/proc/sys/kernel/pid_max").read())
for number in range(first, first + 3000):
    pid = number if number < top else 300 + number - top
    os.close(os.open(f"{folder}/kill.new.{pid}.0", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
"""


def folder_of(site, name, user, mode):
    path = os.path.join(site.folder, name)
    os.mkdir(path)
    os.chmod(path, mode)
    os.chown(path, *site.ids(user))
    return path


def write_as(site, user, path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chown(path, *site.ids(user))


def run_directory_of(site, user):
    """A folder of this user that looks like the directory of the site's run."""
    x = folder_of(site, "x", user, 0o755)
    with open(os.path.join(site.directory, "status.json"), encoding="utf-8") as f:
        status = json.load(f)
    write_as(site, user, x + "/status.json", json.dumps({**status, "directory": x}))
    shutil.copy(os.path.join(site.directory, "events.jsonl"), x)
    return x


def refused(site, argv, words):
    done = site.stoker(*argv, ok=False)
    check(done.returncode != 0, f"{argv[0]} was accepted: {done.stdout}")
    check(words in done.stderr + done.stdout, f"{argv[0]}: {done.stderr}{done.stdout}")


def a_strangers_link_is_no_directory_of_ours(site):
    scratch = folder_of(site, "scratch", OWNER, 0o1777)
    private = folder_of(site, "private", OWNER, 0o700)
    write_as(site, OWNER, private + "/status.json", PRECIOUS)
    for name in ("run", "state", "checkpoints", "archive"):
        site.as_user(STRANGER, "ln", "-s", private, f"{scratch}/{name}", ok=True)
    site.start_daemon()
    usual, words = site.directory, f"symbolic link of {STRANGER}"
    site.directory = scratch + "/run"
    refused(site, ("run", site.config(), "--yes"), words)
    site.directory = usual
    for name in ("checkpoints: {directory: %s/checkpoints}", "checkpoints: {archive: {to: %s/archive, every: 1}}"):
        path = site.config()
        with open(path, "a", encoding="utf-8") as f:
            f.write(name % scratch + "\n")
        refused(site, ("run", path, "--yes"), words)
    done = site.as_user(OWNER, os.path.join(site.bin, "stokerd"), "--state", scratch + "/state", "--once")
    check(done.returncode != 0, "stokerd took a stranger's link for its state directory")
    check(words in done.stderr, f"stokerd: {done.stderr}")
    check(os.listdir(private) == ["status.json"] and oct(os.stat(private).st_mode)[-3:] == "700", f"private: {os.listdir(private)}")
    os.symlink(private, site.folder + "/own")  # the owner's own link: no other user can lead it elsewhere
    os.lchown(site.folder + "/own", *site.ids(OWNER))
    os.unlink(private + "/status.json")
    site.directory = site.folder + "/own"
    site.stoker("run", site.config(), "--yes")
    site.wait_iteration(5)
    site.use_run("second")
    site.directory = private
    refused(site, ("run", site.config(), "--yes"), "is the directory of the run shared")


def a_link_for_switch_leads_no_order_elsewhere(site):
    site.start()
    x, home = run_directory_of(site, STRANGER), folder_of(site, "home", OWNER, 0o700)
    write_as(site, OWNER, home + "/stop", PRECIOUS)
    os.mkdir(home + "/save")
    os.symlink(home, x + "/switch")
    for verb in ("save", "stop"):
        refused(site, (verb, x), "symbolic link")
    with open(home + "/stop", encoding="utf-8") as f:
        check(f.read() == PRECIOUS, "an order overwrote a file of the owner")
    check(sorted(os.listdir(home)) == ["save", "stop"], f"home: {os.listdir(home)}")
    for argv in (("rollback", x, "--to", "0"), ("rename", x, "other", "--yes")):
        refused(site, argv, "is not under the daemon of")
    os.unlink(x + "/switch")
    os.symlink(os.path.join(site.directory, "switch"), x + "/switch")
    done = site.stoker_of(MATE, "stop", x, "--reason", "the stranger's run")
    check(done.returncode != 0 and not os.listdir(os.path.join(site.directory, "switch")), f"another run was stopped: {done.stdout}")
    os.unlink(x + "/switch")
    os.mkdir(x + "/switch")
    os.chown(x + "/switch", *site.ids(MATE))
    refused(site, ("stop", x), f"belongs to {MATE}")


def names_aside_cannot_be_taken(site):
    """The daemon is silent, so that switch/ is the only way in."""
    site.start()
    site.daemon.send_signal(signal.SIGSTOP)
    try:
        with open("/proc/loadavg", encoding="ascii") as f:
            now = f.read().split()[-1]
        site.as_user(MATE, "/usr/bin/python3", "-c", TAKE_NAMES, os.path.join(site.directory, "switch"), now, ok=True)
        site.stoker("stop", site.run, "--now", "--reason", "enough")
        site.wait(lambda: not site.ranks(), 40, "the end of the ranks")
    finally:
        site.daemon.send_signal(signal.SIGCONT)


def a_colleagues_link_puts_nothing_private_into_a_bundle(site):
    """The owner makes a bundle of a colleague's run directory, and passes it on."""
    site.start()
    x, private = run_directory_of(site, MATE), folder_of(site, "private", OWNER, 0o700)
    for name in ("main.log", "a.jsonl"):
        write_as(site, OWNER, f"{private}/{name}", PRECIOUS)
    site.as_user(MATE, "mkdir", "-p", x + "/gen-000001/stacks", ok=True)
    for link in ("gen-000002", "gen-000001/stacks/zz", "orders"):
        site.as_user(MATE, "ln", "-s", private, f"{x}/{link}", ok=True)
    bundle = os.path.join(site.folder, "bundle.tar.zst")
    done = site.stoker("support", x, "-o", bundle)
    text = subprocess.run(["zstd", "-dc", bundle], capture_output=True, check=True).stdout
    check(PRECIOUS.strip().encode() not in text, "a private file is in the bundle")
    check(b"status.json" in text and f"symbolic link of {MATE}" in text.decode(errors="replace"), f"support: {done.stdout}")


make_users()
try:
    main(a_strangers_link_is_no_directory_of_ours, a_link_for_switch_leads_no_order_elsewhere, names_aside_cannot_be_taken,
         a_colleagues_link_puts_nothing_private_into_a_bundle, site_of=SharedSite)
finally:
    remove_users()
    sys.stdout.flush()
