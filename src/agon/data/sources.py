"""From sources in a config to problems: one source (`load`), or three splits without a shared problem (`splits`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agon.data.environments import read_environment
from agon.data.generated import generate, is_generated
from agon.data.local import read_file
from agon.data.presets import read_preset
from agon.data.split import PARTS, Claim, ProblemPool, content_hash, fill, shuffled
from agon.errors import DataError
from agon.types import Problem, seed_for

if TYPE_CHECKING:
    from agon.config import Data, Source


@dataclass(frozen=True, slots=True)
class Splits:
    """The problems of a run. `pools` says where each split comes from and what was left out."""

    train: tuple[Problem, ...]
    dev: tuple[Problem, ...]
    held_out: tuple[Problem, ...]
    pools: Mapping[str, ProblemPool]

    @property
    def hashes(self) -> dict[str, str]:
        """The content hash of each split: what a manifest stores and a resume compares."""
        return {part: content_hash(problems) for part, problems in self.parts.items()}

    @property
    def parts(self) -> dict[str, tuple[Problem, ...]]:
        return {"train": self.train, "dev": self.dev, "held_out": self.held_out}

    @property
    def revisions(self) -> dict[str, str | None]:
        """The Hub commit that each split was read from; None for files and generated problems."""
        return {part: self.pools[part].revision for part in self.parts}


def load(source: Source, *, seed: int = 0) -> list[Problem]:
    """The problems of one source, in an order that `seed` decides; `take` of them when it says so."""
    return taken(source, read(source, seed=seed), seed=seed)


def taken(source: Source, pool: ProblemPool, *, seed: int = 0) -> list[Problem]:
    """The problems that a source takes of its own pool."""
    problems = list(pool.problems) if is_generated(source.named) else shuffled(pool.problems, seed)
    if source.take is not None and source.take > len(problems):
        raise DataError(
            f"{pool.origin} has {len(problems)} problems, not {source.take} ({pool.account()})",
            fix=f"take fewer: take: {len(problems)}",
        )
    return problems[: source.take]


def read(source: Source, *, seed: int = 0) -> ProblemPool:
    """All problems of a source, each question once; a generated source makes as many as its `take`."""
    if source.named is not None and source.columns:
        raise DataError(f"{source.named} has its own columns", fix="remove columns")
    if is_generated(source.named):
        return _generated(source, seed)
    if source.env is not None:
        return read_environment(source.env, source.options, source.template)
    if source.preset is not None:
        return read_preset(source.preset, source.path, source.options)
    if source.path is None:
        raise DataError("a source needs a preset, a path or an env", fix="name one of them")
    if source.options:
        raise DataError(
            f"a file has no option {', '.join(source.options)}", fix="options belong to presets and environments"
        )
    return read_file(source.path, source.columns)


def splits(data: Data) -> Splits:
    """The three splits of a config. Splits that name one source share its pool; generated ones are drawn separately."""
    sources = {part: getattr(data, part) for part in PARTS}
    pools = _read_pools(sources)
    filled = _filled(sources, pools, data.split_seed)
    return Splits(filled["train"], filled["dev"], filled["held_out"], pools)


def check_files(data: Data) -> None:
    """Refuse the files that `splits` would refuse; environments and what is generated or on the Hub are left alone."""
    files = {part: source for part in PARTS if (source := getattr(data, part)).path}
    pools = _read_pools(files)
    _filled({part: files[part] for part in pools}, pools, data.split_seed)


def _filled(sources: Mapping[str, Source], pools: dict[str, ProblemPool], seed: int) -> dict[str, tuple[Problem, ...]]:
    """The problems of these splits, filled in the order of PARTS; the pools of generated ones are added to `pools`."""
    claims = {part: Claim(part, pool, sources[part].take) for part, pool in pools.items()}
    filled: dict[str, tuple[Problem, ...]] = {}
    for part, source in sources.items():
        if part in claims:
            filled[part] = fill(claims[part], list(claims.values()), filled, seed)
        else:
            pools[part] = _drawn(source, part, seed, filled)
            filled[part] = pools[part].problems
    return filled


def _read_pools(sources: Mapping[str, Source]) -> dict[str, ProblemPool]:
    """The pool of every split that is not generated; a source that two splits name is read once."""
    once: dict[str, ProblemPool] = {}
    pools = {}
    for part, source in sources.items():
        if not is_generated(source.named):
            fields = (source.named, source.path, source.template)
            name = repr((*fields, sorted(source.columns.items()), sorted(source.options.items())))
            once[name] = pools[part] = once[name] if name in once else read(source)
    return pools


def _drawn(source: Source, part: str, seed: int, filled: Mapping[str, Sequence[Problem]]) -> ProblemPool:
    known = [problem for problems in filled.values() for problem in problems]
    return _generated(source, seed_for(seed, part), known)


def _generated(source: Source, seed: int, known: Sequence[Problem] = ()) -> ProblemPool:
    if source.path:
        fix = f"remove path, or name the file without a preset: {{path: {source.path}}}"
        raise DataError(f"{source.named} makes its problems and reads no file", fix=fix)
    if source.take is None:
        raise DataError(f"{source.named} can make any number of problems", fix="set how many: take: 300")
    return generate(str(source.named), source.options, source.take, seed, known, template=source.template)
