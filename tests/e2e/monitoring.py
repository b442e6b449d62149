"""What deploy/ has for Prometheus and Grafana: the rules under promtool and in a real Prometheus, each fired once; the
dashboard asks only for metrics that stoker has."""
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
RULES = os.path.join(ROOT, "deploy", "prometheus", "stoker-rules.yaml")


class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


def promtool(*words):
    done = subprocess.run(["promtool", *words], text=True, capture_output=True, timeout=120)
    check(done.returncode == 0, f"promtool {' '.join(words)}: {done.stdout}{done.stderr}")


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def known_metrics():
    return set(re.findall(r'"(stoker_[a-z_]+)"', text_of(os.path.join(ROOT, "wire", "metrics.cpp"))))


def rules_fire_once():
    promtool("check", "rules", RULES)
    promtool("test", "rules", RULES.replace(".yaml", "-test.yaml"))
    tests = text_of(RULES.replace(".yaml", "-test.yaml"))
    for rule in re.findall(r"- alert: (\w+)", text_of(RULES)):
        check(re.search(rf"alertname: {rule}\n\s+exp_alerts:\n\s+- exp_labels", tests), f"no test fires {rule}")


def prometheus_loads_them():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="stoker-prometheus-") as folder:
        config = os.path.join(folder, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"rule_files: [{json.dumps(RULES)}]\nglobal: {{evaluation_interval: 1s}}\n")
        with open(os.path.join(folder, "log"), "wb") as log:
            process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                                        f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
        try:
            end, health = time.monotonic() + 90, {}
            while time.monotonic() < end and process.poll() is None:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/rules", timeout=5) as answer:
                        groups = json.load(answer)["data"]["groups"]
                    health = {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}
                    if health and all(state == "ok" for state in health.values()):
                        break
                except OSError:
                    pass
                time.sleep(0.2)
            wanted = set(re.findall(r"- alert: (\w+)", text_of(RULES)))
            check(set(health) == wanted and set(health.values()) == {"ok"},
                  f"{health}; {text_of(os.path.join(folder, 'log'))[-1000:]}")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


def metrics_exist():
    known = known_metrics()
    check(len(known) > 30, f"too few metrics were found in wire/metrics.cpp: {sorted(known)}")
    for path in [RULES] + glob.glob(os.path.join(ROOT, "deploy", "grafana", "*.json")):
        unknown = {m for m in re.findall(r"\bstoker_[a-z_]+", text_of(path))} - known
        check(not unknown, f"{path} asks for what stoker does not have: {sorted(unknown)}")


def dashboard_is_classic():
    board = json.loads(text_of(os.path.join(ROOT, "deploy", "grafana", "stoker-runs.json")))
    check(board["uid"] and board["schemaVersion"] >= 36, "no uid or schemaVersion")
    check([v for v in board["templating"]["list"] if v["type"] == "datasource"], "no variable for the data source")
    ids = [panel["id"] for panel in board["panels"]]
    check(len(ids) == len(set(ids)), "two panels have one id")
    taken = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        check(at["x"] + at["w"] <= 24 and not cells & taken, f"{panel['title']} lies over another panel")
        taken |= cells
        check(all(t["expr"].strip() and t["datasource"]["uid"] == "${datasource}" for t in panel["targets"]), panel["title"])


def main():
    cases = [metrics_exist, dashboard_is_classic]
    if shutil.which("promtool") and shutil.which("prometheus"):
        cases += [rules_fire_once, prometheus_loads_them]
    else:
        print("SKIPPED: rules in promtool and Prometheus (package prometheus)", flush=True)
    for case in cases:
        try:
            case()
            print(f"ok: {case.__name__}", flush=True)
        except Failed as error:
            print(f"FAILED: {case.__name__}: {error}", flush=True)
            sys.exit(1)


main()
