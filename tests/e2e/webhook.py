"""Alerts end to end: a webhook that fails, hangs, closes, redirects and recovers, with the daemon killed in between.
Nothing is lost, nothing of it slows another sink or the daemon down; `alerts`, `alerts test`, `ack` and `silence`."""
import glob
import http.server
import json
import os
import signal
import socket
import threading
import time

from e2e._harness import check, main, run_program
from e2e._server import serve

HELD = dict(command="sh, -c, 'echo no luck; exit 3'", without_progress=1, restarts=1)


class Hook:
    """A local HTTP server whose mood the test sets; `taken` holds (key, body) of what was answered with 200."""

    def __init__(self):
        self.mood, self.taken, self.asked, self.times = "ok", [], [], []
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                key = self.headers["Idempotency-Key"]
                hook.asked.append((hook.mood, key))
                hook.times.append(time.monotonic())
                if hook.mood == "hang":
                    time.sleep(30)
                elif hook.mood == "close":
                    self.connection.shutdown(socket.SHUT_RDWR)
                else:
                    if hook.mood == "slow":
                        time.sleep(3)
                    if hook.mood in ("ok", "slow"):
                        hook.taken.append((key, body))
                    self.send_response({"ok": 200, "slow": 200, "fail": 500, "redirect": 302}[hook.mood])
                    if hook.mood == "redirect":
                        self.send_header("Location", "/elsewhere")
                    self.end_headers()
                self.close_connection = True

            do_GET = do_POST

        self.server, self.url = serve(Handler, "/alerts")

    def moods(self):
        return [mood for mood, _ in self.asked]

    def attempts(self, n):
        """The times of the first n attempts to deliver one alert, or None."""
        keys = [key for _, key in self.asked]
        return next(([t for t, k in zip(self.times, keys) if k == key][:n] for key in keys if keys.count(key) >= n), None)


def sinks(timeout="1s", **urls):
    text = ", ".join(f'{name}: {{kind: webhook, url: "{url}", timeout: {timeout}}}' for name, url in urls.items())
    return f"alerts: {{sinks: {{{text}}}, routes: [{{severity: warning, to: [{', '.join(urls)}], repeat: 1h}}]}}"


def hold_a_run(site, name, *urls, timeout="1s"):
    site.use_run(name)
    site.stoker("run", site.write_files(os.path.join(site.folder, "data"),
                                        more=sinks(timeout, **{f"hook{i}": u for i, u in enumerate(urls)}), **HELD), "--yes")
    return site.wait_state("held", 90)


def runs_told(hook):
    return [body["alerts"][0]["labels"].get("run") for _, body in hook.taken]


def failed_deliveries(site):
    """How often the outbox tried in vain what it still holds."""
    tries = []
    for path in glob.glob(os.path.join(site.state, "outbox", "*.json")):
        with open(path, encoding="utf-8") as f:
            tries += [d.get("attempts", 0) for d in json.load(f).get("deliveries", [])]
    return max(tries, default=0)


def journalled_alerts(site):
    """The keys of all alerts that were decided on, from the published events."""
    return {a for e in site.events() for a in e["actions"] if a.startswith("send_alert")}


def nothing_is_lost(site):
    site.prepare_data()
    bad, good = Hook(), Hook()
    site.start_daemon()
    bad.mood = "fail"
    held = hold_a_run(site, "first", bad.url, good.url)
    check(held["alerts"], "a held run has no alert")
    tries = site.wait(lambda: bad.attempts(3), 30, "a third attempt after 500")
    first, second = (b - a for a, b in zip(tries, tries[1:]))  # a pause of 1 s and one of 2 s, each by up to a fifth shorter
    check(first > 0.5 and second > 1.2, f"no back-off between the attempts: {first:.2f}s and {second:.2f}s")
    for mood in ["hang", "close", "redirect"]:
        bad.mood = mood
        if mood == "close":
            site.kill_daemon()  # with deliveries under way
            site.start_daemon()
        site.wait(lambda m=mood: m in bad.moods(), 60, f"an attempt while the server is in mood {mood}")
    # The other sink had everything long ago, and the daemon answers.
    began = time.monotonic()
    site.status()
    check(time.monotonic() - began < 5, "status waits for a sink")
    site.wait(lambda: good.taken, 10, "the good sink's alert")
    site.kill_daemon()
    site.start_daemon()
    bad.mood = "ok"
    wanted = {key for _, key in bad.asked}
    site.wait(lambda: wanted <= {key for key, _ in bad.taken}, 120, f"all of {wanted} at the sink that had failed")
    check({k for k, _ in good.taken} == wanted, f"the sinks received different things: {good.taken}")
    keys = [key for key, _ in good.taken]
    check(len(keys) == len(set(keys)), f"the good sink received it twice: {keys}")
    body = next(b for _, b in bad.taken if b["alerts"][0]["labels"]["severity"] == "critical")
    alert = body["alerts"][0]
    check(body["version"] == "4" and alert["status"] == "firing", f"payload: {body}")
    check(alert["annotations"]["command"].startswith("stoker "), f"no command to run: {alert}")
    check(alert["annotations"]["reason"] and alert["labels"]["run"] == "first", f"payload: {alert}")
    with open(os.path.join(site.state, "pulse.log"), encoding="utf-8") as f:
        check("***ALERT" in f.read(), "the pulse log does not tell")
    # What was decided is what was sent: one key each.
    decided = [e for e in site.events() if any("alert" in a for a in e["actions"])]
    check(decided, "no event decided on an alert")
    site.stoker("resume", "first", "--reason", "once more")
    site.wait(lambda: any(b["status"] == "resolved" for _, b in bad.taken) and
              any(b["status"] == "resolved" for _, b in good.taken), 60, "a resolved alert")
    site.audit()


def nobody_listens_at_first(site):
    site.prepare_data()
    hook = Hook()
    hook.server.shutdown()
    hook.server.server_close()
    site.start_daemon()
    hold_a_run(site, "first", hook.url)
    site.wait(lambda: failed_deliveries(site) > 0, 30, "a delivery without a listener")
    late = Hook.__new__(Hook)
    Hook.__init__(late)
    port = int(hook.url.split(":")[2].split("/")[0])
    late.server.shutdown()
    late.server.server_close()
    late.server = type(late.server)(("127.0.0.1", port), late.server.RequestHandlerClass)
    threading.Thread(target=late.server.serve_forever, daemon=True).start()
    site.wait(lambda: late.taken, 60, "the alert at a server that was started later")


def a_pass_waits_for_a_slow_receiver(site):
    """`stokerd --once` from cron: what the receiver takes three seconds for is sent by one pass, not by each."""
    site.prepare_data()
    hook = Hook()
    hook.mood = "fail"
    site.start_daemon()
    hold_a_run(site, "first", hook.url, timeout="10s")
    site.wait(lambda: hook.asked, 30, "a delivery that fails")
    site.kill_daemon(signal.SIGTERM)
    hook.mood = "slow"
    for _ in range(6):
        run_program("stokerd", "--state", site.state, "--once", ok=False, env=site.env)
    keys = [key for mood, key in hook.asked if mood == "slow"]
    check(keys and len(keys) == len(set(keys)), f"sent again: {keys}")


def the_verbs(site):
    site.prepare_data()
    hook = Hook()
    site.start_daemon()
    hold_a_run(site, "first", hook.url)
    site.wait(lambda: hook.taken, 30, "the alert")
    shown = json.loads(site.stoker("alerts", "--json").stdout)
    check(shown and {"id", "severity", "summary", "reason", "command", "run", "since"} <= shown[0].keys(), f"{shown}")
    told = site.stoker("alerts").stdout
    check(all(a["id"] in told and a["command"] in told for a in shown), f"alerts for people:\n{told}")
    before = len(hook.asked)
    test = site.stoker("alerts", "test")
    check("hook0" in test.stdout + test.stderr, f"alerts test: {test.stdout}{test.stderr}")
    site.wait(lambda: len(hook.asked) > before, 10, "the test alert")
    hook.mood = "fail"
    failed = site.stoker("alerts", "test", ok=False)
    check(failed.returncode == 1 and "500" in failed.stderr, f"a failing sink: {failed.returncode} {failed.stderr}")
    hook.mood = "ok"
    wrong = site.stoker("ack", "first/nothing/1", ok=False)
    check(wrong.returncode == 1 and "first/nothing/1" in wrong.stderr, f"ack of nothing: {wrong.stderr}")
    site.stoker("ack", shown[0]["id"], "--reason", "seen")
    site.wait(lambda: any(a["id"] == shown[0]["id"] and a["acknowledged"]
                          for a in json.loads(site.stoker("alerts", "--json").stdout)), 20, "the acknowledgement")
    site.stoker("silence", "run=second", "--for", "1h", "--reason", "test")
    count = len(hook.taken)
    hold_a_run(site, "second", hook.url)
    check(site.status()["alerts"], "a silenced alert is not listed")
    # What the daemon has to tell later arrives, and nothing before it.
    hold_a_run(site, "third", hook.url)
    runs = site.wait(lambda: "third" in (told := runs_told(hook)[count:]) and told, 60, "the next run's alert")
    check("second" not in runs, f"a silenced alert was sent: {runs}")
    for matcher, word in [("foo=bar", "unknown matcher"), ("severity=loud", "unknown severity"), ("kind=hagn", "unknown kind")]:
        refused = site.stoker("silence", matcher, ok=False)
        check(refused.returncode == 1 and word in refused.stderr, f"silence {matcher}: {refused.stderr}")
    listed = site.wait(lambda: json.loads(site.stoker("silence", "--list", "--json").stdout), 20, "the silence in the list")
    check(len(listed) == 1 and listed[0]["match"] == "run=second" and listed[0]["reason"] == "test", f"{listed}")
    site.stoker("silence", "--extend", listed[0]["id"], "--for", "3h")
    site.wait(lambda: json.loads(site.stoker("silence", "--list", "--json").stdout)[0]["until"] > listed[0]["until"], 20,
              "the silence with a later end")
    site.stoker("silence", "--end", listed[0]["id"])
    site.wait(lambda: not json.loads(site.stoker("silence", "--list", "--json").stdout), 20, "an empty list of silences")
    gone = site.stoker("silence", "--end", listed[0]["id"], ok=False)
    check(gone.returncode == 1 and "no silence" in gone.stderr, f"the end of no silence: {gone.stderr}")
    wrong = site.stoker("silence", "second", "--for", "1h", ok=False)
    check(wrong.returncode == 2 and "label=value" in wrong.stderr, f"silence without a label: {wrong.stderr}")


def rules(site):
    """Two alerts wait for each other, `alerts` says so, and the next sink receives what is not acknowledged."""
    site.prepare_data()
    first, second = Hook(), Hook()
    site.start_daemon()
    site.use_run("first")
    text = (f'alerts: {{sinks: {{chat: {{kind: webhook, url: "{first.url}"}}, page: {{kind: webhook, url: "{second.url}"}}}}, '
            'routes: [{severity: warning, to: [chat]}], group_wait: 10s, escalate: {after: 2s, to: [page]}}')
    site.stoker("run", site.write_files(os.path.join(site.folder, "data"), more=text, **HELD), "--yes")
    shown = site.wait(lambda: [a for a in json.loads(site.stoker("alerts", "--json").stdout) if a["held"]], 90, "a held alert")
    check(shown[0]["held"][0]["sink"] == "chat" and shown[0]["held"][0]["rule"] == "group_wait", f"{shown}")
    check(not second.taken, "escalated before any sink had it")
    site.wait(lambda: first.taken, 60, "the group's message")
    escalated = site.wait(lambda: second.taken, 60, "the next sink's message")[0][1]["alerts"][0]
    check("sent to chat before" in escalated["annotations"]["escalated"], f"{escalated}")
    check(first.taken, "escalated before the group's message")
    site.wait(lambda: "not sent" not in site.stoker("alerts").stdout, 20, "a list in which nothing is held")


main(nothing_is_lost, nobody_listens_at_first, a_pass_waits_for_a_slow_receiver, the_verbs, rules)
