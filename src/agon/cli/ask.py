"""`agon ask`: put a question to a pair, and see both stages as they are written."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.parser import json_argument, print_json
from agon.errors import InputError

if TYPE_CHECKING:
    from agon.deploy.pieces import Answer, Piece


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pair", type=Path, metavar="RUN|PAIR", help="a run directory, or a folder with a pair")
    parser.add_argument("question", nargs="?", metavar="QUESTION", help="the question (default: read standard input)")
    parser.add_argument("--direction", choices=("ab", "ba"), help="who drafts and who answers (default: as dev chose)")
    parser.add_argument("--engine", choices=("vllm", "hf"), help="what draws (default: vllm with a GPU, else hf)")
    parser.add_argument("--temperature", type=float, metavar="T", help="0 is greedy (default: as in evaluations)")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="cap on each stage (default: as in evaluations)")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Show the draft, what the other policy sees of it, and the challenge; the answer alone is the last line."""
    question = args.question if args.question is not None else sys.stdin.read()
    if not question.strip():
        raise InputError("there is no question", fix=f'agon ask {args.pair} "What is 7 times 8?"')
    if not args.json:
        print(f"loading {args.pair} ...", file=sys.stderr, flush=True)
    from agon.deploy.ask import Pair

    options = {"direction": args.direction, "engine": args.engine}
    with Pair.load(args.pair, temperature=args.temperature, max_tokens=args.max_tokens, **options) as pair:
        began = time.perf_counter()
        answer = pair.answer(question.strip(), watch=None if args.json else Screen())
        seconds = time.perf_counter() - began
    if args.json:
        print_json(_plain(answer, seconds))
    else:
        print(_ending(answer, seconds))
    return 0


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
