"""`agon-lens watch`: what a log shows, on this machine's own address, while the training goes on."""

from __future__ import annotations

import argparse
from http.server import ThreadingHTTPServer
from pathlib import Path

from agon_lens.errors import LensError
from agon_lens.formatting import show_hidden

HELP = "show the findings and groups of a log that is growing, on this machine's own address"
GROUP = "inspect"
REFRESH = 5
"""Seconds after which the page loads itself again."""

VIEWER = "rollouts.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to watch, and where."""
    parser.add_argument("log", type=Path, metavar="DIR", help="a folder of logs, such as the one of agon_lens.watch")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port on 127.0.0.1 (default: a free one)")


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from agon_lens.lines import log_files
    from agon_lens.serving import serve_until_interrupted

    if not args.log.exists():
        fix = "start the training first: agon_lens.watch makes its folder with the first rewards"
        raise LensError(f"{args.log} does not exist", fix=fix)
    log_files(args.log)
    try:
        server = log_server(args.log, args.port)
    except (OSError, OverflowError) as error:
        raise LensError(f"cannot listen on port {args.port}: {error}", fix="leave --port out") from error
    return serve_until_interrupted(server, show_hidden(str(args.log)))


def log_server(path: Path, port: int = 0) -> ThreadingHTTPServer:
    """Two pages: the findings with their pictures, and the groups so far."""
    from agon_lens.serving import page_server

    return page_server({"/": lambda: findings_page(path), f"/{VIEWER}": lambda: groups_page(path)}, port)


def findings_page(path: Path) -> str:
    from agon_lens.diagnose_page import render_diagnoses
    from agon_lens.diagnosis import diagnose
    from agon_lens.logs import read

    links = [(VIEWER, "the groups so far")]
    return render_diagnoses(
        [diagnose(log) for log in read(path)], path.name, refresh=REFRESH, links=links, viewer=VIEWER
    )


def groups_page(path: Path) -> str:
    from agon_lens.log_viewer import render_log
    from agon_lens.logs import read_rollouts

    return render_log(read_rollouts(path))
