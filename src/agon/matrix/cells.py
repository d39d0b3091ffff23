"""The cells of a matrix: one arm with one seed, trained and evaluated.

Every cell is a run of its own; the matrix keeps no state beside them. Started again, it looks at what is on disk and
does what is missing, so that nothing is repeated or lost. Rows that need no training (zero-shot, moa) are cells too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agon.config import Config, flat, load_config, resolved
from agon.config.arms import ARMS, ROOT, resolve
from agon.data.split import PARTS
from agon.errors import CheckpointError, ConfigError, InputError, RunDirError
from agon.eval.consent import to_name
from agon.eval.systems import headline
from agon.plan.schedule import Schedule
from agon.rundir import RunDir
from agon.rundir.checkpoint import newest
from agon.rundir.pair import read_pair
from agon.rundir.results import read_result

Stage = Literal["train", "eval"]
UNTRAINED = {"zero-shot": "base", "moa": "moa"}
"""Rows that are evaluations of the bare base, and the system that makes them."""


@dataclass(frozen=True, slots=True)
class MatrixCell:
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
        name = headline(self.config.rules()) if self.trains else UNTRAINED[self.arm]
        return self.folder / "evals" / "held_out" / f"{name}.json"

    @property
    def overrides_of_run(self) -> list[str]:
        arm = [f"arm={self.arm}"] if self.trains else []
        return [*self.overrides, *arm, f"train.seed={self.seed}"]

    def command(self, stage: Stage) -> list[str]:
        """What trains or evaluates it, from where it stands."""
        if stage == "train":
            where = ["--out", str(self.folder.parent), "--name", self.name, "--resume"]
            return ["agon", "train", str(self.source), *self.overrides_of_run, *where]
        if self.trains:
            systems = ["--system", ",".join(self._systems())] if self._systems() else []
            named = to_name(self.config, PARTS)  # by the config that the user named
            return ["agon", "eval", str(self.folder), *(f"{key}={value}" for key, value in named.items()), *systems]
        where = ["--config", str(self.source), "--out", str(self.folder / "evals"), "--system", UNTRAINED[self.arm]]
        return ["agon", "eval", self.config.model.name, *self.overrides_of_run, *where]

    def _systems(self) -> list[str]:
        """What is measured besides what the arm deploys: GRPO's second pass over its own answer, at a pair's price."""
        return ["a", "self-cascade"] if self.arm == "grpo" else []

    def missing(self) -> list[Stage]:
        """What is still to be done, in order."""
        if self.trains and not self.trained():
            return ["train", "eval"]
        return [] if self.evaluated() else ["eval"]

    def trained(self) -> bool:
        """Whether it ended: the newest checkpoint is the last one, was evaluated on dev, and stands in `pair/`."""
        if not (self.folder / "manifest.json").is_file():
            return False
        try:
            found, pair = newest(self.folder / "checkpoints"), read_pair(self.folder).info
        except (CheckpointError, RunDirError):
            return False
        run = RunDir.open(self.folder)
        total = Schedule.of(self.config, run.manifest.data.counts["train"]).total
        saved = found.path is not None and found.state["step"] >= total
        measured = not self.config.eval.points or any(point.step == total for point in run.points)
        return saved and measured and (self.config.save.pair == "best" or pair.step == total)

    def evaluated(self) -> bool:
        """Whether its results are there and complete."""
        files = [self.result, *(self.result.with_name(f"{name}.json") for name in self._systems())]
        try:
            return all(read_result(file).complete for file in files)
        except RunDirError:
            return False


def cells(
    source: Path, overrides: Sequence[str], arms: Sequence[str], seeds: Sequence[int], out: Path
) -> list[MatrixCell]:
    """Every cell, seeds outside and arms inside, so that a matrix that is stopped early is whole for some seeds."""
    unknown = [arm for arm in arms if arm not in ARMS and arm not in UNTRAINED]
    if unknown or not arms or len(set(arms)) < len(arms):
        message = f"there is no arm {unknown[0]!r}" if unknown else "--arms must name each arm once"
        raise InputError(message, fix=f"choose from: {', '.join([*ARMS, *UNTRAINED])}")
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise InputError("--seeds must name each seed once", fix="write --seeds 0,1,2")
    made = [cell(source, overrides, arm, seed, out) for seed in seeds for arm in arms]
    check_budget(made)
    return made


def cell(source: Path, overrides: Sequence[str], arm: str, seed: int, out: Path) -> MatrixCell:
    """One cell, its config resolved."""
    values = [*overrides, f"train.seed={seed}", *([f"arm={arm}"] if arm in ARMS else [])]
    return MatrixCell(arm, seed, out / f"{arm}-s{seed}", source, tuple(overrides), load_config(source, values))


def check_budget(made: Sequence[MatrixCell]) -> None:
    """Arms may differ in their own fields alone, and must draw the same number of rollouts for every problem."""
    budgets = set()
    for cell in made:
        if not cell.trains:
            continue
        bent = [key for key, value in resolve(cell.arm).items() if getattr(cell.config.game, key) != value]
        if bent:
            fix = f"leave game.{bent[0]} out of the config: every arm sets its own"
            raise ConfigError(f"arm {cell.arm} is not itself: game.{bent[0]} is written in the config", fix=fix)
        game = cell.config.rules()
        if not cell.config.eval.points:
            raise ConfigError("eval.points is 0: dev would choose no direction", fix="set eval.points to 1 or more")
        rollouts = game.drafts_per_problem + (game.group_size if game.two_stages else 0)
        rest = {key: str(value) for key, value in flat(resolved(cell.config)).items() if not _own(key)}
        budgets.add((rollouts, tuple(sorted(rest.items()))))
    if len(budgets) > 1:
        raise ConfigError("the arms have different budgets", fix="give every arm the same sizes and caps")


def _own(key: str) -> bool:
    """Fields in which cells may differ."""
    return key in ("arm", "train.seed") or (key.startswith("game.") and key[5:] in ROOT)
