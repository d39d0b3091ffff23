"""One step of a run as a `StepRecord`: the deterministic line of `steps.jsonl`.

Nothing here depends on time, memory or the order in which completions arrived, so that a resumed run writes the same
line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from agon.game.bonus import bonus_groups, bonus_weight, contexts
from agon.game.budget import Ledger
from agon.game.exchange import exchange
from agon.game.rules import Game
from agon.rundir.records import StepRecord, StreamStats
from agon.types import Played, Policy, Rollout


def step_record(played: Played, updates: Mapping[Policy, Mapping[str, float]], game: Game) -> StepRecord:
    """What a step did: both streams, the tokens it spent, and the two updates."""
    bouts, size = played.bouts, game.drafts_per_problem
    groups = [bouts[n : n + size] for n in range(0, len(bouts), size)]
    rollouts = [rollout for bout in bouts for rollout in bout.rollouts]
    competitive = played.competitive.groups if played.competitive else ()
    return StepRecord(
        step=played.step,
        drafter=played.drafter,
        challenger=played.challenger,
        standalone=_stream(played.standalone.groups),
        competitive=_stream(competitive) if competitive else None,
        exchange=exchange(bouts) if competitive else None,
        bonus_groups=bonus_groups(competitive) if game.pays_bonus else None,
        bonus_weight=bonus_weight(contexts(group, game) for group in groups) if game.pays_bonus else None,
        versions=dict(sorted({r.policy: r.completion.version for r in rollouts if r.policy}.items())),
        ledger=Ledger.of(bouts).by_name(),
        update={policy: dict(metrics) for policy, metrics in sorted(updates.items())},
        ungraded=sum(not rollout.verdict.graded for rollout in rollouts),
        staleness=played.staleness,
    )


def _stream(groups: Sequence[Sequence[Rollout]]) -> StreamStats:
    rows = [rollout for group in groups for rollout in group]
    graded = [rollout for rollout in rows if rollout.verdict.graded]
    return StreamStats(
        n=len(rows),
        graded=len(graded),
        pass_rate=_mean(rollout.verdict.correct for rollout in graded),
        reward_mean=_mean(rollout.reward.total for rollout in rows if rollout.reward is not None),
        groups=len(groups),
        live_groups=sum(any(rollout.advantage is not None for rollout in group) for group in groups),
        well_formed=_mean(rollout.verdict.well_formed for rollout in rows),
        truncated=_mean(rollout.completion.finish == "length" for rollout in rows),
        tokens_mean=_mean(rollout.completion.generated_tokens for rollout in rows),
    )


def _mean(values: Iterable[float]) -> float | None:
    values = list(values)
    return fmean(values) if values else None
