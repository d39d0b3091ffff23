"""`agon-judge math`: is this mathematical answer what the gold says?"""

from __future__ import annotations

import argparse

from agon_judge.cli.arguments import json_argument, print_json, say_waiting

HELP = "judge a mathematical answer by the gold"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gold, answer and question."""
    parser.add_argument("--gold", required=True, metavar="TEXT", help="the right answer")
    help = "the answer to judge, or a whole completion with an <answer> block"
    parser.add_argument("--answer", required=True, metavar="TEXT", help=help)
    help = "the problem: repeating an expression of it is not an answer"
    parser.add_argument("--question", default="", metavar="TEXT", help=help)
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """0 when the answer is right, else 1."""
    say_waiting("starting math-verify")
    from agon_judge.answers import one_answer
    from agon_judge.math.judge import MathJudge
    from agon_judge.verdict import printable

    answer = one_answer(args.answer) if "<answer>" in args.answer else args.answer
    with MathJudge(workers=1) as judge:
        verdict = judge.judge(args.gold, answer, args.question)
    if args.json:
        print_json({name: getattr(verdict, name) for name in ("correct", "graded", "reason", "detail")})
    else:
        word = "right" if verdict.correct else "wrong" if verdict.graded else "no verdict"
        detail = f": {printable(verdict.detail)}" if verdict.detail else ""
        print(f"{word:<10} {verdict.reason}{detail}")
    return 0 if verdict.correct else 1
