"""What the tests of this clone took and how often one needed a second try, over its last runs: tests.jsonl in the build folder.

One line a run: {"at": seconds since 1970, "tests": {name: [outcome, seconds, tries]}}. A test that passes only at its second
try is a defect that has not been found yet: the count over many runs shows which one.
"""
import json
import os
import statistics
import threading
import time

KEPT = 200  # runs


class Ledger:
    def __init__(self, path):
        self.path, self.run, self.lock = path, {}, threading.Lock()
        self.before = []
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                self.before = [run for run in map(self.read, file) if run][-KEPT:]

    @staticmethod
    def read(line):
        """The tests of one line; nothing for a line that a full disk or a kill cut off."""
        try:
            tests = json.loads(line)["tests"]
            return {name: (str(o), float(s), int(n)) for name, (o, s, n) in tests.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            return {}

    def note(self, name, outcome, seconds, tries=1):
        with self.lock:
            self.run[name] = (outcome, round(seconds, 2), tries)

    def merge(self, tests):
        for name, (outcome, seconds, tries) in tests.items():
            self.note(name, outcome, seconds, tries)

    def usual(self, name):
        """Seconds that the test took in earlier runs; None when it was never run."""
        took = [run[name][1] for run in self.before if name in run and run[name][0] == "passed"]
        return statistics.median(took[-20:]) if took else None

    def save(self):
        if not self.run or not os.path.isdir(os.path.dirname(self.path)):
            return
        lines = [json.dumps({"at": int(time.time()), "tests": self.run})]
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8", errors="replace") as file:
                lines = [line for line in file.read().split("\n") if line][-(KEPT - 1):] + lines
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        os.replace(self.path + ".new", self.path)

    def second_tries(self):
        """[(name, second tries, runs that had the test)], the most frequent first, this run included."""
        runs = [*self.before, self.run]
        again = {}
        for run in runs:
            for name, (_, _, tries) in run.items():
                if tries > 1:
                    again[name] = again.get(name, 0) + 1
        return sorted(((n, count, sum(n in run for run in runs)) for n, count in again.items()), key=lambda x: (-x[1], x[0]))

    def slowest(self, count=10):
        return sorted(((seconds, name) for name, (_, seconds, _) in self.run.items()), reverse=True)[:count]


class Progress:
    """How many of these tests are done, and about when the others will be: by what each took before."""

    def __init__(self, ledger, names, side):
        known = {name: ledger.usual(name) for name in names}
        mean = [s for s in known.values() if s is not None]
        other = statistics.mean(mean) if mean else None
        self.left = {name: other if s is None else s for name, s in known.items()}
        self.all, self.side, self.lock = len(names), side, threading.Lock()

    def done(self, name):
        """What to say when this one is done: "3/40, about 6 min left"."""
        with self.lock:
            self.left.pop(name, None)
            text = f"{self.all - len(self.left)}/{self.all}"
            if not self.left or None in self.left.values():
                return text
            seconds = max(sum(self.left.values()) / self.side, max(self.left.values()))
            return text + (f", about {seconds / 60:.0f} min left" if seconds > 90 else f", about {seconds:.0f} s left")
