"""`agon eval`: measure a run, a pair or a bare model on held-out problems."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.cli.parser import json_argument, print_json, say_waiting
from agon.errors import InputError

if TYPE_CHECKING:
    from agon.rundir.directory import Step

SYSTEM = (
    "cascade, a, b, base, moa, self-cascade, self-cascade-b, self-refine, reading; several with commas "
    "(default: as the arm deploys)"
)
DIRECTION = "which cascade is reported: the one dev chose, one or both as named, or the better one here (the paper's)"

FULL = "also draw each challenger with its own draft, a shuffled one and none; print leaks, lengths, costs"
STEP = "of a RUN: last, best (on dev) or a number, if it has a checkpoint (default: what RUN/pair holds: save.pair)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from agon.eval.systems import DIRECTIONS

    parser.add_argument("target", metavar="RUN|PAIR|MODEL", help="a run directory, a folder with a pair, or a model")
    parser.add_argument("overrides", metavar="eval.key=value", nargs="*", default=[], help="config values to set")
    parser.add_argument("--data", metavar="SOURCE", help="a preset, file or PRESET=FILE (default: the run's own split)")
    parser.add_argument("--split", choices=("held_out", "dev"), default="held_out", help="which of the run's splits")
    parser.add_argument("--system", metavar="S", default="", help=SYSTEM)
    parser.add_argument("--direction", choices=DIRECTIONS, help=DIRECTION)
    parser.add_argument("--samples", metavar="K", type=int, help="completions per problem (default: eval.samples)")
    parser.add_argument("--step", metavar="S", default="", help=STEP)
    parser.add_argument("--limit", metavar="N", type=int, help="the first N problems only")
    parser.add_argument("--config", metavar="CONFIG", type=Path, help="for a PAIR or MODEL: data, verifier, sampler")
    parser.add_argument("--url", metavar="URL", help="sample from any OpenAI-compatible server, such as http://host/v1")
    parser.add_argument("--names", metavar="a=M,b=M", default="", help="with --url: what it calls a, b and base")
    parser.add_argument("--divergence", action="store_true", help="also measure the KL between A and B (loads torch)")
    parser.add_argument("--out", metavar="DIR", type=Path, help="where results go (default: RUN/evals)")
    parser.add_argument("--fresh", action="store_true", help="delete earlier bouts of these systems first")
    parser.add_argument("--full", action="store_true", help=FULL)
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """0 when every bout is there, 130 when interrupted: the same command resumes."""
    if args.names and not args.url:
        raise InputError("--names says what a server calls its models", fix="add --url URL")
    say_waiting(f"loading {args.target}")
    from agon.eval.run import evaluate

    results = evaluate(
        args.target,
        *args.overrides,
        system=[name for name in args.system.split(",") if name],
        names=model_names(args.names),
        step=step_of(args.step),
        **{name: getattr(args, name) for name in PASSED},
    )
    if args.json:
        print_json({"folder": str(results.folder), "results": _plain(results.systems), "pair": _pair(results.pair)})
        return 0
    for note in results.notes:
        print(note, file=sys.stderr)
    about = results.headline
    times = f"{about.data.samples} sample{'s' if about.data.samples > 1 else ''} each"
    decoding = f"temperature {about.settings.temperature:g}, top_p {about.settings.top_p:g}"
    at_step = "" if about.run.step is None else f" at step {about.run.step}"
    print(f"{about.run.name}{at_step} on {about.data.name}: {about.data.problems} problems, {times}, {decoding}\n")
    print(results.full() if args.full else results)
    print(f"\nwritten to {results.folder}" + ("" if args.full else "; --full prints everything that was measured"))
    return 0


PASSED = ("data", "split", "direction", "samples", "limit", "config", "url", "divergence", "full", "out", "fresh")
"""Arguments that go to `evaluate` as they are."""


def step_of(text: str) -> Step | None:
    """Parse `--step`."""
    if text in ("last", "best"):
        return text  # type: ignore[return-value]
    if text and not (text.isascii() and text.isdecimal()):
        raise InputError(f"cannot parse --step {text}", fix="write --step last, --step best, or a number of steps")
    return int(text) if text else None


def model_names(text: str) -> dict[str, str]:
    """What a server calls the base and each policy."""
    from agon.types import BASE, Policy

    names: dict[str, str] = {}
    for word in filter(None, text.split(",")):
        seat, equals, name = word.partition("=")
        if not equals or seat not in (BASE, *Policy):
            raise InputError(f"cannot parse --names {text}", fix="write --names a=NAME,b=NAME,base=NAME")
        names[seat] = name
    return names


def _plain(systems: Any) -> Any:
    exclude = {"measures": {"outcomes"}}
    return {name: result.model_dump(mode="json", exclude=exclude) for name, result in systems.items()}


def _pair(pair: Any) -> Any:
    return pair and pair.model_dump(mode="json")
