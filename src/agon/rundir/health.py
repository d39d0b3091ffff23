"""What looks wrong with a run, read from its step records and evaluation points; nothing about a healthy run.

CHECKS is the table: a symptom has a name, what it means, a condition, a sentence with its numbers, and what to type.
Thresholds are our choice; each asks for enough rollouts that chance alone does not trigger it. The board shows symptoms
while they last, and so do the last line of a run, the report and the viewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from agon.rundir.records import Point, StepRecord, StreamStats
from agon.types import Policy

History = Sequence[StepRecord]

STEPS = 5
"""How many steps in a row must show it."""
GROUPS = 24
"""How many groups in a row must be dead: with one group in four live, chance does this once in a thousand."""
NEVER = 256
"""Answers of which none is right before it is reported: at a rate of 2% chance does this once in 170 runs."""
BONUS, BONUS_GROUPS = 0.1, 100
"""The bonus is idle when it changes fewer than this share of this many groups, the newest."""
EXPECTED = "Expected with a base this small: such a run shows what reading a draft does, not what the bonus does."
UNGRADED, FAILING = 0.01, 100
"""A run stops when the verifier failed on more than this share of the rollouts of so many steps."""
COPIED = 50
"""Failures, or peeks, of which enough must be copied."""
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


class Facts:
    """What the checks look at: numbers of the newest steps, or of the whole run."""

    def __init__(self, history: History, ended: bool) -> None:
        streams, recent = [stream for record in history for stream in record.streams], history[-STEPS:]
        enough = len(recent) == STEPS
        self.graded = sum(stream.graded for stream in streams)
        self.never_right = self.graded >= (1 if ended else NEVER) and not any(stream.pass_rate for stream in streams)
        drafts, challenges = _dead(record.standalone for record in history), _dead(r.competitive for r in history)
        self.dead_drafts, self.draft_rate = drafts
        self.dead_challenges, _ = challenges
        self.bonus_groups, self.bonus_acts = _bonus(history)
        newest = [stream for record in recent for stream in record.streams] if enough else []
        self.truncated = _mean([stream.truncated for stream in newest], unknown=0.0)
        self.well_formed = _mean([stream.well_formed for stream in newest], unknown=1.0)
        lengths, few = [stream.tokens_mean for stream in streams if stream.tokens_mean], 2 * STEPS
        known = len(lengths) >= 3 * few
        self.length, self.first_length = (fmean(lengths[-few:]), fmean(lengths[:few])) if known else (0.0, 1.0)
        read = [record.exchange for record in recent if record.exchange]
        read = read if len(read) == STEPS else []
        self.shown, self.leaks = sum(each.shown for each in read), sum(each.leaks for each in read)
        self.empty, self.echoes = sum(each.empty_peeks for each in read), sum(each.echoes for each in read)
        self.lost = sum(each.draft_wrong - each.conversions for each in read)
        self.failed, self.rollouts = _failed(recent)
        digests = [[version.digest for version in record.versions.values()] for record in recent]
        self.identical = enough and all(len(pair) == 2 and pair[0] == pair[1] for pair in digests)
        self.unmoved = "".join(policy.name for policy in Policy if enough and _unmoved(recent, policy))[:1]
        self.stopped, self.stopped_groups = _one_sided(history)
        update = history[-1].update if history else {}
        broken = [p.name for p, told in update.items() if None in (told.get("loss", 0), told.get("grad_norm", 0))]
        self.not_finite = "".join(broken[:1])
        self.collapsed, self.rate, self.peak = _collapse([record.standalone.pass_rate for record in history])


class Check(NamedTuple):
    """A row: `message` takes its numbers from the facts."""

    name: str
    holds: Callable[[Facts], bool]
    message: str
    fix: str


ALIKE = "Groups are dead: none of the last {f.dead_drafts} groups of drafts had two different rewards."
# fmt: off
CHECKS = tuple(Check(*row) for row in (
    ("never-right", lambda f: f.never_right,
     "0 of {f.graded:,} answers right since the start: only the format is being learnt.",
     "Take easier problems (agon data probe CONFIG), or check the verifier (agon data check CONFIG)."),
    ("too-hard", lambda f: f.dead_drafts > 0 and f.draft_rate < 0.02, ALIKE,
     "No draft is right: take easier problems (agon data probe CONFIG) or a stronger base."),
    ("too-easy", lambda f: f.dead_drafts > 0 and f.draft_rate > 0.98, ALIKE,
     "Every draft is right: take harder problems (agon data probe CONFIG)."),
    ("dead-drafts", lambda f: f.dead_drafts > 0 and 0.02 <= f.draft_rate <= 0.98, ALIKE,
     "Drafts of one problem all agree: raise game.group_size or train.temperature."),
    ("dead-challenges", lambda f: f.dead_challenges > 0,
     "Groups are dead: none of the last {f.dead_challenges} groups of challenges had two different rewards.",
     "See which terms are constant: agon diagnose RUN."),
    ("one-sided", lambda f: f.stopped_groups > 0,
     "{f.stopped} has stopped learning: its last {f.stopped_groups} groups are dead, the other's are not.",
     "Compare them (agon eval RUN --system a,b); in a new run choose arm=coop, or raise game.group_size."),
    ("idle-bonus", lambda f: f.bonus_groups >= BONUS_GROUPS and f.bonus_acts < BONUS,
     "The bonus changes the advantages of {f.bonus_acts:.0%} of the groups: the run learns as it would without it.",
     "This is usual with small groups and with problems that are nearly always, or nearly never, solved. Take problems "
     "that drafts solve now and then (agon data probe CONFIG), or raise game.group_size."),
    ("truncated", lambda f: f.truncated >= 0.5,
     "{f.truncated:.0%} of the completions are truncated at the token limit: they have no answer and no summary.",
     "Raise train.max_completion_tokens, or take a base that reasons more briefly."),
    ("exploding", lambda f: f.length >= 2 * f.first_length,
     "Lengths explode: {f.length:,.0f} tokens per completion, {f.first_length:,.0f} in the first steps.",
     "Set train.beta above 0 or arm=tiebreak in a new run; see some: agon view RUN."),
    ("empty-summaries", lambda f: f.shown > 0 and f.empty >= 0.2 * f.shown,
     "{f.empty} of the last {f.shown} challenges had no summary of the draft to read.",
     "Look at drafts (agon view RUN): truncated ones need more tokens, others a base that follows the prompt."),
    ("copying", lambda f: f.lost >= COPIED and f.echoes > 0.8 * f.lost,
     "The challenger copies: {f.echoes} of its last {f.lost} failures repeat the wrong answer of the draft.",
     "See whether it reads or copies: agon eval RUN --full; look at bouts with agon view RUN."),
    ("leaks", lambda f: f.shown >= COPIED and f.leaks > 0.5 * f.shown,
     "Summaries give the answer away: {f.leaks} of the last {f.shown} state it although it is withheld.",
     "See whether the challenger reads or copies: agon eval RUN --full; look at bouts with agon view RUN."),
    ("shapeless", lambda f: f.well_formed <= 0.1,
     "Only {f.well_formed:.0%} of the completions are well-formed.",
     "Look at some (agon view RUN): the base may not follow the prompt, or not in its chat template."),
    ("ungraded", lambda f: f.failed >= 3 and f.failed >= UNGRADED * f.rollouts,
     "The verifier failed on {f.failed} of the last {f.rollouts} rollouts; they are masked, not scored.",
     "Run agon doctor; bouts whose reason is `infra` or `bad_gold` say in `detail` what failed."),
    ("identical", lambda f: f.identical,
     "Adapters A and B are identical: the rival is a copy.",
     "Set model.init.b_noise_std above 0, and check that both adapters are trained."),
    ("unmoved", lambda f: bool(f.unmoved),
     f"Adapter {{f.unmoved}} has not moved for {STEPS} steps, although its groups are live.",
     "Stop the run: the learner is broken; agon doctor says which versions it was tested with."),
    ("not-finite", lambda f: bool(f.not_finite),
     "The loss or the gradient of adapter {f.not_finite} is not a finite number.",
     "Stop, and start a new run with a lower train.learning_rate: a resume cannot change it."),
    ("collapsed", lambda f: f.collapsed,
     "The policies may be collapsing: pass rate {f.rate:.2f}, {f.peak:.2f} at its peak.",
     "The best pair on dev is kept: agon eval RUN --step best. In a new run lower train.learning_rate or set "
     "train.beta above 0."),
))
# fmt: on


def symptoms(history: History, points: Sequence[Point] = (), *, ended: bool = False, base: str = "") -> list[Symptom]:
    """What looks wrong with a run. `history` holds its newest records, in order; `points` its evaluations on dev.

    A run that has `ended` without one right answer is reported however short it was. Of a `base` that ships with the
    package, an idle bonus is said to be expected: that is what the demo and the tabletop recipes train.
    """
    facts, toy = Facts(history, ended), base.startswith("agon:")
    found = [
        Symptom(
            check.name, check.message.format(f=facts), EXPECTED if toy and check.name == "idle-bonus" else check.fix
        )
        for check in CHECKS
        if check.holds(facts)
    ]
    change = dev_change(points)
    if change and not change.rose:
        fix = "More steps, a higher train.learning_rate, or problems of middling difficulty (agon data probe CONFIG)."
        found.append(Symptom("dev-still", f"{change}.", fix))
    return found


def verifier_failing(history: History) -> str | None:
    """Why a run must stop: too many rollouts without a verdict; None while the others can be trusted."""
    failed, rollouts = _failed(history[-FAILING:])
    if len(history) < FAILING or failed <= UNGRADED * rollouts:
        return None
    return f"{failed} of {rollouts} rollouts had no verdict in the last {FAILING} steps: the verifier is failing"


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
    n = max((counts.n for name, counts in points[-1].systems.items() if not name.startswith("first-")), default=0)
    return DevChange(points[0].score, points[-1].score, n) if n else None


# -- from records to facts --------------------------------------------------------------------------------------------


def _mean(values: Sequence[float | None], unknown: float) -> float:
    known = [value for value in values if value is not None]
    return fmean(known) if known else unknown


def _failed(records: History) -> tuple[int, int]:
    """Rollouts without a verdict, and all."""
    return sum(record.ungraded for record in records), sum(record.rollouts for record in records)


def _newest_dead(streams: Iterable[StreamStats | None]) -> list[StreamStats]:
    """The newest streams whose groups are all dead."""
    dead = list[StreamStats]()
    for stream in reversed([stream for stream in streams if stream]):
        if stream.live_groups:
            break
        dead.append(stream)
    return dead


def _dead(streams: Iterable[StreamStats | None]) -> tuple[int, float]:
    """How many of the newest groups are dead, and their pass rate; 0 where that may be chance."""
    dead = _newest_dead(streams)
    groups = sum(stream.groups for stream in dead)
    return (groups, fmean(s.pass_rate or 0.0 for s in dead)) if groups >= GROUPS and len(dead) >= STEPS else (0, 0.0)


def _bonus(history: History) -> tuple[int, float]:
    """The newest groups of challenges, enough of them to say so, and the share in which the bonus acts."""
    acts = groups = 0
    counted = [(record.bonus_groups, record.competitive.groups) for record in history if record.competitive]
    for seen, (acting, of) in enumerate(reversed(counted), 1):
        if acting is None:
            return 0, 0.0
        acts, groups = acts + acting, groups + of
        if groups >= BONUS_GROUPS and seen >= STEPS:
            break
    return groups, acts / groups if groups else 0.0


def _roles(record: StepRecord, policy: Policy) -> list[StreamStats]:
    """The streams of a step that trained a policy; a rival may not learn."""
    roles = ((record.drafter, record.standalone), (record.challenger, record.competitive))
    return [stream for who, stream in roles if who is policy and stream and policy in record.update]


def _unmoved(recent: History, policy: Policy) -> bool:
    live = all(any(stream.live_groups for stream in _roles(record, policy)) for record in recent)
    return live and len({record.versions[policy] for record in recent}) == 1


def _one_sided(history: History) -> tuple[str, int]:
    """The policy whose newest groups are dead while the other's newest step is live, and how many groups."""
    learners = {policy for record in history for policy in record.update}
    dead = {
        policy: sum(stream.groups for stream in _newest_dead(streams))
        for policy in Policy
        if policy in learners and (streams := [s for record in history for s in _roles(record, policy)])
    }
    stopped = [policy for policy in dead if dead[policy] >= GROUPS and dead.get(policy.rival) == 0]
    return (stopped[0].name, dead[stopped[0]]) if stopped else ("", 0)


def _collapse(pass_rates: Sequence[float | None]) -> tuple[bool, float, float]:
    """Whether pass rates have fallen beyond noise, the mean of the newest window, and that of the best before it."""
    rates = [rate for rate in pass_rates if rate is not None]
    if len(rates) < 3 * WINDOW:
        return False, 0.0, 0.0
    means = [fmean(rates[start : start + WINDOW]) for start in range(len(rates) - WINDOW + 1)]
    peak, now = max(means[:-WINDOW]), means[-1]
    # neighbouring steps differ by noise and hardly by learning: half their mean square difference is the noise
    noise = fmean((one - two) ** 2 for one, two in pairwise(rates)) / 2
    return peak > now and peak - now >= max(FALL * peak, ERRORS * (2 * noise / WINDOW) ** 0.5), now, peak
