"""`agon ask`: put a question to a pair, and see both stages as they are written."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.parser import json_argument, print_json, say_waiting
from agon.errors import InputError

if TYPE_CHECKING:
    from agon.deploy.pieces import Answer, Piece
    from agon.types import Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pair", metavar="RUN|PAIR", help="a run directory, or a folder with a pair")
    parser.add_argument("question", nargs="?", metavar="QUESTION", help="the question (default: read standard input)")
    parser.add_argument("--hide-reasoning", action="store_true", help="show the answer alone")
    held_out = "ask the N-th held-out problem of the RUN, counted from 0, and show its reference answer"
    parser.add_argument("--held-out", type=int, metavar="N", help=held_out)
    parser.add_argument("--direction", choices=("ab", "ba"), help="who drafts and who answers (default: as dev chose)")
    parser.add_argument("--engine", metavar="E", help="what draws: vllm or hf (default: vllm with a GPU, else hf)")
    parser.add_argument("--temperature", type=float, metavar="T", help="0 is greedy (default: as in evaluations)")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="cap on each stage (default: as in evaluations)")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Show the draft, what the other policy sees of it, and the challenge; the answer alone is the last line."""
    folder = Path(args.pair)
    problem = None if args.held_out is None else held_out_problem(folder, args.held_out)
    question = problem.question if problem else args.question if args.question is not None else sys.stdin.read()
    if not question.strip():
        raise InputError("there is no question", fix=f'agon ask {args.pair} "QUESTION"')
    say_waiting(f"loading {args.pair}")
    from agon.deploy.ask import Pair
    from agon.formatting import show_hidden

    shown = not (args.json or args.hide_reasoning)
    if problem and not args.json:
        print("\n".join(["-- problem --", *map(show_hidden, question.splitlines()), ""]))

    options = {"direction": args.direction, "engine": args.engine}
    with Pair.load(folder, temperature=args.temperature, max_tokens=args.max_tokens, **options) as pair:
        began = time.perf_counter()
        answer = pair.answer(question.strip(), watch=Screen() if shown else None)
        seconds, rival = time.perf_counter() - began, pair.folder.info.rival
    if args.json:
        print_json(_plain(answer, seconds) | {"rival": rival})
    else:
        if rival != "policy":
            print(f"\n\ntrained against a rival that did not learn: {show_hidden(rival)}", end="")
        ending = _ending(answer, seconds) + (f"   reference answer: {show_hidden(problem.answer)}" if problem else "")
        print(ending if shown else ending.lstrip())
    return 0


def held_out_problem(run: Path, number: int) -> Problem:
    """A problem of the run's own held-out split. A run that may be a stranger's must not make us read files."""
    from agon.eval.consent import to_name
    from agon.eval.target import split_of
    from agon.rundir import RunDir

    opened = RunDir.open(run)
    if any(key.startswith("data.") for key in to_name(opened.config, opened.manifest.data.hashes)):
        what = f"{run} names a file or an environment of problems and may come from somebody else"
        raise InputError(what, fix="paste the question")
    problems = split_of(opened.config, "held_out", run)
    if not 0 <= number < len(problems):
        raise InputError(f"{run} has {len(problems)} held-out problems", fix=f"--held-out 0 to {len(problems) - 1}")
    return problems[number]


class Screen:
    """Prints pieces of text, with a heading where a stage begins."""

    def __init__(self) -> None:
        self._stage = ""

    def __call__(self, piece: Piece) -> None:
        from agon.formatting import show_hidden

        if piece.stage != self._stage:
            print(f"{chr(10) * 2 if self._stage else ''}{_heading(piece)}", flush=True)
            self._stage = piece.stage
        text = piece.text or ("(the draft has no summary)" if piece.stage == "peek" else "")
        print("\n".join(show_hidden(line) for line in text.split("\n")), end="", flush=True)


def _heading(piece: Piece) -> str:
    name = (piece.seat.policy or "base").upper()
    words = {"draft": "drafts", "peek": "reads", "challenge": "answers"}
    return f"-- {name} {words[piece.stage]} --"


def _ending(answer: Answer, seconds: float) -> str:
    from agon.formatting import show_hidden

    stages = [f"draft {answer.draft.generated_tokens} tokens"]
    if answer.challenge:
        stages.append(f"challenge {answer.challenge.generated_tokens} tokens")
    text = "none: it ended without an answer block" if answer.text is None else show_hidden(answer.text)
    return f"\n\nanswer: {text}   ({', '.join(stages)}, {seconds:.1f} s)"


def _plain(answer: Answer, seconds: float) -> dict[str, object]:
    def stage(completion: object) -> dict[str, object] | None:
        names = ("text", "version", "prompt_tokens", "generated_tokens", "finish")
        return {name: getattr(completion, name) for name in names} if completion else None

    return {
        "answer": answer.text,
        "draft": stage(answer.draft),
        "peek": answer.peek,
        "challenge": stage(answer.challenge),
        "seconds": round(seconds, 3),
    }
