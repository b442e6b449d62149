"""A local HTTP server that a test makes misbehave: quiet about broken connections, on a free port of the loopback."""
import http.server
import threading


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


def serve(handler, path):
    """(server, URL of `path` there); it answers until server.shutdown()."""
    handler.log_message = lambda *_: None
    server = Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}{path}"
