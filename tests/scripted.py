"""One run of a test that is a program, with a temporary folder of its own: nothing of a test outlives it, not even of one that was ended."""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "slurm", "cluster"))

import janitor  # noqa: E402


def mounts_in(folder):
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        places = [line.split()[4] for line in file]
    return [place for place in places if place.startswith(folder + "/")]


def janitors_of(folder):
    """Of test clusters that lie in it: they end by themselves, and remove what is outside of it, as users."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read()
            if b"janitor.py" in words and (folder + "/").encode() in words and not janitor.zombie(pid):
                found.append(int(pid))
    return found


def clear(folder):
    """Ends what still runs there and removes it; what it could not, as sentences."""
    end = time.monotonic() + 60
    while janitors_of(folder) and time.monotonic() < end:
        time.sleep(0.1)
    janitor.sweep(folder, None, {os.getpid()})
    if left := mounts_in(folder):
        return [f"{place} is still mounted, so {folder} stays" for place in left]
    shutil.rmtree(folder, ignore_errors=True)
    return []


def run_once(argv, environment, limit, cwd=None):
    """(exit code, output) of a Python program; 124: it ran into the limit in seconds. STOKER_KEEP: its folder stays."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="st-"))
    os.chmod(folder, 0o1777)  # as /tmp: tests play other users, who look there
    try:
        done = subprocess.run([sys.executable, *argv], cwd=cwd, env={**environment, "TMPDIR": folder}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit)
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, output = 124, (late.stdout or b"").decode(errors="replace")
    finally:
        left = [] if os.environ.get("STOKER_KEEP") else clear(folder)
    return code, "".join(sentence + "\n" for sentence in left) + output
