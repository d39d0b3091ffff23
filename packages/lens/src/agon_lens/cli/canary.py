"""`agon-lens canary`: does a running engine hold the adapter that you train?"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agon_lens.cli.arguments import print_json, say_waiting
from agon_lens.errors import LensError
from agon_lens.formatting import show_hidden

if TYPE_CHECKING:
    from agon_lens.canary import Draw, Score

HELP = "ask a running server whether it holds the adapter that you train"
GROUP = "inspect"
FAULT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The server, and what it should hold."""
    from agon_lens.canary import LIMIT

    parser.add_argument("url", metavar="URL", help="an OpenAI-compatible server: http://127.0.0.1:8000")
    what = "an adapter by the name that it is served under, and its folder as PEFT saved it; may be repeated"
    parser.add_argument("--adapter", action="append", metavar="NAME=FOLDER", default=[], help=what)
    parser.add_argument("--base", metavar="NAME", help="what the server calls its base (default: the first model)")
    what = "a function (name, draws) -> log-probs of your learner, to compare: examples/learner_scores.py:score"
    parser.add_argument("--learner", metavar="FILE.py:FUNCTION", help=what)
    what = f"nats per token that log-probs may differ (default: {LIMIT:g}, for bfloat16; float32: 0.01)"
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="NATS", help=what)
    parser.add_argument("--no-probe", action="store_true", help="load no throw-away adapter into the server")
    parser.add_argument("--json", action="store_true", help="print JSON for other programs")


def run(args: argparse.Namespace) -> int:
    """Print what was checked; exit with 1 where the engine holds something else."""
    from agon_lens.canary import check

    adapters = dict(_named(each) for each in args.adapter)
    if not adapters and not args.learner:
        fix = "name an adapter, --adapter NAME=FOLDER, or a function that scores what the server drew, --learner"
        raise LensError("there is nothing to compare the server with", fix=fix)
    score = _learner(args.learner) if args.learner else None
    say_waiting(f"asking {args.url}")
    report = check(args.url, adapters, base=args.base, score=score, limit=args.limit, probe=not args.no_probe)
    if args.json:
        fields = {"faults": report.faults, "checked": report.checked, "skipped": report.skipped, "gaps": report.gaps}
        print_json({"good": report.good, **fields})
        return 0 if report.good else FAULT
    lines = [f"checked: {', '.join(report.checked) or 'nothing'}"]
    lines += [f"  {name}: {gap:.2g} nats per token from the learner's" for name, gap in report.gaps.items()]
    lines += [f"not checked: {each}" for each in report.skipped]
    if not report.checked and not report.faults:
        fix = "start the server as said, or compare log-probs with --learner"
        raise LensError(f"{args.url} can answer no question: {'; '.join(report.skipped)}", fix=fix)
    verdict = "the engine holds what it should, as far as was checked"
    lines += [f"WRONG: {fault}" for fault in report.faults] or [verdict]
    print("\n".join(map(show_hidden, lines)))
    return 0 if report.good else FAULT


def _named(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not (equals and name and folder):
        raise LensError(f"cannot parse --adapter {text}", fix="write --adapter NAME=FOLDER")
    return name, Path(folder)


def _learner(text: str) -> Score:
    """A function in a file that the user named."""
    place, colon, name = text.rpartition(":")
    if not colon or not Path(place).is_file():
        raise LensError(f"--learner {text} names no file", fix="write --learner FILE.py:FUNCTION")
    spec = importlib.util.spec_from_file_location("agon_lens_learner", place)
    if spec is None or spec.loader is None:
        raise LensError(f"--learner {text} is no Python file", fix="write --learner FILE.py:FUNCTION")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
        score: Score = getattr(module, name)
    except Exception as error:
        fix = "name a function in a file that Python can import"
        raise LensError(f"cannot load {text}: {type(error).__name__}: {error}", fix=fix) from error

    def scored(adapter: str | None, draws: Sequence[Draw]) -> Sequence[Sequence[float]]:
        try:
            return score(adapter, draws)
        except Exception as error:
            what = f"{text} failed for {adapter or 'the base'}: {type(error).__name__}: {error}"
            raise LensError(what, fix="repair that function; it gets (name, draws)") from error

    return scored
