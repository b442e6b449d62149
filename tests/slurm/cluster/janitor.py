"""Waits until its standard input closes, then ends everything that belongs to a test cluster: its processes, its user, its
folder. It runs in a session of its own, so that it outlives a killed test.

    janitor.py FOLDER USER [--keep]
"""
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time

USERS = "/run/stoker-test-users.lock"  # held while a user is made or removed; only root writes /run


def belongs(pid, folder, uid):
    """The folder is in its environment, command line, working directory or program; or the user's process."""
    try:
        if uid is not None and os.stat(f"/proc/{pid}").st_uid == uid:
            return True
        for name in ("cmdline", "environ"):
            with open(f"/proc/{pid}/{name}", "rb") as f:
                if folder.encode() in f.read():
                    return True
        for name in ("cwd", "exe"):
            if os.readlink(f"/proc/{pid}/{name}").startswith(folder):
                return True
        return any(os.readlink(f"/proc/{pid}/fd/{fd}").startswith(folder) for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def zombie(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def sweep(folder, uid, spare):
    for _ in range(100):
        left = [p for p in map(int, filter(str.isdigit, os.listdir("/proc")))
                if p not in spare and belongs(p, folder, uid) and not zombie(p)]
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.05)
    print(f"still alive: {left}", file=sys.stderr)


def main():
    folder, user = sys.argv[1:3]
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    parent = os.getppid()
    sys.stdin.buffer.read()
    try:
        uid = pwd.getpwnam(user).pw_uid
    except KeyError:
        uid = None
    sweep(folder, uid, {os.getpid(), parent})
    if uid is not None:
        with open(USERS, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            subprocess.run(["userdel", user], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"))
    if "--keep" not in sys.argv:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
