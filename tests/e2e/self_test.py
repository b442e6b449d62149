"""stoker self-test: passes where all is well and leaves nothing; says in one line what is wrong where it is not."""
import os
import shutil
import subprocess

from e2e._harness import BIN, check, main


def self_test(folder, *arguments):
    scratch = os.path.join(folder, "scratch")
    os.makedirs(scratch, exist_ok=True)
    done = subprocess.run([os.path.join(folder, "bin", "stoker"), "self-test", *(arguments or ["--directory", scratch])], text=True,
                          capture_output=True, timeout=240, env={"PATH": "/usr/bin:/bin", "HOME": folder}, cwd=folder)
    return done, os.listdir(scratch)


def programs(site, *names):
    """A folder with these programs, as somebody would unpack them."""
    folder = os.path.join(site.folder, "copy")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "bin"))
    for name in names:
        shutil.copy(os.path.join(BIN, name), os.path.join(folder, "bin"))
    return folder


def passes_and_leaves_nothing(site):
    folder = programs(site, "stoker", "stokerd", "stoker-agent")
    done, left = self_test(folder)
    check(done.returncode == 0 and "iteration 10 of 10" in done.stdout, f"exit {done.returncode}\n{done.stdout}{done.stderr}")
    check(not left, f"it left {left}")
    check(sorted(os.listdir(folder)) == ["bin", "scratch"], f"it wrote into its home: {os.listdir(folder)}")


def names_what_is_wrong(site):
    folder = programs(site, "stoker", "stokerd")
    done, left = self_test(folder)
    check(done.returncode == 1 and "FAILED stoker-agent" in done.stdout, f"no agent: exit {done.returncode}\n{done.stdout}{done.stderr}")
    check("what it left is in" in done.stderr and len(left) == 1, f"no agent: {done.stderr}, left {left}")
    with open(os.path.join(folder, "bin", "stoker-agent"), "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\necho 0.0.9\n")
    os.chmod(os.path.join(folder, "bin", "stoker-agent"), 0o755)
    done, _ = self_test(folder)
    check(done.returncode == 1 and "unpack the whole bundle" in done.stdout, f"another version: {done.stdout}{done.stderr}")
    done, _ = self_test(folder, "--directory", os.path.join(folder, "nowhere"))
    check(done.returncode == 1 and done.stderr.count("\n") == 1 and "--directory" in done.stderr, f"no folder: {done.stderr}")


def takes_no_folder_that_others_can_exchange(site):
    """It executes what it writes: others must not be able to put another folder in the place of its own."""
    folder = programs(site, "stoker", "stokerd", "stoker-agent")
    team = os.path.join(folder, "team")
    os.makedirs(os.path.join(team, "mine"))
    os.chmod(team, 0o2777)
    for place in (team, os.path.join(team, "mine")):
        done, _ = self_test(folder, "--directory", place)
        check(done.returncode == 1 and f"{team}: refused: " in done.stderr and "local run" not in done.stdout, f"{done.stdout}{done.stderr}")
        check(os.listdir(place) in ([], ["mine"]), f"it left {os.listdir(place)}")
    os.chmod(team, 0o1777)
    done, _ = self_test(folder, "--directory", team)
    check(done.returncode == 0, f"a sticky folder: exit {done.returncode}\n{done.stdout}{done.stderr}")


main(passes_and_leaves_nothing, takes_no_folder_that_others_can_exchange, names_what_is_wrong)
