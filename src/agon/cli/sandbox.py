"""`agon sandbox`: prove the sandbox for programs on this machine, or serve it to others."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

from agon.cli.parser import json_argument, print_json, say_waiting
from agon_judge.sandbox.execution import Memory
from agon_judge.sandbox.settings import BackendName, SandboxSettings

if TYPE_CHECKING:
    from agon_judge.sandbox.leaks import ProbeResult

KEY = "AGON_SANDBOX_KEY"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parts: Any = parser.add_subparsers(dest="action", metavar="check|serve", required=True)
    help = "run small hostile programs and say what is stopped; exits with 1 if one leaks"
    check = parts.add_parser("check", help=help, description=f"{help[0].upper()}{help[1:]}.")
    help = f"offer the sandbox over HTTP (SandboxFusion's routes, and a batch); the key is read from {KEY}"
    serve = parts.add_parser("serve", help=help, description=f"{help[0].upper()}{help[1:]}.")
    for each in (check, serve):
        backends = (
            get_args(BackendName) if each is check else [name for name in get_args(BackendName) if name != "http"]
        )
        each.add_argument("--backend", choices=backends, default="bwrap", help="see docs/sandbox.md (default: bwrap)")
        help = "cgroup bounds a whole program (default); per_process each of its processes"
        each.add_argument("--memory", choices=get_args(Memory), default="cgroup", help=help)
        each.add_argument("--workers", type=int, metavar="N", help="programs at once (default: one per core)")
    check.add_argument("--url", metavar="URL", help="the service of backend http")
    json_argument(check)
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, default=8080, help="port to listen on (default: 8080)")


def run(args: argparse.Namespace) -> int:
    """Check or serve."""
    settings = SandboxSettings(args.backend, args.memory, args.workers, getattr(args, "url", None))
    return _check(settings, args.json) if args.action == "check" else _serve(settings, args.host, args.port)


def _check(settings: SandboxSettings, as_json: bool) -> int:
    """Print what protects this machine and what every probe found."""
    say_waiting("opening the sandbox")
    from agon_judge.sandbox.leaks import check, waivers_of
    from agon_judge.sandbox.settings import open_sandbox

    sandbox = open_sandbox(settings)
    try:
        described, results = sandbox.describe(), check(sandbox, waivers_of(settings))
    finally:
        sandbox.close()
    leaking = [result for result in results if result.leaks and not result.waived]
    if as_json:
        print_json({"sandbox": described, "probes": [asdict(result) for result in results], "holds": not leaking})
    else:
        print(*(f"{name:<14} {value}" for name, value in described.items()), "", *map(_line, results), sep="\n")
        print(f"\n{len(results) - len(leaking)} of {len(results)} probes are stopped or accepted")
    return 1 if leaking else 0


def _line(result: ProbeResult) -> str:
    status = "accepted" if result.waived else "LEAK" if result.leaks else "stopped"
    return f"{status:<9} {result.name:<28} {', '.join(result.leaks)}".rstrip()


def _serve(settings: SandboxSettings, host: str, port: int) -> int:
    from agon_judge.sandbox.leaks import checked_sandbox
    from agon_judge.sandbox.service import serve

    serve(checked_sandbox(settings), host=host, port=port, key=os.environ.get(KEY, ""))
    return 0
