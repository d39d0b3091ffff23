"""`agon export`: a run's pair as plain adapters or merged models, with a model card written from what was measured."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from agon.errors import InputError, install

if TYPE_CHECKING:
    from agon.rundir.pair import Pair

FORMS = ("peft", "merged")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run directory with a pair")
    parser.add_argument("--to", choices=FORMS, required=True, help="two adapters, or two whole models")
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help="a new folder (default: RUN/export-FORM)")


def run(args: argparse.Namespace) -> int:
    """Write the folder whole or not at all."""
    from agon.report.card import card
    from agon.report.collect import read_run
    from agon.report.escape import tame
    from agon.rundir.files import TEMPORARY, building, sync_tree, telling
    from agon.rundir.pair import read_pair

    pair, measured = read_pair(args.run), read_run(args.run)
    out = args.out or args.run / f"export-{args.to}"
    if out.exists():
        raise InputError(f"{out} is there already", fix="name another folder with -o DIR, or remove it")
    with telling(f"{out} was not written"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with building(out.with_name(f"{TEMPORARY}{out.name}-{os.getpid()}")) as temporary:
            _adapters(pair, temporary) if args.to == "peft" else _merged(pair, temporary)
            (temporary / "README.md").write_text(card(measured, pair.info, args.to), encoding="utf-8")
            sync_tree(temporary)
            temporary.rename(out)
    print(f"{tame(str(out))}: a/, b/ and README.md, a card of what was measured")
    return 0


def _adapters(pair: Pair, folder: Path) -> None:
    """The pair as it is: both adapters and the facts about them."""
    from agon.rundir.pair import FACTS
    from agon.types import Policy

    for policy in Policy:
        shutil.copytree(pair.adapter(policy), folder / policy.value)
    shutil.copyfile(pair.path / FACTS, folder / FACTS)


def _merged(pair: Pair, folder: Path) -> None:
    """The base with one adapter merged into it, twice, each with its tokenizer."""
    from importlib.util import find_spec

    if missing := [name for name in ("torch", "transformers", "peft") if find_spec(name) is None]:
        raise InputError(f"merging needs {', '.join(missing)}", fix=f"{install('train')}, or --to peft")
    from agon.config import Model
    from agon.engine.build import base_files
    from agon.engine.merge import merge
    from agon.types import Policy

    base = base_files(Model(name=pair.info.base, revision=pair.info.base_revision))
    for policy in Policy:
        merge(base, pair.adapter(policy), folder / policy.value)
        _shareable(folder / policy.value)


def _shareable(folder: Path) -> None:
    """Weights are written for their owner's eyes alone; let them be read by whoever may read the rest."""
    for file in folder.glob("*.safetensors"):
        file.chmod((folder / "config.json").stat().st_mode)
