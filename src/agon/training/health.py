"""Warnings about a run, read from its step records; none about a healthy run.

A warning says what happened and what to do. It holds no number that changes from step to step, so that it can be shown
once. Thresholds are ours; each asks for enough rollouts that chance alone does not trigger it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Literal

from agon.rundir.records import StepRecord, StreamStats
from agon.types import Policy

History = Sequence[StepRecord]
StreamField = Literal["standalone", "competitive"]

STEPS = 5
"""How many steps in a row must show it."""
GROUPS = 24
"""How many groups in a row must be dead: with one group in four live, chance does this once in a thousand."""
TRUNCATED, EMPTY_PEEKS, WELL_FORMED, UNGRADED = 0.5, 0.2, 0.1, 0.01
CHEATS = 0.1
BONUS, BONUS_GROUPS = 0.05, 100
"""The bonus is idle when it changes fewer than this share of this many groups, the newest."""
IDLE_BONUS = (
    "The bonus changes the advantages of fewer than one group in twenty: the run learns as it would without it. "
    "It bites only where right challenges of a group met both right and wrong drafts: take problems that drafts solve "
    "now and then, or raise game.group_size."
)
FAILING = 100
"""Steps after which a run stops if the verifier failed on more than `UNGRADED` of their rollouts."""
WINDOW = 10
"""Steps whose mean is compared with that of the best such window before."""
FALL, ERRORS = 0.3, 4.5
"""A collapse loses this share of the peak, and this many standard errors of such a difference."""


def warnings(history: History) -> list[str]:
    """What looks wrong with a run. `history` holds its newest records, in order."""
    return [warning for check in CHECKS if (warning := check(history))]


def dead_drafts(history: History) -> str | None:
    """No group of drafts had two different rewards."""
    rate = _dead(history, "standalone")
    if rate is None:
        return None
    message = f"Every group of drafts was dead for {STEPS} steps or more: nothing is learnt from them."
    if rate < 0.02:
        return f"{message} No draft is right: take easier problems or a stronger base, or raise game.group_size."
    if rate > 0.98:
        return f"{message} Every draft is right: take harder problems."
    return f"{message} Drafts of one problem all agree: raise game.group_size or train.temperature."


def dead_challenges(history: History) -> str | None:
    """No group of challenges had two different rewards."""
    if _dead(history, "competitive") is None:
        return None
    message = f"Every group of challenges was dead for {STEPS} steps or more: the challenger learns nothing."
    return f"{message} `agon diagnose RUN` says which terms of the reward are constant."


def idle_bonus(history: History) -> str | None:
    """The bonus is normalised away."""
    counted = [(record.bonus_groups, record.competitive.groups) for record in history if record.competitive]
    bites, groups = 0, 0
    for seen, (biting, of) in enumerate(reversed(counted), 1):
        if biting is None:
            return None
        bites, groups = bites + biting, groups + of
        if groups >= BONUS_GROUPS and seen >= STEPS:
            return IDLE_BONUS if bites < BONUS * groups else None
    return None


def truncated(history: History) -> str | None:
    """Most completions were cut at the token limit."""
    if (share := _mean_of(history, "truncated")) is None or share < TRUNCATED:
        return None
    message = "More than half of the completions are cut at the token limit: they have no answer and no summary."
    return f"{message} Raise train.max_completion_tokens, or take a base that reasons more briefly."


def empty_peeks(history: History) -> str | None:
    """Drafts end without a summary."""
    counts = [record.exchange for record in history[-STEPS:] if record.exchange]
    shown, empty = sum(each.shown for each in counts), sum(each.empty_peeks for each in counts)
    if len(counts) < STEPS or not shown or empty < EMPTY_PEEKS * shown:
        return None
    message = "One challenge in five or more read an empty peek: its draft ended without a summary."
    advice = "truncated ones need more tokens, others a base that follows the prompt."
    return f"{message} Look at drafts with `agon view RUN`: {advice}"


def shapeless(history: History) -> str | None:
    """Hardly any completion has the structure that the format term asks for."""
    if (share := _mean_of(history, "well_formed")) is None or share > WELL_FORMED:
        return None
    message = "Fewer than one completion in ten is well-formed."
    return (
        f"{message} Look at some with `agon view RUN`: the base may not follow the prompt, or not in its chat template."
    )


def ungraded(history: History) -> str | None:
    """The verifier failed, not the completions."""
    recent = history[-STEPS:]
    failed = sum(record.ungraded for record in recent)
    if failed < 3 or failed < UNGRADED * sum(record.rollouts for record in recent):
        return None
    message = "The verifier failed on more than 1% of the rollouts; they are masked, not scored."
    return f"{message} Run `agon doctor`; bouts whose reason is `infra` or `bad_gold` say in `detail` what failed."


def suspicious(history: History) -> str | None:
    """Right programs look as if they cheat."""
    recent = history[-STEPS:]
    right = sum((stream.pass_rate or 0) * stream.graded for record in recent for stream in record.streams)
    flagged = sum(record.suspicious for record in recent)
    if len(recent) < STEPS or flagged < 3 or flagged < CHEATS * right:
        return None
    message = "One right program in ten or more looks as if it cheats: it reads files, ends early or quotes tests."
    return f"{message} Look at them with `agon view RUN`, mark `suspicious`; more hidden tests leave less to gain."


def verifier_failing(history: History) -> str | None:
    """Why a run must stop: too many rollouts without a verdict; None while the others can be trusted."""
    recent = history[-FAILING:]
    failed, rollouts = sum(record.ungraded for record in recent), sum(record.rollouts for record in recent)
    if len(recent) < FAILING or failed <= UNGRADED * rollouts:
        return None
    return f"{failed} of {rollouts} rollouts had no verdict in the last {FAILING} steps: the verifier is failing"


def identical(history: History) -> str | None:
    """Both policies had the same weights."""
    digests = [[version.digest for version in record.versions.values()] for record in history[-STEPS:]]
    if len(digests) < STEPS or not all(len(pair) == 2 and pair[0] == pair[1] for pair in digests):
        return None
    message = "Adapters A and B are identical: the rival is a copy."
    return f"{message} Set model.init.b_noise_std above 0, and check that both adapters are trained."


def unmoved(history: History) -> str | None:
    """A policy's groups were live and its adapter stayed."""
    for policy in Policy:
        recent = [_trained(record, policy) for record in history[-STEPS:]]
        if len(recent) == STEPS and all(live and not updated for live, updated in recent):
            message = f"Adapter {policy.name} has not moved for {STEPS} steps, although its groups are live."
            return (
                f"{message} Stop the run: the learner is broken; `agon doctor` says which versions it was tested with."
            )
    return None


def not_finite(history: History) -> str | None:
    """A loss or a gradient is not a number."""
    for policy, metrics in (history[-1].update if history else {}).items():
        if any(metrics.get(name, 0.0) is None for name in ("loss", "grad_norm")):
            message = f"The loss or the gradient of adapter {policy.name} is not a finite number."
            return f"{message} Stop, lower train.learning_rate, and resume from a checkpoint before this step."
    return None


def collapsed(history: History) -> str | None:
    """The policies were clearly better before."""
    rates = [rate for record in history if (rate := record.standalone.pass_rate) is not None]
    if len(rates) < 3 * WINDOW:
        return None
    means = [fmean(rates[start : start + WINDOW]) for start in range(len(rates) - WINDOW + 1)]
    peak, now = max(means[:-WINDOW]), means[-1]
    # neighbouring steps differ by noise and hardly by learning: half their mean square difference is the noise
    noise = fmean((one - two) ** 2 for one, two in pairwise(rates)) / 2
    if peak - now < max(FALL * peak, ERRORS * (2 * noise / WINDOW) ** 0.5):
        return None
    message = "Pass rates have fallen far below their peak: the policies may be collapsing."
    advice = "lower train.learning_rate or set train.beta above 0 in a new run"
    return f"{message} The best pair on dev is kept: agon eval RUN --step best; {advice}."


CHECKS: tuple[Callable[[History], str | None], ...] = (
    dead_drafts,
    dead_challenges,
    idle_bonus,
    truncated,
    empty_peeks,
    shapeless,
    ungraded,
    suspicious,
    identical,
    unmoved,
    not_finite,
    collapsed,
)


def _streams(history: History, name: StreamField) -> list[StreamStats]:
    return [stream for record in history if (stream := getattr(record, name))]


def _dead(history: History, name: StreamField) -> float | None:
    """The pass rate of the newest steps when all their groups are dead; None when one lives or too few are known."""
    groups, rates = 0, []
    for seen, stream in enumerate(reversed(_streams(history, name)), 1):
        if stream.live_groups:
            return None
        groups += stream.groups
        rates.append(stream.pass_rate or 0.0)
        if groups >= GROUPS and seen >= STEPS:
            return fmean(rates)
    return None


def _mean_of(history: History, name: Literal["truncated", "well_formed"]) -> float | None:
    """The mean of a share over both streams of the newest steps; None when there are too few."""
    if len(history) < STEPS:
        return None
    shares = [getattr(stream, name) for record in history[-STEPS:] for stream in record.streams]
    known = [share for share in shares if share is not None]
    return fmean(known) if known else None


def _trained(record: StepRecord, policy: Policy) -> tuple[bool, bool]:
    """Whether a policy's groups were live in a step, and whether it moved."""
    streams = ((record.drafter, record.standalone), (record.challenger, record.competitive))
    live = any(who is policy and stream is not None and stream.live_groups for who, stream in streams)
    return live, bool(record.update.get(policy, {}).get("updated", 1.0))
