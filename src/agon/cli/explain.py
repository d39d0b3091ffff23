"""`agon explain`: what a metric, config key, symptom, error or word means; offline."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from agon.cli.parser import json_argument, print_json
from agon.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help = "a word on the screen, a metric, a config key or section, an error; TRL's names lead to ours"
    parser.add_argument("word", metavar="WORD", nargs="+", help=help)
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print everything that the word means; of several that are not one label, each."""
    from agon.report.glossary import explain_word

    try:
        found = explain_word(" ".join(args.word))
    except InputError:
        if len(args.word) == 1:
            raise
        found = [entry for word in args.word for entry in explain_word(word)]
    if args.json:
        print_json([asdict(entry) for entry in found])
    else:
        print("\n\n".join(map(str, found)))
    return 0
