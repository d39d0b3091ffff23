"""`agon watch`: the report of a run on this machine's own address, refreshed while the run goes on."""

from __future__ import annotations

import argparse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from agon.errors import AgonError, InputError

REFRESH = 5
"""Seconds after which the page loads itself again."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run directory")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port on 127.0.0.1 (default: a free one)")


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from agon.formatting import show_hidden
    from agon.rundir import RunDir

    RunDir.open(args.run)
    try:
        server = serve(args.run, args.port)
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen on port {args.port}: {error}", fix="leave --port out") from error
    print(f"http://127.0.0.1:{server.server_port}/  shows {show_hidden(str(args.run))}; Ctrl-C stops", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        server.server_close()
    return 0


def serve(path: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server on loopback with two pages: the report, and the bouts so far."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not allowed(self.headers.get("Host", "")):
                self.send_error(403)
                return
            pages = {"/": report_page, "/match.html": match_page}
            if (make := pages.get(self.path)) is None:
                self.send_error(404)
                return
            try:
                body, code = make(path), 200
            except AgonError as error:
                body, code = f"{error.message}\n{error.fix}\n", 503
            data = body.encode("utf-8", "replace")
            self.send_response(code)
            self.send_header("Content-Type", f"text/{'html' if code == 200 else 'plain'}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the terminal is the user's."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def allowed(host: str) -> bool:
    """Whether the browser asked this machine by its own name: a page of a stranger cannot rebind a name to us."""
    return host.rpartition(":")[0] in ("127.0.0.1", "localhost")


def report_page(path: Path) -> str:
    from agon.report.html_page import render_page
    from agon.report.overview import is_running
    from agon.report.run_story import RunStory

    refresh = REFRESH if is_running(path) else 0
    return render_page([RunStory.read(path)], [("match.html", "the bouts so far")], refresh)


def match_page(path: Path) -> str:
    from agon.report.rows import open_source
    from agon.report.viewer import render

    return render(open_source(path))
