"""A diagnosis as text: a table, the findings as sentences, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator

from agon_lens.dead import Cause
from agon_lens.diagnosis import Diagnosis
from agon_lens.formatting import plural, show_hidden, significant, table
from agon_lens.terms import MIN_REPEATS, Term
from agon_lens.trends import thirds

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

COLUMNS = {
    "term": "A part of the reward: one column of the log.",
    "kind": "What a term does to the advantages: group-constant, action-independent, rescaling, echo or signal.",
    "varies": "Share of groups in which the term takes more than one value.",
    "share": "Share of the within-group variance of the total: cov(term, total) / var(total). The shares of all terms "
    "add up to 1; a negative one works against the total.",
    "change": "Mean change of a normalised advantage, in absolute value, when this term alone is dropped.",
    "flips": "Share of rows whose advantage changes sign when this term alone is dropped.",
    "mean": "The mean of the term in the whole log.",
    "min": "The least value of the term in the log.",
    "max": "The greatest value of the term in the log.",
}
"""The table of terms: what each column means."""
TREND = {
    "early": "The mean of the term in the first third of the steps.",
    "late": "The mean of the term in the last third of the steps.",
}
"""Its columns in a log with many steps."""

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
COPYING = 0.5
"""Share of wrong drafts whose answer is repeated from which on it is called copying."""
LITTLE = 0.05
"""Share of groups up to which a term that changes advantages is called nearly inert."""


def findings(diagnosis: Diagnosis) -> list[str]:
    """Every finding as a short text, those that question the log itself first."""
    alone = len(diagnosis.terms) == 1
    about_terms = (sentence for term in diagnosis.terms for sentence in _about_term(term, alone))
    whole = (
        *_about_log(diagnosis),
        *_about_dead(diagnosis),
        *_about_trend(diagnosis),
        *_about_bonus(diagnosis),
        *_about_reading(diagnosis),
    )
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
        verb = "is dead: its" if dead == 1 else "are dead: their"
        yield f"{dead} of {plural(diagnosis.groups, 'group')} ({_percent(share)}) {verb} tokens teach nothing."


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
    where = f"in {_percent(share)} of the groups (their advantages would be different without it)"
    yield f"The bonus bites {where}; {what}."


def _about_reading(diagnosis: Diagnosis) -> Iterator[str]:
    if (reading := diagnosis.reading) is None or not (reading.draft_right and reading.draft_wrong):
        return
    kept, wrong = reading.kept / reading.draft_right, reading.draft_wrong
    converted, echoed = reading.converted / wrong, reading.echoed / wrong
    copying = ": they copy mistakes" if echoed > COPYING else ""
    yield (
        f"Challenges kept {_percent(kept)} of the right drafts, converted {_percent(converted)} of the wrong ones and "
        f"echoed {_percent(echoed)} (the same wrong answer again){copying}."
    )
    if reading.bonus_weight is not None:
        yield (
            f"In groups with right and wrong drafts, being right against a wrong one pulled {reading.bonus_weight:.2f} "
            "times as hard as being right against a right one (docs/competition.md)."
        )


def _about_term(term: Term, alone: bool) -> Iterator[str]:
    name = f"`{term.name}`"
    if term.kind == "group-constant":
        yield f"{name} never varies within a group, so the group's mean cancels it{_level(term)}"
    if term.kind in KIND:
        yield f"{name} {KIND[term.kind]}"
    if term.kind == "echo":
        yield (
            f"{name} is {significant(term.slope)} x `{term.echo_of}`, apart from what the group or its opponent fixes: "
            "it changes that term's weight and adds no direction of its own."
        )
    if term.kind == "signal" and term.changed_groups < LITTLE:
        yield f"{name} is nearly inert: it changes the advantages of {_percent(term.changed_groups)} of the groups."
    if not term.inert and term.saturated >= MOSTLY:
        yield f"{name} is at its maximum throughout {term.saturated:.0%} of the groups: it adds little now."
    if not term.inert and term.floored >= MOSTLY:
        yield f"{name} is at its minimum throughout {term.floored:.0%} of the groups: it is hardly ever earned."
    if term.amplified and not alone:
        yield (
            f"{name} decides {plural(term.amplified, 'group')} whose rewards differ by less than 10% of their range in "
            "the log: dividing by the standard deviation makes that as large as a right answer."
        )
    if term.sole_signal and not alone:
        kept = plural(term.sole_signal, "group")
        yield f"{name} alone keeps {kept} alive: there, the policy is trained on nothing else."


def _level(term: Term) -> str:
    """What a term that never varies within a group says about the problems."""
    low, high = term.range
    if low == high == 0.0:
        return (
            ". It is always 0: nothing ever earns it. If it pays right answers, keep it: the problems are too hard, or "
            "the verifier does not read the answers. Take easier problems, and try the verifier on some right answers."
        )
    if low == high:
        always = f". It is always {significant(high)}: everything earns it."
        return f"{always} Take harder problems if it pays right answers; or drop it."
    span = f"{significant(low)} to {significant(high)}"
    return f". It differs between groups only ({span}): make it vary within a group, or drop it."


def summary(diagnosis: Diagnosis) -> list[str]:
    """The whole diagnosis as lines to print: head, terms, dead groups, findings."""
    lines = [_head(diagnosis), *(f"  {note}" for note in diagnosis.notes), "", *_term_table(diagnosis)]
    if diagnosis.dead:
        lines += ["", "  dead groups"]
        lines += [f"  {count:>6}  {cause.value:<10}  {MEANING[cause]}" for cause, count in diagnosis.dead.items()]
    if sentences := findings(diagnosis):
        lines += ["", *(f"  - {sentence}" for sentence in sentences)]
    return [show_hidden(line) for line in lines]


def _head(diagnosis: Diagnosis) -> str:
    low, high = diagnosis.group_sizes
    size = f"{low}" if low == high else f"{low} to {high}"
    norm = "group mean and standard deviation" if diagnosis.scale == "group" else "group mean only"
    ungraded = f", {diagnosis.ungraded_rows} ungraded" if diagnosis.ungraded_rows else ""
    counts = f"{plural(diagnosis.groups, 'group')} of {size}, {plural(diagnosis.rows, 'row')}{ungraded}"
    return f"{diagnosis.name}: {counts}; normalised by {norm}"


def _term_table(diagnosis: Diagnosis) -> list[str]:
    trend = diagnosis.trend if len(diagnosis.trend) >= MANY_STEPS else ()
    rows = [term_cells(term) for term in diagnosis.terms]
    if trend:
        ends = [thirds([each.means[number] for each in trend]) for number in range(len(rows))]
        rows = [[*cells, *map(significant, both)] for cells, both in zip(rows, ends, strict=True)]
    head = [*COLUMNS, *(TREND if trend else ())]
    return [f"  {line}" for line in table(head, rows).splitlines()]


def term_cells(term: Term) -> list[str]:
    """One term in the order of COLUMNS."""
    return [
        term.name,
        term.kind,
        _percent(term.varying_groups),
        *(significant(round(value, 6)) for value in (term.variance_share, term.advantage_change)),  # no rounding errors
        _percent(term.sign_flips),
        *map(significant, (term.mean, *term.range)),
    ]


def _percent(share: float) -> str:
    """A share that is small and not 0 does not become 0%."""
    return f"{significant(100 * share, 2)}%"
