"""What is wrong with a run, in words: read from the lines of `steps.jsonl`, silent about a healthy run.

A sentence says what happened and what to do. It holds no number that changes from step to step, so that whoever shows
it can say it once. Thresholds are ours; each asks for enough rollouts that chance alone stays silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

Record = Mapping[str, Any]

STEPS = 5
"""How many steps in a row must be sick."""
GROUPS = 24
"""How many groups in a row must be dead: with one group in four live, chance does this once in a thousand."""
TRUNCATED, EMPTY_PEEKS, WELL_FORMED, UNGRADED = 0.5, 0.2, 0.1, 0.01
WINDOW = 10
"""Steps whose mean is compared with that of the best such window before."""
FALL, ERRORS = 0.3, 4.5
"""A collapse loses this share of the peak, and this many standard errors of such a difference."""


def diagnose(history: Sequence[Record]) -> list[str]:
    """Sentences about a sick run; none about a healthy one. `history` holds the newest lines of the log, in order."""
    found = (check(history) for check in CHECKS)
    return [sentence for sentence in found if sentence]


def dead_drafts(history: Sequence[Record]) -> str | None:
    """No group of drafts had two different rewards."""
    rate = _dead(history, "standalone")
    if rate is None:
        return None
    told = f"Every group of drafts was dead for {STEPS} steps or more: nothing is learnt from them."
    if rate < 0.02:
        return f"{told} No draft is right: take easier problems or a stronger base, or raise game.group_size."
    if rate > 0.98:
        return f"{told} Every draft is right: take harder problems."
    return f"{told} Drafts of one problem all agree: raise game.group_size or train.temperature."


def dead_challenges(history: Sequence[Record]) -> str | None:
    """No group of challenges had two different rewards."""
    if _dead(history, "competitive") is None:
        return None
    told = f"Every group of challenges was dead for {STEPS} steps or more: the challenger learns nothing."
    return f"{told} `agon diagnose RUN` says which terms of the reward are constant."


def truncated(history: Sequence[Record]) -> str | None:
    """Most completions were cut at the cap."""
    if (share := _mean_of(history, "truncated")) is None or share < TRUNCATED:
        return None
    told = "More than half of the completions are cut at the cap: they have no answer and no summary."
    return f"{told} Raise train.max_completion_tokens, or take a base that reasons more briefly."


def empty_peeks(history: Sequence[Record]) -> str | None:
    """Drafts end without a summary."""
    streams = _streams(history[-STEPS:], "competitive")
    shown = sum(stream.get("shown", stream["n"]) for stream in streams)
    if len(streams) < STEPS or not shown or sum(stream["empty_peeks"] for stream in streams) < EMPTY_PEEKS * shown:
        return None
    told = "One challenge in five or more read an empty peek: its draft ended without a summary."
    return (
        f"{told} Look at drafts with `agon view RUN`: cut ones need more tokens, others a base that follows the prompt."
    )


def shapeless(history: Sequence[Record]) -> str | None:
    """Hardly any completion has the structure that the format term asks for."""
    if (share := _mean_of(history, "well_formed")) is None or share > WELL_FORMED:
        return None
    told = "Fewer than one completion in ten is well-formed."
    return f"{told} Look at some with `agon view RUN`: the base may not follow the prompt, or not in its chat template."


def ungraded(history: Sequence[Record]) -> str | None:
    """The verifier failed, not the completions."""
    recent = history[-STEPS:]
    rows = sum(stream["n"] for name in ("standalone", "competitive") for stream in _streams(recent, name))
    failed = sum(record["infra_rows"] for record in recent)
    if failed < 3 or failed < UNGRADED * rows:
        return None
    told = "The verifier failed on more than 1% of the rollouts; they are masked, not scored."
    return f"{told} Run `agon doctor`; bouts whose reason is `infra` or `bad_gold` say in `detail` what failed."


def identical(history: Sequence[Record]) -> str | None:
    """Both policies had the same weights."""
    recent = [record.get("versions", {}) for record in history[-STEPS:]]
    hashes = [[version.partition("-")[2] for version in versions.values()] for versions in recent]
    if len(recent) < STEPS or not all(len(pair) == 2 and pair[0] and pair[0] == pair[1] for pair in hashes):
        return None
    told = "Adapters A and B are identical: the rival is a copy."
    return f"{told} Set model.init.b_noise_std above 0, and check that both adapters are trained."


def unmoved(history: Sequence[Record]) -> str | None:
    """A policy's groups were live and its adapter stayed."""
    for policy in ("a", "b"):
        recent = [_trained(record, policy) for record in history[-STEPS:]]
        if len(recent) == STEPS and all(live and not updated for live, updated in recent):
            told = f"Adapter {policy.upper()} has not moved for {STEPS} steps, although its groups are live."
            return f"{told} Stop the run: the learner is broken; `agon doctor` says which versions it was tested with."
    return None


def not_finite(history: Sequence[Record]) -> str | None:
    """A loss or a gradient is no number."""
    for policy, metrics in (history[-1]["update"] if history else {}).items():
        if any(metrics.get(name, 0.0) is None for name in ("loss", "grad_norm")):
            told = f"The loss or the gradient of adapter {policy.upper()} is not a finite number."
            return f"{told} Stop, lower train.learning_rate, and resume from a checkpoint before this step."
    return None


def collapsed(history: Sequence[Record]) -> str | None:
    """The policies were clearly better before."""
    rates = [rate for record in history if (rate := record["standalone"]["solo_rate"]) is not None]
    if len(rates) < 3 * WINDOW:
        return None
    means = [fmean(rates[start : start + WINDOW]) for start in range(len(rates) - WINDOW + 1)]
    peak, now = max(means[:-WINDOW]), means[-1]
    # neighbouring steps differ by noise and hardly by learning: half their mean square difference is the noise
    noise = fmean((one - two) ** 2 for one, two in pairwise(rates)) / 2
    if peak - now < max(FALL * peak, ERRORS * (2 * noise / WINDOW) ** 0.5):
        return None
    told = "Solo rates have fallen far below their peak: the policies may be collapsing."
    return f"{told} pair/ keeps the best pair on dev; lower train.learning_rate or set train.beta above 0 in a new run."


CHECKS: tuple[Callable[[Sequence[Record]], str | None], ...] = (
    dead_drafts,
    dead_challenges,
    truncated,
    empty_peeks,
    shapeless,
    ungraded,
    identical,
    unmoved,
    not_finite,
    collapsed,
)


def _streams(records: Iterable[Record], name: str) -> list[Mapping[str, Any]]:
    return [record[name] for record in records if record[name]]


def _dead(history: Sequence[Record], name: str) -> float | None:
    """The solo rate of the newest steps when all their groups are dead; None when one lives or too few are known."""
    groups, rates = 0, []
    for seen, stream in enumerate(reversed(_streams(history, name)), 1):
        if stream["live_groups"]:
            return None
        groups += stream["groups"]
        rates.append(stream["solo_rate"] or 0.0)
        if groups >= GROUPS and seen >= STEPS:
            return fmean(rates)
    return None


def _mean_of(history: Sequence[Record], key: str) -> float | None:
    """The mean of a share over both streams of the newest steps; None when there are too few."""
    if len(history) < STEPS:
        return None
    streams = [stream for name in ("standalone", "competitive") for stream in _streams(history[-STEPS:], name)]
    values = [stream[key] for stream in streams if stream[key] is not None]
    return fmean(values) if values else None


def _trained(record: Record, policy: str) -> tuple[bool, bool]:
    """Whether a policy's groups were live in a step, and whether it moved."""
    names = {"standalone": record["drafter"], "competitive": record["challenger"]}
    live = any(who == policy and (record[name] or {}).get("live_groups") for name, who in names.items())
    return live, bool(record["update"].get(policy, {}).get("updated", 1.0))
