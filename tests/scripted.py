"""One run of a test that is a program, with a temporary folder of its own: nothing of a test outlives it, not even of one that was ended."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def mounts_in(folder):
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        places = [line.split()[4] for line in file]
    return [place for place in places if place.startswith(folder + "/")]


def processes_of(folder):
    """Those with a path in this folder in their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if (folder + "/").encode() in file.read():
                    found.append(int(pid))
        except OSError:
            continue
    return found


def clear(folder):
    """Ends what still runs there and removes it; what it could not, as sentences."""
    end = time.monotonic() + 5
    while (left := processes_of(folder)) and time.monotonic() < end:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.05)
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
