"""A server between stokerd and slurmrestd that hands answers on, and lies on demand."""
import http.client
import http.server
import threading
import time

EMPTY = b'{"meta": {}, "errors": [], "jobs": [], "nodes": []}'
LIES = {
    "500 with an empty list": lambda status, body: (500, {}, EMPTY),
    "an error beside an empty list": lambda status, body: (200, {}, EMPTY.replace(b'"errors": []', b'"errors": [{"error": "Unspecified error"}]')),
    "half an answer": lambda status, body: (status, {}, body[:len(body) // 2]),
    "cut off on the way": lambda status, body: (status, {"Content-Length": str(len(body))}, body[:len(body) // 2]),
    "a page": lambda status, body: (200, {"Content-Type": "text/html"}, b"<html>Please log in</html>"),
    "a redirect": lambda status, body: (302, {"Location": "/slurm/v0.0.38/ping"}, b""),
    "refused": lambda status, body: (401, {}, b"Authentication failure"),
    "gone": lambda status, body: (404, {}, b"Unable find requested URL."),
    "the cluster of others": lambda status, body: (status, {}, body.replace(b'"cluster": "test', b'"cluster": "zay')),
    "nothing": None,
}


class Liar:
    """`lie`: one of LIES, or "" for the truth; `seen`: (method, path) of every request since the last lie began."""
    def __init__(self, upstream):
        self.upstream = upstream.removeprefix("http://")
        self.lie, self.seen = "", []
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_one(self):
                liar.answer(self)
            do_GET = do_POST = do_DELETE = handle_one

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request):
        lie = self.lie
        self.seen.append((request.command, request.path))
        sent = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if lie == "nothing":
            request.close_connection = True
            return
        if lie and request.command != "GET":  # a lie about a question; what is ordered meanwhile is counted
            request.send_error(500)
            return
        link = http.client.HTTPConnection(self.upstream, timeout=60)
        kept = {k: v for k, v in request.headers.items() if k.startswith(("X-SLURM", "Content-Type", "Accept"))}
        try:
            link.request(request.command, request.path, sent or None, kept)
            got = link.getresponse()
            status, body, more = got.status, got.read(), {"Content-Type": got.getheader("Content-Type", "")}
        except OSError:
            status, body, more = 502, b"<html>Bad gateway</html>", {}
        finally:
            link.close()
        if lie:
            status, extra, body = LIES[lie](status, body)
            more.update(extra)
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **more}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)
        request.close_connection = True

    def tell(self, lie):
        self.seen.clear()
        self.lie = lie

    def wait_asked(self, times, seconds=120):
        """A lie was heard several times."""
        end = time.monotonic() + seconds
        while len([s for s in self.seen if s[0] == "GET"]) < times:
            if time.monotonic() > end:
                raise RuntimeError(f"{self.lie}: asked only {len(self.seen)} times")
            time.sleep(0.1)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
