"""The ten commands of docs/install.md, by an ordinary user in bare roots of other Debians, with the packed bundle.

    day_one.py BUILD-FOLDER [VERSION...]      the roots of tests/slurm/roots.py; all that are made or can be made
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import roots

USER = 12345  # of no passwd file: without a home, no group but its own


def commands():
    with open(os.path.join(roots.ROOT, "docs", "install.md"), encoding="utf-8") as f:
        lines = re.search(r"^```sh\n(.*?)^```", f.read(), re.S | re.M).group(1).splitlines()
    assert len(lines) == 10, f"docs/install.md has {len(lines)} commands"
    return lines


def play(version, bundle):
    """What went wrong; "" when all ten commands end with 0 and the run has finished."""
    target = roots.make(version)
    with tempfile.TemporaryDirectory(dir=os.path.join(target, "tmp"), prefix="day-one-") as home:
        os.chown(home, USER, USER)
        shutil.copy(bundle, home)
        inside = home.removeprefix(target)
        script = "\n".join(["set -e", f"cd {inside}", f"export HOME={inside} TMPDIR={inside}", *commands()])
        argv = roots.entering(version, ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "/bin/sh", "-c", script])
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, text=True, errors="replace", capture_output=True, timeout=600)
    said = done.stdout + done.stderr
    if done.returncode != 0 or "all of it works here" not in said or "finished" not in done.stdout:
        return f"exit {done.returncode}\n{said[-4000:]}"
    return ""


def main():
    bundle, failed, skipped = max(glob.glob(os.path.join(sys.argv[1], "stoker-[0-9]*-linux-*.tar.zst"))), 0, 0
    versions = sys.argv[2:] or list(roots.SUITES)
    for version in versions:
        name = f"day one on {roots.SUITES[version]}"
        try:
            wrong = play(version, bundle)
        except roots.Unavailable as reason:
            skipped += 1
            print(f"skipped: {name}: {reason}", flush=True)
            continue
        failed += bool(wrong)
        print(f"{'failed' if wrong else 'passed'}: {name}{': ' if wrong else ''}{wrong}", flush=True)
    return 1 if failed else 77 if skipped == len(versions) else 0


if __name__ == "__main__":
    sys.exit(main())
