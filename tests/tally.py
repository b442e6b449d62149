"""What passed, failed and was skipped, and the closing words of ./dev test."""
import re
import shutil
import xml.etree.ElementTree as ElementTree

# What a machine lacks by nature: rights, a kind of processor, another API of its SLURM, data that is not of this repository. Lack
# of time has its own words.
BY_NATURE = re.compile(r"\broot\b|AVX2|FMA|GPU|seccomp|shared/|corpus|kernel.lines|is the only version here|^no time was left")


def may_skip(reason, installs=None):
    """Whether a test may be skipped for this reason. Where ./dev setup installs packages, none can be missing: a test that
    finds no tmux or no SLURM there proves nothing, and would say so in every run."""
    installs = bool(shutil.which("apt-get")) if installs is None else installs
    return not installs or bool(BY_NATURE.search(reason))


class Tally:
    ledger = None  # of all that is added in this process

    def __init__(self):
        self.passed, self.skipped, self.failed = [], [], []
        self.again = []    # failed once, passed at the second try
        self.no_time = []  # of those skipped: not for want of a thing, but of time

    def add(self, name, outcome, detail=""):
        if outcome == "skipped" and not may_skip(detail):
            outcome, detail = "failed", f"skipped, though this machine could have what it needs: {detail}"
        getattr(self, outcome).append(name)
        if outcome != "passed":
            print(f"{outcome.upper()}: {name}{': ' + detail if detail else ''}", flush=True)

    def tell(self, name, outcome, seconds, detail=""):
        """As add, with a line for each, and remembered."""
        print(f"{outcome}: {name} ({seconds:.1f}s)", flush=True)
        self.ledger.note(name, outcome, seconds)
        self.add(name, outcome, detail)

    def read(self, text):
        """Adds the lines "ok NAME" and "not ok NAME" of a checker."""
        for line in text.split("\n"):
            if line.startswith("ok "):
                self.add(line[3:], "passed")
            elif line.startswith("not ok "):
                self.add(line[7:], "failed")


def outcomes(report):
    """{case: (outcome, output, seconds)} of ctest's report."""
    found = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        outcome = {"run": "passed", "notrun": "skipped", "disabled": "skipped"}.get(case.get("status"), "failed")
        if case.find("skipped") is not None:
            outcome = "skipped"
        said = case.findtext("system-out") or ""
        if outcome == "skipped":
            why = [line for line in said.split("\n") if line.startswith("SKIPPED:")] or ["its reason was not found"]
            said = next((line for line in why if not may_skip(line)), why[0])
        else:
            said = said[-2000:] if outcome == "failed" else ""
        found[case.get("name")] = outcome, said, float(case.get("time") or 0)
    return found


def closing_words(tally, ledger):
    slowest = [(seconds, name) for seconds, name in ledger.slowest(20) if not name.startswith("part: ")][:10]
    if len(ledger.run) > 10:
        print("the slowest: " + ", ".join(f"{name} {seconds:.0f}s" for seconds, name in slowest))
    for name, count, runs in ledger.second_tries()[:10]:
        print(f"second tries: {name}: {count} in {runs} runs here")
    for name in [n for n in tally.again if n not in tally.failed]:
        print(f"passed at the second try: {name}")
    for name in tally.no_time:
        print(f"NO TIME WAS LEFT, NOT PROVEN: {name}")
    for name in tally.failed:
        print(f"failed: {name}")
