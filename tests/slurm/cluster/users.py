"""The user of a test cluster."""
import contextlib
import glob
import os
import pwd
import random


def free_user_id():
    """Drawn by chance: roots of other versions have users of their own beside the same processes, and a janitor ends those of its user."""
    used = {entry.pw_uid for entry in pwd.getpwall()}
    for path in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):
            used.add(os.stat(path).st_uid)
    return random.choice([uid for uid in range(20_000, 60_000) if uid not in used])
