"""A file or a folder that the owner named, whose lock another user keeps in the kernel: the file of a pulse sink, the file that
the daemon's standard error goes to, the folder in which a new run's directory is made. All else goes on, and the daemon ends when it is
asked to. Needs root for three users, and /dev/fuse."""
import http.server
import os
import signal
import threading
import time

from e2e._harness import check, main, skip
from e2e._locked import LockedSite
from e2e._users import OWNER, STRANGER, make_users

ROUTES = "routes: [{{severity: warning, to: [{to}], repeat: 1h}}]"


def make_file(site, name):
    """The owner's, readable for all, long enough to be read directly."""
    folder = os.path.join(site.folder, "out")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write("x" * 8191 + "\n")
    for made, mode in ((folder, 0o755), (path, 0o644)):
        os.chmod(made, mode)
        os.chown(made, *site.ids(OWNER))
    return path


def held_run(site, run, sink):
    """A run that is held at once, for its command ends, and whose alerts go to this sink alone."""
    site.run = run
    site.directory = os.path.join(site.folder, run)
    path = site.config("/bin/false")
    with open(path, encoding="utf-8") as f:
        lines = [line for line in f if not line.startswith(("alerts:", "group:", "watch:"))]
    kind, _, options = sink.partition(" ")
    with open(path, "w", encoding="utf-8") as f:
        f.write("".join(lines) + f"alerts: {{sinks: {{s: {{kind: {kind}, {options}}}}}, {ROUTES.format(to='s')}}}\n"
                "recover: {restarts: {total: 1, without_progress: 1, refill: 24h}}\n")
    site.stoker("run", path, "--yes")
    site.wait_state("held", 60)


def ends_when_asked(site, limit=20):
    daemon = site.daemon
    daemon.send_signal(signal.SIGTERM)
    time.sleep(1)
    site.let_go()
    daemon.wait(limit)
    site.daemon = None


def a_stranger_reads_the_file_of_a_pulse_sink(site):
    """The alerts of that sink wait, are said to, and arrive at the end; those of another run arrive at once."""
    taken = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            taken.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    pulse = make_file(site, "pulse.log")
    site.start_daemon()
    site.lock_by_reading(STRANGER, pulse)
    held_run(site, "first", f"pulse path: {pulse}")
    held_run(site, "second", f'webhook url: "http://127.0.0.1:{receiver.server_port}/x"')
    site.wait(lambda: taken, 15, "the other run's alert")
    site.wait(lambda: "no answer for" in site.stoker("doctor", ok=False).stdout, 40, "the line of doctor about the sink")
    site.let_go()
    site.wait(lambda: "held" in open(pulse, encoding="utf-8").read(), 60, "the alert in the file")
    receiver.shutdown()


def a_stranger_reads_the_daemons_log(site):
    """Its lines wait; the daemon answers, watches and publishes."""
    path = make_file(site, "stokerd.log")
    site.log.close()
    site.log = open(path, "a", encoding="utf-8")
    site.start()
    site.lock_by_reading(STRANGER, path)
    for _ in range(3):
        began = time.monotonic()
        site.stoker("pause", site.run, "--reason", "it makes a line of the log")
        site.stoker("resume", site.run, "--reason", "another one")
        check(time.monotonic() - began < 5, f"the orders took {time.monotonic() - began:.0f} s")
    seen = site.status()["iteration"]
    site.wait(lambda: site.status()["iteration"] > seen + 100, 30, "news of the run")
    size = os.path.getsize(path)
    site.let_go()
    site.wait(lambda: os.path.getsize(path) > size and "another one" in open(path, encoding="utf-8").read(), 20, "the lines that waited")
    ends_when_asked(site)


def a_stranger_lists_the_folder_of_a_new_run(site):
    """`stoker run` says so; other errands and the other run go on."""
    site.start()
    project = os.path.join(site.folder, "project")
    os.mkdir(project)
    os.chmod(project, 0o755)
    os.chown(project, *site.ids(OWNER))
    first, before = site.run, site.directory
    site.run, site.directory = "fresh", os.path.join(project, "fresh")
    path = site.config()
    site.run, site.directory = first, before
    site.lock_by_reading(STRANGER, project)
    refused = site.stoker("run", path, "--yes", ok=False)
    check(refused.returncode == 1 and "no answer for 4.0s: the run is not supervised" in refused.stderr, refused.stdout + refused.stderr)
    began = time.monotonic()
    site.stoker("exclude", "n02", "--reason", "an errand")
    check(time.monotonic() - began < 4, f"an errand took {time.monotonic() - began:.0f} s")
    seen = site.status()["iteration"]
    site.wait(lambda: site.status()["iteration"] > seen + 50, 30, "news of the run")
    check("fresh" not in site.stoker("status", "--json").stdout, "the run was taken all the same")
    site.let_go()
    site.stoker("run", path, "--yes")
    site.wait(lambda: "fresh" in site.stoker("status", "--json").stdout, 20, "the new run")


if not os.path.exists("/dev/fuse"):
    skip("a root user and /dev/fuse are needed")
make_users()
main(a_stranger_reads_the_file_of_a_pulse_sink, a_stranger_reads_the_daemons_log, a_stranger_lists_the_folder_of_a_new_run, site_of=LockedSite)
