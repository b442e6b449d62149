"""The page with a real run: charts, incidents, both colours, both widths, nothing foreign, nothing executed; its login;
`stoker web`; /metrics and `stoker metrics` under promtool."""
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from e2e import _browser
from e2e._harness import BIN, check, main

HOSTILE = "<script>document.title='executed'</script><img src=x onerror=alert(1)>"
HOSTILE_WORDS = "<b>loss 2.1</b>"
CHARTS = ["loss", "grad_norm", "lr", "step_s", "samples_per_s", "goodput"]
OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


def ask(base, path, token, **headers):
    request = urllib.request.Request(base + path, headers={"Authorization": "Bearer " + token, **headers})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, dict(refused.headers), refused.read().decode()


def start(site):
    """A daemon with its page, a run whose log holds markup, one crash behind it. Returns the address and the token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    prefix = site.prepare_data()
    site.start_daemon("--listen", f"127.0.0.1:{port}")
    again = f"while sleep 0.1; do echo \\\"{HOSTILE}\\\"; done"
    command = f"sh, -c, \"({again}) & exec stoker-train --config TRAIN\""
    follower = f"after: [{{name: evaluate, every: 20, command: [echo, '{HOSTILE_WORDS}']}}]"
    site.stoker("run", site.write_files(prefix, command=command, samples=60000, hidden=64, ffn=256, sequence=64, more=follower), "--yes")
    site.wait_iteration(20)
    os.kill(site.rank_pid(1), signal.SIGKILL)
    site.wait(lambda: site.status()["restarts"] >= 1 and site.status()["state"] == "training", 60, "the restart")
    site.wait_iteration(40)
    with open(os.path.join(site.state, "http-token"), encoding="utf-8") as f:
        return f"http://127.0.0.1:{port}", f.read().strip()


def documents(site, base, token):
    """What the charts are drawn from agrees with what `stoker status` says."""
    def get(path, status=200):
        code, _, text = ask(base, "/api/v1/runs/run" + path, token)
        check(code == status, f"{path}: {code} {text}")
        return json.loads(text)
    site.wait(lambda: len(get("/series?metric=loss")["points"]) > 5, 20, "a series of the loss")
    for metric in CHARTS:
        points = get("/series?metric=" + metric)["points"]
        check(points and all(p[2] <= p[3] <= p[4] for p in points), f"{metric}: {points[:5]}")
    site.wait(lambda: abs(get("/series?metric=goodput")["points"][-1][3] - site.status()["goodput"]["ettr"]) < 0.05, 30,
              "the chart and status to agree on goodput")
    incidents = get("/incidents")["incidents"]
    check(len(incidents) == 1 and incidents[0]["ended_in"] == "training", f"incidents: {incidents}")
    reasons = {event["reason"] for event in site.events()}
    check(all(line["text"] in reasons for line in incidents[0]["lines"]), f"a sentence that no decision said: {incidents}")
    nodes = get("/nodes")
    check(nodes["world_size"] == 2 and nodes["nodes"][0]["ranks"] == 2, f"nodes: {nodes}")
    check(get("/checkpoints")["checkpoints"], "no checkpoint")
    check("<script>" in "\n".join(get("/logs?lines=1000")["lines"]), "the log lacks its first line")
    for bad in ("/logs?lines=0", "/logs?lines=x", "/series?metric=loss&points=1", "/series?metric=../etc", "/alerts?x=1"):
        check("\n" not in get(bad, 400)["error"], f"{bad}: more than a line")


def conditional(base, token):
    status, headers, _ = ask(base, "/assets/page.js", token)
    check(status == 200 and "unsafe" not in headers["Content-Security-Policy"], f"{headers}")
    check(ask(base, "/assets/page.js", token, **{"If-None-Match": headers["ETag"]})[0] == 304, "an ETag is not taken")
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        request = urllib.request.Request(base + "/api/v1/overview", method=method, headers={"Authorization": "Bearer " + token})
        try:
            urllib.request.urlopen(request, timeout=10)
            check(False, method + " is answered")
        except urllib.error.HTTPError as refused:
            check(refused.code == 405, f"{method}: {refused.code}")


def promtool(text):
    if shutil.which("promtool") is None:
        return print("SKIPPED: no promtool here (package prometheus)", flush=True)
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, timeout=30)
    return check(done.returncode == 0 and not done.stderr.strip(), f"promtool: {done.stdout}{done.stderr}")


def metrics(site, base, token):
    _, headers, text = ask(base, "/metrics", token)
    check(headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", headers["Content-Type"])
    check('stoker_run_goodput_ratio{run="run"}' in text and 'stoker_run_restarts_total{run="run"} 1' in text, text)
    check("rank=" not in text, "a series a rank")
    site.wait(lambda: 'stoker_run_follower_last_iteration{run="run",follower="evaluate"}' in ask(base, "/metrics", token)[2], 60,
              "a follower in the metrics")
    promtool(text)
    _, headers, text = ask(base, "/metrics", token, Accept=OPEN_METRICS)
    check(headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0"), headers["Content-Type"])
    check(text.endswith("# EOF\n"), "no end of OpenMetrics")
    told = site.stoker("metrics").stdout
    families = [line for line in told.splitlines() if line.startswith("# TYPE")]
    check("\nstoker_up 1\n" in told and len(families) > 25, told)
    promtool(told)
    path = os.path.join(site.folder, "stoker.prom")
    site.stoker("metrics", "-o", path)
    with open(path, encoding="utf-8") as f:
        check(f.read().startswith("# HELP stoker_up"), "the textfile is another text")


def quiet(browser, base):
    """No complaint, no request to another host."""
    check(not browser.complaints, f"the console says: {browser.complaints[:3]}")
    foreign = [url for url in browser.asked if not url.startswith((base, "about:", "data:"))]
    check(not foreign, f"foreign requests: {foreign}")
    check(browser.value("document.title") != "executed", "markup of a log was executed")
    check(browser.value("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the screen")


def look_at_run(browser, base):
    browser.go(base + "/#/run/run")
    browser.wait_for("document.querySelectorAll('.chart canvas').length >= 12 && document.querySelector('.log').textContent")
    browser.wait_for("document.querySelector('.timeline .band-trouble') !== null")
    titles = browser.value("[...document.querySelectorAll('.chart .canvas')].map(c => c.getAttribute('aria-label'))")
    check(len(titles) == len(CHARTS) and all("at iteration" in title for title in titles), f"text of the charts: {titles}")
    pictures = browser.value("[...document.querySelectorAll('svg[role=img]')].map(s => s.getAttribute('aria-label'))")
    check(len(pictures) >= 3 and all(pictures), f"text of the drawings: {pictures}")
    check("rank" in browser.value("document.querySelector('.timeline .band-trouble title').textContent"), "a band without words")
    check("<script>" in browser.value("document.querySelector('.log').textContent"), "the log's markup is not shown as text")
    cost = "hours(site.runs[0].goodput.incidents[0].gpu_hours, site.runs[0].goodput.incidents[0].node_hours)"
    browser.wait_for(f"document.querySelector('details.incident summary').textContent.includes({cost})")
    figures = browser.value("document.querySelector('.figures').textContent")
    check("Lost" in figures and "node hours" in figures, f"what it cost: {figures}")
    browser.wait_for("document.querySelector('main').textContent.includes('Nothing to do: no alert is open.')")
    browser.wait_for("(document.querySelector('.followers tbody') || {textContent: ''}).textContent.includes(" + json.dumps(HOSTILE_WORDS) + ")")
    check("evaluate" in browser.value("document.querySelector('.followers tbody').textContent"), "the command on checkpoints has no name")
    quiet(browser, base)


def keyboard(browser):
    """From the address line to a run, to a chart, and along its points: no mouse."""
    for _ in range(12):
        browser.key("Tab", 9)
        if browser.value("document.activeElement.textContent") == "run":
            break
    check(browser.value("document.activeElement.textContent") == "run", "Tab does not reach the run")
    browser.key("Enter", 13)
    browser.wait_for("document.querySelectorAll('.chart canvas').length >= 12")
    browser.value("document.querySelector('.chart .canvas').focus()")
    browser.key("ArrowLeft", 37)
    browser.wait_for("document.querySelector('.chart .readout').textContent.length > 10", 5)


def a_run_with_a_hostile_name(browser, base):
    """The names of runs are checked, but the page must not rely on it."""
    browser.value("""(() => { const real = ask; window.ask = async path => { const d = await real(path);
        if (path.endsWith('overview')) d.runs.forEach(r => { r.run = '<script>document.title="executed"</script>'; r.reason = '<b>x</b>'; });
        return d; }; ask = window.ask; })()""")
    browser.wait_for("[...document.querySelectorAll('.run h2 a')].some(a => a.textContent.startsWith('<script>'))")
    check(browser.value("document.querySelectorAll('main script, main b').length") == 0, "a name became an element")
    check(browser.value("document.title") != "executed", "a name was executed")


def the_page(site):
    began = time.monotonic()
    base, token = start(site)
    documents(site, base, token)
    conditional(base, token)
    metrics(site, base, token)
    web = json.loads(site.stoker("web", "--json").stdout)
    port = base.rpartition(":")[2]
    check(web["tunnel"].startswith(f"ssh -N -L {port}:127.0.0.1:{port} "), web["tunnel"])
    check(_browser.missing() == "" or not os.environ.get("STOKER_NEED_BROWSER"), _browser.missing())
    if _browser.missing():
        return print("SKIPPED: the page itself: " + _browser.missing(), flush=True)
    own = web["url"].split("/login")[0]
    browser = _browser.Browser()
    try:
        browser.look(1280)
        browser.go(web["url"])
        browser.wait_for("document.querySelectorAll('.run').length === 1")
        check(token not in browser.value("location.href + document.cookie"), "the token is in the address or for scripts to read")
        quiet(browser, own)
        keyboard(browser)
        for width in (1280, 400):
            for dark in (False, True):
                browser.look(width, dark=dark)
                look_at_run(browser, own)
        browser.go(own + "/#/")
        browser.wait_for("document.querySelectorAll('.run').length === 1")
        lately = browser.value("document.querySelector('.run').textContent")
        check("Last 24 hours: 1 incident" in lately and "rank crash at 2" in lately, f"what happened lately: {lately}")
        a_run_with_a_hostile_name(browser, own)
        quiet(browser, own)
        site.daemon.send_signal(signal.SIGSTOP)
        browser.wait_for("!document.querySelector('#stale').hidden", 12)
        site.daemon.send_signal(signal.SIGCONT)
    finally:
        browser.close()
    check(time.monotonic() - began < 90, f"the test took {time.monotonic() - began:.0f} s")


def its_own_socket(site):
    """Without --listen the page is on a socket for the owner alone; `stoker web` says how to reach it, and when it is missing."""
    check("no daemon" in site.stoker("web", ok=False).stderr, "no word of the daemon that is away")
    site.start_daemon()
    path = os.path.join(site.state, "web.sock")
    check(os.stat(path).st_mode & 0o777 == 0o600, "the socket is open to others")
    told = site.stoker("web").stdout
    check(f"ssh -N -L 9470:{path} " in told and "http://localhost:9470/" in told and "token" not in told, told)
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(path)
        door.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost:9470\r\n\r\n")
        check(door.makefile("rb").read().endswith(b"ok\n"), "the socket does not answer")
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(path)
        door.sendall(b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        check(b" 421 " in door.makefile("rb").readline(), "a foreign name is served")
    site.kill_daemon(signal.SIGTERM)
    check("\nstoker_up 0\n" in site.stoker("metrics").stdout, "the metrics say that a dead daemon is up")
    site.start_daemon("--listen", "none")
    check("no page" in site.stoker("web", ok=False).stderr, "a page is promised")


def beyond_loopback(site):
    """Beyond loopback the page wants a certificate: refused without one, served through TLS with one, which may be renewed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    def serve(*options):
        return subprocess.run([os.path.join(BIN, "stokerd"), "--state", site.state, "--listen", f"0.0.0.0:{port}", *options],
                              capture_output=True, text=True, timeout=30, env=site.env)
    done = serve()
    check(done.returncode == 1 and "--tls-cert" in done.stderr, f"a port beyond loopback without TLS: {done.stderr}")
    if not shutil.which("openssl"):
        return print("SKIPPED: the page through TLS: openssl is not here", flush=True)
    certificate, key = (os.path.join(site.folder, name) for name in ("host.pem", "host.key"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=page", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    os.chmod(key, 0o644)
    files = ["--tls-cert", certificate, "--tls-key", key]
    done = serve(*files)
    check(done.returncode == 1 and "other users can read the key" in done.stderr, f"a key that all can read: {done.stderr}")
    os.chmod(key, 0o600)
    check(serve("--tls-cert", certificate).returncode == 64, "a certificate without its key")
    check(serve(*files, "--insecure").returncode == 64, "TLS and --insecure")
    site.start_daemon("--listen", f"0.0.0.0:{port}", *files)
    web = json.loads(site.stoker("web", "--json").stdout)
    check(web["url"].startswith("https://") and web["tunnel"] == "", f"stoker web: {web}")
    token = web["url"].split("token=")[1]
    trust = ssl.create_default_context(cafile=certificate)
    with urllib.request.urlopen(f"https://localhost:{port}/healthz?token={token}", timeout=20, context=trust) as answer:
        check(answer.status == 200, f"{answer.status}")
    try:
        urllib.request.urlopen(f"http://localhost:{port}/healthz?token={token}", timeout=20)
        check(False, "clear text was answered")
    except OSError:
        pass


main(the_page, its_own_socket, beyond_loopback)
