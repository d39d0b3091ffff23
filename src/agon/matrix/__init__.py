"""The experiment matrix: arms x seeds at one matched budget, as run directories side by side.

Every cell is a run of its own, trained by `agon train` and evaluated by `agon eval`; the matrix keeps no state beside
them. Started again, it looks at what is on disk and does what is missing, so that nothing is repeated or lost. Rows
that need no training (zero-shot, moa) are cells too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.arms import ARMS, ROOT, resolve
from agon.errors import CheckpointError, ConfigError, InputError

if TYPE_CHECKING:
    from agon.config import Config

DEFAULT = ("grpo", "self-refine", "coop", "agon")
UNTRAINED = {"zero-shot": "base", "moa": "moa"}
"""Rows that are evaluations of the bare base, and the system that makes them."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One arm with one seed."""

    arm: str
    seed: int
    folder: Path
    source: Path
    overrides: tuple[str, ...]
    config: Config

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def trains(self) -> bool:
        return self.arm not in UNTRAINED

    @property
    def result(self) -> Path:
        """The result that stands for this cell."""
        from agon.config.game import game_of
        from agon.eval.systems import headline

        name = headline(game_of(self.config)) if self.trains else UNTRAINED[self.arm]
        return self.folder / "evals" / "held_out" / f"{name}.json"

    def train_words(self) -> list[str]:
        """What to type after `agon` to train it, or to go on with it."""
        values = [*self.overrides, f"arm={self.arm}", f"train.seed={self.seed}"]
        return ["train", str(self.source), *values, "--out", str(self.folder.parent), "--name", self.name, "--resume"]

    def eval_words(self) -> list[str]:
        """What to type after `agon` to evaluate it. A verifier that is code must be named again."""
        if self.trains:
            verifier = self.config.verifier
            return ["eval", str(self.folder), *([f"verifier={verifier}"] if ":" in verifier else [])]
        values = [*self.overrides, f"train.seed={self.seed}"]
        where = ["--config", str(self.source), "--out", str(self.folder / "evals")]
        return ["eval", self.config.model.name, *values, *where, "--system", UNTRAINED[self.arm]]

    def commands(self) -> list[list[str]]:
        """What is still to be done, in order."""
        left = [] if not self.trains or self.trained() else [self.train_words()]
        return left if not left and self.evaluated() else [*left, self.eval_words()]

    def trained(self) -> bool:
        """Whether the newest checkpoint is the last one."""
        from agon.rundir import RunDir
        from agon.rundir.checkpoint import newest
        from agon.training.schedule import Schedule

        if not (self.folder / "manifest.json").is_file():
            return False
        try:
            found = newest(self.folder / "checkpoints")
        except CheckpointError:
            return False
        problems = RunDir.open(self.folder).manifest["data"]["counts"]["train"]
        return found.path is not None and found.state["step"] >= Schedule.of(self.config, problems).total

    def evaluated(self) -> bool:
        """Whether its result is there and whole."""
        try:
            return bool(json.loads(self.result.read_text(encoding="utf-8"))["complete"])
        except (OSError, ValueError, KeyError, TypeError):
            return False


def cells(source: Path, overrides: Sequence[str], arms: Sequence[str], seeds: Sequence[int], out: Path) -> list[Cell]:
    """Every cell, seeds outside and arms inside, so that a matrix that is stopped early is whole for some seeds."""
    from agon.config import load

    unknown = [arm for arm in arms if arm not in ARMS and arm not in UNTRAINED]
    if unknown or not arms or len(set(arms)) < len(arms):
        message = f"there is no arm {unknown[0]!r}" if unknown else "--arms must name each arm once"
        raise InputError(message, fix=f"choose from: {', '.join([*ARMS, *UNTRAINED])}")
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise InputError("--seeds must name each seed once", fix="write --seeds 0,1,2")
    made = []
    for seed in seeds:
        for arm in arms:
            values = [*overrides, f"train.seed={seed}", *([f"arm={arm}"] if arm in ARMS else [])]
            made.append(Cell(arm, seed, out / f"{arm}-s{seed}", source, tuple(overrides), load(source, values)))
    check_budget(made)
    return made


def check_budget(made: Sequence[Cell]) -> None:
    """Arms may differ in their own fields alone, and must draw the same number of rollouts for every problem."""
    from agon.config import flat, resolved
    from agon.config.game import game_of

    budgets = set()
    for cell in made:
        if not cell.trains:
            continue
        bent = [key for key, value in resolve(cell.arm).items() if getattr(cell.config.game, key) != value]
        if bent:
            fix = f"leave game.{bent[0]} out of the config: every arm sets its own"
            raise ConfigError(f"arm {cell.arm} would not be itself: game.{bent[0]} is written in the config", fix=fix)
        game = game_of(cell.config)
        if not cell.config.eval.points:
            raise ConfigError("eval.points is 0: dev would choose no direction", fix="set eval.points to 1 or more")
        rollouts = game.drafts_per_problem + (game.group_size if game.two_stages else 0)
        rest = {key: str(value) for key, value in flat(resolved(cell.config)).items() if not _own(key)}
        budgets.add((rollouts, tuple(sorted(rest.items()))))
    if len(budgets) > 1:
        raise ConfigError("the arms would not have one budget", fix="give every arm the same sizes and caps")


def _own(key: str) -> bool:
    """Fields in which cells may differ."""
    return key in ("arm", "train.seed") or (key.startswith("game.") and key[5:] in ROOT)


def status(made: Sequence[Cell]) -> Mapping[str, Any]:
    """How far a matrix is."""
    left = {cell.name: [words[0] for words in cell.commands()] for cell in made}
    return {"cells": len(made), "done": sum(not words for words in left.values()), "left": left}
