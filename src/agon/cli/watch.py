"""`agon watch`: the report of a run, or the findings on a log, on this machine's own address while training goes on."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from pathlib import Path

from agon.errors import AgonError, InputError

REFRESH = 5
"""Seconds after which the page loads itself again."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "a run directory, or a folder of logs, such as the one of agon_lens.watch"
    parser.add_argument("run", type=Path, metavar="RUN|LOGS", help=what)
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port on 127.0.0.1 (default: a free one)")


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from agon.formatting import show_hidden
    from agon.rundir import RunDir
    from agon_lens.cli.watch import log_server
    from agon_lens.lines import is_foreign
    from agon_lens.serving import serve_until_interrupted

    logs = is_foreign(args.run)
    if not logs:
        RunDir.open(args.run)
    try:
        server = log_server(args.run, args.port) if logs else serve(args.run, args.port)
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen on port {args.port}: {error}", fix="leave --port out") from error
    return serve_until_interrupted(server, show_hidden(str(args.run)))


def serve(path: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server on loopback with two pages: the report, and the bouts so far."""
    from agon_lens.errors import LensError
    from agon_lens.serving import page_server

    def page(make: Callable[[Path], str]) -> Callable[[], str]:
        def made() -> str:
            try:
                return make(path)
            except AgonError as error:
                raise LensError(error.message, error.fix) from error

        return made

    return page_server({"/": page(report_page), "/match.html": page(match_page)}, port)


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
