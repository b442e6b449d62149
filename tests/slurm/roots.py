"""Other versions of SLURM: Debian 11's (20.11) and Debian 13's (24.11), each in a root of its own made by debootstrap.

    roots.py make [VERSION...]                     makes those that are missing
    roots.py enter VERSION COMMAND [ARGUMENT...]   runs a command inside, with the repository at /stoker
    roots.py remove VERSION

The roots are kept outside the repository ($STOKER_SLURM_ROOTS, else ~/.cache/stoker/slurm-roots) and made once. What a command
needs of this host is mounted in a mount namespace of its own: the mounts end with the last process in it, and no other process
ever sees them. So nothing of the host lies below a root when it is removed; that is checked all the same.
"""
import os
import shutil
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
SUITES = {"20.11": "bullseye", "24.11": "trixie"}
PACKAGES = ["slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "python3", "procps", "zstd", "slurmdbd", "mariadb-server"]
REST = {"24.11": ["slurmrestd", "slurm-wlm-jwt-plugin"]}  # that of 20.11 is older than what stoker reads
MIRROR = "http://deb.debian.org/debian"
INSIDE = "/stoker"
# $1: the root; $2: the repository; the rest: the command. Private: no mount reaches another namespace.
ENTER = r"""
set -e
mount --make-rprivate /
mkdir -p "$1/stoker"
mount --bind "$2" "$1/stoker"
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
cp /etc/hosts /etc/hostname "$1/etc/"
root=$1
shift 2
exec chroot "$root" /bin/sh -c 'cd /stoker && exec "$@"' sh "$@"
"""


class Unavailable(Exception):
    """No such root, and none can be made here."""


def folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("STOKER_SLURM_ROOTS") or os.path.join(cache, "stoker", "slurm-roots")


def path_of(version):
    return os.path.join(folder(), SUITES[version])


def is_made(version):
    """With slurmdbd, and slurmrestd where it is wanted: a root of before is made again."""
    programs = ["slurmctld", "slurmdbd"] + ["slurmrestd"] * (version in REST)
    return all(os.path.exists(os.path.join(path_of(version), "usr/sbin", name)) for name in programs)


def why_not(version):
    """Why no root of this version can be had here; "" when it can."""
    if os.geteuid() != 0:
        return "a root of another Debian needs root"
    if not shutil.which("unshare"):
        return "not installed: unshare"
    if not is_made(version) and not shutil.which("debootstrap", path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
        return "not installed: debootstrap"
    return ""


def mounts_below(path):
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        return [line.split()[4] for line in f if (line.split()[4] + "/").startswith(path.rstrip("/") + "/")]


def remove(path):
    """Only where nothing is mounted below it, and never across a file system."""
    mounted = mounts_below(os.path.realpath(path))
    if mounted:
        raise Unavailable(f"{path} is not removed: {', '.join(mounted)} is mounted there; unmount it first")
    subprocess.run(["rm", "-rf", "--one-file-system", path], check=True)


def make(version):
    """The root of this version, made when it is missing. Half a root never has its final name."""
    reason = why_not(version)
    if reason:
        raise Unavailable(reason)
    target, new = path_of(version), path_of(version) + ".new"
    if is_made(version):
        return target
    os.makedirs(folder(), exist_ok=True)
    remove(new)
    mirror = os.environ.get("STOKER_DEBIAN_MIRROR", MIRROR)
    made = subprocess.run(["debootstrap", "--variant=minbase", "--include=" + ",".join(PACKAGES + REST.get(version, [])), SUITES[version], new,
                           mirror],
                          stdin=subprocess.DEVNULL, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"))
    if made.returncode != 0:
        remove(new)
        raise Unavailable(f"debootstrap of {SUITES[version]} failed: {made.stdout.strip().splitlines()[-1:]}")
    remove(target)
    os.rename(new, target)
    return target


def entering(version, command):
    """argv that runs `command` inside, in the repository."""
    return ["unshare", "--mount", "sh", "-c", ENTER, "sh", make(version), ROOT, *command]


def main():
    words = sys.argv[1:]
    try:
        if words[:1] == ["make"]:
            for version in words[1:] or SUITES:
                print(f"{version}: {make(version)}", flush=True)
        elif words[:1] == ["enter"] and len(words) > 2 and words[1] in SUITES:
            argv = entering(words[1], words[2:])
            os.execvp(argv[0], argv)
        elif words[:1] == ["remove"] and len(words) == 2 and words[1] in SUITES:
            remove(path_of(words[1]))
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except Unavailable as reason:
        print(f"SKIPPED: {reason}", file=sys.stderr)
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
