"""`agon verify`: try a verifier on an answer: pasted, in a file, or from standard input."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.parser import json_argument, print_json, say_waiting
from agon.errors import InputError

if TYPE_CHECKING:
    from agon.types import Completion, Problem, Verdict

EPILOG = """examples:
  agon verify math --gold 42 "The sum is <answer>42.0</answer>"
  agon verify judge.py:correct --gold 42 --question "What is 6 x 7?" < completion.txt

An answer without an <answer> block is put into one, after empty reasoning, as a model would write it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    help = "math, math-verify, FILE.py:function or package.module:function; programs: agon-judge code"
    parser.add_argument("verifier", metavar="VERIFIER", help=help)
    parser.add_argument(
        "answers", metavar="ANSWER", nargs="*", default=[], help="what a model wrote (default: standard input)"
    )
    parser.add_argument("--gold", default="", metavar="TEXT", help="the right answer")
    parser.add_argument("--question", default="", metavar="TEXT", help="the problem, for verifiers that read it")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """0 when every answer is right, 1 when one is not."""
    from agon.types import Problem, content_id
    from agon.verify import load_verifier

    answers = args.answers or ([sys.stdin.read()] if not sys.stdin.isatty() else [])
    if not any(answer.strip() for answer in answers):
        fix = f'agon verify {args.verifier} --gold 42 "<answer>42</answer>"'
        raise InputError("there is no answer to judge", fix=fix)
    if args.verifier == "math" and not args.gold.strip():
        raise InputError("math judges by the right answer", fix="add it: --gold TEXT")
    if args.verifier == "code":
        raise InputError("a program is judged by tests", fix="agon-judge code PROGRAM.py --tests FILE.json")
    say_waiting(f"starting {args.verifier}")
    name = args.verifier
    if (file := name.rpartition(":")[0]).endswith(".py"):
        name = f"{Path(file).absolute()}:{name.rpartition(':')[2]}"
    problem = Problem(content_id(args.question, args.gold), args.question, args.gold)
    with load_verifier(name) as verifier:
        verdicts = verifier.verify_many([(problem, completion(answer)) for answer in answers])
    _show(args.json, problem, answers, verdicts)
    return 0 if all(verdict.correct for verdict in verdicts) else 1


def completion(answer: str) -> Completion:
    """What was pasted as a whole completion."""
    from agon.types import BASE, THINK_CLOSE, THINK_OPEN, Completion

    text = answer if "<answer>" in answer else f"<answer>{answer.strip()}</answer>"
    if THINK_CLOSE not in text:
        text = f"{THINK_OPEN}\n{THINK_CLOSE}\n{text}"
    return Completion(text, version=BASE, prompt_tokens=0, generated_tokens=0)


def _show(json: bool, problem: Problem, answers: list[str], verdicts: list[Verdict]) -> None:
    from agon.formatting import show_hidden

    if json:
        names = ("correct", "well_formed", "reason", "detail")
        print_json([{name: getattr(verdict, name) for name in names} for verdict in verdicts])
        return
    for answer, verdict in zip(answers, verdicts, strict=True):
        first = show_hidden(" ".join(answer.split()))[:60]
        word = "right" if verdict.correct else "no verdict" if not verdict.graded else "wrong"
        detail = f": {show_hidden(verdict.detail)}" if verdict.detail else ""
        form = "" if verdict.well_formed else ", not well-formed"
        print(f"{word:<10} {verdict.reason}{form}{detail}   {first}")
