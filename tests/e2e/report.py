"""stoker report and stoker support, from published files alone: one file that opens anywhere, totals that are status's, and
no planted secret in a bundle."""
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

from e2e import _browser
from e2e._browser import Browser
from e2e._harness import Failed, check

BIN = os.environ.get("STOKER_BIN") or os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "build", "bin"))
STOKER = os.path.join(BIN, "stoker")
CANARIES = {"environment": "canary-of-the-environment-1", "hook": "canaryhook2", "file": "canary-in-a-file-3",
            "printed": "canary_printed_4", "login": "canarylogin5", "generation": "canary-generation-6"}


class Site:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="stoker-report-")
        self.state = os.path.join(self.folder, "state")
        os.makedirs(os.path.join(self.state, "published"))
        self.runs = []

    def write(self, name, text, mode=0o600):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def stoker(self, *words, code=0, **more):
        done = subprocess.run([STOKER, "--state", self.state, *words], text=True, capture_output=True, timeout=300,
                              stdin=subprocess.DEVNULL, env=dict(os.environ, NO_COLOR="1"), **more)
        check(done.returncode == code, f"stoker {' '.join(words)}: exit {done.returncode}, expected {code}\n{done.stderr}")
        return done

    def publish(self, run, loss_of, iterations=400, policy=None, reason="rank 3 <script>alert(1)</script> died & rose"):
        """A run that trains, crashes at 300, repeats from 250 and goes on."""
        directory = os.path.join(self.folder, run)
        rows, seq = [], [0]

        def row(second, kind, body, decision="", why="", actions=()):
            seq[0] += 1
            rows.append({"seq": seq[0], "time": f"2026-05-01T{3 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z",
                         "run": run, "kind": kind, "decision": decision, "reason": why, "actions": list(actions),
                         "event": {"kind": kind, **body}})

        def digest(second, iteration):
            return {"generation": 1, "iteration_ms": {"count": 20, "p50": 1000.0, "p99": 1100.0, "max": 1500.0},
                    "losses": {"count": 20, "mean": loss_of(iteration), "low": loss_of(iteration) - 0.01,
                               "high": loss_of(iteration) + 0.05, "high_at": iteration, "not_finite": 0, "skipped": 0,
                               "gradient_norm": 0.5, "scale": 0.0},
                    "last": {"attempt": 1, "phase": "iteration", "phase_age_ms": 0, "ranks": 4, "reporting": 4,
                             "iteration_min": iteration, "iteration_max": iteration, "total": 1000,
                             "consumed_samples": 8 * iteration, "consumed_tokens": 0, "loss": loss_of(iteration),
                             "learning_rate": 1e-4, "gradient_norm": 0.4, "tflops": 0.0,
                             "iteration_ms": {"count": 20, "p50": 1000.0, "p99": 1100.0, "max": 1500.0},
                             "losses": {"count": 0, "mean": 0.0, "low": 0.0, "high": 0.0, "high_at": 0, "not_finite": 0,
                                        "skipped": 0, "gradient_norm": 0.0, "scale": 0.0},
                             "slowest": None, "progress_age_ms": 0, "newest_progress_age_ms": 0, "oldest": [],
                             "checkpoint": 0, "saves_answered": 0, "free_memory_bytes": 0, "free_shm_bytes": 0,
                             "gpu_watts": 0.0}}
        row(0, "tick", {}, "queued -> starting", "job 1_1 runs")
        row(10, "tick", {}, "starting -> training", "training from iteration 0")
        for iteration in range(20, 301, 20):
            row(10 + iteration, "digest", digest(10 + iteration, iteration))
        row(311, "tick", {}, "training -> recovering", reason, [f"send_alert {run}/9/0 rank_crash", f"write_control {run}/9/1"])
        row(320, "tick", {}, "recovering -> starting", "attempt 2")
        row(330, "tick", {}, "starting -> training", "training again from iteration 250")
        for iteration in range(260, iterations + 1, 20):
            row(80 + iteration, "digest", digest(80 + iteration, iteration))
        self.write(f"{run}/events.jsonl", "".join(json.dumps(r) + "\n" for r in rows), 0o644)
        status = {"version": 1, "run": run, "directory": directory, "state": "training", "since": "2026-05-01T03:05:30Z",
                  "reason": "training again from iteration 250", "published": "2026-05-01T04:00:00Z", "job": "12_4",
                  "generation": 1, "nodes": ["n01", "n02"], "iteration": iterations, "total": 1000, "loss": loss_of(iterations),
                  "consumed_samples": 8 * iterations, "step_s": 1.0, "step_norm_s": 1.0, "restarts": 1,
                  "checkpoint": {"iteration": 250, "age_s": 30},
                  "goodput": {"whole_s": 480.0, "ettr": 0.875, "spent_s": {"train": 420.0, "repeated": 41.0, "down": 19.0},
                              "lost_node_hours": 0.0333, "lost_gpu_hours": 0.27,
                              "causes": [{"cause": "rank_crash", "times": 1, "s": 60.0, "node_hours": 0.0333, "gpu_hours": 0.27}],
                              "incidents": [{"kind": "rank_crash", "time": "2026-05-01T03:05:11Z", "iteration": 300,
                                             "repeated": 50, "s": 60.0, "node_hours": 0.0333, "gpu_hours": 0.27}],
                              "mfu": None, "mfu_whole": None, "energy": None},
                  "alerts": [{"id": f"{run}/disk/3", "severity": "warning", "kind": "disk_low", "summary": "<b>disk</b> is low",
                              "reason": "x", "command": "df -h", "since": "2026-05-01T03:00:00Z", "acknowledged": False}]}
        self.write(f"{run}/status.json", json.dumps(status), 0o644)
        self.runs.append({"run": run, "directory": directory})
        self.write("state/published/site.json", json.dumps({"version": 1, "runs": self.runs}), 0o644)
        return status


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def one_file(site):
    status = site.publish("hello", lambda i: 9 - i / 100)
    path = os.path.join(site.folder, "report.html")
    site.stoker("report", "hello", "-o", path)
    check(os.stat(path).st_mode & 0o777 == 0o600, "others may read the report of a closed run directory")
    html = read(path)
    check(len(html.encode()) <= 2 << 20, "more than 2 MiB")
    check("<script" not in html and "&lt;script&gt;alert(1)" in html and "<b>disk" not in html, "text of the run became a tag")
    links = re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?([^"\')\s>]+)', html)
    check(not links and "http" not in html, f"it asks for something elsewhere: {links}")
    good = status["goodput"]
    for wanted in (f"{100 * good['ettr']:.1f} %", f"{good['lost_gpu_hours']:.2f} GPU hours", "rank crash", "50 iterations repeated",
                   "1 incident and 0 planned stops", "400 of 1,000", "df -h"):
        check(wanted in html, f"the report lacks {wanted!r}")
    for chart in ("Loss", "Gradient norm", "Learning rate", "Step time", "Throughput", "Goodput so far"):
        check(re.search(rf'aria-label="{chart}: [^"]+"', html), f"no chart with a text: {chart}")
    bands = html.count('<rect class="band"')
    check(bands == 6, f"{bands} bands behind 6 charts")
    check(site.stoker("report", "hello").stdout.startswith("<!doctype html>"), "without -o it is not on standard output")
    site.stoker("report", "nobody", "-o", path, code=1)
    site.stoker("report", "hello", "-o", os.path.join(site.folder, "no", "such", "folder.html"), code=1)


def against_another(site):
    site.publish("old", lambda i: 9 - i / 100, iterations=400)
    site.publish("new", lambda i: 8.5 - i / 100, iterations=360)
    path = os.path.join(site.folder, "report.html")
    site.stoker("report", "new", "-o", path, "--against", "old")
    html = read(path)
    check("Against old" in html and "Loss on the same samples" in html, "no comparison")
    check("largest difference -0.5" in html, re.findall("largest difference [^<]*", html))
    check('class="other"' in html, "the other run's line is not drawn")


def in_a_browser(site):
    if _browser.missing():
        return print("SKIPPED: " + _browser.missing(), flush=True)
    site.publish("old", lambda i: 9 - i / 100)
    site.publish("hello", lambda i: 9 - i / 90)
    path = os.path.join(site.folder, "report.html")
    site.stoker("report", "hello", "-o", path, "--against", "old")
    keep = os.environ.get("STOKER_SCREENSHOTS")
    browser = Browser()
    try:
        for width, dark in ((1280, False), (400, False), (1280, True)):
            browser.look(width, dark=dark)
            browser.go("file://" + path)
            browser.wait_for("document.readyState === 'complete' && document.querySelectorAll('svg').length >= 7")
            wide = browser.value("document.documentElement.scrollWidth")
            check(wide <= width, f"at {width} px the page is {wide} px wide")
            empty = browser.value("[...document.querySelectorAll('svg path')].filter(p => !p.getTotalLength()).length")
            check(empty == 0, f"{empty} lines of charts have no length")
            if keep:
                browser.screenshot(os.path.join(keep, f"report-{width}{'-dark' if dark else ''}.png"), whole=True)
        foreign = [url for url in browser.asked if not url.startswith("file://" + path)]
        check(not browser.complaints and not foreign, f"{browser.complaints} {foreign}")
    finally:
        browser.close()
    return None


def planted(site):
    """A run whose configuration, logs and orders are full of secrets."""
    token = site.write("token", CANARIES["file"] + "\n")
    config = site.write("run.yaml", f"""\
run: hello
scheduler: {{nodes: 1}}
train: {{command: [python3, t.py], environment: {{HF_THING: {CANARIES['environment']}, OMP_NUM_THREADS: "1"}}}}
alerts:
  sinks:
    hook: {{kind: webhook, url: "http://127.0.0.1/{CANARIES['hook']}"}}
    phone: {{kind: ntfy, url: "http://127.0.0.1/x", token_file: {token}}}
""")
    site.publish("hello", lambda i: 5.0)
    events = read(os.path.join(site.folder, "hello", "events.jsonl"))
    added = {"seq": 0, "time": "2026-05-01T02:59:00Z", "run": "hello", "kind": "run_added", "decision": "", "reason": "added",
             "actions": [], "event": {"kind": "run_added", "policy": {"config_path": config}}}
    site.write("hello/events.jsonl", json.dumps(added) + "\n" + events)
    site.write("hello/orders/000001.json", json.dumps({"run": "hello", "environment": {"HF_THING": CANARIES["environment"]}}))
    site.write("hello/gen-000001/agents/lead.json", json.dumps({"secret": CANARIES["generation"]}))
    site.write("hello/gen-000001/start.json", json.dumps({"secret": CANARIES["generation"], "run": "hello"}))
    site.write("hello/gen-000001/main.log", "\n".join([
        f"[n01:0] HF_THING={CANARIES['environment']}", f"[n01:0] Authorization: Bearer {CANARIES['printed']}",
        f"[n01:0] wandb_api_key: {CANARIES['printed']}", f"[n01:0] posting to http://127.0.0.1/{CANARIES['hook']}",
        f"[n01:0] clone https://me:{CANARIES['login']}@example.org/x", f"[n01:0] token was {CANARIES['file']}",
        "[n01:0] -----BEGIN OPENSSH PRIVATE KEY-----", f"{CANARIES['printed']}", "-----END OPENSSH PRIVATE KEY-----",
        "[n01:0] iteration 5/ 10 | consumed tokens: 123456789 | lm loss: 2.5E+00 |", "the end of the log"]))
    os.symlink("/etc/hostname", os.path.join(site.folder, "hello", "gen-000001", "end.json"))


def no_secret_leaves(site):
    planted(site)
    path = os.path.join(site.folder, "hello.tar.zst")
    listed = json.loads(site.stoker("support", "hello", "--dry-run", "--json").stdout)
    check(not os.path.exists(path) and any(f["name"] == "manifest.json" for f in listed["files"]), "the preview")
    site.stoker("support", "hello", "-o", path)
    check(os.stat(path).st_mode & 0o777 == 0o600, "others may read it")
    raw = subprocess.run(["zstd", "-dc", path], capture_output=True, check=True).stdout
    for name, canary in CANARIES.items():
        at = raw.find(canary.encode())
        check(at < 0, f"the canary {name} is in the bundle: {raw[max(0, at - 200):at + 60]!r}")
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        texts = {m.name.split("/", 1)[1]: tar.extractfile(m).read().decode() for m in tar.getmembers()}
    for wanted in ("events.jsonl", "status.json", "gen-000001/main.log", "orders/000001.json", "answers/doctor.txt",
                   "answers/status.txt", "answers/diagnose.txt", "site/site.json", "manifest.json"):
        check(wanted in texts, f"no {wanted} in {sorted(texts)}")
    check("gen-000001/agents/lead.json" not in texts, "the generation's secret is in it")
    log = texts["gen-000001/main.log"]
    check("consumed tokens: 123456789" in log and "the end of the log" in log and "HF_THING=(hidden)" in log, log)
    manifest = json.loads(texts["manifest.json"])
    check(manifest["secrets_hidden"] >= 6 and any("end.json" in left for left in manifest["left_out"]), manifest)


def where_no_room_is(site):
    planted(site)
    told = site.stoker("support", "hello", "-o", "/dev/full/x.tar.zst", code=1).stderr
    check(told.strip().count("\n") <= 1 and "/dev/full" in told, told)
    left = [n for n in os.listdir(site.folder) if n.endswith(".zst") or ".new." in n]
    check(not left, f"left behind: {left}")
    small = site.stoker("support", "hello", "--most", "1", "-o", os.path.join(site.folder, "small.tar.zst")).stderr
    check("small.tar.zst" in small, small)


def main():
    failed = 0
    for case in (one_file, against_another, in_a_browser, no_secret_leaves, where_no_room_is):
        site = Site()
        try:
            case(site)
            print(f"ok: {case.__name__}", flush=True)
        except Failed as error:
            failed += 1
            print(f"FAILED: {case.__name__}: {error}", flush=True)
        finally:
            shutil.rmtree(site.folder, ignore_errors=True)
    sys.exit(1 if failed else 0)


main()
