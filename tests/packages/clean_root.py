"""The Debian packages in roots that hold nothing else: installed, used by an ordinary user, upgraded over a running daemon, removed.

    clean_root.py BUILD-FOLDER [SUITE...]        packages that debian.py or ./dev build --packages has made

A package belongs to the Debian release whose libraries it was built with; on another one apt has to refuse it and change nothing.
The empty roots are kept where those of tests/slurm/roots.py are; each test works on a copy, in namespaces of its own, so that its
mounts and processes end with it.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "slurm"))
import roots

SUITES = ["bookworm", "trixie"]
ENTER = r"""
set -e
mount --make-rprivate /
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
cp -L /etc/hosts /etc/resolv.conf "$1/etc/"
exec chroot "$1" /bin/sh -c "$2"
"""
COMMON = r"""
set -e
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
apt-get -q update
done_with() { echo "DONE $*"; }
"""
LIFE = COMMON + r"""
dpkg -l > /root/before
apt-get -qy --no-install-recommends install /packages/old/stoker_*.deb
stoker --version
done_with "installed, with what it depends on"
apt-get -qs install /packages/old/stoker-train_*.deb | grep -q '^Inst stoker-train '
done_with "stoker-train could be installed"
useradd -m trainer
as() { setpriv --reuid=trainer --regid=trainer --clear-groups env HOME=/home/trainer sh -c "cd; $1"; }
as 'stoker self-test' | grep -q 'all of it works here'
done_with "self-test of an ordinary user"
mkdir /home/trainer/first
cat > /home/trainer/first/train.sh <<'S'
i=0
while [ $i -lt 3000 ]; do i=$((i+1)); echo " iteration $i/ 3000 | lm loss: 2.$i |"; sleep 0.1; done
S
cat > /home/trainer/first/run.yaml <<'S'
run: first
scheduler: {kind: local, nodes: 1}
train: {command: [/bin/sh, /home/trainer/first/train.sh], ranks_per_node: 1}
S
chown -R trainer: /home/trainer/first
as 'setsid stokerd > stokerd.log 2>&1 & echo $! > pid'
iteration() { as 'stoker status first --json' | sed -n 's/.*"iteration": *\([0-9]*\).*/\1/p' | head -n 1; }
until_over() {
  n=0
  while now=$(iteration || true); [ "${now:-0}" -le "$1" ]; do
    n=$((n+1)); [ $n -lt 300 ] || { as 'stoker status; tail stokerd.log'; exit 1; }
    sleep 0.2
  done
}
n=0
until as 'stoker run first/run.yaml --yes'; do n=$((n+1)); [ $n -lt 50 ]; sleep 0.2; done
until_over 5
daemon=$(as 'cat pid')
apt-get -qy install /packages/new/stoker_*.deb
[ "$(dpkg-query -W -f '${Version}' stoker)" = "$(dpkg-deb -f /packages/new/stoker_*.deb Version)" ]
kill -0 "$daemon"
until_over "$(($(iteration) + 5))"
done_with "upgraded over a running daemon, the training goes on"
before=$(iteration)
kill "$daemon"
n=0
while kill -0 "$daemon" 2>/dev/null; do n=$((n+1)); [ $n -lt 200 ]; sleep 0.1; done
as 'setsid stokerd > stokerd.log 2>&1 & echo $! > pid'
until_over "$((before + 5))"
[ "$(as 'stoker status first --json' | grep -o '"generation": *[0-9]*' | grep -o '[0-9]*$' | head -n 1)" = 1 ]
done_with "the upgraded daemon takes the run up again in the same generation"
as 'stoker stop first --now --reason done' || true
kill "$(as 'cat pid')"
apt-get -qy purge stoker
[ -z "$(find / -xdev \( -name 'stoker*' -o -name '_stoker' \) -not -path '/packages/*' -not -path '/home/*' -not -path '/tmp/*' -not -path '/var/log/*' -not -path '/var/cache/*')" ]
[ -e /home/trainer/.local/state/stoker ]
done_with "removed, and the user's runs stay"
"""
FOREIGN = COMMON + r"""
dpkg-query -W > /root/before
! apt-get -qy --no-install-recommends install /packages/old/stoker_*.deb > /root/said 2>&1
grep -q 'stoker : Depends: ' /root/said
dpkg-query -W | cmp - /root/before
done_with "a package of another release is refused and changes nothing"
"""


def base(suite):
    """An empty root of this suite, made when it is missing."""
    target, new = (os.path.join(roots.folder(), f"clean-{suite}{end}") for end in ("", ".new"))
    if os.path.exists(target):
        return target
    if not shutil.which("debootstrap", path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
        raise roots.Unavailable("a root of its own needs debootstrap")
    os.makedirs(roots.folder(), exist_ok=True)
    roots.remove(new)
    made = subprocess.run(["debootstrap", "--variant=minbase", suite, new, os.environ.get("STOKER_DEBIAN_MIRROR", roots.MIRROR)],
                          stdin=subprocess.DEVNULL, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"))
    if made.returncode != 0:
        raise roots.Unavailable(f"debootstrap made no root of {suite}: {made.stdout.strip().splitlines()[-1:]}")
    os.rename(new, target)
    return target


def newer(package, folder):
    """The same files as the next version: what an upgrade does to a running daemon does not depend on what is new in it."""
    inside = os.path.join(folder, "files")
    subprocess.run(["dpkg-deb", "-R", package, inside], check=True)
    control = os.path.join(inside, "DEBIAN", "control")
    with open(control, encoding="utf-8") as file:
        text = file.read()
    version = next(line.split()[1] for line in text.splitlines() if line.startswith("Version:"))
    with open(control, "w", encoding="utf-8") as file:
        file.write(text.replace(f"Version: {version}\n", f"Version: {version}+next\n"))
    target = os.path.join(folder, f"stoker_{version}+next_amd64.deb")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-b", inside, target], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(inside)
    return target


def play(suite, packages, script):
    """(names of the steps that were done, what was said), in a copy of an empty root."""
    empty = base(suite)
    copy = tempfile.mkdtemp(prefix=f"stoker-{suite}-", dir=roots.folder())
    try:
        subprocess.run(["cp", "-a", "--reflink=auto", empty + "/.", copy], check=True)
        with tempfile.TemporaryDirectory() as made:
            for folder, files in (("old", packages), ("new", [newer(p, made) for p in packages if "/stoker_" in p])):
                os.makedirs(os.path.join(copy, "packages", folder))
                for file in files:
                    shutil.copy(file, os.path.join(copy, "packages", folder))
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", copy, script],
                              stdin=subprocess.DEVNULL, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        steps = [line[5:] for line in done.stdout.splitlines() if line.startswith("DONE ")]
        return steps, done.returncode, done.stdout
    finally:
        roots.remove(copy)


def release_here():
    with open("/etc/os-release", encoding="utf-8") as file:
        return next((line.split("=")[1].strip().strip('"') for line in file if line.startswith("VERSION_CODENAME=")), "")


def lintian(packages):
    if not shutil.which("lintian"):
        return print("lintian not run: it is not here", flush=True)
    done = subprocess.run(["lintian", "--fail-on", "error", *packages], text=True, stdin=subprocess.DEVNULL, capture_output=True)
    print(done.stdout, end="")
    print(f"{'ok' if done.returncode == 0 else 'not ok'} Debian packages: lintian finds no error", flush=True)
    return done.returncode


def main():
    packages = glob.glob(os.path.join(os.path.abspath(sys.argv[1]), "packages", "*.deb"))
    failed, here = bool(lintian(packages)), release_here()
    if os.geteuid() != 0 or not shutil.which("unshare"):
        print("SKIPPED: a root of its own needs root and unshare")
        return 77
    for suite in sys.argv[2:] or SUITES:
        script = LIFE if suite == here else FOREIGN
        try:
            steps, code, said = play(suite, packages, script)
        except roots.Unavailable as reason:
            print(f"SKIPPED: {reason}")
            return 1 if failed else 77
        for step in steps:
            print(f"ok Debian packages on {suite}: {step}", flush=True)
        if code != 0 or len(steps) != script.count("\ndone_with \""):
            failed = True
            print(f"exit {code}\n{said[-3000:]}\nnot ok Debian packages on {suite}: what comes after \"{(steps or ['nothing'])[-1]}\"", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
