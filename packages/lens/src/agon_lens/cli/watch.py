"""`agon-lens watch`: what a log shows, on this machine's own address, while the training goes on."""

from __future__ import annotations

import argparse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from agon_lens.errors import LensError
from agon_lens.formatting import show_hidden

HELP = "show the findings and groups of a log that is growing, on this machine's own address"
GROUP = "inspect"
REFRESH = 5
"""Seconds after which the page loads itself again."""
PATIENCE = 10
"""Seconds for a browser to send its request."""
VIEWER = "rollouts.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to watch, and where."""
    parser.add_argument("log", type=Path, metavar="DIR", help="a folder of logs, such as the one of agon_lens.watch")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port on 127.0.0.1 (default: a free one)")


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from agon_lens.files import log_files

    if not args.log.exists():
        fix = "start the training first: agon_lens.watch makes its folder with the first rewards"
        raise LensError(f"{args.log} does not exist", fix=fix)
    log_files(args.log)
    try:
        server = log_server(args.log, args.port)
    except (OSError, OverflowError) as error:
        raise LensError(f"cannot listen on port {args.port}: {error}", fix="leave --port out") from error
    address = f"http://127.0.0.1:{server.server_port}/"
    print(f"{address}  shows {show_hidden(str(args.log))}; Ctrl-C stops", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        server.server_close()
    return 0


def log_server(path: Path, port: int = 0) -> ThreadingHTTPServer:
    """Two pages on loopback, made anew for every request: the findings, and the groups so far. A page that cannot be
    made answers with its error and 503."""
    pages = {"/": findings_page, f"/{VIEWER}": groups_page}

    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE

        def do_GET(self) -> None:
            # a page of a stranger cannot rebind a name of its own to us
            if self.headers.get("Host", "").rpartition(":")[0] not in ("127.0.0.1", "localhost"):
                self.send_error(403)
                return
            if (make := pages.get(self.path)) is None:
                self.send_error(404)
                return
            try:
                body, code, kind = make(path), 200, "html"
            except LensError as error:
                body, code, kind = f"{error.message}\n{error.fix}\n", 503, "plain"
            data = body.encode("utf-8", "replace")
            self.send_response(code)
            self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
            if code == 503:
                self.send_header("Refresh", str(REFRESH))
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the terminal is the user's."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def findings_page(path: Path) -> str:
    from agon_lens.diagnose_page import render_diagnoses
    from agon_lens.diagnosis import diagnose

    return render_diagnoses(diagnose(path), path.name, refresh=REFRESH, viewer=VIEWER)


def groups_page(path: Path) -> str:
    from agon_lens.log_viewer import render_log
    from agon_lens.logs import read_rollouts

    return render_log(read_rollouts(path))
