"""Where tests and benches keep what the next call uses again: a folder that no other user can make or fill. Programs are executed
from it, so its owner and mode are checked each time; a folder of /tmp with a name that can be foreseen may be a stranger's."""
import os
import stat
import subprocess
import sys


def check_ours(path):
    """Our own folder, no link, that neither group nor others may write."""
    info = os.lstat(path)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o022:
        raise PermissionError(f"{path} is not a folder that only uid {os.getuid()} writes: it is not used; move it away")


def kept(name):
    """The folder ~/.cache/stoker/NAME, made when it is missing."""
    folder = os.path.realpath(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    check_ours(folder)
    for part in ("stoker", name):
        folder = os.path.join(folder, part)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        check_ours(folder)
    return folder


def python_with(name, packages):
    """The python of the virtual environment ~/.cache/stoker/NAME with these packages, made when it is missing; None, with a line
    that says why, where that fails."""
    folder = kept(name)
    python = os.path.join(folder, "bin", "python")
    for argv in ([sys.executable, "-m", "venv", folder], [python, "-m", "pip", "install", "-q", *packages]):
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800)
        if done.returncode:
            print(f"no virtual environment with {packages[0]}: {(done.stdout + done.stderr).strip()[-300:]}", flush=True)
            return None
    return python
