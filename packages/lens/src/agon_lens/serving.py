"""Pages on this machine's own address, made anew for every request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agon_lens.errors import LensError


def page_server(pages: Mapping[str, Callable[[], str]], port: int = 0) -> ThreadingHTTPServer:
    """A server on loopback with these pages by path; a page that cannot be made answers with its error and 503."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not allowed(self.headers.get("Host", "")):
                self.send_error(403)
                return
            if (make := pages.get(self.path)) is None:
                self.send_error(404)
                return
            try:
                body, code = make(), 200
            except LensError as error:
                body, code = f"{error.message}\n{error.fix}\n", 503
            data = body.encode("utf-8", "replace")
            self.send_response(code)
            self.send_header("Content-Type", f"text/{'html' if code == 200 else 'plain'}; charset=utf-8")
            if code == 503:
                self.send_header("Refresh", "5")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the terminal is the user's."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def allowed(host: str) -> bool:
    """Whether the browser asked this machine by its own name: a page of a stranger cannot rebind a name to us."""
    return host.rpartition(":")[0] in ("127.0.0.1", "localhost")


def serve_until_interrupted(server: ThreadingHTTPServer, what: str) -> int:
    """Print the address and serve until Ctrl-C."""
    print(f"http://127.0.0.1:{server.server_port}/  shows {what}; Ctrl-C stops", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        server.server_close()
    return 0
