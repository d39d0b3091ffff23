"""Three splits that never share a problem, the same on every machine.

A problem's split is decided by a hash of (split seed, id), never by its position in a file: shuffling the file changes
nothing. Held-out is filled first, then dev, then train, so that a larger train never changes what is measured. Two
problems are the same when their questions have one key (`normalise.question_key`). Standard library only: a split made
by a different Python is the same split.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field

from agon.data.normalise import canonical, question_key
from agon.errors import DataError
from agon.types import Problem

PARTS = ("held_out", "dev", "train")
"""The order in which the splits are filled."""

GRAM = 13
"""Consecutive words that two questions must share to overlap; a shorter held-out question counts as a whole."""

SHORTEST = 4
"""A question of fewer words never overlaps: its words are everywhere."""


@dataclass(frozen=True, slots=True)
class ProblemPool:
    """The problems of one source, each question once, and counts of what was left out: by a rule, or as unusable."""

    problems: tuple[Problem, ...]
    origin: str = ""
    revision: str | None = None
    rows: int = 0
    filtered: Mapping[str, int] = field(default_factory=dict)
    duplicates: int = 0
    conflicts: int = 0
    unusable: Mapping[str, int] = field(default_factory=dict)
    chats: int = 0
    """Rows whose question is the user's message of a chat."""

    @property
    def left_out(self) -> dict[str, int]:
        """How many rows are not among the problems, by reason."""
        counts = {"duplicate": self.duplicates, "conflicting": self.conflicts}
        return {reason: n for reason, n in (dict(self.filtered) | counts | dict(self.unusable)).items() if n}

    def account(self) -> str:
        """Rows read and rows left out, in one line."""
        return ", ".join([f"{self.rows} rows", *(f"{n} {reason}" for reason, n in self.left_out.items())])


@dataclass(frozen=True, slots=True)
class Claim:
    """What one split takes from one pool; None is all that the splits filled later leave."""

    part: str
    pool: ProblemPool
    take: int | None


@dataclass(frozen=True, slots=True)
class SharedWords:
    """A held-out problem that shares words with a training problem: `share` of its n-grams."""

    held_out: str
    train: str
    share: float
    words: str


@dataclass(frozen=True, slots=True)
class Overlap:
    """Held-out problems that share n-grams with train, most first."""

    of: int
    problems: tuple[SharedWords, ...]


def unique(problems: Iterable[Problem]) -> tuple[tuple[Problem, ...], int, int]:
    """Each question once, the number of duplicates, and the number of rows left out for contradictory golds."""
    by_question: dict[str, dict[str, Problem]] = {}
    rows = 0
    for problem in problems:
        rows += 1
        golds, gold = by_question.setdefault(question_key(problem.question), {}), canonical(problem.answer)
        # the smallest, not the first: the order of the file must not matter
        golds[gold] = min(golds[gold], problem, key=_row) if gold in golds else problem
    distinct = tuple(problem for golds in by_question.values() if len(golds) == 1 for problem in golds.values())
    conflicts = sum(len(golds) for golds in by_question.values() if len(golds) > 1)
    return distinct, rows - len(distinct) - conflicts, conflicts


def _row(problem: Problem) -> str:
    row = [problem.id, problem.question, problem.answer, problem.meta]
    if problem.tests:  # by their hash: those of one problem can be a hundred megabytes
        row.append(hashlib.sha256(json.dumps(astuple(problem.tests)).encode()).hexdigest())
    return json.dumps(row, sort_keys=True, default=str)


def shuffled(problems: Iterable[Problem], seed: int) -> list[Problem]:
    """The problems in the order of their hashes, whatever order they come in."""
    return sorted(problems, key=lambda problem: (_position(seed, problem.id), problem.id))


def _position(seed: int, problem_id: str) -> str:
    return hashlib.sha256(f"{seed}\x1f{problem_id}".encode()).hexdigest()


def part_sizes(count: int) -> dict[str, int]:
    """How many of so many problems dev and held-out take where nobody says."""
    return {"dev": max(1, min(100, count // 10)), "held_out": max(1, min(300, count // 5))}


def fill(
    claim: Claim, claims: Sequence[Claim], filled: Mapping[str, Sequence[Problem]], seed: int
) -> tuple[Problem, ...]:
    """The problems of one split: the first by hash that no earlier split holds."""
    taken = {question_key(problem.question) for problems in filled.values() for problem in problems}
    left = [problem for problem in shuffled(claim.pool.problems, seed) if question_key(problem.question) not in taken]
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
            f"data.{claim.part} and data.{open_ended[0]} both take all that is left of {claim.pool.origin}",
            fix=f"set the size of one of them, such as data.{claim.part}.take=300",
        )
    return left - sum(other.take or 0 for other in later)


def _sharing(claim: Claim, claims: Sequence[Claim]) -> list[Claim]:
    return [other for other in claims if other.pool is claim.pool and other is not claim]


def _too_few(claim: Claim, claims: Sequence[Claim], left: int, filled: Mapping[str, Sequence[Problem]]) -> DataError:
    """What the source has, what every split asks of it, and takes that fit together."""
    pool, asking = claim.pool, [other for other in reversed(claims) if other.pool is claim.pool]
    available = left + sum(len(filled.get(other.part, ())) for other in asking)
    elsewhere = len(pool.problems) - available
    taken = f", {elsewhere} of them in other splits" if elsewhere else ""
    asked = ", ".join(f"data.{other.part} {other.take or 'all that is left'}" for other in asking)
    overlap = elsewhere and not available
    last = "the splits overlap: give each of them problems of its own" if overlap else "name a larger source"
    return DataError(
        f"{pool.origin} has {len(pool.problems)} usable problems ({pool.account()}){taken}, too few for: {asked}",
        fix=" ".join([*_fitting(asking, available), last]),
    )


def _fitting(asking: Sequence[Claim], available: int) -> list[str]:
    """Advice to take fewer: one problem for each split, and of the others a share of what it asks."""
    spare, asked = available - len(asking), sum(claim.take or available for claim in asking)
    takes = [f"data.{claim.part}.take={1 + spare * claim.take // asked}" for claim in asking if claim.take]
    return ["take fewer, such as", *takes[:-1], f"{takes[-1]}, or"] if spare >= 0 and takes else []


def content_hash(problems: Iterable[Problem]) -> str:
    """A hash of a split's questions, golds and meta, whatever their order."""
    digest = hashlib.sha256()
    for row in sorted(map(_row, problems)):
        digest.update(row.encode() + b"\n")
    return digest.hexdigest()


def overlap(train: Sequence[Problem], held_out: Sequence[Problem]) -> Overlap:
    """Which held-out problems share n-grams of words with a training problem, and what share of their own."""
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
    shared = [_shared(held_out[index].id, hits, len(grams[index])) for index, hits in enumerate(seen) if hits]
    return Overlap(len(held_out), tuple(sorted(shared, key=lambda words: (-words.share, words.held_out))))


def _grams(problem: Problem) -> set[tuple[str, ...]]:
    words = len(question_key(problem.question).split())
    return set(_windows(problem, [min(words, GRAM)])) if words >= SHORTEST else set()


def _windows(problem: Problem, sizes: Iterable[int]) -> Iterable[tuple[str, ...]]:
    words = question_key(problem.question).split()
    for size in sizes:
        for start in range(len(words) - size + 1):
            yield tuple(words[start : start + size])


def _shared(held_out: str, hits: Mapping[tuple[str, ...], str], of: int) -> SharedWords:
    gram, train = next(iter(hits.items()))
    return SharedWords(held_out, train, len(hits) / of, " ".join(gram))
