"""Files of a colleague and a stranger that a program of theirs shows by FUSE as the owner's (user_allow_other). Needs root for three
users, and /dev/fuse."""
import contextlib
import os
import signal
import subprocess

from e2e._harness import check, main, skip
from e2e._users import MATE, OWNER, STRANGER, SharedSite, make_users

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_fuse.py")


@contextlib.contextmanager
def shown_as_the_owners(site, user, path, text):
    """A file of this user is at `path`; his program shows another in its place."""
    source = os.path.join(site.folder, "shown.txt")
    with open(source, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(source, 0o644)
    program = subprocess.Popen(["/usr/bin/python3", PROGRAM, path, str(site.ids(user)[0]), str(site.ids(OWNER)[0]), source],
                               stdout=subprocess.PIPE, text=True)
    try:
        check(program.stdout.readline() == "here\n", "the FUSE program did not start")
        seen = site.as_user(OWNER, "stat", "-c", "%U %a", path, ok=True).stdout.strip()
        check(seen == f"{OWNER} 644", f"the owner sees {seen}")
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=False)
        program.kill()
        program.wait()


def folder_of_all(site, name):
    path = os.path.join(site.folder, name)
    os.mkdir(path)
    os.chmod(path, 0o1777)
    return path


def write_otherwise(site, words, others):
    """RUN.yaml of this site has these words in the place of those."""
    write = site.config

    def config(command=None):
        made = write(command)
        with open(made, encoding="utf-8") as f:
            text = f.read()
        with open(made, "w", encoding="utf-8") as f:
            f.write(text.replace(words, others))
        return made
    site.config = config


def daemon_log(site):
    with open(os.path.join(site.folder, "stokerd.log"), encoding="utf-8", errors="replace") as f:
        return f.read()


def a_colleagues_configuration(site):
    """In the place of RUN.yaml: SIGHUP and `stokerd --run` leave it alone, `stoker check` names him."""
    site.start_daemon()
    folder = folder_of_all(site, "project")
    path = os.path.join(folder, site.run + ".yaml")
    os.rename(site.config(), path)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    site.stoker("run", path, "--yes")
    site.wait_iteration(5)
    mark = os.path.join(site.folder, "owned")
    evil = text.replace(f"command: [/usr/bin/python3, {site.script}]", f"command: [/bin/sh, -c, 'id > {mark}; sleep 1000']")
    check(evil != text, "the command was not found in RUN.yaml")
    os.unlink(path)
    site.as_user(MATE, "touch", path, ok=True)
    with shown_as_the_owners(site, MATE, path, evil):
        site.daemon.send_signal(signal.SIGHUP)

        def judged():
            kinds = [e["kind"] for e in site.events()]
            check("policy_changed" not in kinds, "the colleague's policy was taken")
            return any(a["kind"] == "policy_refused" and MATE in a["summary"] for a in site.status()["alerts"])
        site.wait(judged, 30, "the alert")
        said = site.stoker("check", path, ok=False).stderr
        check(f"{path}: {MATE} (by a FUSE mount) can write it, and so decides" in said, f"stoker check: {said}")
        site.kill_daemon(signal.SIGTERM)
        done = site.as_user(OWNER, os.path.join(site.bin, "stokerd"), "--state", site.state, "--run", path, "--until-end")
        check(done.returncode != 0 and MATE in done.stderr, f"stokerd --run took it: {done.stderr[-500:]}")
        site.start_daemon()
        site.stoker("restart", site.run, "--reason", "x", ok=False)
        site.wait_state("training", 60)
    check(not site.marks(), "a colleague's command ran as the owner")


def a_strangers_end_of_the_training(site):
    """In the place of the file of train.finished.file, in a folder where all may write."""
    path = os.path.join(folder_of_all(site, "flags"), "DONE")
    write_otherwise(site, "finished: exit_zero", f"finished: {{file: {path}}}")
    site.start()
    site.as_user(STRANGER, "touch", path, ok=True)
    with shown_as_the_owners(site, STRANGER, path, "x"):
        def refused():
            said = str(site.events())
            check("DONE exists: the training is finished" not in said, "the stranger's file ends the training")
            return "FUSE mount of " + STRANGER in said
        site.wait(refused, 30, "the refusal among the events")
        killed = set(site.ranks().values())
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        site.wait(lambda: killed.isdisjoint(site.ranks().values()) and site.ranks(), 60, "another start of the training")
        check(site.status()["state"] != "finished", "a training whose rank was killed is finished")
    os.unlink(path)
    site.as_user(OWNER, "touch", path, ok=True)
    site.wait(lambda: "DONE exists: the training is finished" in str(site.events()), 60, "the end by the owner's own file")


def a_colleagues_log(site):
    """One of watch.logs: it is named and not followed, because each read and the close could wait for him."""
    folder = folder_of_all(site, "logs")
    write_otherwise(site, "watch: {", f"watch: {{logs: ['{folder}/*.log'], ")
    path = os.path.join(folder, "theirs.log")
    site.as_user(MATE, "touch", path, ok=True)
    with shown_as_the_owners(site, MATE, path, "RuntimeError: CUDA error: device-side assert triggered\n" * 3):
        site.start()
        site.wait(lambda: f"FUSE mount of {MATE}" in str(site.events()) + str(site.status()) + daemon_log(site), 40, "a message about the log")
        check("device-side assert" not in str(site.events()) + str(site.status()), "the colleague's text counts")


if not os.path.exists("/dev/fuse"):
    skip("there is no /dev/fuse; it needs root and the kernel's fuse module")
make_users()
main(a_colleagues_configuration, a_strangers_end_of_the_training, a_colleagues_log, site_of=SharedSite)
