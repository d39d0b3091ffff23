"""A diagnosis as text: a table, the findings ranked by what they cost, and what to change first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

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

CLIFF = {
    Cause.ALL_RIGHT: "Take harder problems: these are solved every time.",
    Cause.SATURATED: "Take harder problems: these earn everything every time.",
    **dict.fromkeys(
        (Cause.ALL_WRONG, Cause.FLOORED),
        "Take easier problems, more rollouts per problem, or pay parts of an answer; and try the verifier on some "
        "right answers.",
    ),
    Cause.CANCELLING: "Change the weights: terms differ but add up to the same total.",
    Cause.UNPAID: "Pay correctness: right and wrong rows earn the same.",
    Cause.UNGRADED: "Look for errors of the verifier or reward functions.",
    Cause.TRUNCATED: "Raise the completion limit, or pay for shorter answers.",
    Cause.CONSTANT: "Pay parts of an answer, so that different texts earn different rewards.",
}
"""What to change where different texts earn the same reward, by cause."""
EASY, HARD = (Cause.ALL_RIGHT, Cause.SATURATED), (Cause.ALL_WRONG, Cause.FLOORED)
MIXED = "Take problems that the policy solves sometimes: many of these are solved every time, and many never."
NEVER_RIGHT = "Try the verifier on some right answers; if it is right, take easier problems."
ALWAYS_EQUAL = "Try the reward functions on a right and a wrong answer: here every answer earns the same."
VARY = (
    "Let the policy vary: raise the temperature, check that every rollout has a seed of its own, lower the learning "
    "rate or add an entropy term."
)
EXAMPLES = 20
"""Groups that a finding names in JSON."""

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
        "is inert: it varies in {} of the groups, but no advantage changes when it is dropped. It only stretches "
        "the group, and the standard deviation divides that out; another term must vary within the group for it to "
        "matter."
    ),
}

MOSTLY = 0.9
"""Share of groups from which on a term at its maximum or minimum is reported."""
MANY_STEPS, MOVED = 6, 0.15
"""Steps from which on a log has a beginning and an end; change of a share that is reported."""
COPYING = 0.5
"""Share of wrong drafts whose answer is repeated from which on it is called copying."""
LITTLE = 0.05
"""Share of groups up to which a term is called nearly inert; share of rows or groups below which a loss is a note."""
USUAL = 0.1
"""Share of groups below which a loss is no alarm: healthy runs have some."""


PAGE = "docs/diagnose.md"


class Rank(IntEnum):
    """What a finding is about; the first in this order comes first."""

    LOG = 0
    """The log may not be what it is read as."""
    COST = 1
    """Rows are drawn and teach nothing, or teach something unintended."""
    NOTE = 2
    """Worth knowing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: the sentence with its number, what to change, and groups of the log that show it."""

    sentence: str
    rank: Rank = Rank.NOTE
    share: float = 0.0
    """The share of groups that it is about; larger ones come first."""
    fix: str = ""
    groups: tuple[int, ...] = ()
    """Numbers of groups in which it can be seen."""
    section: str = ""
    """Where the page about diagnoses explains it."""

    @property
    def page(self) -> str:
        return f"{PAGE}#{self.section}" if self.section else PAGE

    def __str__(self) -> str:
        return f"{self.sentence} {self.fix}".strip()

    def json(self) -> dict[str, object]:
        """As plain values, with the first groups that show it."""
        plain = {"sentence": self.sentence, "rank": self.rank.name.lower(), "share": self.share, "fix": self.fix}
        return {**plain, "groups": list(self.groups[:EXAMPLES]), "page": self.page}


def findings(diagnosis: Diagnosis) -> list[Finding]:
    """Every finding, ranked: doubts about the log, then what costs most groups, then what is worth knowing."""
    if diagnosis.groups and diagnosis.group_sizes[1] < 2:
        shown = tuple(range(min(EXAMPLES, diagnosis.groups)))
        counts = f"{plural(diagnosis.groups, 'group')}, {plural(diagnosis.rows, 'row')}"
        said = f"No group has two rows ({counts}): rows of one group must share the value of the group column."
        fix = "Name that column with --group; an evaluation with one answer per problem is for `agon compare`."
        return [Finding(said, Rank.LOG, 1.0, fix, shown, "which-logs-are-understood")]
    about = (
        *_about_log(diagnosis),
        *_about_rows(diagnosis),
        *_about_truncation(diagnosis),
        *_about_dead(diagnosis),
        *_about_trend(diagnosis),
        *_about_bonus(diagnosis),
        *_about_reading(diagnosis),
        *(finding for term in diagnosis.terms if diagnosis.has_groups for finding in _about_term(term, diagnosis)),
    )
    return sorted(about, key=lambda finding: (finding.rank, -finding.share))


def change_first(found: Sequence[Finding]) -> str:
    """What to change first: the remedy of the first finding that has one; empty where nothing costs anything."""
    costly = [finding for finding in found if finding.rank is not Rank.NOTE and finding.fix]
    return costly[0].fix if costly else ""


def _about_log(diagnosis: Diagnosis) -> Iterator[Finding]:
    if diagnosis.unexplained_groups:
        yield Finding(
            f"In {_percent(diagnosis.unexplained_groups)} of the groups the total varies by something that is not "
            "among the terms.",
            Rank.LOG,
            diagnosis.unexplained_groups,
            "Name every reward column with --terms and its weight with --weights.",
            diagnosis.unexplained,
            "which-logs-are-understood",
        )
    if diagnosis.batch_scaled:
        yield Finding(
            f"The logged advantages of {plural(diagnosis.groups, 'group')} are divided by the standard deviation "
            "of the whole batch: groups whose rewards hardly differ get small advantages. The table of terms divides "
            "by the group's.",
            share=1.0,
            groups=diagnosis.disagreeing,
            section="advantages",
        )
    elif number := len(diagnosis.disagreeing):
        yield Finding(
            f"The logged advantages are not the totals normalised by group in {_of(number, diagnosis)}: something else "
            "was learnt from than these rewards.",
            Rank.LOG,
            number / diagnosis.groups,
            "Check --weights, --total and --scale; if they are right, look in the trainer for a normalisation over the "
            "batch, of each term on its own, or for rewards that change after they are logged.",
            diagnosis.disagreeing,
            "advantages",
        )


def _about_rows(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Rewards that are missing, and those that are far too large."""
    if missing := diagnosis.ungraded_rows:
        share = missing / diagnosis.rows
        yield Finding(
            f"{missing} of {plural(diagnosis.rows, 'row')} ({_percent(share)}) {'has' if missing == 1 else 'have'} no "
            "reward (missing or NaN); the diagnosis leaves them out.",
            Rank.COST if share >= LITTLE else Rank.NOTE,
            len(diagnosis.ungraded) / diagnosis.groups,
            "Look for errors of the verifier or reward functions." if share >= LITTLE else "",
            diagnosis.ungraded,
            "causes-of-dead-groups",
        )
    for term in diagnosis.terms:
        if 0 < len(term.outliers) < USUAL * diagnosis.groups:
            large = significant(max(term.range, key=abs))
            yield Finding(
                f"`{term.name}` goes up to {large} in {_of(len(term.outliers), diagnosis)}, and is "
                f"{significant(term.usual)} in the median: such a value decides every advantage of its group.",
                Rank.COST,
                len(term.outliers) / diagnosis.groups,
                f"Repair `{term.name}`, or limit it.",
                term.outliers,
                "kinds-of-terms",
            )


def _about_truncation(diagnosis: Diagnosis) -> Iterator[Finding]:
    cut = diagnosis.truncation
    if cut is None or not cut.at_least:
        return
    least, others = cut.at_least / cut.rows, cut.others_at_least / cut.others if cut.others else 0.0
    if least >= MOSTLY and (not cut.others or least - others >= MOVED):
        beside = f" ({_percent(others)} of the others did)" if cut.others else ""
        share = cut.rows / (cut.rows + cut.others)
        usual = share < LITTLE and len(cut.groups) < USUAL * diagnosis.groups
        yield Finding(
            f"{_percent(share)} of the rows were truncated, and {_percent(least)} of those "
            f"earned the least reward of their group{beside}: the limit of length decides them, not the answer.",
            Rank.NOTE if usual else Rank.COST,
            len(cut.groups) / diagnosis.groups,
            ""
            if usual
            else "Raise the limit of completion tokens, or leave truncated rows out of the loss (TRL: "
            "mask_truncated_completions=True).",
            cut.groups,
            "truncation",
        )


def _about_dead(diagnosis: Diagnosis) -> Iterator[Finding]:
    if not (dead := diagnosis.dead_groups):
        return
    share = dead / diagnosis.groups
    verb = "is dead: its" if dead == 1 else "are dead: their"
    every = tuple(sorted(number for numbers in diagnosis.dead_by_cause.values() for number in numbers))
    if share < USUAL:
        said = (
            f"{dead} of {plural(diagnosis.groups, 'group')} ({_percent(share)}) {verb} tokens teach nothing; so few are"
        )
        yield Finding(f"{said} usual.", Rank.NOTE, share, "", every, "causes-of-dead-groups")
        return
    worst = max(diagnosis.dead_by_cause, key=lambda cause: len(diagnosis.dead_by_cause[cause]))
    unread = worst in (Cause.CONSTANT, Cause.ALL_WRONG)  # perhaps the verifier reads no answer
    equal = diagnosis.same_total is not None and unread and not diagnosis.collapsed
    fix = "" if diagnosis.cliffs or diagnosis.collapsed else _change(diagnosis, worst)
    if equal:
        fix = ALWAYS_EQUAL if diagnosis.same_total and worst is Cause.CONSTANT else NEVER_RIGHT
    yield Finding(
        f"{dead} of {plural(diagnosis.groups, 'group')} ({_percent(share)}) {verb} tokens teach nothing"
        f"{f'. Every row of the log earned {significant(diagnosis.same_total)}' if equal else ''}.",
        Rank.COST,
        share,
        fix,
        every,
        "causes-of-dead-groups",
    )
    if equal:
        return
    if diagnosis.collapsed:
        cause, number = _usual_cause(diagnosis, diagnosis.collapsed)
        solved = cause in (Cause.ALL_RIGHT, Cause.SATURATED)  # then it is no fault that the policy has settled
        yield Finding(
            f"{_of(len(diagnosis.collapsed), diagnosis)} died by collapse: more than half of their texts are the same "
            f"({cause.value} in {number} of them).{'' if solved else ' Another reward would not help them.'}",
            Rank.COST,
            len(diagnosis.collapsed) / diagnosis.groups,
            _change(diagnosis, cause) if solved else VARY,
            diagnosis.collapsed,
            "cliff-or-collapse",
        )
    if diagnosis.cliffs:
        cause, number = _usual_cause(diagnosis, diagnosis.cliffs)
        yield Finding(
            f"{_of(len(diagnosis.cliffs), diagnosis)} died on a cliff: different texts, the same reward "
            f"({cause.value} in {number} of them). More randomness would not help them.",
            Rank.COST,
            len(diagnosis.cliffs) / diagnosis.groups,
            _change(diagnosis, cause),
            diagnosis.cliffs,
            "cliff-or-collapse",
        )


def _change(diagnosis: Diagnosis, cause: Cause) -> str:
    """What to change; where many problems are too hard and many too easy, neither harder nor easier ones would do."""
    easy, hard = (
        sum(len(diagnosis.dead_by_cause.get(cause, ())) for cause in causes) >= USUAL * diagnosis.groups
        for causes in (EASY, HARD)
    )
    return MIXED if easy and hard and cause in (*EASY, *HARD) else CLIFF[cause]


def _usual_cause(diagnosis: Diagnosis, groups: Sequence[int]) -> tuple[Cause, int]:
    """The most frequent cause among dead groups, and in how many of them it is."""
    chosen = set(groups)
    counts = {cause: len(chosen.intersection(numbers)) for cause, numbers in diagnosis.dead_by_cause.items()}
    return Counter(counts).most_common(1)[0]


def _about_trend(diagnosis: Diagnosis) -> Iterator[Finding]:
    if len(diagnosis.trend) < MANY_STEPS:
        return
    early, late = thirds([each.dead for each in diagnosis.trend])
    if abs(late - early) >= MOVED:
        verb = "rise" if late > early else "fall"
        said = f"Dead groups {verb} from {early:.0%} in the first third of the steps to {late:.0%} in the last."
        dead = sorted(number for numbers in diagnosis.dead_by_cause.values() for number in numbers)
        shown = tuple(reversed(dead) if late > early else dead)
        yield Finding(said, share=abs(late - early), groups=shown, section="causes-of-dead-groups")


def _about_bonus(diagnosis: Diagnosis) -> Iterator[Finding]:
    if (share := diagnosis.bonus_bites) is None:
        return
    if share < LITTLE:
        what = "normalised away nearly everywhere: the run learns what it would learn without it"
    else:
        what = "in the others it only stretches the rewards, which normalisation divides out"
    where = f"in {_percent(share)} of the groups (their advantages would be different without it)"
    usual = "This is usual with small groups and with problems that are nearly always, or nearly never, solved."
    fix = usual if share < LITTLE else ""
    said = f"The bonus has an effect {where}{f'; {what}' if share < 1 else ''}."
    shown = diagnosis.bonus_inert or tuple(range(diagnosis.groups))
    yield Finding(said, share=1 - share, fix=fix, groups=shown, section="kinds-of-terms")


def _about_reading(diagnosis: Diagnosis) -> Iterator[Finding]:
    if (reading := diagnosis.reading) is None or not (reading.draft_right and reading.draft_wrong):
        return
    kept, wrong = reading.kept / reading.draft_right, reading.draft_wrong
    converted, echoed = reading.converted / wrong, reading.echoed / wrong
    copying = ": they copy mistakes" if echoed > COPYING else ""
    yield Finding(
        f"Challenges kept {_percent(kept)} of the right drafts, converted {_percent(converted)} of the wrong ones and "
        f"echoed {_percent(echoed)} (the same wrong answer again){copying}.",
        groups=diagnosis.wrong_drafts,
        section="kinds-of-terms",
    )
    if reading.bonus_weight is not None:
        yield Finding(
            "Over all groups with right and wrong drafts, being right against a wrong one pulled "
            f"{reading.bonus_weight:.2f} times as hard as being right against a right one (docs/competition.md).",
            groups=diagnosis.wrong_drafts,
            section="kinds-of-terms",
        )


def _about_term(term: Term, diagnosis: Diagnosis) -> Iterator[Finding]:
    name = f"`{term.name}`"
    if term.kind == "group-constant":
        yield _note(f"{name} never varies within a group, so the group's mean cancels it{_level(term)}", term.shown_in)
    if term.kind in KIND:
        yield _note(f"{name} {KIND[term.kind].format(_percent(term.varying_groups))}", term.shown_in)
    if term.kind == "echo":
        yield _note(
            f"{name} is {significant(term.slope)} x `{term.echo_of}`, apart from what the group or its opponent fixes: "
            "it changes that term's weight and adds no direction of its own.",
            term.shown_in,
        )
    if term.kind == "signal" and 0 < term.changed_groups < LITTLE:
        share = _percent(term.changed_groups)
        yield _note(f"{name} is nearly inert: it changes the advantages of {share} of the groups.", term.changed_in)
    if not term.inert and term.saturated >= MOSTLY:
        said = f"{name} is at its maximum throughout {term.saturated:.0%} of the groups: it adds little now."
        yield _note(said, term.saturated_in)
    if not term.inert and term.floored >= MOSTLY:
        said = f"{name} is at its minimum throughout {term.floored:.0%} of the groups: it is hardly ever earned."
        yield _note(said, term.floored_in)
    if term.sole_signal and diagnosis.several_terms_vary:
        decided = f"{name} alone decides {_of(term.sole_signal, diagnosis)}"
        small = 2 * term.amplified > term.sole_signal and term.sole_signal >= LITTLE * diagnosis.groups
        tiny = (
            f"; {'all' if term.amplified == term.sole_signal else term.amplified} of them by differences below 10% of "
            "the range of rewards, which the standard deviation makes as large as a right answer"
        )
        yield Finding(
            f"{decided}{tiny if term.amplified else ': nothing else is learnt there'}.",
            Rank.COST if small else Rank.NOTE,
            term.sole_signal / diagnosis.groups,
            f"Drop {name} or pay it to right answers only; or do not divide by the group's standard deviation (TRL: "
            'scale_rewards="none" or "batch").'
            if small
            else "",
            term.sole_groups,
            "a-term-that-alone-decides",
        )


def _note(sentence: str, groups: tuple[int, ...]) -> Finding:
    return Finding(sentence, groups=groups, section="kinds-of-terms")


def _of(number: int, diagnosis: Diagnosis) -> str:
    """`5 of 40 groups (12%)`."""
    return f"{number} of {plural(diagnosis.groups, 'group')} ({_percent(number / diagnosis.groups)})"


def _level(term: Term) -> str:
    """What a term that never varies within a group says about the problems."""
    low, high = term.range
    if low == high == 0.0:
        return (
            ". It is always 0: nothing ever earns it. If it pays right answers, keep it: the problems are too hard, or "
            "the verifier does not read the answers. Take easier problems, and try the verifier on some right answers."
        )
    if low == high:
        always = f". It is always {significant(high)}: every completion earns it."
        return f"{always} If it pays right answers, the problems are too easy: take harder ones. Otherwise drop it."
    span = f"{significant(low)} to {significant(high)}"
    return f". It differs between groups only ({span}): make it vary within a group, or drop it."


def summary(diagnosis: Diagnosis) -> list[str]:
    """The whole diagnosis as lines to print: head, terms, dead groups, findings."""
    lines = [_head(diagnosis), *(f"  {note}" for note in diagnosis.notes)]
    if diagnosis.has_groups:
        lines += ["", *_term_table(diagnosis)]
    if diagnosis.dead and diagnosis.group_sizes[1] > 1:
        lines += ["", "  dead groups"]
        lines += [f"  {count:>6}  {cause.value:<10}  {MEANING[cause]}" for cause, count in diagnosis.dead.items()]
    if found := findings(diagnosis):
        lines += ["", *(f"  - {finding}" for finding in found)]
    else:
        lines += ["", "  Nothing looks wrong."]
    if first := change_first(found):
        lines += ["", f"  Change first: {first}"]
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
