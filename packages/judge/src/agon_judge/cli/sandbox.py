"""`agon-judge sandbox check`: prove the sandbox for programs on this machine."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

from agon_judge.cli.arguments import json_argument, print_json, say_waiting, whole_number
from agon_judge.sandbox.execution import Backend, Memory
from agon_judge.sandbox.settings import SandboxSettings

if TYPE_CHECKING:
    from agon_judge.sandbox.leaks import ProbeResult

HELP = "prove the sandbox for programs on this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The action and its options."""
    parts: Any = parser.add_subparsers(dest="action", metavar="check", required=True)
    help = "run small hostile programs and say what is stopped; exits with 1 if one leaks"
    check = parts.add_parser("check", help=help, description=f"{help[0].upper()}{help[1:]}.")
    help = "landlock where containers forbid namespaces (default: bwrap)"
    check.add_argument("--backend", choices=get_args(Backend), default="bwrap", help=help)
    help = "cgroup bounds a whole program (default); per_process each of its processes"
    check.add_argument("--memory", choices=get_args(Memory), default="cgroup", help=help)
    help = "programs at once (default: one per core)"
    check.add_argument("--workers", type=whole_number(1, 4096), metavar="N", help=help)
    json_argument(check)


def run(args: argparse.Namespace) -> int:
    """Print what protects this machine and what every probe found."""
    say_waiting("opening the sandbox")
    from agon_judge.sandbox.leaks import check
    from agon_judge.sandbox.settings import open_sandbox

    sandbox = open_sandbox(SandboxSettings(args.backend, args.memory, args.workers))
    try:
        described, results = sandbox.describe(), check(sandbox, args.memory)
    finally:
        sandbox.close()
    leaking = [result for result in results if result.leaks and not result.accepted]
    if args.json:
        print_json({"sandbox": described, "probes": [asdict(result) for result in results], "holds": not leaking})
    else:
        print(*(f"{name:<14} {value}" for name, value in described.items()), "", *map(_line, results), sep="\n")
        print(f"\n{len(results) - len(leaking)} of {len(results)} probes are stopped or accepted")
    return 1 if leaking else 0


def _line(result: ProbeResult) -> str:
    status = "accepted" if result.accepted else "LEAK" if result.leaks else "stopped"
    return f"{status:<9} {result.name:<28} {', '.join(result.leaks)}".rstrip()
