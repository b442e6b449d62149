"""The dead-man's switch: called while all is observed; kill -STOP and kill -9 of the daemon silence it; a blind daemon says fail."""
import http.server
import os
import signal
import time

from e2e._harness import check, main
from e2e._server import serve

EVERY_S = 2
QUIET = dict(command="sh, -c, 'while :; do sleep 1; done'")


class Receiver:
    """What Healthchecks is to a training: it remembers each call, and what it answers is the test's."""

    def __init__(self):
        self.calls, self.status = [], 200
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                path, _, query = self.path.partition("?")
                receiver.calls.append((time.monotonic(), path, query, body))
                self.send_response(receiver.status)
                self.end_headers()

        self.server, self.url = serve(Handler, "/ping/0123-secret")

    def paths(self):
        return [path.removeprefix("/ping/0123-secret") for _, path, _, _ in self.calls]

    def alive_since(self, moment):
        return [c for c in self.calls if c[0] > moment and c[1].endswith("secret")]


def begin(site):
    receiver = Receiver()
    path = os.path.join(site.folder, "url")
    with open(path, "w", encoding="utf-8") as f:
        f.write(receiver.url + "\n")
    os.chmod(path, 0o600)
    site.start_daemon()
    more = f"alerts: {{dead_man: {{url_file: {path}, every: {EVERY_S}s}}}}"
    site.stoker("run", site.write_files(os.path.join(site.folder, "data"), more=more, **QUIET), "--yes")
    site.wait(lambda: receiver.paths().count("") >= 2, 60, "two calls of a run that is observed")
    return receiver


def alive_frozen_killed(site):
    receiver = begin(site)
    check(receiver.paths()[:2] == ["/start", ""], f"not start first: {receiver.paths()}")
    check(all("rid=" in query for _, _, query, _ in receiver.calls), f"no id: {receiver.calls[0]}")
    check(len({query for _, _, query, _ in receiver.calls}) == 1, "more than one id in the life of a daemon")
    check("run is " in receiver.calls[-1][3], f"no finding in the body: {receiver.calls[-1][3]}")
    os.kill(site.daemon.pid, signal.SIGSTOP)
    frozen = time.monotonic()
    time.sleep(4 * EVERY_S)  # a frozen process sends nothing, however slow this machine is
    check(not receiver.alive_since(frozen + 1), "a frozen daemon was called alive")
    os.kill(site.daemon.pid, signal.SIGCONT)
    site.wait(lambda: receiver.alive_since(frozen + 4 * EVERY_S), 60, "calls after the daemon goes on")
    site.kill_daemon(signal.SIGKILL)
    killed = time.monotonic()
    time.sleep(2 * EVERY_S)
    check(not receiver.alive_since(killed + 1), "a killed daemon was called alive")
    seen = len(receiver.calls)
    site.start_daemon()
    site.wait(lambda: len(receiver.calls) > seen + 1, 60, "calls of the next daemon")
    check(receiver.paths()[seen] == "/start", f"the next life does not begin with start: {receiver.paths()[seen:]}")
    receiver.server.shutdown()


def receiver_that_refuses(site):
    receiver = begin(site)
    receiver.status = 503
    site.wait(lambda: "dead_man" in site.stoker("status", site.run).stdout, 60, "the switch in status")
    told = site.stoker("doctor", ok=False).stdout
    check("dead_man" in told, f"doctor does not name it: {told}")
    check("0123-secret" not in told + site.stoker("status", "--json").stdout, "the URL is shown")
    receiver.status = 200
    site.wait(lambda: "dead_man" not in site.stoker("status", site.run).stdout, 60, "that it arrives again")
    receiver.server.shutdown()


main(alive_frozen_killed, receiver_that_refuses)
