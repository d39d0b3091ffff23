"""`agon data probe`: which problems the base solves sometimes, before a run is spent on the others."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.parser import json_argument, print_json, say_waiting
from agon.errors import InputError

if TYPE_CHECKING:
    from agon.eval.base_rates import BaseRates

ABOUT = """Draw answers to training problems, as training would, and count how often each is solved: by the base, or by
the adapter that A starts from. Problems that are always or never solved give dead groups; -o keeps the others."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help="a YAML file: its base, training problems and verifier")
    parser.add_argument("overrides", metavar="section.key=value", nargs="*", default=[], help="config values to set")
    parser.add_argument("--samples", type=int, default=8, metavar="K", help="answers per problem (default 8)")
    parser.add_argument(
        "--limit", type=int, default=100, metavar="N", help="the first N problems (default 100; 0: all)"
    )
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="write the problems worth training on as JSONL")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """0 when some problems are worth training on, 1 when none is."""
    if args.samples < 2 or args.limit < 0:
        raise InputError("--samples must be at least 2 and --limit at least 0", fix="leave them out")
    if args.out and args.out.exists():
        raise InputError(f"{args.out} already exists", fix="name a different file with -o FILE")
    from agon.config import load_config
    from agon.data import splits
    from agon.data.local import write_jsonl

    config = load_config(args.config, args.overrides)
    say_waiting(f"loading {config.model.name}")
    from agon.eval.base_rates import probe

    problems = splits(config.data).train[: args.limit or None]
    found = probe(config, problems, args.samples, _progress)
    if args.json:
        counts = [{"id": one.problem.id, "right": one.right, "of": one.of} for one in found.problems]
        print_json({"problems": counts, "live_groups": found.live_groups, "kept": len(found.kept)})
    else:
        start = config.model.init.a
        who = config.model.name if start in ("zero", "noise") else f"{config.model.name} with {start}"
        print("\n".join(lines(found, who, args.out)))
    if args.out:
        write_jsonl(args.out, found.kept)
    return 0 if found.kept else 1


def lines(found: BaseRates, who: str, out: Path | None) -> list[str]:
    """What was counted, and what to do about it."""
    total = len(found.problems)
    rows = [
        ("never right", found.never, "dead groups: too hard"),
        ("sometimes right", len(found.kept), "worth training on"),
        ("always right", found.always, "dead groups: too easy"),
        *([("no verdict", found.unknown, "the verifier judged no answer")] if found.unknown else []),
    ]
    text = [f"{total} problems, {found.samples} answers each by {who}, at the temperature of training"]
    text += [f"  {name:<16} {count:>5}  {count / total:>4.0%}  {about}" for name, count, about in rows]
    text.append(
        f"  about {found.live_groups:.0%} of groups of {found.group_size} drafts would be live in the first step"
    )
    text.append(f"  well-formed {found.well_formed:.0%}, truncated {found.truncated:.0%}")
    return [*text, advice(found, out)]


def advice(found: BaseRates, out: Path | None) -> str:
    """What to type next."""
    if found.unknown == len(found.problems):
        return "no answer has a verdict: a broken verifier, or bad references: agon data check CONFIG"
    if not found.kept and found.never + found.unknown == len(found.problems):
        return "none was ever solved: easier problems, a stronger base, or check the verifier: agon data check CONFIG"
    if not found.kept:
        return "none teaches anything: take harder problems"
    if "draw" in found.kept[0].meta:
        return (
            "an environment brings its own problems: choose its options by these counts; it cannot take a file of them"
        )
    first = found.kept[0]
    names = [*(["tests"] if first.is_code else []), *(first.meta if first.given else [])]  # of a file: its own columns
    columns = f", columns: {{{', '.join(f'{name}: {name}' for name in names)}}}" if names else ""
    if out:
        return f"{len(found.kept)} problems in {out}; train on them: data.train: {{path: {out}{columns}}}"
    return f"keep the {len(found.kept)}: add -o FILE.jsonl, then data.train: {{path: FILE.jsonl{columns}}}"


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"{done} of {of} problems", end="\r" if done < of else "\n", file=sys.stderr, flush=True)
