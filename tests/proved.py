"""What a long proof has shown, for the repository: one line for each row of seeds of one commit. A proof may go on in a later run:
seeds that follow each other are one line, lines of another commit about the same thing go.

    operators: embedded: commit 0123456789ab, 300 sequences (seeds 1001 to 1300), 0 broke a rule or had no verdict, 5400 s
"""
import os
import re
import subprocess


def commit_here():
    here = os.path.dirname(os.path.abspath(__file__))
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=here, capture_output=True, text=True).stdout.strip()
    # What a proof writes down while it runs is no change of what it proves.
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", ":/", ":(exclude,top)*proved.txt"], cwd=here).returncode != 0
    return commit + ("+" if changed else "")


def write_down(path, by, what, unit, words, rows, commit=None):
    """rows: [(first seed, last seed, how many were bad, seconds)]; what, unit, words: "model, slurmctld 22.05.8", "sequences", "differ"."""
    commit = commit or commit_here()
    line = re.compile(re.escape(f"{what}: commit {commit}, ") + r"\d+ .* \(seeds (\d+) to (\d+)\), (\d+) .*, (\d+) s")
    others, rows = [], list(rows)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            for text in f.read().splitlines():
                if found := line.fullmatch(text):
                    rows.append(tuple(map(int, found.groups())))
                elif text and not text.startswith(("#", what + ": ")):
                    others.append(text)
    joined = []
    for first, last, bad, seconds in sorted(rows):
        if joined and first == joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], last, joined[-1][2] + bad, joined[-1][3] + seconds)
        else:
            joined.append((first, last, bad, round(seconds)))
    others += [f"{what}: commit {commit}, {last - first + 1} {unit} (seeds {first} to {last}), {bad} {words}, {round(seconds)} s"
               for first, last, bad, seconds in joined]
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(f"# Written by {by}\n" + "".join(text + "\n" for text in sorted(others)))
    os.replace(path + ".new", path)
