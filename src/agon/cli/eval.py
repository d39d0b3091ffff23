"""`agon eval`: a run, a pair or a bare model on held-out problems; resumable, with every stage on record."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.parser import json_argument, print_json
from agon.errors import InputError, install

if TYPE_CHECKING:
    from agon.eval.evaluate import Evaluation
    from agon.eval.target import Asked, Target

DIRECTIONS = ("dev", "ab", "ba", "both", "post-hoc")
SYSTEM = "cascade, a, b, base, moa, self-cascade, self-refine; several with commas (default: as the arm deploys)"
DIRECTION = "which cascade is reported: the one dev chose, one or both as named, or the better one here (the paper's)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="RUN|PAIR|MODEL", help="a run directory, a folder with a pair, or a model")
    parser.add_argument("overrides", metavar="eval.key=value", nargs="*", default=[], help="config values to set")
    parser.add_argument("--data", metavar="D", help="a preset, a file, or PRESET=FILE (default: the run's own split)")
    parser.add_argument("--split", choices=("held_out", "dev"), default="held_out", help="which of the run's splits")
    parser.add_argument("--system", metavar="S", default="", help=SYSTEM)
    parser.add_argument("--direction", choices=DIRECTIONS, help=DIRECTION)
    parser.add_argument("--samples", metavar="K", type=int, help="completions per problem (default: eval.samples)")
    parser.add_argument("--limit", metavar="N", type=int, help="the first N problems only")
    parser.add_argument("--config", metavar="CONFIG", type=Path, help="for a PAIR or MODEL: data, verifier, sampler")
    parser.add_argument("--url", metavar="URL", help="sample from any OpenAI-compatible server, such as http://host/v1")
    parser.add_argument("--names", metavar="a=M,b=M", default="", help="with --url: what it calls a, b and base")
    parser.add_argument("--divergence", action="store_true", help="also measure the KL between A and B (loads torch)")
    parser.add_argument("--out", metavar="DIR", type=Path, help="where results go (default: RUN/evals)")
    parser.add_argument("--fresh", action="store_true", help="throw earlier records of these systems away")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """0 when every trial is there, 130 when interrupted: the same command goes on."""
    from agon.eval.evaluate import throw_away
    from agon.eval.target import find, problems_of
    from agon.rundir.lock import locked
    from agon.verify import check_verifier

    _check(args)
    target = find(args.target, args.config, args.overrides)
    check_verifier(target.config.verifier)
    evaluation, asked = _evaluation(args, target, problems_of(target, args.data, args.split, args.limit))
    evaluation.folder.mkdir(parents=True, exist_ok=True)
    with locked(evaluation.folder / ".lock"):
        if args.fresh:
            throw_away(evaluation.folder, list(evaluation.systems))
        evaluation.open()
        if not _hold(args, target, evaluation):
            _say(f"stopped: {len(evaluation.missing())} trials left; the same command goes on with them")
            evaluation.finish()
            return 130
        _report(args, target, asked, evaluation)
    return 0


def _check(args: argparse.Namespace) -> None:
    from importlib.util import find_spec

    if find_spec("scipy") is None:
        raise InputError("scipy is not installed", fix=install("eval"))
    for name in ("samples", "limit"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise InputError(f"--{name} must be at least 1", fix=f"leave --{name} out, or name a larger number")
    if args.names and not args.url:
        raise InputError("--names says what a server calls its models", fix="add --url URL")


def _evaluation(args: argparse.Namespace, target: Target, asked: Asked) -> tuple[Evaluation, Asked]:
    from agon.eval.evaluate import Evaluation
    from agon.eval.systems import select

    if asked.seen:
        _say(f"beware: {target.name} was trained on {asked.seen} of these {len(asked.problems)} problems")
    engine = "url" if args.url else target.config.sampler.engine
    systems = select([name for name in args.system.split(",") if name], target.game, _direction(args, target))
    folder = (args.out or target.out) / asked.name
    samples = args.samples or target.config.eval.samples
    return Evaluation(folder, asked.problems, systems, samples, target.settings(engine), target.facts), asked


def _direction(args: argparse.Namespace, target: Target) -> str:
    return str(args.direction or target.config.eval.direction)


def _hold(args: argparse.Namespace, target: Target, evaluation: Evaluation) -> bool:
    """Draw what is missing; False when interrupted. Machines are built only when something is."""
    import asyncio

    from agon.eval.machines import machines
    from agon.training.interrupt import Interrupt, Interrupted

    if not evaluation.missing():
        return True
    _say(f"{len(evaluation.missing())} trials to hold on {evaluation.folder.name}: {', '.join(evaluation.systems)}")
    with machines(target, args.url, args.names, _say) as table, asyncio.Runner() as runner, Interrupt() as interrupt:
        try:
            runner.run(interrupt.watching(evaluation.hold(table, Progress())))
        except Interrupted:
            return False
    return True


def _report(args: argparse.Namespace, target: Target, asked: Asked, evaluation: Evaluation) -> None:
    from agon.eval.derived import derive
    from agon.eval.summary import summary

    measured = evaluation.finish()
    results, pair, notes = derive(evaluation, measured, target, _direction(args, target), args.divergence)
    for note in notes:
        _say(note)
    if args.json:
        bare = {name: {k: v for k, v in r.items() if k != "outcomes"} for name, r in results.items()}
        print_json({"folder": str(evaluation.folder), "results": bare, "pair": pair})
        return
    settings = target.config.eval
    decoding = f"temperature {settings.temperature:g}, top_p {settings.top_p:g}"
    times = f"{evaluation.samples} sample{'s' if evaluation.samples > 1 else ''} each"
    print(f"{target.name} on {asked.name}: {len(asked.problems)} problems, {times}, {decoding}\n")
    print(summary(results, pair))
    print(f"\nwritten to {evaluation.folder}")


class Progress:
    """How far it is, on stderr: one line that moves on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.every = 0.2 if self.live else 10.0
        self.began = self.last = time.monotonic()

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        if now - self.last < self.every and done < of:
            return
        self.last = now
        left = (now - self.began) / done * (of - done)
        told = f", about {left:.0f} s left" if 20 * done >= of and done < of else ""
        end = "\r" if self.live and done < of else "\n"
        print(f"{done} of {of} trials{told}".ljust(50), end=end, file=sys.stderr, flush=True)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
