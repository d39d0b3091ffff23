"""Check problems before a GPU hour is spent on them: lengths, and every gold given as the answer to its own problem.

A gold that its own verifier rejects can never be rewarded: its groups are dead, and it counts against every policy.
Below `GOLD_SHARE` the check fails. The gold of a problem with tests is a program that passes; many have none. What the
verifier says about a gold that it accepts is a remark, such as that the gold can only be compared as text. A gold that
no form of itself satisfies is listed apart, and `math` is compared with plain math-verify.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from agon.protocols import Verifier
from agon.types import BASE, THINK_CLOSE, THINK_OPEN, Completion, Problem
from agon_judge.auditing.probes import TEMPLATES, rewritings

GOLD_SHARE = 0.95
"""At least this share of golds must be accepted. Our choice: one dead group in twenty is already worth a look."""

SAMPLE = 500
"""Golds that are tried in all their forms: a minute of one core at most."""

TRIED = 8
"""Golds that are written in other ways where an environment rejects them."""

QUANTILES = {"min": 0.0, "median": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


@dataclass(frozen=True, slots=True)
class JudgedGold:
    """What a verifier says about the gold of a problem."""

    id: str
    answer: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class GoldCheck:
    """How many golds are accepted as answers."""

    accepted: int
    of: int
    rejected: tuple[JudgedGold, ...]
    remarks: tuple[JudgedGold, ...] = ()
    """Accepted golds whose verdict has a detail."""

    @property
    def share(self) -> float | None:
        return self.accepted / self.of if self.of else None

    @property
    def passed(self) -> bool:
        return self.of == 0 or self.accepted >= GOLD_SHARE * self.of


def with_gold(problems: Iterable[Problem]) -> list[Problem]:
    """The problems that have a gold answer: all but those that have tests alone."""
    return [problem for problem in problems if problem.answer]


def gold_check(problems: Iterable[Problem], verifier: Verifier) -> GoldCheck:
    """Give every problem its own gold as the answer."""
    golds = with_gold(problems)
    verdicts = verifier.verify_many([(problem, gold_completion(problem)) for problem in golds])
    judged = [
        (JudgedGold(problem.id, problem.answer, verdict.reason.value, verdict.detail), verdict.correct)
        for problem, verdict in zip(golds, verdicts, strict=True)
    ]
    rejected = tuple(gold for gold, accepted in judged if not accepted)
    remarks = tuple(gold for gold, accepted in judged if accepted and gold.detail)
    return GoldCheck(len(golds) - len(rejected), len(golds), rejected, remarks)


def gold_completion(problem: Problem, answer: str | None = None) -> Completion:
    """A well-formed completion whose answer is the gold, or a different form of it."""
    shown = problem.answer if answer is None else answer
    text = f"{THINK_OPEN}\nThe answer is known.\n{THINK_CLOSE}\n<answer>{shown}</answer>"
    return Completion(text, version=BASE, prompt_tokens=0, generated_tokens=0)


def accepted_template(problems: Iterable[Problem], verifier: Verifier) -> str | None:
    """The plainest way to write a gold that its environment accepts in most of a few problems; None without one."""
    asked = [problem for problem in with_gold(problems) if "draw" in problem.meta][:TRIED]
    draws: list[Any] = [problem.meta["draw"] for problem in asked]
    for template in TEMPLATES:
        metas = [{"draw": {**draw, "template": template}} for draw in draws]
        written = [replace(problem, meta=meta) for problem, meta in zip(asked, metas, strict=True)]
        if asked and gold_check(written, verifier).passed:
            return template
    return None


def forms(gold: str) -> list[str]:
    """Other ways to write a gold: in a box, between dollar signs, and spelled differently."""
    return list(dict.fromkeys([f"\\boxed{{{gold}}}", f"${gold}$", *(answer for _, answer in rewritings(gold))]))


@dataclass(frozen=True, slots=True)
class Forms:
    """What forms of golds show. Both parts are of a sample where there are more golds than SAMPLE."""

    rejected: int
    """Rejected golds that were tried in their other forms."""
    never_paid: tuple[str, ...]
    """The ids of those that were rejected in every form: no answer can earn them a reward."""
    golds: int
    """Golds on which the two verifiers were compared."""
    texts: int
    """Golds and forms of them."""
    differ: tuple[tuple[str, str, str, str], ...]
    """Gold, form, and the reasons that the two give where one pays and one does not; the shortest forms first."""


def check_forms(
    problems: Iterable[Problem], check: GoldCheck, verifier: Verifier, other: Verifier, most: int | None = SAMPLE
) -> Forms:
    """Try forms of golds: of the rejected ones, and of all on a second verifier; at most `most` golds each."""
    golds = with_gold(problems)
    rejected = {gold.id for gold in check.rejected}
    tried = _sample([problem for problem in golds if problem.id in rejected], most)
    pairs = [(problem, form) for problem in tried for form in forms(problem.answer)]
    verdicts = verifier.verify_many([(problem, gold_completion(problem, form)) for problem, form in pairs])
    paid = {problem.id for (problem, _), verdict in zip(pairs, verdicts, strict=True) if verdict.correct}
    never_paid = tuple(problem.id for problem in tried if problem.id not in paid)

    compared = _sample(golds, most)
    pairs = [(problem, form) for problem in compared for form in (problem.answer, *forms(problem.answer))]
    completions = [(problem, gold_completion(problem, form)) for problem, form in pairs]
    judged = zip(pairs, verifier.verify_many(completions), other.verify_many(completions), strict=True)
    differ = [
        (problem.answer, form, first.reason.value, second.reason.value)
        for (problem, form), first, second in judged
        if first.correct != second.correct
    ]
    shortest_first = tuple(sorted(differ, key=lambda each: len(each[1])))
    return Forms(len(tried), never_paid, len(compared), len(pairs), shortest_first)


def _sample(problems: list[Problem], most: int | None) -> list[Problem]:
    """At most so many problems, in their order; the same ones every time."""
    if most is None or len(problems) <= most:
        return problems
    chosen = sorted(random.Random("forms of golds").sample(range(len(problems)), most))
    return [problems[index] for index in chosen]


def cases_per_problem(problems: Iterable[Problem]) -> dict[str, int]:
    """Quantiles of the number of tests, of the problems that have any."""
    return _quantiles(len(problem.tests.cases) for problem in problems if problem.tests)


def guessable(problems: Iterable[Problem]) -> list[Problem]:
    """Problems whose tests all expect the same output: a program that reads nothing passes them."""
    return [p for p in problems if p.tests and len({tuple(wanted.split()) for _, wanted in p.tests.cases}) == 1]


def lengths(texts: Iterable[str]) -> dict[str, dict[str, int]]:
    """Quantiles of characters and words."""
    texts = list(texts)
    return {"chars": _quantiles(map(len, texts)), "words": _quantiles(len(text.split()) for text in texts)}


def _quantiles(values: Iterable[int]) -> dict[str, int]:
    ordered = sorted(values)
    return {name: ordered[round(share * (len(ordered) - 1))] for name, share in QUANTILES.items()} if ordered else {}
