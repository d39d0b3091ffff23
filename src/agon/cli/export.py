"""`agon export`: a run's pair as plain adapters or merged models, with a model card of what was measured."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.parser import say_waiting
from agon.errors import InputError, install

if TYPE_CHECKING:
    from agon.rundir.pair import PairDir

FORMS = ("peft", "merged")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run directory with a pair")
    parser.add_argument("--to", choices=FORMS, required=True, help="two adapters, or two complete models")
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help="a new folder (default: RUN/export-FORM)")


def run(args: argparse.Namespace) -> int:
    """Write the folder atomically."""
    say_waiting(f"reading {args.run}")
    from agon.formatting import show_hidden
    from agon.report.card import card
    from agon.report.collect import read_run
    from agon.rundir.files import TEMPORARY, output_errors_as, sync_tree, temporary_folder
    from agon.rundir.pair import read_pair

    pair, measured = read_pair(args.run), read_run(args.run)
    out = args.out or args.run / f"export-{args.to}"
    if out.exists():
        raise InputError(f"{out} already exists", fix="name a different folder with -o DIR, or remove it")
    with output_errors_as(f"{out} was not written"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(out.with_name(f"{TEMPORARY}{out.name}-{os.getpid()}")) as temporary:
            _adapters(pair, temporary) if args.to == "peft" else _merged(pair, temporary)
            (temporary / "README.md").write_text(card(measured, pair.info, args.to), encoding="utf-8")
            sync_tree(temporary)
            temporary.rename(out)
    print(f"{show_hidden(str(out))}: a/, b/ and README.md, a model card")
    return 0


def _adapters(pair: PairDir, folder: Path) -> None:
    """Copy both adapters and the facts about them."""
    from agon.rundir.pair import FACTS, copy_adapter
    from agon.types import Policy

    for policy in Policy:
        copy_adapter(pair.adapter(policy), folder / policy.value)
    shutil.copyfile(pair.path / FACTS, folder / FACTS)


def _merged(pair: PairDir, folder: Path) -> None:
    """Write the base with each adapter merged into it, and its tokenizer."""
    from importlib.util import find_spec

    if missing := [name for name in ("torch", "transformers", "peft") if find_spec(name) is None]:
        raise InputError(f"merging needs {', '.join(missing)}", fix=f"{install('train')}, or --to peft")
    from agon.config import Model
    from agon.engine.base import base_files
    from agon.engine.merge import merge
    from agon.types import Policy

    info = pair.info
    base = base_files(Model(name=info.base, revision=info.base_revision, quantize=info.quantize))
    for policy in Policy:
        merge(base, pair.adapter(policy), folder / policy.value)
        _shareable(folder / policy.value)


def _shareable(folder: Path) -> None:
    """Let whoever may read the config read the weights, which are written for their owner alone."""
    for file in folder.glob("*.safetensors"):
        file.chmod((folder / "config.json").stat().st_mode)
