"""One step of a run as plain numbers: the deterministic line of `steps.jsonl`.

Nothing here depends on time, memory or the order in which completions arrived, so that a resumed run writes the same
line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from agon.game.budget import Ledger
from agon.game.peek import leaks
from agon.types import Bout, Played, Policy, Rollout


def step_record(plays: Sequence[Played], updates: Mapping[Policy, Mapping[str, float]]) -> dict[str, Any]:
    """What a step did: both streams, the tokens it spent, and the two updates. `plays` holds one part per process."""
    bouts = [bout for played in plays for bout in played.bouts]
    ledger = Ledger()
    ledger.charge(bouts)
    rollouts = [bout.draft for bout in bouts] + [bout.challenge for bout in bouts if bout.challenge]
    record: dict[str, Any] = {
        "step": plays[0].step,
        "drafter": plays[0].drafter.value,
        "challenger": plays[0].challenger.value,
        "standalone": _stream([group for played in plays for group in played.standalone.groups]),
        "competitive": None,
        "versions": dict(sorted({rollout.policy.value: rollout.completion.version for rollout in rollouts}.items())),
        "ledger": ledger.as_dict(),
        "update": {policy.value: dict(metrics) for policy, metrics in sorted(updates.items())},
        "infra_rows": sum(not rollout.verdict.graded for rollout in rollouts),
    }
    competitive = [group for played in plays if played.competitive for group in played.competitive.groups]
    if competitive:
        record["competitive"] = _stream(competitive) | _exchange(bouts)
    return record


def _stream(groups: Sequence[Sequence[Rollout]]) -> dict[str, Any]:
    rows = [rollout for group in groups for rollout in group]
    graded = [rollout for rollout in rows if rollout.verdict.graded]
    return {
        "n": len(rows),
        "graded": len(graded),
        "solo_rate": _mean(rollout.verdict.correct for rollout in graded),
        "reward_mean": _mean(rollout.reward.total for rollout in rows if rollout.reward is not None),
        "groups": len(groups),
        "live_groups": sum(any(rollout.advantage is not None for rollout in group) for group in groups),
        "well_formed": _mean(rollout.verdict.well_formed for rollout in rows),
        "truncated": _mean(rollout.completion.finish == "length" for rollout in rows),
        "tokens_mean": _mean(rollout.completion.generated_tokens for rollout in rows),
    }


def _exchange(bouts: Sequence[Bout]) -> dict[str, Any]:
    """Conversions and regressions count the draft that was read or would have been: a_i against b_i."""
    known = [bout for bout in bouts if bout.challenge and bout.draft.verdict.graded and bout.challenge.verdict.graded]
    wrong = [bout for bout in known if not bout.draft.verdict.correct]
    right = [bout for bout in known if bout.draft.verdict.correct]
    shown = [bout for bout in bouts if bout.peek is not None]
    return {
        "rival_wrong": len(wrong),
        "rival_right": len(right),
        "conversions": sum(bout.challenge.verdict.correct for bout in wrong if bout.challenge),
        "regressions": sum(not bout.challenge.verdict.correct for bout in right if bout.challenge),
        "shown": len(shown),
        "empty_peeks": sum(not bout.peek for bout in shown),
        "leaks": sum(leaks(bout.peek or "", bout.draft.problem.answer) for bout in shown),
    }


def _mean(values: Iterable[float]) -> float | None:
    values = list(values)
    return fmean(values) if values else None
