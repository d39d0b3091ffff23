"""What one evaluation says beyond a pass rate, computed from its bouts alone.

Exchange (conversions, regressions), leaks of the withheld answer, complementarity of two policies, tokens of both
stages, lengths by outcome. None of it is in the paper, which reports final-stage length and no joint outcomes.
Every share carries an interval whose units are problems.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from agon.eval import intervals
from agon.game.exchange import echoed, leaked, outcome
from agon.rundir.records import Joint
from agon.rundir.results import (
    ExchangeShares,
    Interval,
    LeakShares,
    Lengths,
    MeanLength,
    Measures,
    Outcomes,
    Share,
    TokenCounts,
    TokenUse,
)
from agon.types import Bout, Rollout


def measure(bouts: Sequence[Bout]) -> Measures:
    """Everything about one system's bouts."""
    staged = any(bout.challenge for bout in bouts)
    return from_outcomes(
        outcomes_of(bouts),
        well_formed=share(bouts, lambda bout: bout.final.verdict.well_formed),
        exchange=exchange_shares(bouts) if staged else None,
        leak=leak_shares(bouts) if staged else None,
        tokens=token_use(bouts),
        length=lengths(bouts),
    )


def outcomes_of(bouts: Iterable[Bout]) -> Outcomes:
    """Right or wrong by problem, samples in order; None where a machine failed."""
    outcomes: Outcomes = defaultdict(list)
    for bout in bouts:
        verdict = bout.final.verdict
        outcomes[bout.problem.id].append(verdict.correct if verdict.graded else None)
    return dict(outcomes)


def from_outcomes(
    outcomes: Outcomes,
    *,
    tokens: TokenUse,
    length: Lengths,
    well_formed: Share | None = None,
    exchange: ExchangeShares | None = None,
    leak: LeakShares | None = None,
) -> Measures:
    """Counts and the pass rate with its interval, and the measures given. Ungraded trials are counted apart: a broken
    machine is not a wrong answer."""
    graded = graded_only(outcomes)
    trials, correct = sum(map(len, graded.values())), sum(map(sum, graded.values()))
    single = all(len(samples) == 1 for samples in graded.values())
    return Measures(
        problems=len(graded),
        trials=trials,
        correct=correct,
        ungraded=sum(map(len, outcomes.values())) - trials,
        pass_rate=intervals.pass_rate(list(graded.values())),
        interval="exact (Clopper-Pearson)" if single else "clustered by problem",
        wilson=intervals.wilson(correct, trials) if single and trials else None,
        well_formed=well_formed,
        exchange=exchange,
        leak=leak,
        tokens=tokens,
        length=length,
        outcomes=outcomes,
    )


def graded_only(outcomes: Mapping[str, Sequence[bool | None]]) -> dict[str, list[bool]]:
    """The outcomes with a verdict, of the problems that have any."""
    known = {name: [o for o in samples if o is not None] for name, samples in outcomes.items()}
    return {name: samples for name, samples in known.items() if samples}


def share(bouts: Iterable[Bout], event: Callable[[Bout], bool]) -> Share:
    """How often something happens among these bouts: counts and an interval by problem."""
    by_problem: dict[str, list[bool]] = defaultdict(list)
    for bout in bouts:
        by_problem[bout.problem.id].append(event(bout))
    events = list(by_problem.values())
    return Share(count=sum(map(sum, events)), of=sum(map(len, events)), rate=intervals.rate(events))


def exchange_shares(bouts: Sequence[Bout]) -> ExchangeShares:
    """What the second stage made of the first: wrong drafts converted or echoed, right ones lost."""
    wrong = [bout for bout in bouts if outcome(bout) in ("converted", "lost")]
    right = [bout for bout in bouts if outcome(bout) in ("kept", "regressed")]
    return ExchangeShares(
        conversion=share(wrong, lambda bout: outcome(bout) == "converted"),
        regression=share(right, lambda bout: outcome(bout) == "regressed"),
        empty_peek=share(bouts, lambda bout: not bout.peek),
        echo=share(wrong, echoed),
    )


def leak_shares(bouts: Sequence[Bout]) -> LeakShares:
    """How often the withheld answer is in the peek all the same, and the pass rate with and without it."""
    graded = [bout for bout in bouts if bout.final.verdict.graded]
    return LeakShares(
        rate=share(bouts, leaked),
        pass_with=share([bout for bout in graded if leaked(bout)], _right),
        pass_without=share([bout for bout in graded if not leaked(bout)], _right),
    )


def _right(bout: Bout) -> bool:
    return bout.final.verdict.correct


def token_use(bouts: Sequence[Bout]) -> TokenUse:
    """Tokens generated and prefilled at each stage, and all of them for one right answer."""
    drafts = [bout.draft for bout in bouts if bout.challenge]
    draft, final = _tokens(drafts), _tokens([bout.final for bout in bouts])
    total = TokenCounts(generated=draft.generated + final.generated, prefilled=draft.prefilled + final.prefilled)
    return TokenUse(
        draft=draft if drafts else None,
        final=final,
        total=total,
        per_correct=per_correct(total, sum(map(_right, bouts))),
    )


def per_correct(total: TokenCounts, correct: int) -> TokenCounts | None:
    """Tokens for one right answer; None where none is right."""
    if not correct:
        return None
    return TokenCounts(generated=total.generated / correct, prefilled=total.prefilled / correct)


def _tokens(rollouts: Sequence[Rollout]) -> TokenCounts:
    completions = [rollout.completion for rollout in rollouts]
    return TokenCounts(
        generated=sum(completion.generated_tokens for completion in completions),
        prefilled=sum(completion.prompt_tokens for completion in completions),
    )


SINGLE: Mapping[str, Callable[[Bout], bool]] = {"right": _right, "wrong": lambda bout: not _right(bout)}
STAGED: Mapping[str, Callable[[Bout], bool]] = {
    **SINGLE,
    "read_right": lambda bout: bout.draft.verdict.correct,
    "read_wrong": lambda bout: not bout.draft.verdict.correct,
    "kept": lambda bout: outcome(bout) == "kept",
    "converted": lambda bout: outcome(bout) == "converted",
    "regressed": lambda bout: outcome(bout) == "regressed",
    "lost": lambda bout: outcome(bout) == "lost",
}
"""How a bout came out, for mean lengths."""


def lengths(bouts: Sequence[Bout]) -> Lengths:
    """Mean tokens of the final stage: of all, by its outcome, and by whether the summary it read was right."""
    graded = [bout for bout in bouts if all(rollout.verdict.graded for rollout in bout.rollouts)]
    kinds = STAGED if any(bout.challenge for bout in bouts) else SINGLE
    groups = {name: [bout for bout in graded if holds(bout)] for name, holds in kinds.items()}
    return Lengths(
        final={name: mean_length(group) for name, group in ({"all": list(bouts)} | groups).items()},
        truncated=share(bouts, lambda bout: bout.final.completion.finish == "length"),
        seconds=round(fmean(bout.final.seconds for bout in bouts), 3) if bouts else None,
    )


def mean_length(bouts: Sequence[Bout]) -> MeanLength:
    tokens = [bout.final.completion.generated_tokens for bout in bouts]
    return MeanLength(n=len(tokens), mean=fmean(tokens) if tokens else None)


def complementarity(first: Outcomes, second: Outcomes) -> tuple[Joint, Interval | None]:
    """How far two policies fail on the same trials, and the share of problems that either solves."""
    pairs = {
        problem: [(a, b) for a, b in zip(samples, second[problem], strict=False) if a is not None and b is not None]
        for problem, samples in first.items()
        if problem in second
    }
    known = [both for both in pairs.values() if both]
    either = intervals.rate([[a or b for a, b in both] for both in known])
    return Joint.count(pair for both in known for pair in both), either
