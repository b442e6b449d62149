"""The wheel: installed by pip into an environment of its own, used, removed; what the system's loader and auditwheel see of it.

    pip_install.py BUILD-FOLDER [--long]     --long: also in bare roots of other Debians (tests/slurm/roots.py)
"""
import glob
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "tests", "slurm")]
import roots
from proof import Failed, check, say

PROGRAMS = ["stoker", "stokerd", "stoker-agent"]
NONE = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


def make(build):
    for old in glob.glob(os.path.join(build, "packages", "*.whl")):
        os.unlink(old)
    say(sys.executable, os.path.join(ROOT, "deploy", "wheel.py"), "--build", build)
    return glob.glob(os.path.join(build, "packages", "*.whl"))[0]


def installed(wheel, folder):
    """pip's own rules: programs on PATH that work for a user, a package that can be imported, nothing left afterwards."""
    venv = os.path.join(folder, "venv")
    say(sys.executable, "-m", "venv", venv)
    before = {os.path.join(d, f) for d, _, fs in os.walk(venv) for f in fs}
    say(os.path.join(venv, "bin", "pip"), "install", "--no-index", "--no-deps", wheel)
    version = os.path.basename(wheel).split("-")[1]
    for name in PROGRAMS:
        said = say(os.path.join(venv, "bin", name), "--version", env=NONE)
        check(said.split()[-1] == version, f"{name} says {said}")
    check("all of it works here" in say(os.path.join(venv, "bin", "stoker"), "self-test", env=dict(NONE, HOME=folder)), "the self-test")
    code = "import stoker; t = stoker.Training(); assert t.step(1, loss=1.0); print(sorted(stoker.__all__))"
    check("Training" in say(os.path.join(venv, "bin", "python"), "-c", code, env=NONE), "the package cannot be used")
    say(os.path.join(venv, "bin", "pip"), "uninstall", "-y", "stoker")
    left = {os.path.join(d, f) for d, _, fs in os.walk(venv) for f in fs} - before
    check(not [f for f in left if "__pycache__" not in f], f"pip left {sorted(left)[:5]}")


def unpacked(wheel, folder):
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
    return glob.glob(os.path.join(folder, "*.data", "scripts", "*"))


def launchers(wheel, folder):
    """What the system starts has no interpreter and needs no library: so the wheel depends on no glibc."""
    found = unpacked(wheel, os.path.join(folder, "files"))
    check(sorted(map(os.path.basename, found)) == sorted(PROGRAMS), f"scripts: {found}")
    for path in found:
        said = say("readelf", "-W", "-l", "-d", path)
        check("INTERP" not in said and "(NEEDED)" not in said, f"{os.path.basename(path)} is started by the system's loader:\n{said}")


def audited(wheel, folder):
    """auditwheel's own word on the files that the system starts: any manylinux tag would do, so ours is true."""
    if not importlib.util.find_spec("auditwheel"):
        return "auditwheel is not here (pip install auditwheel)"
    small = os.path.join(folder, os.path.basename(wheel))
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(small, "w") as out:
        for name in whole.namelist():
            content = whole.read(name)
            if name.endswith("/RECORD"):
                content = b"".join(line for line in content.splitlines(keepends=True) if b"/lib/stoker-bundle/" not in line)
            if "/lib/stoker-bundle/" not in name:
                out.writestr(whole.getinfo(name), content)
    said = " ".join(say(sys.executable, "-m", "auditwheel", "show", small).split())
    print("auditwheel, of what the system starts:", said, flush=True)
    tags = re.findall(r"manylinux_2_(\d+)_", said.split("consistent with the following platform tag")[-1])
    check(not re.search(r'platform tag: "linux_', said) and all(int(t) <= 31 for t in tags), said)
    return ""


def elsewhere(wheel):
    """By an ordinary user in roots of an older and a newer Debian, laid out as pip does it."""
    for version, suite in roots.SUITES.items():
        target = roots.make(version)
        with tempfile.TemporaryDirectory(dir=os.path.join(target, "tmp"), prefix="wheel-") as home:
            data = unpacked(wheel, os.path.join(home, "files"))[0].rsplit("/", 2)[0]
            os.rename(os.path.join(data, "data", "lib"), os.path.join(home, "lib"))
            os.rename(os.path.join(data, "scripts"), os.path.join(home, "bin"))
            package = os.path.join(home, "files")
            for folder, _, names in os.walk(home):
                os.chown(folder, 12345, 12345)
                for name in names:
                    os.chmod(os.path.join(folder, name), 0o755)
            inside = home.removeprefix(target)
            script = (f"export HOME={inside}; cd {inside} && bin/stoker self-test && "
                      f"PYTHONPATH={package.removeprefix(target)} python3 -c 'import stoker; stoker.Training().step(1)'")
            said = say(*roots.entering(version, ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "/bin/sh", "-c", script]))
            check("all of it works here" in said, said)
        print(f"ok wheel: works on {suite}", flush=True)


def main():
    build = os.path.abspath(sys.argv[1])
    failed = 0
    wheel = make(build)
    tests = [(installed, "pip install, used, pip uninstall"), (launchers, "what the system starts needs no library"),
             (audited, "auditwheel agrees with the tag")]
    for test, name in tests:
        folder = tempfile.mkdtemp(prefix="stoker-wheel-")
        try:
            why_not = test(wheel, folder)
            print(f"not asked: {name}: {why_not}" if why_not else f"ok wheel: {name}", flush=True)
        except Failed as error:
            failed += 1
            print(f"{error}\nnot ok wheel: {name}", flush=True)
        finally:
            shutil.rmtree(folder)
    if "--long" in sys.argv:
        try:
            elsewhere(wheel)
        except roots.Unavailable as reason:
            print(f"not tried in other roots: {reason}", flush=True)
        except Failed as error:
            failed += 1
            print(f"{error}\nnot ok wheel: works on other Debians", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
