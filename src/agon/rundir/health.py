"""What looks wrong with a run, read from its step records and evaluation points; nothing about a healthy run.

A symptom has a name, says what happened with its numbers, and what to type. The docstring of a check is what `agon
explain NAME` and docs/metrics.md show. Thresholds are our choice; each asks for enough rollouts that chance alone does
not trigger it. The board shows symptoms while they last, and so do the last line of a run, the report and the viewer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Literal

from agon.rundir.records import Point, StepRecord, StreamStats
from agon.types import Policy

History = Sequence[StepRecord]
StreamField = Literal["standalone", "competitive"]

STEPS = 5
"""How many steps in a row must show it."""
GROUPS = 24
"""How many groups in a row must be dead: with one group in four live, chance does this once in a thousand."""
NEVER = 256
"""Answers of which none is right before it is reported: at a rate of 2% chance does this once in 170 runs."""
TRUNCATED, EMPTY_PEEKS, WELL_FORMED, UNGRADED = 0.5, 0.2, 0.1, 0.01
CHEATS = 0.1
BONUS, BONUS_GROUPS = 0.1, 100
"""The bonus is idle when it changes fewer than this share of this many groups, the newest."""
EXPECTED = "Expected with a base this small: such a run shows what reading a draft does, not what the bonus does."
ECHOED, LEAKED, COPIED = 0.8, 0.5, 50
"""Copying: more than these shares of failures that repeat the draft's answer, or of peeks that state it, among at least
so many."""
LONGER = 2.0
"""Completions explode when their mean length is this many times that of the first steps."""
FAILING = 100
"""Steps after which a run stops if the verifier failed on more than `UNGRADED` of their rollouts."""
WINDOW = 10
"""Steps whose mean is compared with that of the best such window before."""
FALL, ERRORS = 0.3, 4.5
"""A collapse loses this share of the peak, and this many standard errors of such a difference."""
MOVED = 2.0
"""Standard errors by which dev must differ from its start to have moved."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """Something that looks wrong, and what to do about it."""

    name: str
    message: str
    fix: str

    def __str__(self) -> str:
        return f"{self.message} {self.fix}"


def symptoms(history: History, points: Sequence[Point] = (), *, ended: bool = False, base: str = "") -> list[Symptom]:
    """What looks wrong with a run. `history` holds its newest records, in order; `points` its evaluations on dev.

    A run that has `ended` without one right answer is reported however short it was. Of a `base` that ships with the
    package, an idle bonus is said to be expected: that is what the demo and the tabletop recipes train.
    """
    found = [symptom for check in CHECKS.values() if (symptom := check(history))]
    never = never_right(history, fewest=1) if ended and never_right(history) is None else None
    if base.startswith("agon:"):
        found = [replace(one, fix=EXPECTED) if one.name == "idle-bonus" else one for one in found]
    return [*filter(None, [never]), *found, *filter(None, [dev_still(points)])]


def never_right(history: History, fewest: int = NEVER) -> Symptom | None:
    """Not one answer of the run is right: correctness pays nothing, so only the format is being learnt."""
    streams = [stream for record in history for stream in record.streams]
    graded = sum(stream.graded for stream in streams)
    if graded < fewest or any(stream.pass_rate for stream in streams):
        return None
    message = f"0 of {graded:,} answers right since the start: only the format is being learnt."
    return Symptom(
        "never-right",
        message,
        "Take easier problems (agon data probe CONFIG), or check the verifier: agon verify NAME.",
    )


def dead_drafts(history: History) -> Symptom | None:
    """All drafts of a problem get the same reward, in every group: nothing is learnt from them."""
    dead = _dead(history, "standalone")
    if dead is None:
        return None
    message = f"Groups are dead: none of the last {dead.groups} groups of drafts had two different rewards."
    if dead.rate < 0.02:
        fix = "No draft is right: take easier problems (agon data probe CONFIG) or a stronger base."
    elif dead.rate > 0.98:
        fix = "Every draft is right: take harder problems (agon data probe CONFIG)."
    else:
        fix = "Drafts of one problem all agree: raise game.group_size or train.temperature."
    return Symptom("dead-drafts", message, fix)


def dead_challenges(history: History) -> Symptom | None:
    """All challenges of a problem get the same reward, in every group: the challenger learns nothing."""
    if (dead := _dead(history, "competitive")) is None:
        return None
    message = f"Groups are dead: none of the last {dead.groups} groups of challenges had two different rewards."
    return Symptom("dead-challenges", message, "See which terms are constant: agon diagnose RUN.")


def idle_bonus(history: History) -> Symptom | None:
    """The bonus changes hardly any advantage: the run learns as it would without it.

    It has an effect only in groups whose right challenges faced both right and wrong drafts."""
    counted = [(record.bonus_groups, record.competitive.groups) for record in history if record.competitive]
    bites, groups = 0, 0
    for seen, (biting, of) in enumerate(reversed(counted), 1):
        if biting is None:
            return None
        bites, groups = bites + biting, groups + of
        if groups >= BONUS_GROUPS and seen >= STEPS:
            break
    if groups < BONUS_GROUPS or bites >= BONUS * groups:
        return None
    message = (
        f"The bonus is normalised away in {1 - bites / groups:.0%} of groups: the run learns as it would without it."
    )
    fix = (
        "This is usual with small groups and with problems that are nearly always, or nearly never, solved. Take "
        "problems that drafts solve now and then (agon data probe CONFIG), or raise game.group_size."
    )
    return Symptom("idle-bonus", message, fix)


def truncated(history: History) -> Symptom | None:
    """Most completions are truncated at the token limit: they have no answer and no summary."""
    if (share := _mean_of(history, "truncated")) is None or share < TRUNCATED:
        return None
    message = f"{share:.0%} of the completions are truncated at the token limit: they have no answer and no summary."
    return Symptom("truncated", message, "Raise train.max_completion_tokens, or take a base that reasons more briefly.")


def exploding(history: History) -> Symptom | None:
    """Completions have grown to more than twice their length at the start."""
    lengths = [stream.tokens_mean for record in history for stream in record.streams]
    known = [length for length in lengths if length]
    few = 2 * STEPS
    if len(known) < 3 * few or (now := fmean(known[-few:])) < LONGER * (start := fmean(known[:few])):
        return None
    message = f"Lengths explode: {now:,.0f} tokens per completion, {start:,.0f} in the first steps."
    return Symptom(
        "exploding", message, "Set train.beta above 0 or arm=tiebreak in a new run; see some: agon view RUN."
    )


def empty_peeks(history: History) -> Symptom | None:
    """Drafts end without a summary, so that the challenger has nothing to read."""
    counts = [record.exchange for record in history[-STEPS:] if record.exchange]
    shown, empty = sum(each.shown for each in counts), sum(each.empty_peeks for each in counts)
    if len(counts) < STEPS or not shown or empty < EMPTY_PEEKS * shown:
        return None
    message = f"Peeks are empty: {empty} of the last {shown} challenges had no summary of the draft to read."
    fix = "Look at drafts (agon view RUN): truncated ones need more tokens, others a base that follows the prompt."
    return Symptom("empty-peeks", message, fix)


def copying(history: History) -> Symptom | None:
    """Challenges repeat what they read: wrong answers come back unchanged, or peeks state the answer.

    A challenger that copies is right exactly when the draft is, and never earns the bonus."""
    counts = [record.exchange for record in history[-STEPS:] if record.exchange]
    shown, leaks = sum(each.shown for each in counts), sum(each.leaks for each in counts)
    lost = sum(each.draft_wrong - each.conversions for each in counts)
    echoes = sum(each.echoes or 0 for each in counts)
    if len(counts) < STEPS:
        return None
    if lost >= COPIED and echoes > ECHOED * lost:
        message = f"The challenger copies: {echoes} of its last {lost} failures repeat the wrong answer of the draft."
    elif shown >= COPIED and leaks > LEAKED * shown:
        message = f"Peeks give the answer away: {leaks} of the last {shown} state it although it is withheld."
    else:
        return None
    fix = "See whether it reads or copies: agon eval RUN --full; look at bouts with agon view RUN."
    return Symptom("copying", message, fix)


def shapeless(history: History) -> Symptom | None:
    """Hardly any completion has the structure that the format term asks for."""
    if (share := _mean_of(history, "well_formed")) is None or share > WELL_FORMED:
        return None
    message = f"Only {share:.0%} of the completions are well-formed."
    fix = "Look at some (agon view RUN): the base may not follow the prompt, or not in its chat template."
    return Symptom("shapeless", message, fix)


def ungraded(history: History) -> Symptom | None:
    """The verifier, or the endpoint of a rival, failed, not the completions: their rows are masked."""
    recent = history[-STEPS:]
    failed, rollouts = sum(record.ungraded for record in recent), sum(record.rollouts for record in recent)
    if failed < 3 or failed < UNGRADED * rollouts:
        return None
    failing = "The verifier failed, or the endpoint of a rival,"
    message = f"{failing} on {failed} of the last {rollouts} rollouts; they are masked, not scored."
    fix = "Run agon doctor; bouts whose reason is `infra` or `bad_gold` say in `detail` what failed."
    return Symptom("ungraded", message, fix)


def suspicious(history: History) -> Symptom | None:
    """Right programs look as if they cheat."""
    recent = history[-STEPS:]
    right = sum((stream.pass_rate or 0) * stream.graded for record in recent for stream in record.streams)
    flagged = sum(record.suspicious for record in recent)
    if len(recent) < STEPS or flagged < 3 or flagged < CHEATS * right:
        return None
    message = "One right program in ten or more looks as if it cheats: it reads files, ends early or quotes tests."
    fix = "Look at them with agon view RUN, mark `suspicious`; more hidden tests leave less to gain."
    return Symptom("suspicious", message, fix)


def verifier_failing(history: History) -> str | None:
    """Why a run must stop: too many rollouts without a verdict; None while the others can be trusted."""
    recent = history[-FAILING:]
    failed, rollouts = sum(record.ungraded for record in recent), sum(record.rollouts for record in recent)
    if len(recent) < FAILING or failed <= UNGRADED * rollouts:
        return None
    counted = f"{failed} of {rollouts} rollouts had no verdict in the last {FAILING} steps"
    return f"{counted}: the verifier is failing, or the rival's endpoint"


def identical(history: History) -> Symptom | None:
    """Adapters A and B have the same weights: the rival is a copy."""
    digests = [[version.digest for version in record.versions.values()] for record in history[-STEPS:]]
    if len(digests) < STEPS or not all(len(pair) == 2 and pair[0] == pair[1] for pair in digests):
        return None
    fix = "Set model.init.b_noise_std above 0, and check that both adapters are trained."
    return Symptom("identical", "Adapters A and B are identical: the rival is a copy.", fix)


def unmoved(history: History) -> Symptom | None:
    """A policy's groups are live and its adapter does not change: the learner is broken."""
    for policy in Policy:
        recent = history[-STEPS:]
        played = {record.versions[policy] if _live(record, policy) else None for record in recent}
        if len(recent) == STEPS and len(played) == 1 and None not in played:
            message = f"Adapter {policy.name} has not moved for {STEPS} steps, although its groups are live."
            fix = "Stop the run: the learner is broken; agon doctor says which versions it was tested with."
            return Symptom("unmoved", message, fix)
    return None


def one_sided(history: History) -> Symptom | None:
    """One policy has stopped learning, as all its groups are dead, while the other learns."""
    dead = {policy: _dead_groups(_of(history, policy)) for policy in Policy if _of(history, policy)}
    for policy in dead:
        if dead[policy] >= GROUPS and dead.get(policy.rival) == 0:
            message = (
                f"{policy.name} has stopped learning: its last {dead[policy]} groups are dead, the other's are not."
            )
            fix = "Compare them (agon eval RUN --system a,b); in a new run choose arm=coop, or raise game.group_size."
            return Symptom("one-sided", message, fix)
    return None


def not_finite(history: History) -> Symptom | None:
    """A loss or a gradient is not a number."""
    for policy, metrics in (history[-1].update if history else {}).items():
        if any(metrics.get(name, 0.0) is None for name in ("loss", "grad_norm")):
            message = f"The loss or the gradient of adapter {policy.name} is not a finite number."
            fix = "Stop, and start a new run with a lower train.learning_rate: a resume cannot change it."
            return Symptom("not-finite", message, fix)
    return None


def collapsed(history: History) -> Symptom | None:
    """The policies were clearly better before: pass rates have fallen far below their peak."""
    rates = [rate for record in history if (rate := record.standalone.pass_rate) is not None]
    if len(rates) < 3 * WINDOW:
        return None
    means = [fmean(rates[start : start + WINDOW]) for start in range(len(rates) - WINDOW + 1)]
    peak, now = max(means[:-WINDOW]), means[-1]
    # neighbouring steps differ by noise and hardly by learning: half their mean square difference is the noise
    noise = fmean((one - two) ** 2 for one, two in pairwise(rates)) / 2
    if peak <= now or peak - now < max(FALL * peak, ERRORS * (2 * noise / WINDOW) ** 0.5):
        return None
    message = f"The policies may be collapsing: pass rate {now:.2f}, {peak:.2f} at its peak."
    advice = "lower train.learning_rate or set train.beta above 0 in a new run"
    return Symptom("collapsed", message, f"The best pair on dev is kept: agon eval RUN --step best; {advice}.")


def dev_still(points: Sequence[Point]) -> Symptom | None:
    """What would be deployed is not clearly better on dev than at the start."""
    change = dev_change(points)
    if change is None or change.rose:
        return None
    fix = "More steps, a higher train.learning_rate, or problems of middling difficulty (agon data probe CONFIG)."
    return Symptom("dev-still", f"{change}.", fix)


CHECKS: dict[str, Callable[[History], Symptom | None]] = {
    "never-right": never_right,
    "dead-drafts": dead_drafts,
    "dead-challenges": dead_challenges,
    "one-sided": one_sided,
    "idle-bonus": idle_bonus,
    "truncated": truncated,
    "exploding": exploding,
    "empty-peeks": empty_peeks,
    "copying": copying,
    "shapeless": shapeless,
    "ungraded": ungraded,
    "suspicious": suspicious,
    "identical": identical,
    "unmoved": unmoved,
    "not-finite": not_finite,
    "collapsed": collapsed,
}
"""Checks of the step records by the name of what they find; `dev-still` looks at points."""


@dataclass(frozen=True, slots=True)
class DevChange:
    """Dev at the first and at the last evaluation, of what would be deployed."""

    first: float
    last: float
    n: int
    """Answers at each."""

    @property
    def moved(self) -> bool:
        """Whether they differ by more than noise, were the answers independent."""
        pooled = (self.first + self.last) / 2
        error = (2 * pooled * (1 - pooled) / self.n) ** 0.5
        return bool(abs(self.last - self.first) > MOVED * error)

    @property
    def rose(self) -> bool:
        return self.moved and self.last > self.first

    def __str__(self) -> str:
        verb = "rose" if self.rose else "fell" if self.moved else "shows no change beyond noise"
        return f"dev {verb}: {self.first:.2f} -> {self.last:.2f} ({self.n} answers)"


def dev_change(points: Sequence[Point]) -> DevChange | None:
    """How dev changed over the run; None before two evaluations."""
    if len(points) < 2:
        return None
    counts = [counts.n for name, counts in points[-1].systems.items() if not name.startswith("first-")]
    n = max(counts, default=0)
    return DevChange(points[0].score, points[-1].score, n) if n else None


@dataclass(frozen=True, slots=True)
class _Dead:
    groups: int
    rate: float


def _dead(history: History, name: StreamField) -> _Dead | None:
    """How many of the newest groups are dead, and their pass rate; None when one lives or too few are known."""
    groups, rates = 0, []
    streams: list[StreamStats] = [stream for record in history if (stream := getattr(record, name))]
    for stream in reversed(streams):
        if stream.live_groups:
            break
        groups += stream.groups
        rates.append(stream.pass_rate or 0.0)
    return _Dead(groups, fmean(rates)) if groups >= GROUPS and len(rates) >= STEPS else None


def _of(history: History, policy: Policy) -> list[StreamStats]:
    """The streams that trained a policy, in both of its roles."""
    roles = [
        pair
        for record in history
        for pair in ((record.drafter, record.standalone), (record.challenger, record.competitive))
    ]
    learners = {who for record in history for who in record.update}  # a rival may not learn
    return [stream for who, stream in roles if who is policy and who in learners and stream is not None]


def _dead_groups(streams: Sequence[StreamStats]) -> int:
    """How many of the newest groups are dead."""
    groups = 0
    for stream in reversed(streams):
        if stream.live_groups:
            return groups
        groups += stream.groups
    return groups


def _mean_of(history: History, name: Literal["truncated", "well_formed"]) -> float | None:
    """The mean of a share over both streams of the newest steps; None when there are too few."""
    if len(history) < STEPS:
        return None
    shares = [getattr(stream, name) for record in history[-STEPS:] for stream in record.streams]
    known = [share for share in shares if share is not None]
    return fmean(known) if known else None


def _live(record: StepRecord, policy: Policy) -> bool:
    """Whether a policy learnt from live groups in a step."""
    streams = ((record.drafter, record.standalone), (record.challenger, record.competitive))
    live = any(who is policy and stream is not None and stream.live_groups for who, stream in streams)
    return live and policy in record.update
