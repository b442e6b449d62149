"""The receivers that cannot run here (Slack, Mattermost, Discord, Teams, PagerDuty, Opsgenie, ntfy, Matrix, OTLP), as
stubs that check each request against what the service documents: not the services themselves. And receivers that
misbehave: one clear line each, nothing lost, no secret in any message."""
import contextlib
import http.server
import itertools
import json
import os
import re
import socket
import ssl
import subprocess
import threading
import time

from e2e._harness import check, main
from e2e._server import serve

HELD = dict(command="sh, -c, 'echo no luck; exit 3'", without_progress=1, restarts=1)
SECRET = "T0SECRETB0SECRET0123456789"


def need(condition, text):
    if not condition:
        raise ValueError(text)


def text_within(value, limit):
    need(isinstance(value, str) and 0 < len(value.encode()) <= limit, f"no text of at most {limit} bytes: {value!r}")


def slack(body, headers, path):
    need(set(body) == {"text", "blocks", "mrkdwn"} and body["mrkdwn"] is False and 1 <= len(body["blocks"]) <= 50, "text and up to 50 blocks")
    text_within(body["text"], 3000)
    for block in body["blocks"]:
        need(block["type"] in ("header", "section", "context"), block)
        if block["type"] == "header":
            need(block["text"]["type"] == "plain_text" and len(block["text"]["text"]) <= 150, block)
        if block["type"] == "section":
            need(block["text"]["type"] in ("mrkdwn", "plain_text"), block)
            text_within(block["text"]["text"], 3000)
            need(not re.search(r"<[!@#]", block["text"]["text"]), "a mention")
    return 200, "ok"


def mattermost(body, headers, path):
    attachment, = body["attachments"]
    for key in ("fallback", "title", "text"):
        text_within(attachment[key], 4000)
    need(re.fullmatch("#[0-9a-f]{6}", attachment["color"]), attachment)
    return 200, "ok"


def discord(body, headers, path):
    need(path.endswith("?wait=true"), path)
    need(body["allowed_mentions"] == {"parse": []}, "mentions are possible")
    text_within(body["content"], 2000)
    embed, = body["embeds"]
    need(len(embed["title"]) <= 256 and len(embed["description"]) <= 4096, embed)
    return 200, json.dumps({"id": "1"})


def teams(body, headers, path):
    need(body["type"] == "message", body)
    attachment, = body["attachments"]
    need(attachment["contentType"] == "application/vnd.microsoft.card.adaptive", attachment)
    card = attachment["content"]
    need(card["type"] == "AdaptiveCard" and all(b["type"] == "RichTextBlock" for b in card["body"]), card)
    need(all(run["type"] == "TextRun" and run["text"] for b in card["body"] for run in b["inlines"]), "a run that is no text")
    return 202, ""


def pagerduty(body, headers, path):
    need(body["routing_key"] == SECRET and body["event_action"] in ("trigger", "acknowledge", "resolve"), body)
    need(0 < len(body["dedup_key"]) <= 255, body)
    if body["event_action"] == "trigger":
        payload = body["payload"]
        text_within(payload["summary"], 1024)
        need(payload["severity"] in ("critical", "error", "warning", "info") and payload["source"], payload)
        need(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", payload["timestamp"]), payload)
    else:
        need("payload" not in body, body)
    return 202, json.dumps({"status": "success", "message": "Event processed", "dedup_key": body["dedup_key"]})


def opsgenie(body, headers, path):
    need(headers["Authorization"] == f"GenieKey {SECRET}", "the key")
    if path.endswith("/v2/alerts"):
        text_within(body["message"], 130)
        text_within(body["alias"], 512)
        text_within(body["description"], 15000)
        need(body["priority"] in ("P1", "P3", "P5") and all(isinstance(v, str) for v in body["details"].values()), body)
    else:
        need(re.search(r"/v2/alerts/[^/]+/(close|acknowledge)\?identifierType=alias$", path), path)
    return 202, json.dumps({"result": "Request will be processed", "requestId": "1"})


def ntfy(body, headers, path):
    need(path == "/ntfy/" and body["topic"] == "my-topic", f"{path} {body}")
    need(headers["Authorization"] == f"Bearer {SECRET}", "the token")
    text_within(body["message"], 4096)
    need(body["priority"] in range(1, 6) and isinstance(body["tags"], list), body)
    return 200, json.dumps({"id": "x", "event": "message"})


def matrix(body, headers, path):
    need(re.fullmatch(r"/matrix/_matrix/client/v3/rooms/%21r%3Aexample.org/send/m\.room\.message/stoker-[0-9a-f]{16}", path), path)
    need(headers["Authorization"] == f"Bearer {SECRET}" and body["msgtype"] == "m.text", body)
    text_within(body["body"], 60000)
    return 200, json.dumps({"event_id": "$1"})


def otlp(body, headers, path):
    need(path == "/otlp/v1/logs", path)
    record, = body["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    need(isinstance(record["timeUnixNano"], str) and record["severityNumber"] in (9, 13, 21), record)
    return 200, "{}"


KINDS = {f.__name__: f for f in (slack, mattermost, discord, teams, pagerduty, opsgenie, ntfy, matrix, otlp)}


class Service:
    """One server for all kinds, by the first part of the path. `errors`: requests that the service would refuse."""

    def __init__(self):
        self.taken, self.errors, self.mood, self.asked = [], [], "ok", 0
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                service.asked += 1
                if not service.behave(self):
                    return
                kind = self.path.split("/")[1]
                try:
                    body = json.loads(raw)
                    status, text = KINDS[kind](body, self.headers, self.path)
                    service.taken.append((kind, body))
                except (ValueError, KeyError, TypeError) as error:
                    service.errors.append(f"{kind} {self.path}: {error!r}")
                    status, text = 400, "does not match the schema"
                self.answer(status, text)

            do_PUT = do_POST

            def answer(self, status, text, **headers):
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

        self.server, self.url = serve(Handler, "")

    def behave(self, handler):
        """True: answer as the service does."""
        if self.mood == "hang":
            time.sleep(8)
        elif self.mood == "cut":
            handler.connection.shutdown(socket.SHUT_RDWR)
        elif self.mood == "redirect":
            handler.answer(302, "", Location=f"http://127.0.0.1:1/{SECRET}")
        elif self.mood == "page":
            handler.answer(200, "<html>Please log in</html>")
        elif self.mood == "huge":
            handler.answer(200, "x" * 5_000_000)
        elif self.mood == "echo":
            handler.answer(400, f"no such hook {handler.path} {handler.headers.get('Authorization')}")
        else:
            return True
        handler.close_connection = True
        return False


def secret_file(site, name, text):
    path = os.path.join(site.folder, name)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
        f.write(text + "\n")
    return path


def all_kinds(site, service):
    key = secret_file(site, "key", SECRET)
    sinks = {kind: f"kind: {kind}, url_file: {secret_file(site, kind, f'{service.url}/{kind}/{SECRET}')}"
             for kind in ("slack", "mattermost", "discord", "teams")}
    sinks["pagerduty"] = f'kind: pagerduty, routing_key_file: {key}, url: "{service.url}/pagerduty"'
    sinks["opsgenie"] = f'kind: opsgenie, key_file: {key}, url: "{service.url}/opsgenie"'
    sinks["ntfy"] = f'kind: ntfy, url: "{service.url}/ntfy/my-topic", token_file: {key}'
    sinks["matrix"] = f'kind: matrix, url: "{service.url}/matrix", room: "!r:example.org", token_file: {key}'
    sinks["otlp"] = f'kind: otlp, url: "{service.url}/otlp"'
    return sinks


def hold(site, sinks):
    text = ", ".join(f"{name}: {{{sink}, timeout: 2s}}" for name, sink in sinks.items())
    more = f"alerts: {{sinks: {{{text}}}, routes: [{{severity: critical, to: [{', '.join(sinks)}], repeat: 1h}}]}}"
    site.start_daemon()
    site.stoker("run", site.write_files(os.path.join(site.folder, "data"), more=more, **HELD), "--yes")
    return site.wait_state("held", 90)


def every_kind_of_service(site):
    service = Service()
    hold(site, all_kinds(site, service))
    site.wait(lambda: {kind for kind, _ in service.taken} >= set(KINDS) or service.errors, 60, "an alert of every kind")
    alert = next(a for a in json.loads(site.stoker("alerts", "--json").stdout) if a["severity"] == "critical")
    site.stoker("ack", alert["id"])
    site.stoker("resume", "run", "--reason", "once more")

    def actions():
        return [b["event_action"] for k, b in service.taken if k == "pagerduty" and b["dedup_key"] == alert["id"]]
    site.wait(lambda: "resolve" in actions(), 60, "the resolution at PagerDuty")
    # At least once: on a loaded machine an answer comes after its time limit, and the same is sent again.
    check([action for action, _ in itertools.groupby(actions())] == ["trigger", "acknowledge", "resolve"], f"PagerDuty: {actions()}")
    check(not service.errors, f"refused by the service: {service.errors}")
    site.audit()


def receivers_that_misbehave(site):
    service = Service()
    sinks = all_kinds(site, service)
    hold(site, sinks)
    site.wait(lambda: {kind for kind, _ in service.taken} >= set(KINDS), 60, "an alert of every kind")
    words = {"cut": "failed", "redirect": "answer 302", "page": "answer 200", "echo": "answer 400", "hang": "failed", "huge": "failed"}
    for mood, word in words.items():
        service.mood = mood
        done = site.stoker("alerts", "test", ok=False)
        said = done.stdout + done.stderr
        check(done.returncode == 1 and word in said, f"{mood}: {done.returncode} {said}")
        check(said.count("slack: failed") == 1, f"{mood}: not one line for a sink: {said}")
        check(SECRET not in said, f"{mood}: a secret is shown: {said}")
    shown = site.stoker("alerts", "test", "--dry-run").stdout
    check(all(f"--- {name} (" in shown for name in sinks) and SECRET not in shown, shown)
    service.mood = "ok"
    check(SECRET not in site.stoker("status", "--json").stdout + site.stoker("alerts", ok=False).stderr, "a secret in status")
    site.stoker("alerts", "test")


def endless_hello(taken):
    """A receiver of https, or another program at its port: HelloRequests without end in place of a certificate.
    taken: for how long each conversation lasted; None = it lasts."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(16)
    flood = b"\x16\x03\x03\x00\x04\x00\x00\x00\x00" * 20000  # more than is read in the meantime

    def flood_it(peer):
        with contextlib.suppress(OSError):
            while True:
                peer.sendall(flood)

    def talk(peer):
        began, place = time.monotonic(), len(taken)
        taken.append(None)
        with contextlib.suppress(OSError):
            peer.recv(65536)
            threading.Thread(target=flood_it, args=(peer,), daemon=True).start()
            peer.recv(1)
        taken[place] = time.monotonic() - began

    def take():
        while True:
            threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()
    threading.Thread(target=take, daemon=True).start()
    return f"https://127.0.0.1:{listener.getsockname()[1]}/x"


def a_hello_without_end(site):
    """Alerts of another run are delivered all the same, and the daemon ends when it is asked to."""
    taken, service = [], Service()
    hold(site, {"evil": f'kind: webhook, url: "{endless_hello(taken)}"'})
    site.wait(lambda: taken, 60, "a connection to the receiver")
    folder = os.path.join(site.folder, "other")
    os.mkdir(folder)
    more = (f'alerts: {{sinks: {{good: {{kind: slack, url_file: {secret_file(site, "slack", f"{service.url}/slack/{SECRET}")}}}}}, '
            "routes: [{severity: critical, to: [good], repeat: 1h}]}")
    path = site.write_files(os.path.join(site.folder, "data"), more=more, **HELD)
    with open(path, encoding="utf-8") as f:
        text = re.sub(r"(?m)^run: .*$", "run: other", f.read()).replace(site.directory, os.path.join(folder, "run"))
    other = os.path.join(folder, "RUN.yaml")
    with open(other, "w", encoding="utf-8") as f:
        f.write(text)
    site.stoker("run", other, "--yes")
    site.wait(lambda: service.taken, 90, "an alert of the other run")
    check(service.taken[0][0] == "slack", service.taken)
    site.wait(lambda: taken[0], 40, "the end of the hello")
    check(taken[0] < 2, f"its messages did not end it: {taken}")  # 0.06 s; 3 s where only time ends it
    site.daemon.terminate()
    site.daemon.wait(60)


def tls_receiver(site, spoken):
    """Offers HTTP/2 too, notes what each connection speaks, and answers late, so that requests overlap."""
    key, certificate = (os.path.join(site.folder, name) for name in ("key.pem", "certificate.pem"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate], check=True, capture_output=True)
    os.chmod(certificate, 0o600)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    listening = socket.create_server(("127.0.0.1", 0))

    def answer(plain):
        with contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True) as peer:
            spoken.append(peer.selected_alpn_protocol())
            peer.recv(65536)
            time.sleep(1)
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    def serve():
        while True:
            threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return f"https://localhost:{listening.getsockname()[1]}/x", certificate


def requests_to_one_receiver_share_no_connection(site):
    """The limits of a connection are those of its request: HTTP/2 would put the second request onto the first one's."""
    spoken = []
    url, certificate = tls_receiver(site, spoken)
    hold(site, {name: f'kind: webhook, url: "{url}", ca_file: {certificate}' for name in ("one", "two", "three")})
    site.wait(lambda: len(spoken) >= 3, 60, "the alerts")
    before = len(spoken)
    site.stoker("alerts", "test")
    check(len(spoken) == before + 3, f"three requests came over {len(spoken) - before} connections")
    check(set(spoken) <= {None, "http/1.1"}, f"what they spoke: {spoken}")


main(every_kind_of_service, receivers_that_misbehave, a_hello_without_end, requests_to_one_receiver_share_no_connection)
