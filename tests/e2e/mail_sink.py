"""Alerts by mail, against a real SMTP server (aiosmtpd): STARTTLS is verified, 451 is tried again, 550 is reported and the
alert goes to another sink; one incident is one thread; a dry run sends nothing and shows no secret."""
import json
import os
import subprocess
import sys

from e2e._harness import check, main, skip

HELD = dict(command="sh, -c, 'echo no luck; exit 3'", without_progress=1, restarts=1)
PASSWORD = "correct horse"


def python_with_aiosmtpd():
    for python in [sys.executable, "/usr/bin/python3"]:
        if subprocess.run([python, "-c", "import aiosmtpd"], capture_output=True, check=False).returncode == 0:
            return python
    return None


class Relay:
    def __init__(self, site):
        self.folder = os.path.join(site.folder, "relay")
        os.makedirs(self.folder)
        self.ca = os.path.join(self.folder, "cert.pem")
        self.password = os.path.join(self.folder, "password")
        with open(os.open(self.password, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as f:
            f.write(PASSWORD + "\n")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", self.ca,
                        "-keyout", os.path.join(self.folder, "key.pem")], check=True, capture_output=True)
        self.mood("ok")
        self.process = subprocess.Popen([PYTHON, os.path.join(os.path.dirname(os.path.abspath(__file__)), "_smtpd.py"),
                                         self.folder], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=site.folder)
        port = site.wait(lambda: os.path.exists(os.path.join(self.folder, "port")) and
                         open(os.path.join(self.folder, "port"), encoding="utf-8").read(), 60, "the mail server")
        self.server = f"smtp://127.0.0.1:{port}"

    def mood(self, word):
        with open(os.path.join(self.folder, "mood"), "w", encoding="utf-8") as f:
            f.write(word)

    def events(self, kind):
        try:
            with open(os.path.join(self.folder, "mails.jsonl"), encoding="utf-8") as f:
                return [e for e in map(json.loads, f) if e["event"] == kind]
        except FileNotFoundError:
            return []

    def mails(self):
        return self.events("mail")

    def sink(self, trusted=True, to="oncall@example.org, gone@example.org"):
        ca = f", ca_file: {self.ca}" if trusted else ""
        return (f'{{kind: email, server: "{self.server}", from: stoker@example.org, to: [{to}], user: stoker, '
                f"password_file: {self.password}, timeout: 5s{ca}}}")

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)


def hold(site, sinks, to):
    """A run on hold: its critical alert goes to `to`."""
    text = ", ".join(f"{name}: {sink}" for name, sink in sinks.items())
    more = f"alerts: {{page: \"https://login1.example.org:9470\", sinks: {{{text}}}, routes: [{{severity: warning, to: [{to}], repeat: 1h}}]}}"
    site.start_daemon()
    site.stoker("run", site.write_files(os.path.join(site.folder, "data"), more=more, **HELD), "--yes")
    return site.wait_state("held", 90)


def with_relay(test):
    def run(site):
        relay = Relay(site)
        try:
            test(site, relay)
        finally:
            relay.stop()
    run.__name__ = test.__name__
    return run


@with_relay
def one_thread(site, relay):
    relay.mood("busy")
    hold(site, {"mail": relay.sink()}, "mail")
    site.wait(lambda: len(relay.events("data")) >= 2, 60, "a second attempt after 451")
    check(not relay.mails(), "a mail was taken while the relay answered 451")
    relay.mood("one_bad")
    critical = site.wait(lambda: next((m for m in relay.mails() if m["headers"]["subject"].startswith("CRITICAL")), None),
                         60, "the critical alert")
    site.wait(lambda: "550 5.1.1 no such user" in site.stoker("alerts", ok=False).stderr, 30, "the refused address in `stoker alerts`")
    relay.mood("ok")
    headers = critical["headers"]
    check(critical["tls"] and critical["user"] == "stoker", f"no TLS or no user: {critical}")
    check(critical["to"] == ["oncall@example.org"], f"recipients: {critical['to']}")
    check(not critical["defects"], f"defects: {critical['defects']}")
    check(headers["auto-submitted"] == "auto-generated" and "list-id" in headers, f"headers: {headers}")
    check(len(headers["subject"]) <= 80, headers["subject"])
    first = critical["bodies"]["text/plain"].splitlines()[0]
    check("Act now: stoker resume" in first or "Look now" in first, f"the first line: {first}")
    lines = critical["bodies"]["text/plain"].splitlines()
    check(any(line.startswith("Run: held at iteration ") for line in lines), f"how the run stands: {lines}")
    check(any(line.startswith("Next: stoker ") for line in lines) and f"      stoker ack {headers['x-stoker-incident']}" in lines, f"commands to paste: {lines}")
    check("Page: https://login1.example.org:9470/#/run/run" in lines, f"the link: {lines}")
    html = critical["bodies"]["text/html"]
    check("<html>" in html and '<a href="https://login1.example.org:9470/#/run/run">' in html, f"the HTML: {html}")
    open_alerts = json.loads(site.stoker("alerts", "--json", ok=False).stdout)
    incident = headers["x-stoker-incident"]
    check(incident in [a["id"] for a in open_alerts], f"{incident} is not in {open_alerts}")

    def thread():
        return [m["headers"] for m in relay.mails() if m["headers"]["x-stoker-incident"] == incident]
    site.stoker("ack", incident, "--reason", "seen")
    site.wait(lambda: any(h["x-stoker-status"] == "acknowledged" for h in thread()), 30, "the acknowledgement by mail")
    site.stoker("resume", "run", "--reason", "once more")
    site.wait(lambda: any(h["x-stoker-status"] == "resolved" for h in thread()), 60, "the resolution by mail")
    root = thread()[0]["message-id"]
    check("references" not in thread()[0], "the first mail refers to another one")
    check(all(h["references"] == root == h["in-reply-to"] and h["message-id"] != root for h in thread()[1:]),
          f"not one thread: {thread()}")
    site.audit()


@with_relay
def a_bad_certificate(site, relay):
    hold(site, {"mail": relay.sink(trusted=False)}, "mail")
    seen = site.wait(lambda: [line for line in site.stoker("alerts", ok=False).stderr.splitlines() if "certificate" in line],
                     30, "the certificate in `stoker alerts`")
    check(len(seen) == 1 and "sink mail (email) of run does not deliver since" in seen[0], f"{seen}")
    check("certificate" in site.stoker("status").stdout, "status does not show the sink")
    check(not relay.events("data"), "something was sent over a connection that was not verified")
    failed = site.stoker("alerts", "test", ok=False)
    check(failed.returncode == 1 and "certificate" in failed.stderr, f"alerts test: {failed.stdout}{failed.stderr}")


@with_relay
def a_refused_page(site, relay):
    relay.mood("spam")
    taken = os.path.join(site.folder, "taken")
    other = f"{{kind: exec, command: [sh, -c, 'cat >> {taken}']}}"
    hold(site, {"mail": relay.sink(), "spare": other}, "mail")

    def documents():
        if not os.path.exists(taken):
            return []
        with open(taken, encoding="utf-8") as f:
            return [json.loads(line) for line in f]
    told = site.wait(lambda: next((d for d in documents() if d["severity"] == "critical"), None), 60,
                     "the critical alert at the other sink")
    check("mail: 550 5.7.1 refused as spam" == told["instead_of"], f"{told}")
    check(all(d["severity"] == "critical" for d in documents()), "a warning went to a sink that is not routed")
    site.wait(lambda: "not taken: " in site.stoker("alerts", ok=False).stderr, 30, "the refusal in `stoker alerts`")
    check("refused as spam" in site.stoker("status").stdout, "status does not show the refusal")
    nagios = site.stoker("doctor", "--nagios", ok=False)
    check(nagios.returncode == 2 and "refused as spam" in nagios.stdout, f"{nagios.returncode} {nagios.stdout}")
    doctor = json.loads(site.stoker("doctor", "--json", ok=False).stdout)
    check(not doctor["ok"] and any(f["check"] == "alerts" and f["level"] == "bad" for f in doctor["findings"]), f"{doctor}")
    relay.mood("ok")
    site.stoker("alerts", "test")
    site.wait(lambda: "does not deliver" not in site.stoker("alerts").stderr, 30, "the sink's recovery after a test")


@with_relay
def a_dry_run(site, relay):
    taken = os.path.join(site.folder, "taken")
    hold(site, {"mail": relay.sink(), "run": f"{{kind: exec, command: [sh, -c, 'cat >> {taken}']}}"}, "mail")
    site.wait(lambda: any(m["headers"]["subject"].startswith("CRITICAL") for m in relay.mails()), 60, "the last alert")
    before, pulse = len(relay.events("data")), os.path.join(site.state, "pulse.log")
    with open(pulse, encoding="utf-8") as f:
        lines = f.read()
    shown = site.stoker("alerts", "test", "--dry-run").stdout
    for words in ["--- mail (email): would send, was not sent", "RCPT TO:<oncall@example.org>", "Auto-Submitted: auto-generated",
                  "--- run (exec)", "with password ***", "PULSE: test: a test alert"]:
        check(words in shown, f"{words!r} is not in\n{shown}")
    check(PASSWORD not in shown, "the password is shown")
    check(len(relay.events("data")) == before and not os.path.exists(taken), "a dry run sent something")
    with open(pulse, encoding="utf-8") as f:
        check(f.read() == lines, "a dry run wrote to the pulse log")
    for path in [site.state, site.directory]:
        found = subprocess.run(["grep", "-rlF", PASSWORD, path], text=True, capture_output=True, check=False).stdout
        check(not found, f"the password stands in {found}")


PYTHON = python_with_aiosmtpd()
if PYTHON is None:
    skip("no aiosmtpd (Debian: python3-aiosmtpd): mail is not tried against a real server")
main(one_thread, a_bad_certificate, a_refused_page, a_dry_run)
