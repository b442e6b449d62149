"""Each thing that a run names may lie in a file system that does not answer. A shim (tests/hanging) makes each of its places hang in turn:
the daemon answers, the other run is watched and its alerts arrive; and no path outside of the state directory is the business of the
main thread, whose loop everything waits for."""
import contextlib
import http.server
import json
import os
import signal
import time

from e2e._harness import BIN, Site, check, main, skip
from e2e._server import serve

SHIM = os.path.join(os.path.realpath(BIN), "..", "tests", "libhanging_disk.so")
LOOP = """
import time
for i in range(1, 10**6):
    print(f"step={i} loss=1.5", flush=True)
    time.sleep(0.1)
"""
RUN = """\
run: {run}
directory: {place}/directory
scheduler: {{kind: local, nodes: 1, time_limit: 1h, array: {{tasks: 3, top_up_below: 1}}}}
train:
  command: [python3, {place}/script/train.py]
  ranks_per_node: 1
  setup: {place}/setup/setup.sh
  finished: {{file: {place}/finish/DONE}}
  exit_before_limit: 4s
checkpoints: {{directory: {place}/checkpoints, keep: {{last: 2}}, archive: {{to: {place}/archive, every: 100}}}}
recover: {{restarts: {{total: {restarts}, without_progress: {restarts}, refill: 24h}}}}
watch:
  logs: ["{place}/logs/*.log"]
  kernel_logs: ["{place}/kernel/kern.log"]
  disk: {{paths: ["{place}/disk"]}}
  progress: {{iteration: 'step=(\\d+)', loss: 'loss=([0-9.]+)'}}
alerts:
  dead_man: {{url_file: {place}/dead/url, every: 10s}}
  sinks:
    hook: {{kind: webhook, url_file: {place}/secret/url}}
    pulse: {{kind: pulse, path: {place}/pulse/pulse.log}}
    notify: {{kind: exec, command: [{place}/program/notify]}}
  routes: [{{severity: info, to: [hook, pulse, notify], repeat: 1m}}]
"""
PLACES = ["directory", "script", "setup", "finish", "checkpoints", "archive", "logs", "kernel", "disk", "dead", "secret", "pulse",
          "program", "config"]
SINKS = ("secret", "pulse", "program")
SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib", "/run/", "/var/lib/")


def words_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
            return f.read().rstrip("\0").split("\0")
    except OSError:
        return []


class HangingSite(Site):
    def __init__(self):
        super().__init__()
        self.control = os.path.join(self.folder, "control")
        self.touched = os.path.join(self.folder, "touched")
        self.env.update(LD_PRELOAD=SHIM, HANGING_CONTROL=self.control, HANGING_LOG=self.touched)
        self.taken = []

        class Receiver(http.server.BaseHTTPRequestHandler):
            taken = self.taken

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.taken.append(self.path.split("/")[1])
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

        self.server, self.url = serve(Receiver, "")

    def place(self, run):
        return os.path.join(self.folder, "places-" + run)

    def make_run(self, run, script=LOOP, restarts=100):
        """Returns its RUN.yaml. Each thing that it names has a folder of its own."""
        files = {"script/train.py": script, "setup/setup.sh": ":\n", "program/notify": "#!/bin/sh\ncat >/dev/null\n",
                 "secret/url": f"{self.url}/{run}\n", "dead/url": f"{self.url}/dead-{run}\n",
                 "kernel/kern.log": "kernel: nothing\n", "config/RUN.yaml": RUN.format(run=run, place=self.place(run), restarts=restarts)}
        for place in PLACES[1:]:  # the daemon makes the run directory
            os.makedirs(os.path.join(self.place(run), place))
        for name, text in files.items():
            with open(os.open(os.path.join(self.place(run), name), os.O_CREAT | os.O_WRONLY, 0o700), "w", encoding="utf-8") as f:
                f.write(text)
        return os.path.join(self.place(run), "config/RUN.yaml")

    def hang(self, *paths):
        with open(self.control + ".new", "w", encoding="utf-8") as f:
            f.write("".join(path + "\n" for path in paths))
        os.replace(self.control + ".new", self.control)

    def let_go(self):
        os.unlink(self.control)

    def of(self, run):
        done = self.stoker("status", run, "--json", ok=False)
        return json.loads(done.stdout) if done.returncode == 0 and done.stdout.strip() else {}

    def crash(self, run, certain=True):
        """Ends its rank, if it has one."""
        script = os.path.join(self.place(run), "script/train.py")
        ranks = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if words_of(pid)[-1:] == [script]]
        check(ranks or not certain, f"no rank of {run}")
        for pid in ranks:
            with contextlib.suppress(ProcessLookupError):  # its shell has gone with it
                os.kill(pid, signal.SIGKILL)

    def start_both(self):
        self.start_daemon()
        for run in ("one", "two"):
            self.stoker("run", self.make_run(run), "--yes")
            self.wait(lambda run=run: self.of(run).get("iteration", 0) > 5, 60, f"the training of {run}")

    def close(self):
        if os.path.exists(self.control):
            self.let_go()
        self.server.shutdown()
        super().close()


def timed(site, *order):
    began = time.monotonic()
    done = site.stoker(*order, ok=False)
    check(time.monotonic() - began < 6, f"{order} took {time.monotonic() - began:.0f} s")
    check("gave no answer" not in done.stdout + done.stderr, f"{order}: {done.stdout}{done.stderr}")
    return done


def reloads_the_other(site):
    """RUN.yaml of one run does not answer: the others' is read again, and the message names it."""
    path = os.path.join(site.place("two"), "config/RUN.yaml")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace("time_limit: 1h", "time_limit: 2h"))
    log = os.path.join(site.folder, "stokerd.log")
    before = os.path.getsize(log)
    site.daemon.send_signal(signal.SIGHUP)

    def said():
        with open(log, encoding="utf-8", errors="replace") as f:
            f.seek(before)
            return next((line for line in f if "have a new policy" in line), None)
    line = site.wait(said, 6, "the reload")
    check("1 of " in line and "no answer for" in line and os.path.join(site.place("one"), "config/RUN.yaml") in line, line)


def tests_the_other_sinks(site):
    """A secret of one sink does not answer: the others are tried."""
    said = timed(site, "alerts", "test")
    said = said.stdout + said.stderr
    check("no answer for" in said and "delivered" in said, said)


def each_place_hangs_in_turn(site):
    site.start_both()
    for place in PLACES:
        seen = site.of("two")["iteration"]
        site.hang(os.path.join(site.place("one"), place))
        # Each of these has the daemon touch what a run names.
        for order in (["pause", "one"], ["resume", "one"], ["save", "one"]):
            site.stoker(*order, "--reason", f"{place} hangs", ok=False)
        began = time.monotonic()
        site.stoker("silence", "--add", "run=none", "--for", "1m", "--reason", "an order of the site", ok=False)
        check(time.monotonic() - began < 3, f"{place}: an order took {time.monotonic() - began:.0f} s")
        del site.taken[:]
        site.crash("one", certain=False)  # an alert of its own, by its own sinks
        site.crash("two")
        site.wait(lambda seen=seen: site.of("two").get("iteration", 0) > 0 and site.of("two")["iteration"] != seen, 40,
                  f"{place}: news of the other run")
        if place in SINKS:  # of a run that is held at once; the crashes have excluded nodes
            site.stoker("include", "n[01-03]", "--reason", "a run needs one")
            site.stoker("run", site.make_run(f"held-by-{place}", "raise SystemExit(1)\n", restarts=1), "--yes")
            site.wait(lambda: f"held-by-{place}" in site.taken, 40, f"{place}: an alert of another run, {site.taken}")
        if place == "config":
            reloads_the_other(site)
        if place == "secret":
            tests_the_other_sinks(site)
        if place == "dead":
            site.wait(lambda: any(path.startswith("dead-two") for path in site.taken), 60, "the dead man's call of the other run")
        site.let_go()
        site.stoker("resume", "one", "--reason", "it goes on", ok=False)
        print(f"   {place}: the daemon and the other run went on", flush=True)
    for run in ("one", "two"):
        site.wait(lambda run=run: site.of(run).get("state") == "training", 90, f"{run} trains in the end")


def the_main_thread_touches_nothing_that_a_run_names(site):
    site.start_both()
    site.hang()  # nothing hangs; what is touched is noted
    site.stoker("run", site.make_run("three"), "--yes")
    for order in (["pause", "one"], ["resume", "one"], ["save", "one"], ["restart", "two"], ["stop", "two"]):
        site.stoker(*order, "--reason", "so that it is touched", ok=False)
    site.wait(lambda: site.of("three").get("iteration", 0) > 5, 60, "the training of three")
    site.stoker("alerts", "test", ok=False)
    time.sleep(5)  # a few beats of the loop, with all that they look after
    with open(site.touched, encoding="utf-8") as f:
        touched = {line[2:].rstrip("\n") for line in f if line.startswith("M ")}
    others = sorted(p for p in touched if not (p.startswith(SYSTEM) or p == site.state or p.startswith(site.state + "/")))
    others = [p for p in others if not p.endswith("stokerd.log")]
    check(touched, "the shim noted nothing: is it loaded?")
    check(not others, "the main thread touches " + ", ".join(others))
    site.let_go()


if not os.path.exists(SHIM):
    skip("the shim of a file system that does not answer was not built")
main(each_place_hangs_in_turn, the_main_thread_touches_nothing_that_a_run_names, site_of=HangingSite)
