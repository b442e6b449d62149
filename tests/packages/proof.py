"""What the package tests check with."""
import subprocess


class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


def say(*argv, **options):
    """The standard output of a program that must succeed."""
    done = subprocess.run(argv, text=True, errors="replace", stdin=subprocess.DEVNULL, capture_output=True, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout
