"""`stoker tail URL` against a real nginx and against servers that are worse: what is appended, cut off and replaced, a server
that stops and comes back, one without ranges, one that redirects, lies or speaks another protocol."""
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

from e2e._harness import BIN, check, main, run_program
from e2e._server import serve

STOKER = os.path.join(BIN, "stoker")
NGINX = shutil.which("nginx") or ("/usr/sbin/nginx" if os.path.exists("/usr/sbin/nginx") else None)
CONFIG = """\
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
{user}
events {{ worker_connections 64; }}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  default_type text/plain;
  server {{ listen 127.0.0.1:{port}; root {folder}/www; }}
}}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Nginx:
    def __init__(self, site):
        self.folder = os.path.join(site.folder, "nginx")
        self.www = os.path.join(self.folder, "www")
        os.makedirs(self.www)
        self.port = free_port()
        self.config = os.path.join(self.folder, "nginx.conf")
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(CONFIG.format(folder=self.folder, port=self.port, user="user root;" if os.geteuid() == 0 else ""))
        self.log = os.path.join(self.www, "main.log")
        self.url = f"http://127.0.0.1:{self.port}/main.log"
        self.child = None
        self.start()

    def start(self):
        self.child = subprocess.Popen([NGINX, "-c", self.config, "-e", os.path.join(self.folder, "error.log")],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            check(self.child.poll() is None, f"nginx ends with {self.child.returncode}")
            time.sleep(0.05)
        check(False, "nginx does not listen")

    def stop(self):
        if self.child:
            self.child.send_signal(signal.SIGTERM)
            self.child.wait(timeout=20)
            self.child = None

    def put(self, text, mode="w"):
        with open(self.log, mode, encoding="utf-8", newline="") as f:
            f.write(text)

    def requests(self):
        with open(os.path.join(self.folder, "access.log"), encoding="utf-8") as f:
            return f.read().splitlines()

    def looked_at(self, tail):
        """Returns when `tail` has asked for the file as it is now, and asked once more."""
        asked = len(self.requests())
        tail.wait(lambda: len(self.requests()) > asked + 2, "three more looks at the file")


class Tail:
    """A `stoker tail` that runs; its lines and what it said."""

    def __init__(self, site, url, *arguments):
        self.child = subprocess.Popen([STOKER, "tail", url, "--every", "100ms", *arguments], env=site.env,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines, self.said = [], []
        for stream, kept in [(self.child.stdout, self.lines), (self.child.stderr, self.said)]:
            threading.Thread(target=lambda s=stream, k=kept: [k.append(x.rstrip("\n")) for x in s], daemon=True).start()

    def wait(self, condition, what, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.05)
        check(False, f"waited for {what}; lines {self.lines[-5:]}, said {self.said}")

    def says(self, text):
        return any(text in x for x in self.said)

    def close(self):
        self.child.terminate()
        self.child.wait(timeout=20)


def with_nginx(test):
    def run(site):
        if not NGINX:
            print(f"SKIPPED: {test.__name__}: no nginx here (apt-get install nginx-light)", flush=True)
            return
        server = Nginx(site)
        try:
            test(site, server)
        finally:
            server.stop()
    run.__name__ = test.__name__
    return run


@with_nginx
def grows(site, server):
    server.put("".join(f"line {i}\n" for i in range(1000)) + "unfin")
    tail = Tail(site, server.url, "-n", "3")
    try:
        tail.wait(lambda: len(tail.lines) >= 2, "the last lines")
        server.looked_at(tail)  # the unfinished one is the third, and waits for its end
        check(tail.lines == ["line 998", "line 999"], f"-n 3 shows {tail.lines}")
        server.put("ished\nnext \x1b[31mred\x07\r\n", "a")
        tail.wait(lambda: len(tail.lines) == 4, "what was appended")
        check(tail.lines[2] == "unfinished" and "red" in tail.lines[3] and "\x1b" not in tail.lines[3], f"{tail.lines[2:]}")
        for i in range(50):
            server.put(f"more {i}\n", "a")
        server.put("x" * 300_000 + "\n", "a")
        tail.wait(lambda: len(tail.lines) == 55, "fifty-one more lines")
        check([x for x in tail.lines if x.startswith("more")] == [f"more {i}" for i in range(50)], "lines lost or doubled")
        check(len(tail.lines[-1]) == 300_000, "a long line is cut")
        check(tail.said == [], f"nothing was to be said: {tail.said}")
        answers = [x.split('"')[2].split()[0] for x in server.requests()]
        check("206" in answers and "200" not in answers, f"nginx was not asked for ranges: {set(answers)}")
        check("304" in answers, "nothing new, and all the same asked for bytes")
    finally:
        tail.close()


@with_nginx
def cut_off_and_replaced(site, server):
    server.put("".join(f"old {i}\n" for i in range(100)))
    tail = Tail(site, server.url, "-n", "1")
    try:
        tail.wait(lambda: tail.lines == ["old 99"], "the last line")
        server.put("young 1\n")  # shorter: 416
        tail.wait(lambda: "young 1" in tail.lines, "the beginning of the shorter file")
        check(tail.says("cut off"), f"said: {tail.said}")
        time.sleep(1.1)  # nginx makes its ETag of seconds and size
        aside = server.log + ".new"
        with open(aside, "w", encoding="utf-8") as f:  # longer than the one before, and other bytes
            f.write("".join(f"new {i}\n" for i in range(200)))
        os.replace(aside, server.log)
        tail.wait(lambda: "new 199" in tail.lines, "the new file")
        check([x for x in tail.lines if x.startswith("new")] == [f"new {i}" for i in range(200)], "not all of the new file")
        check(tail.says("replaced"), f"said: {tail.said}")
        os.remove(server.log)
        tail.wait(lambda: tail.says("404"), "the word that it is gone")
        server.put("back\n")
        tail.wait(lambda: tail.lines[-1] == "back", "the file that came back")
        server.put("")
        server.looked_at(tail)
        server.put("after nothing\n")
        tail.wait(lambda: tail.lines[-1] == "after nothing", "what follows an empty file")
    finally:
        tail.close()


@with_nginx
def server_goes_and_comes(site, server):
    server.put("one\n")
    tail = Tail(site, server.url)
    try:
        tail.wait(lambda: tail.lines == ["one"], "the first line")
        server.stop()
        tail.wait(lambda: tail.says("trying again"), "the word that the server is away")
        server.put("two\n", "a")
        server.start()
        tail.wait(lambda: tail.lines == ["one", "two"], "what was written while it was away", 30)
        check(tail.says("answers again"), f"said: {tail.said}")
        check(sum("trying again" in x for x in tail.said) == 1, f"said more than once: {tail.said}")
    finally:
        tail.close()
    impatient = Tail(site, server.url, "--give-up", "1s")
    try:
        impatient.wait(lambda: impatient.lines, "the first line")
        server.stop()
        check(impatient.child.wait(timeout=30) == 1 and impatient.says("given up"), f"--give-up: {impatient.said}")
    finally:
        impatient.close()


@with_nginx
def once_and_json(site, server):
    server.put("a\nb\nc")
    done = run_program("stoker", "tail", server.url, "--once", "--json", "-n", "2", env=site.env)
    found = [json.loads(x) for x in done.stdout.splitlines()]
    check(found == [{"offset": 2, "text": "b"}, {"offset": 4, "text": "c"}], f"{found}")
    big = "".join(f"{i:07d} {'y' * 90}\n" for i in range(60_000))  # 6 MB: more than one look back, more than one piece
    server.put(big)
    done = run_program("stoker", "tail", server.url, "--once", "-n", "50000", env=site.env)
    lines = done.stdout.splitlines()
    check(len(lines) == 50000 and lines[0].startswith("0010000 ") and lines[-1].startswith("0059999 "),
          f"{len(lines)} lines from {lines[:1]}")
    check(run_program("stoker", "tail", server.url, "--once", "-n", "0", env=site.env).stdout == "", "-n 0 shows lines")
    done = run_program("stoker", "tail", server.url + ".gone", ok=False, env=site.env)
    check(done.returncode == 1 and "404" in done.stderr and len(done.stderr.splitlines()) == 1, f"404: {done.stderr}")


class Odd:
    """A server of Python's own, without ranges, or with what a test puts in its place."""

    def __init__(self, folder, get=None):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=folder)

            def do_GET(self):
                if get is None or not get(self):
                    super().do_GET()

        self.server, self.url = serve(Handler, "/main.log")

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def without_ranges(site):
    path = os.path.join(site.folder, "main.log")
    with open(path, "w", encoding="utf-8") as f:
        f.write("".join(f"line {i}\n" for i in range(5000)))
    server = Odd(site.folder)
    tail = Tail(site, server.url, "-n", "2")
    try:
        tail.wait(lambda: tail.lines == ["line 4998", "line 4999"], "the last lines")
        check(sum("no ranges" in x for x in tail.said) == 1, f"said: {tail.said}")
        for i in range(20):
            with open(path, "a", encoding="utf-8") as f:
                f.write(f"more {i}\n")
            time.sleep(0.05)
        tail.wait(lambda: tail.lines[2:] == [f"more {i}" for i in range(20)], "twenty more lines, each once")
        with open(path, "w", encoding="utf-8") as f:
            f.write("short\n")
        tail.wait(lambda: tail.lines[-1] == "short", "the shorter file")
        check(sum("no ranges" in x for x in tail.said) == 1, f"said again: {tail.said}")
    finally:
        tail.close()
        server.close()


def answers(handler, status, body=b"", **headers):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
    return True


def pages_without_end(site):
    """An error's page may have no end: its beginning is enough."""
    sent = []

    def endless(handler):
        handler.send_response(404)
        handler.end_headers()
        try:
            while len(sent) < 1000:  # 64 MB
                handler.wfile.write(b"x" * 65536)
                sent.append(1)
        except OSError:
            pass
        return True

    server = Odd(site.folder, endless)
    try:
        done = run_program("stoker", "tail", server.url, "--once", ok=False, env=site.env, limit=60)
        check(done.returncode == 1 and "404 (no such file)" in done.stderr, f"exit {done.returncode} {done.stderr}")
        check(len(sent) < 1000, "the whole page was read")
    finally:
        server.close()


def servers_that_lie(site):
    hops = []

    def loops(handler):
        hops.append(handler.path)
        return answers(handler, 302, Location="/again")

    for get, word in [
            (loops, "redirect"),
            (lambda h: answers(h, 302, Location="file:///etc/passwd"), "rotocol"),
            (lambda h: answers(h, 206, b"x\n" * 200_000, Content_Range="bytes 0-399999/400000"), "more than was asked"),
            (lambda h: answers(h, 206, b"x\n"), "which part"),
            (lambda h: answers(h, 200, b"\x1f\x8b", Content_Encoding="gzip"), "encoded"),
            (lambda h: answers(h, 401, b"who?"), "401"),
            (lambda h: answers(h, 500, b"\x1b[31m" + b"no" * 100_000), "500")]:
        server = Odd(site.folder, get)
        try:
            done = run_program("stoker", "tail", server.url, "--once", ok=False, env=site.env, limit=60)
            check(done.returncode == 1 and word in done.stderr, f"{word}: exit {done.returncode} {done.stderr}")
            check(len(done.stderr.splitlines()) == 1 and done.stdout == "" and "\x1b" not in done.stderr, f"{word}: {done.stderr}")
        finally:
            server.close()
    check(0 < len(hops) <= 10, f"{len(hops)} redirects were followed")
    kinds = []
    good = Odd(site.folder, lambda h: kinds.append(h.headers["Authorization"]) or answers(h, 200, b"here\n"))
    server = Odd(site.folder, lambda h: answers(h, 302, Location=good.url.replace("127.0.0.1", "localhost")))
    try:
        url = server.url.replace("//", "//alice:secret@")
        done = run_program("stoker", "tail", url, "--once", env=site.env)
        check(done.stdout == "here\n" and kinds == [None], f"a password went to another host: {kinds}")
        good.close()
        done = run_program("stoker", "tail", url, "--once", ok=False, env=site.env)
        check(done.returncode == 1 and "secret" not in done.stderr, f"a password is shown: {done.stderr}")
    finally:
        server.close()


def no_url(site):
    for url, word in [("main.log", "http"), ("ftp://host/x", "http"), ("file:///etc/passwd", "http"), ("http://", "no host"),
                      ("http:///x", "no host"), ("http://h/a b", "%20")]:
        done = run_program("stoker", "tail", url, ok=False, env=site.env)
        check(done.returncode == 2 and word in done.stderr and len(done.stderr.splitlines()) == 1, f"{url}: {done.stderr}")
    for argument in [["--every", "1ms"], ["--give-up", "soon"]]:
        done = run_program("stoker", "tail", "http://127.0.0.1:9/x", *argument, ok=False, env=site.env)
        check(done.returncode == 2 and argument[0] in done.stderr, f"{argument}: {done.stderr}")
    closed = free_port()
    done = run_program("stoker", "tail", f"http://127.0.0.1:{closed}/main.log", ok=False, env=site.env)
    check(done.returncode == 1 and "onnect" in done.stderr and str(closed) in done.stderr, f"no listener: {done.stderr}")


main(no_url, without_ranges, pages_without_end, servers_that_lie, grows, cut_off_and_replaced, server_goes_and_comes, once_and_json)
