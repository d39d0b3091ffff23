"""Three splits that never share a problem, the same on every machine.

A problem's place is decided by a hash of (split seed, id), never by its place in a file: shuffling the file changes
nothing. Held-out is filled first, then dev, then train, so that a larger train never changes what is measured. Two
problems are the same when their questions agree after normalisation (`text.key`). Standard library only: a split made
under another Python is the same split.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agon.data.text import key, tidy
from agon.errors import DataError
from agon.types import Problem

PARTS = ("held_out", "dev", "train")
"""The order in which the splits are filled."""

GRAM = 13
"""Words in a row that two questions must share to overlap; a shorter held-out question counts as a whole."""

SHORTEST = 4
"""A question of fewer words is compared as a whole only: its words are everywhere."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The problems of one source, each question once, and what was left out on the way."""

    problems: tuple[Problem, ...]
    origin: str = ""
    revision: str | None = None
    rows: int = 0
    filtered: int = 0
    duplicates: int = 0
    conflicts: int = 0
    unusable: Mapping[str, int] = field(default_factory=dict)

    def account(self) -> str:
        """Where the rows went, in one line."""
        lost = {"filtered": self.filtered, "duplicate": self.duplicates, "conflicting": self.conflicts, **self.unusable}
        return ", ".join([f"{self.rows} rows", *(f"{count} {why}" for why, count in lost.items() if count)])


@dataclass(frozen=True, slots=True)
class Claim:
    """What one split asks of one pool; `take` None is all that the splits after it leave."""

    part: str
    pool: Pool
    take: int | None


@dataclass(frozen=True, slots=True)
class Shared:
    """A held-out problem whose words stand in a training problem: `share` of its n-grams."""

    held_out: str
    train: str
    share: float
    words: str


@dataclass(frozen=True, slots=True)
class Overlap:
    """Held-out problems that share n-grams with train, most first."""

    of: int
    found: tuple[Shared, ...]


def unique(problems: Iterable[Problem]) -> tuple[tuple[Problem, ...], int, int]:
    """Each question once, the number of duplicates, and of golds that contradict another (they are left out)."""
    asked: dict[str, dict[str, Problem]] = {}
    rows = 0
    for problem in problems:
        rows += 1
        golds, gold = asked.setdefault(key(problem.question), {}), tidy(problem.answer)
        # the smallest, not the first: the order of the file must not matter
        golds[gold] = min(golds[gold], problem, key=_row) if gold in golds else problem
    alone = tuple(problem for golds in asked.values() if len(golds) == 1 for problem in golds.values())
    conflicts = sum(len(golds) for golds in asked.values() if len(golds) > 1)
    return alone, rows - len(alone) - conflicts, conflicts


def _row(problem: Problem) -> str:
    row = [problem.id, problem.question, problem.answer, problem.meta]
    return json.dumps(row, sort_keys=True, default=str)


def shuffled(problems: Iterable[Problem], seed: int) -> list[Problem]:
    """The problems in the order of their hashes: the same whatever order they come in."""
    return sorted(problems, key=lambda problem: (_place(seed, problem.id), problem.id))


def _place(seed: int, problem_id: str) -> str:
    return hashlib.sha256(f"{seed}\x1f{problem_id}".encode()).hexdigest()


def fill(
    claim: Claim, claims: Sequence[Claim], filled: Mapping[str, Sequence[Problem]], seed: int
) -> tuple[Problem, ...]:
    """The problems of one split: the first by hash that no split filled before holds."""
    taken = {key(problem.question) for problems in filled.values() for problem in problems}
    left = [problem for problem in shuffled(claim.pool.problems, seed) if key(problem.question) not in taken]
    count = _count(claim, claims, len(left))
    if not 0 < count <= len(left):
        raise _too_few(claim, claims, len(left), filled)
    return tuple(left[:count])


def _count(claim: Claim, claims: Sequence[Claim], left: int) -> int:
    if claim.take is not None:
        return claim.take
    later = [other for other in _sharing(claim, claims) if PARTS.index(other.part) > PARTS.index(claim.part)]
    if open_ended := [other.part for other in later if other.take is None]:
        raise DataError(
            f"data.{claim.part} and data.{open_ended[0]} both want all that is left of {claim.pool.origin}",
            fix=f"say how many problems one of them takes, such as data.{claim.part}.take=300",
        )
    return left - sum(other.take or 0 for other in later)


def _sharing(claim: Claim, claims: Sequence[Claim]) -> list[Claim]:
    return [other for other in claims if other.pool is claim.pool and other is not claim]


def _too_few(claim: Claim, claims: Sequence[Claim], left: int, filled: Mapping[str, Sequence[Problem]]) -> DataError:
    wants = "at least 1 problem" if claim.take is None else f"{claim.take} problems"
    sizes = "".join(f", {len(problems)} in {part}" for part, problems in filled.items())
    waiting = "".join(f", {other.take} wanted by {other.part}" for other in _sharing(claim, claims) if other.take)
    return DataError(
        f"data.{claim.part} wants {wants}, but {left} are left of {claim.pool.origin}:"
        f" {len(claim.pool.problems)} usable ({claim.pool.account()}){sizes}{waiting if claim.take is None else ''}",
        fix=f"ask for fewer, such as data.{claim.part}.take={max(left, 1)}, or name a larger source",
    )


def content_hash(problems: Iterable[Problem]) -> str:
    """One hash of a split's questions, golds and meta, whatever their order."""
    digest = hashlib.sha256()
    for row in sorted(map(_row, problems)):
        digest.update(row.encode() + b"\n")
    return digest.hexdigest()


def overlap(train: Sequence[Problem], held_out: Sequence[Problem]) -> Overlap:
    """Which held-out problems share n-grams of words with a training problem, and how many of theirs."""
    grams = [_grams(problem) for problem in held_out]
    owners: dict[tuple[str, ...], list[int]] = {}
    for index, own in enumerate(grams):
        for gram in own:
            owners.setdefault(gram, []).append(index)
    seen: list[dict[tuple[str, ...], str]] = [{} for _ in held_out]
    sizes = sorted({len(gram) for gram in owners})
    for problem in train:
        for gram in _windows(problem, sizes):
            for index in owners.get(gram, ()):
                seen[index].setdefault(gram, problem.id)
    found = [_shared(held_out[index].id, hits, len(grams[index])) for index, hits in enumerate(seen) if hits]
    return Overlap(len(held_out), tuple(sorted(found, key=lambda shared: (-shared.share, shared.held_out))))


def _grams(problem: Problem) -> set[tuple[str, ...]]:
    words = len(key(problem.question).split())
    return set(_windows(problem, [min(words, GRAM)])) if words >= SHORTEST else set()


def _windows(problem: Problem, sizes: Iterable[int]) -> Iterable[tuple[str, ...]]:
    words = key(problem.question).split()
    for size in sizes:
        for start in range(len(words) - size + 1):
            yield tuple(words[start : start + size])


def _shared(held_out: str, hits: Mapping[tuple[str, ...], str], of: int) -> Shared:
    gram, train = next(iter(hits.items()))
    return Shared(held_out, train, len(hits) / of, " ".join(gram))
