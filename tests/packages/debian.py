"""The Debian packages: made, and read without installing them. tests/packages/clean_root.py installs them.

    debian.py BUILD-FOLDER        a folder with the target `programs`; the packages are in its folder packages/
"""
import glob
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile

from proof import Failed, check, say

PROGRAMS = ["stoker", "stoker-agent", "stokerd"]
SECTIONS = {"1": "usr/share/man/man1", "5": "usr/share/man/man5"}


def make(build):
    """{package: path}; packages of an earlier version are removed."""
    for old in glob.glob(os.path.join(build, "packages", "*.deb")):
        os.unlink(old)
    say("cpack", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", cwd=build)  # xz takes ten seconds more
    return {os.path.basename(p).split("_")[0]: p for p in glob.glob(os.path.join(build, "packages", "*.deb"))}


def fields(package):
    return dict(re.findall(r"^([A-Z][\w-]+): (.*)$", say("dpkg-deb", "--field", package), re.M))


def dependencies(packages):
    stoker, train = fields(packages["stoker"]), fields(packages["stoker-train"])
    for name in ("libc6", "libcurl4", "libsqlite3-0", "libstdc++6"):
        check(re.search(rf"(^|, ){re.escape(name)}(t64)? ", stoker["Depends"]), f"stoker does not depend on {name}: {stoker['Depends']}")
    check("torch" not in stoker["Depends"] and "gloo" not in stoker["Depends"], f"stoker depends on LibTorch: {stoker['Depends']}")
    check(f"stoker (= {stoker['Version']})" in train["Depends"] and "libtorch" in train["Depends"], f"stoker-train: {train['Depends']}")


def files(root):
    for name in PROGRAMS:
        path = os.path.join(root, "usr/bin", name)
        check(os.access(path, os.X_OK), f"no {path}")
        with open(path, "rb") as file:
            check(b".debug_info" not in file.read(), f"{name} is not stripped")
    for name in ("bash-completion/completions/stoker", "zsh/vendor-completions/_stoker", "fish/vendor_completions.d/stoker.fish"):
        with open(os.path.join(root, "usr/share", name), encoding="utf-8") as file:
            check("self-test" in file.read(), f"{name} does not know the commands")
    unpacked = {os.path.relpath(os.path.join(d, f), root) for d, _, fs in os.walk(root) for f in fs}
    check(not [f for f in unpacked if not f.startswith("usr/")], f"files outside usr: {sorted(unpacked)[:5]}")


def units(root):
    for unit in ("system/stokerd@.service", "user/stokerd.service"):
        with open(os.path.join(root, "usr/lib/systemd", unit), encoding="utf-8") as file:
            text = file.read()
        check("\nExecStart=/usr/bin/stokerd\n" in text, f"{unit} starts something else: {re.findall('ExecStart.*', text)}")
        check("\nNoNewPrivileges=yes\n" in text, f"{unit} is not hardened")
    check("\nSystemCallFilter=~@privileged\n" in open(os.path.join(root, "usr/lib/systemd/system/stokerd@.service"), encoding="utf-8").read(),
          "the system's unit has no filter")


def manuals(root, train):
    """Every program and command has its page, every option and key stands in its page, and mandoc finds nothing to complain about."""
    say("dpkg-deb", "-x", train, root)
    commands = re.findall(r"^  ([a-z][a-z-]+)  ", say(os.path.join(root, "usr/bin/stoker"), "--help"), re.M)
    check(len(commands) > 30, f"--help names {len(commands)} commands")
    for command in ["", *(f"-{c}" for c in commands)]:
        check(os.path.exists(os.path.join(root, SECTIONS["1"], f"stoker{command}.1.gz")), f"no manual page of stoker{command}")
    for program, words in (("stokerd", ("--until-end", "EXIT STATUS")), ("stoker-agent", ("SS stacks", "--ranks-per-node UINT")),
                           ("stoker-train", ("SS export", "--dry-run", "26 the GPU failed"))):
        with gzip.open(os.path.join(root, SECTIONS["1"], program + ".1.gz"), "rt", encoding="utf-8") as file:
            text = file.read().replace("\\-", "-")
        check(not [w for w in words if w not in text], f"{program}.1 lacks {[w for w in words if w not in text]}")
        check("guardian" not in text and "local-" not in text and "--manual" not in text, f"{program}.1 shows what is hidden")
    for page, key in (("stoker-run.5.gz", r"recover.exclude.for"), ("stoker-train.5.gz", r"lr.decay_samples")):
        with gzip.open(os.path.join(root, SECTIONS["5"], page), "rt", encoding="utf-8") as file:
            check(f".B {key}\n" in file.read().replace("\\-", "-"), f"{page} has no {key}")
    pages = [p for folder in SECTIONS.values() for p in glob.glob(os.path.join(root, folder, "*.gz"))]
    with tempfile.TemporaryDirectory() as folder:
        plain = [os.path.join(folder, os.path.basename(p)[:-3]) for p in pages]
        for path, target in zip(pages, plain):
            with gzip.open(path, "rb") as packed, open(target, "wb") as out:
                shutil.copyfileobj(packed, out)
        done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *plain], text=True, stdin=subprocess.DEVNULL, capture_output=True)
        said = [line for line in done.stdout.splitlines() if "missing date" not in line]
        check(not said, "mandoc: " + "\n".join(said[:5]))


def starts(root):
    version = say(os.path.join(root, "usr/bin/stoker"), "--version").split()[-1]
    for name in PROGRAMS:
        check(say(os.path.join(root, "usr/bin", name), "--version").split()[-1] == version, f"{name} is of another version")


def prefix(build):
    """cmake --install follows --prefix; the units name that place."""
    with tempfile.TemporaryDirectory(prefix="stoker-prefix-") as folder:
        say("cmake", "--install", build, "--prefix", folder, "--component", "stoker")
        check(os.access(os.path.join(folder, "bin", "stokerd"), os.X_OK), f"no bin/stokerd: {os.listdir(folder)}")
        check(os.path.exists(os.path.join(folder, "share/man/man5/stoker-run.5.gz")), "no manual page")
        check(not os.path.exists(os.path.join(folder, "bin", "stoker-train")), "the component stoker holds stoker-train")
        with open(os.path.join(folder, "lib/systemd/user/stokerd.service"), encoding="utf-8") as file:
            check(f"\nExecStart={folder}/bin/stokerd\n" in file.read(), "the unit names another place")


def main():
    build = os.path.abspath(sys.argv[1])
    for tool in ("cpack", "dpkg-deb", "dpkg-shlibdeps", "mandoc"):
        if not shutil.which(tool):
            print(f"SKIPPED: {tool} is not here")
            return 77
    failed = 0
    with tempfile.TemporaryDirectory(prefix="stoker-deb-") as root:
        packages = {}

        def made():
            packages.update(make(build))
            check(set(packages) == {"stoker", "stoker-train"}, f"made: {sorted(packages)}")
            say("dpkg-deb", "-x", packages["stoker"], root)
        for name, test in {"made": made, "dependencies": lambda: dependencies(packages), "files": lambda: files(root),
                           "units": lambda: units(root), "manual pages": lambda: manuals(root, packages["stoker-train"]), "programs start": lambda: starts(root),
                           "cmake --install": lambda: prefix(build)}.items():
            try:
                test()
                print(f"ok Debian packages: {name}", flush=True)
            except (Failed, OSError) as error:
                failed += 1
                print(f"{error}\nnot ok Debian packages: {name}", flush=True)
                if name == "made":
                    break
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
