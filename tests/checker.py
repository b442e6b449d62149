"""A program that checks: it prints "ok NAME" and "not ok NAME", or ends with 77 and the reason in its last line."""
import os
import subprocess
import sys

SKIP_EXIT = 77


def run_checker(tally, name, argv, root, bin_folder):
    """Adds what it found to the tally; `name` stands for it where it says nothing itself."""
    environment = dict(os.environ, STOKER_BIN=bin_folder, PYTHONPATH=os.path.join(root, "tests"))
    run = subprocess.run([sys.executable, *argv], cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                         errors="replace")
    print(run.stdout, end="", flush=True)
    tally.read(run.stdout)
    if run.returncode == SKIP_EXIT:
        tally.add(name, "skipped", run.stdout.strip().split("\n")[-1])
    elif run.returncode not in (0, 1) or (run.returncode == 1 and "not ok " not in run.stdout):
        tally.add(name, "failed", f"exit {run.returncode}")
