"""Parts of ./dev test that run beside the others, in a process of their own at the lowest priority."""
import json
import os
import signal
import subprocess
import sys
import tempfile


def write_result(path, tally, parts, took):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump({"tally": vars(tally), "parts": parts, "took": took}, file)
    os.rename(path + ".new", path)


def stand_back():
    os.nice(19)
    try:  # a session is scheduled as one group, which has a priority of its own
        with open("/proc/self/autogroup", "w", encoding="ascii") as file:
            file.write("19")
    except OSError:
        pass


class Beside:
    """Parts in a process of their own, at the lowest priority; their output comes in one piece when they are done."""

    def __init__(self, script, names, options):
        self.script, self.names = script, names
        self.folder = tempfile.TemporaryDirectory(prefix="stoker-test-")
        self.result = os.path.join(self.folder.name, "tally.json")
        self.output = open(os.path.join(self.folder.name, "output"), "w+", errors="replace")
        argv = [sys.executable, script, "--beside", self.result, *names] + ["--long"] * options.long
        self.process = subprocess.Popen(argv, cwd=os.path.join(os.path.dirname(script), ".."), stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=stand_back)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        self.output.close()
        self.folder.cleanup()

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def join(self, tally, ledger, seconds):
        """Waits at most so long (None: to the end); parts that were not done by then are skipped, aloud."""
        late = False
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            late = True
            self.end()
        self.output.seek(0)
        print(self.output.read(), flush=True)
        said = {"tally": {}, "parts": [], "took": {}}
        if os.path.exists(self.result):
            with open(self.result, encoding="utf-8") as file:
                said = json.load(file)
        for outcome, names in said["tally"].items():
            getattr(tally, outcome).extend(names)
        ledger.merge(said["took"])
        for name in [n for n in self.names if n not in said["parts"]]:
            if late:
                tally.no_time.append(f"{name}: all of it; ./dev test --only {name}")
                tally.add(f"{name}: all of it", "skipped", f"no time was left for it; ./dev test --only {name}")
            else:
                tally.add(f"{name}: all of it", "failed", f"its process ended with {self.process.returncode}")
