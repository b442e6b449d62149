"""What stoker and a training make stays the owner's where the site gives more away: a default ACL of the folder above decides in
the place of the umask who may read and write what is made, and a follower's command has a umask too. Needs root for three users."""
import grp
import os
import signal
import struct
import subprocess
import sys

from e2e._harness import check, main, skip
from e2e._users import GROUP, MATE, OWNER, SECRET, STRANGER, TRAINING, SharedSite, make_users, remove_users

# Entries of an ACL, in the kernel's numbers.
OWNER_ITSELF, USER_OF, GROUP_ITSELF, GROUP_OF, MASK, OTHERS = 1, 2, 4, 8, 16, 32
NONE = 0xFFFFFFFF

# As much of it as a training makes: what it loads again, and what it keeps from one start to the next.
MAKES = """
import os
os.makedirs("checkpoints/iter_1", exist_ok=True)
open("checkpoints/iter_1/model.pt", "w").close()
os.makedirs("cache/kernels", exist_ok=True)
"""
SAVES = TRAINING.replace("print(", """if i % 20 == 0:
        os.makedirs(f"checkpoints/checkpoint-{i}")
        open(f"checkpoints/checkpoint-{i}/trainer_state.json", "w").close()
    print(""")


def set_default_acl(folder, *entries):
    """Each is a kind, its permissions and a number; what is made in the folder inherits them."""
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in sorted(entries))
    try:
        os.setxattr(folder, "system.posix_acl_default", value)
    except OSError as error:
        skip(f"the file system of {folder} has no ACLs: {error}")


def writable(site, user):
    return site.as_user(user, "find", site.directory, site.state, "-writable", "-not", "-type", "l").stdout.split()


def a_default_acl_gives_nothing_away(site):
    """A project folder that lets its whole team, and one user by name, write everything that is made in it."""
    os.rmdir(site.state)
    set_default_acl(site.folder, (OWNER_ITSELF, 7, NONE), (USER_OF, 7, site.ids(STRANGER)[0]), (GROUP_ITSELF, 7, NONE),
                    (GROUP_OF, 7, grp.getgrnam(GROUP).gr_gid), (MASK, 7, NONE), (OTHERS, 5, NONE))
    with open(site.script, "w", encoding="utf-8") as f:
        f.write(MAKES + TRAINING)
    os.chmod(site.script, 0o755)
    site.start()
    check(os.path.exists(os.path.join(site.directory, "cache", "kernels")), "the training has made nothing")
    check(writable(site, MATE) == [os.path.join(site.directory, "switch")], f"a colleague can write {writable(site, MATE)}")
    check(not writable(site, STRANGER), f"a stranger can write {writable(site, STRANGER)}")
    closed = ("journal.db", "journal.db-wal", "stokerd.lock", "epoch", "pulse.log")
    check(os.path.exists(os.path.join(site.state, closed[0])), "there is no journal")
    for user in (MATE, STRANGER):
        for name in closed:
            path = os.path.join(site.state, name)
            done = site.as_user(user, "cat", path)
            check(done.returncode != 0 or not os.path.exists(path), f"{user} reads {name}" + " with a secret" * (SECRET in done.stdout))
    check(site.as_user(STRANGER, "ls", site.directory).returncode != 0, "a stranger enters the run directory")
    check(site.stoker_of(MATE, "status", site.run).returncode == 0, "a colleague cannot ask for the status")


def an_old_folder_keeps_its_readers(site):
    """A run directory that was there: who reads it goes on reading, what is made in it is no longer theirs to write."""
    os.mkdir(site.directory)
    os.chown(site.directory, *site.ids(OWNER))
    set_default_acl(site.directory, (OWNER_ITSELF, 7, NONE), (USER_OF, 7, site.ids(MATE)[0]), (GROUP_ITSELF, 5, NONE),
                    (MASK, 7, NONE), (OTHERS, 5, NONE))
    with open(site.script, "w", encoding="utf-8") as f:
        f.write(MAKES + TRAINING)
    site.start()
    made = os.path.join(site.directory, "checkpoints", "iter_1", "model.pt")
    check(site.as_user(MATE, "cat", made).returncode == 0, "a colleague cannot read what was made")
    check(writable(site, MATE) == [os.path.join(site.directory, "switch")], f"a colleague can write {writable(site, MATE)}")


def what_a_follower_makes_is_the_owners(site):
    """The command of `after:` runs in the run directory, with the umask of the site."""
    site.umask = 0o002
    with open(site.script, "w", encoding="utf-8") as f:
        f.write(SAVES)
    write = site.config

    def config(command=None):
        path = write(command)
        with open(path, "a", encoding="utf-8") as file:
            file.write("after: [{name: export, every: 20, wait: 1s, command: [/bin/sh, -c, 'mkdir -p exported && touch exported/done']}]\n")
        return path
    site.config = config
    site.start()
    site.wait(lambda: os.path.exists(os.path.join(site.directory, "exported", "done")), 60, "the command of after:")
    check(writable(site, MATE) == [os.path.join(site.directory, "switch")], f"a colleague can write {writable(site, MATE)}")


def who_writes_the_configuration_is_named(site):
    """A RUN.yaml of somebody else, or that others can write: `stoker run` says so."""
    site.start_daemon()
    path = site.config()

    def warned():
        return site.stoker("run", path, "--dry-run").stderr.partition(" can write it, and so decides")
    check(not warned()[1], f"a file of the owner alone: {warned()[0]}")
    for owner, gid, mode, who in ((OWNER, None, 0o660, ""), (OWNER, grp.getgrnam(GROUP).gr_gid, 0o660, f"group {GROUP}"),
                                  (OWNER, None, 0o606, "everybody"), (MATE, None, 0o644, MATE)):
        uid, own = site.ids(owner)
        os.chown(path, uid, own if gid is None else gid)
        os.chmod(path, mode)
        said = warned()
        check(said[0].endswith(f": {who}") if who else not said[1], f"{who} can write it, and this is said: {said}")


def put_for(site, user, path, text):
    """By a rename, as a user who may write the folder can."""
    code = "import os, sys\np = sys.argv[1]\nopen(p + '.n', 'w').write(sys.stdin.read())\nos.chmod(p + '.n', 0o664)\nos.rename(p + '.n', p)"
    site.as_user(user, "/usr/bin/python3", "-c", code, path, text=text, ok=True)


def shared_config(site):
    """RUN.yaml in the project folder of the group, and the text of one that executes a command as the owner."""
    project = os.path.join(site.folder, "project")
    os.mkdir(project)
    os.chown(project, site.ids(OWNER)[0], grp.getgrnam(GROUP).gr_gid)
    os.chmod(project, 0o2770)
    path = os.path.join(project, site.run + ".yaml")
    os.rename(site.config(), path)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    mark = os.path.join(site.folder, "owned")
    return path, text, text.replace(f"command: [/usr/bin/python3, {site.script}]", f"command: [/bin/sh, -c, 'id > {mark}; sleep 1000']")


def a_reload_takes_no_file_of_others(site):
    """A colleague puts another RUN.yaml in its place; SIGHUP and `stokerd --run` leave it alone, and an alert says so."""
    site.start_daemon()
    path, text, evil = shared_config(site)
    said = site.stoker("run", path, "--yes").stderr
    check(f"group {GROUP} can put another file in the place of {site.run}.yaml, and so decides" in said, f"no warning: {said}")
    site.wait_iteration(5)
    put_for(site, MATE, path, evil)
    site.daemon.send_signal(signal.SIGHUP)
    site.wait(lambda: any(a["kind"] == "policy_refused" and MATE in a["summary"] for a in site.status()["alerts"]), 30, "the alert")
    check(not any(e["kind"] == "policy_changed" for e in site.events()), "the colleague's policy was taken")
    site.stoker("restart", site.run, "--reason", "x", ok=False)
    site.wait_state("training", 60)
    site.kill_daemon(signal.SIGTERM)
    done = site.as_user(OWNER, os.path.join(site.bin, "stokerd"), "--state", site.state, "--run", path, "--until-end")
    site.start_daemon()
    check(not site.marks(), "a colleague's command ran as the owner")
    check(done.returncode != 0, "stokerd --run took the colleague's file")
    def owner_writes(words, what):
        os.unlink(path)
        put_for(site, OWNER, path, words)
        os.chmod(path, 0o600)
        before = sum(e["kind"] == "policy_changed" for e in site.events())
        site.daemon.send_signal(signal.SIGHUP)
        site.wait(lambda: sum(e["kind"] == "policy_changed" for e in site.events()) > before, 30, what)
        site.wait(lambda: not any(a["kind"] == "policy_refused" for a in site.status()["alerts"]), 20, "the end of the alert")
    owner_writes(text, "the owner's file, as it was before")
    owner_writes(text.replace("exit_before_limit: 4s", "exit_before_limit: 5s"), "the owner's own change")


def an_own_group_that_is_shared_is_no_own_one(site):
    """`usermod -aG alice bob`: the group of the owner's name has another member, and umask 002 lets it write."""
    subprocess.run(["usermod", "-aG", OWNER, MATE], check=True)
    try:
        site.start_daemon()
        path = site.config()
        os.chmod(path, 0o664)
        text = open(path, encoding="utf-8").read()
        said = site.stoker("run", path, "--yes").stderr
        check(f"group {OWNER} ({MATE}) can write it, and so decides" in said, f"no warning: {said}")
        site.wait_iteration(5)
        evil = text.replace(f"[/usr/bin/python3, {site.script}]", f"[/bin/sh, -c, 'id -un > {site.folder}/owned']")
        check(evil != text, "the command was not found in RUN.yaml")
        site.as_user(MATE, "/bin/sh", "-c", f"cat > {path}", text=evil, ok=True)
        site.daemon.send_signal(signal.SIGHUP)
        site.wait(lambda: any(a["kind"] == "policy_refused" and MATE in a["summary"] for a in site.status()["alerts"]), 30, "the alert")
        site.stoker("restart", site.run, "--reason", "x", ok=False)
        site.wait_state("training", 60)
        check(not any(e["kind"] == "policy_changed" for e in site.events()), "the colleague's policy was taken")
        check(not site.marks(), "a colleague's command ran as the owner")
    finally:
        subprocess.run(["gpasswd", "-d", MATE, OWNER], check=True, capture_output=True)


def what_was_confirmed_is_what_runs(site):
    """RUN.yaml is exchanged while `stoker run` waits for the answer."""
    site.start_daemon()
    path, text, evil = shared_config(site)
    site.stoker("run", path, "--yes")
    site.wait_iteration(5)
    put_for(site, OWNER, path, text.replace("exit_before_limit: 4s", "exit_before_limit: 5s"))
    master, terminal = os.openpty()
    asking = subprocess.Popen([os.path.join(site.bin, "stoker"), "--state", site.state, "run", path], **site.become(OWNER),
                              stdin=terminal, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    os.close(terminal)
    try:
        said = ""
        while "go on?" not in said:
            more = asking.stderr.read(1)
            check(more, f"stoker run did not ask: {said}")
            said += more
        put_for(site, MATE, path, evil)
        os.write(master, b"y\n")
        rest = asking.communicate(timeout=60)[1]
        check(asking.returncode == 0, f"{said}{rest}")
    finally:
        os.close(master)
        if asking.poll() is None:
            asking.kill()
            asking.wait()
    changes = [e["event"]["policy"] for e in site.events() if e["kind"] in ("run_added", "policy_changed")]
    check(changes[-1]["train"]["command"][-1] == site.script, f"not what was confirmed: {changes[-1]['train']['command']}")


def what_a_colleague_planted_is_refused(site):
    """Links in a run directory that the group could write before: their target stays the owner's alone."""
    private = os.path.join(site.folder, "private")
    for folder, mode in ((private, 0o700), (site.directory, 0o2770)):
        os.mkdir(folder)
        os.chown(folder, site.ids(OWNER)[0], grp.getgrnam(GROUP).gr_gid)
        os.chmod(folder, mode)
    site.start_daemon()
    for name in ("checkpoints", "after", "events.jsonl"):
        planted = os.path.join(site.directory, name)
        os.chmod(site.directory, 0o2770)
        site.as_user(MATE, "ln", "-s", private, planted, ok=True)
        done = site.stoker("run", site.config(), "--yes", ok=False)
        check(done.returncode != 0 and planted in done.stderr and MATE in done.stderr, f"{name}: {done.stdout}{done.stderr}")
        check(os.stat(private).st_mode & 0o777 == 0o700 and not os.listdir(private), f"{name}: the private folder was opened")
        os.unlink(planted)
    site.stoker("run", site.config(), "--yes")
    site.wait_iteration(5)


make_users()
try:
    main(a_default_acl_gives_nothing_away, an_old_folder_keeps_its_readers, what_a_follower_makes_is_the_owners,
         who_writes_the_configuration_is_named, a_reload_takes_no_file_of_others,
         an_own_group_that_is_shared_is_no_own_one, what_was_confirmed_is_what_runs,
         what_a_colleague_planted_is_refused, site_of=SharedSite)
finally:
    remove_users()
    sys.stdout.flush()
