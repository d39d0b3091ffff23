"""A diagnosis as text: a table, the findings as sentences, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator

from agon.diagnose.dead import Cause
from agon.diagnose.diagnosis import Diagnosis
from agon.diagnose.terms import MIN_REPEATS, Term
from agon.diagnose.trends import thirds

MEANING = {
    Cause.UNGRADED: "fewer than two rows have a reward: look for errors of the verifier or reward functions",
    Cause.CANCELLING: "terms differ but add up to the same total: the weights trade one term against another",
    Cause.UNPAID: "right and wrong rows earn the same: correctness is not paid, or has weight 0",
    Cause.TRUNCATED: "every row was cut off: raise the completion limit, or pay for shorter answers",
    Cause.ALL_RIGHT: "too easy: take out problems that the policy always solves",
    Cause.ALL_WRONG: "too hard: take easier problems, or more rollouts per problem",
    Cause.SATURATED: "every term is at the log's maximum: too easy, or a reward that everyone earns",
    Cause.FLOORED: "every term is at the log's minimum: too hard, or a reward function that always fails",
    Cause.CONSTANT: "every term is the same in all rows",
}

KIND = {
    "action-independent": (
        "is inert in expectation: once the opponent's outcome is fixed it never varies "
        f"(at least {MIN_REPEATS} repeats), so it pays for the opponent that was drawn, not for what the policy wrote."
    ),
    "rescaling": (
        "is inert: it varies, but no advantage changes when it is dropped. It only stretches the group, and the "
        "standard deviation divides that out; another term must vary within the group for it to matter."
    ),
}

MOSTLY = 0.9
"""Share of groups from which on a term at its maximum or minimum is reported."""
MANY_STEPS, MOVED = 6, 0.15
"""Steps from which on a log has a beginning and an end; change of a share that is reported."""
LITTLE = 0.05
"""Share of groups up to which a term that changes advantages is called nearly inert."""


def findings(diagnosis: Diagnosis) -> list[str]:
    """Every finding as a short text, those that question the log itself first."""
    alone = len(diagnosis.terms) == 1
    about_terms = (sentence for term in diagnosis.terms for sentence in _about_term(term, alone))
    whole = (*_about_log(diagnosis), *_about_dead(diagnosis), *_about_trend(diagnosis), *_about_bonus(diagnosis))
    return [*whole, *about_terms]


def _about_log(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.group_sizes[1] < 2:
        yield "No group has two rows. Rows of one group must share the value of the group column: see --group."
    if diagnosis.unexplained_groups:
        yield (
            f"In {diagnosis.unexplained_groups:.0%} of the groups the total varies by something that is not among the "
            "terms: name every reward column with --terms and its weight with --weights."
        )
    if diagnosis.advantages_agree is False:
        yield (
            "The logged advantages are not the totals normalised by group: check --weights, --total and --scale, or "
            "the trainer normalises differently (over the batch, or each term on its own)."
        )


def _about_dead(diagnosis: Diagnosis) -> Iterator[str]:
    if dead := diagnosis.dead_groups:
        share = dead / diagnosis.groups
        yield f"{dead} of {diagnosis.groups} groups ({share:.0%}) are dead: their tokens teach nothing."


def _about_trend(diagnosis: Diagnosis) -> Iterator[str]:
    if len(diagnosis.trend) < MANY_STEPS:
        return
    early, late = thirds([each.dead for each in diagnosis.trend])
    if abs(late - early) >= MOVED:
        verb = "rise" if late > early else "fall"
        yield f"Dead groups {verb} from {early:.0%} in the first third of the steps to {late:.0%} in the last."


def _about_bonus(diagnosis: Diagnosis) -> Iterator[str]:
    if (share := diagnosis.bonus_bites) is None:
        return
    if share < LITTLE:
        what = "normalised away nearly everywhere: the run learns what it would learn without it"
    else:
        what = "in the others it only stretches the rewards, which normalisation divides out"
    yield f"The bonus bites in {share:.1%} of the groups (their advantages would be different without it); {what}."


def _about_term(term: Term, alone: bool) -> Iterator[str]:
    name = f"`{term.name}`"
    if term.kind == "group-constant":
        yield f"{name} never varies within a group, so the group's mean cancels it{_level(term)}"
    if term.kind in KIND:
        yield f"{name} {KIND[term.kind]}"
    if term.kind == "echo":
        yield (
            f"{name} is {term.slope:.3g} x `{term.echo_of}`, apart from what the group or its opponent fixes: "
            "it changes that term's weight and adds no direction of its own."
        )
    if term.kind == "signal" and term.changed_groups < LITTLE:
        yield f"{name} is nearly inert: it changes the advantages of {term.changed_groups:.1%} of the groups."
    if not term.inert and term.saturated >= MOSTLY:
        yield f"{name} is at its maximum throughout {term.saturated:.0%} of the groups: it adds little now."
    if not term.inert and term.floored >= MOSTLY:
        yield f"{name} is at its minimum throughout {term.floored:.0%} of the groups: it is hardly ever earned."
    if term.amplified and not alone:
        yield (
            f"{name} decides {term.amplified} groups whose rewards differ by less than 10% of their range in the log: "
            "dividing by the standard deviation makes that as large as a right answer."
        )
    if term.sole_signal and not alone:
        yield f"{name} alone keeps {term.sole_signal} groups alive: there, the policy is trained on nothing else."


def _level(term: Term) -> str:
    """What a term that never varies within a group says about the problems."""
    low, high = term.range
    if low == high == 0.0:
        return (
            ". It is always 0: nothing ever earns it. If it pays right answers, keep it: the problems are too hard, or "
            "the verifier does not read the answers. Take easier problems, and try some answers with `agon verify`."
        )
    if low == high:
        return (
            f". It is always {high:g}: everything earns it. Take harder problems if it pays right answers; or drop it."
        )
    return f". It differs between groups only ({low:g} to {high:g}): make it vary within a group, or drop it."


def summary(diagnosis: Diagnosis) -> list[str]:
    """The whole diagnosis as lines to print: head, terms, dead groups, findings."""
    lines = [_head(diagnosis), "", *_term_table(diagnosis)]
    if diagnosis.dead:
        lines += ["", "  dead groups"]
        lines += [f"  {count:>6}  {cause.value:<10}  {MEANING[cause]}" for cause, count in diagnosis.dead.items()]
    if sentences := findings(diagnosis):
        lines += ["", *(f"  - {sentence}" for sentence in sentences)]
    return lines


def _head(diagnosis: Diagnosis) -> str:
    low, high = diagnosis.group_sizes
    size = f"{low}" if low == high else f"{low} to {high}"
    norm = "group mean and standard deviation" if diagnosis.scale == "group" else "group mean only"
    ungraded = f", {diagnosis.ungraded_rows} ungraded" if diagnosis.ungraded_rows else ""
    counts = f"{diagnosis.groups} group{'s' * (diagnosis.groups != 1)} of {size}, {diagnosis.rows} rows{ungraded}"
    return f"{diagnosis.name}: {counts}; normalised by {norm}"


def _term_table(diagnosis: Diagnosis) -> list[str]:
    terms, trend = diagnosis.terms, diagnosis.trend if len(diagnosis.trend) >= MANY_STEPS else ()
    width = max([len(term.name) for term in terms] + [4])
    moves = "   early    late" if trend else ""
    head = f"  {'term':<{width}}  {'kind':<18}  varies   share  change  flips    mean     min     max{moves}"
    lines = [head]
    for number, term in enumerate(terms):
        ends = thirds([each.means[number] for each in trend]) if trend else ()
        levels = "".join(f"  {value:>6.2f}" for value in (term.mean, *term.range, *ends))
        shares = f"{term.varying_groups:>6.0%}  {term.variance_share:>6.2f}  {term.advantage_change:>6.3f}"
        lines.append(f"  {term.name:<{width}}  {term.kind:<18}  {shares}  {term.sign_flips:>5.1%}{levels}")
    return lines
