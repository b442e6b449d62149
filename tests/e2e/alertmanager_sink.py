"""Alerts to a real Prometheus Alertmanager: firing, refreshed after it lost its memory, silenced there, resolved."""
import json
import os
import shutil
import socket
import subprocess

from e2e._harness import check, main, skip

HELD = dict(command="sh, -c, 'echo no luck; exit 3'", without_progress=1, restarts=1)


class Alertmanager:
    def __init__(self, site):
        self.site, self.folder, self.process = site, os.path.join(site.folder, "am"), None
        os.makedirs(self.folder)
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.url = f"http://127.0.0.1:{s.getsockname()[1]}"
        self.config = os.path.join(self.folder, "am.yml")
        with open(self.config, "w", encoding="utf-8") as f:
            f.write("route: {receiver: none}\nreceivers: [{name: none}]\n")

    def start(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen([SERVER, "--config.file", self.config, "--storage.path",
                                             os.path.join(self.folder, "data"), "--web.listen-address", self.url[7:],
                                             "--cluster.listen-address="], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.site.wait(lambda: self.amtool("alert").returncode == 0, 60, "Alertmanager")

    def stop(self):
        self.process.kill()
        self.process.wait(timeout=20)

    def amtool(self, *argv):
        return subprocess.run(["amtool", "--alertmanager.url", self.url, *argv], text=True, capture_output=True, check=False)

    def alerts(self, *more):
        done = self.amtool("alert", "query", "-o", "json", *more)
        return json.loads(done.stdout or "[]") if done.returncode == 0 else []


def firing_silenced_resolved(site):
    am = Alertmanager(site)
    am.start()
    try:
        site.start_daemon()
        more = f'alerts: {{sinks: {{am: {{kind: alertmanager, url: "{am.url}"}}}}, routes: [{{severity: warning, to: [am]}}]}}'
        site.stoker("run", site.write_files(os.path.join(site.folder, "data"), more=more, **HELD), "--yes")
        site.wait_state("held", 90)
        critical = site.wait(lambda: next(iter(am.alerts("severity=critical")), None), 60, "the alert at Alertmanager")
        check(critical["labels"]["run"] == "run" and "stoker " in critical["annotations"]["action"], f"{critical}")
        check(critical["endsAt"] > critical["startsAt"], f"it ends before it starts: {critical}")
        am.stop()
        shutil.rmtree(os.path.join(am.folder, "data"), ignore_errors=True)
        am.start()
        site.wait(lambda: am.alerts("severity=critical"), 150, "the refreshed alert after Alertmanager lost all")
        silenced = am.amtool("silence", "add", "run=run", "-c", "known", "-a", "test", "-d", "1h")
        check(silenced.returncode == 0, silenced.stderr)
        site.wait(lambda: not am.alerts("severity=critical") and am.alerts("--silenced", "severity=critical"), 30, "the silence")
        am.amtool("silence", "expire", silenced.stdout.strip())
        site.wait(lambda: am.alerts("severity=critical"), 30, "the end of the silence")
        site.stoker("resume", "run", "--reason", "once more")
        incident = critical["labels"]["incident"]
        site.wait(lambda: not am.alerts(f"incident={incident}"), 60, "the resolution at Alertmanager")
        site.audit()
    finally:
        am.stop()


SERVER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
if not SERVER or not shutil.which("amtool"):
    skip("no prometheus-alertmanager with amtool: the sink is not tried against a real one")
main(firing_silenced_resolved)
