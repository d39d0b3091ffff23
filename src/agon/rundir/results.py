"""What an evaluation writes: `evals/<data>/<system>.json`, `pair.json`, and the comparison of several results.

A result stands on its own: counts, intervals, measures, the settings it was made with, and the outcome of every trial,
so that `agon compare` needs nothing else. The tables of docs/rundir.md are generated from these docstrings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agon.errors import RunDirError
from agon.rundir.records import Joint, Record, VersionName, read_record
from agon.types import Direction, Policy

Outcomes = dict[str, list[bool | None]]
"""Right or wrong by problem, samples in order; None where a machine failed."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with the limits of its 95% interval; a limit that is unbounded is null."""

    value: float
    """The estimate."""
    low: float | None
    """Lower limit."""
    high: float | None
    """Upper limit."""


class Share(Record):
    """How often something happened."""

    count: int
    """Trials in which it did."""
    of: int
    """Trials in which it could."""
    rate: Interval | None
    """The share, with an interval whose units are problems; null where there are none."""


class RunFacts(Record):
    """What was evaluated."""

    name: str
    """Name of the run, pair or model."""
    arm: str | None = None
    """The arm; null for a bare model."""
    seed: int | None = None
    """Seed of the run."""
    step: int | None = None
    """Steps of training."""


class EvalData(Record):
    """On which problems."""

    name: str
    """Name of the folder: the split, preset or file."""
    problems: int
    """Problems asked."""
    samples: int
    """Completions per problem."""


class EvalSettings(Record):
    """Everything a trial depends on besides its problem and its index; the same for all trials of a file."""

    base: str
    """The base as the config names it."""
    base_hash: str | None
    """SHA-256 over its weights, where the base is a folder."""
    revision: str | None
    """Its revision on the Hub."""
    dtype: str
    """Precision of the base."""
    versions: dict[Policy, VersionName]
    """The version of each policy; empty for a bare model."""
    engine: str
    """The sampler: `sampler.engine` of the config, or `url` for a server that was named with `--url`."""
    temperature: float
    """Sampling temperature."""
    top_p: float
    """Nucleus sampling."""
    max_completion_tokens: int
    """Cap on each completion."""
    max_peek_tokens: int
    """Cap on a peek."""
    seed: int
    """Every seed of the evaluation derives from it."""
    verifier: str
    """The verifier as the config names it."""
    show_code: bool | None = None
    """Whether a peek at a program's summary kept its code blocks, for programs."""
    time_factor: float | None = None
    """What time limits were multiplied by, for programs."""
    prompts: str
    """Hash of the wording of every prompt."""


class ExchangeShares(Record):
    """What the second stage made of the first."""

    conversion: Share
    """Wrong drafts that became right answers."""
    regression: Share
    """Right drafts that became wrong answers."""
    empty_peek: Share
    """Drafts without a summary."""
    echo: Share | None = None
    """Wrong drafts whose wrong answer is given again; null in results that did not count them."""

    @property
    def kept(self) -> Share:
        """Right drafts that stayed right answers."""
        lost = self.regression
        rate = lost.rate and Interval(1 - lost.rate.value, _less(lost.rate.high), _less(lost.rate.low))
        return Share(count=lost.of - lost.count, of=lost.of, rate=rate)


def _less(limit: float | None) -> float | None:
    return None if limit is None else 1 - limit


class LeakShares(Record):
    """Peeks that still state the answer in prose."""

    rate: Share
    """How often that happens."""
    pass_with: Share
    """Right answers after such a peek."""
    pass_without: Share
    """Right answers after any other."""


class TokenCounts(Record):
    """Tokens of one stage, or of all."""

    generated: float
    """Completion tokens."""
    prefilled: float
    """Prompt tokens."""


class TokenUse(Record):
    """What the answers cost."""

    draft: TokenCounts | None
    """The first stage; null for a single pass."""
    final: TokenCounts
    """The last stage."""
    total: TokenCounts
    """All stages."""
    per_correct: TokenCounts | None
    """All stages, for one right answer; null where none is right."""


class MeanLength(Record):
    """Mean tokens of the last stage over some trials."""

    n: int
    """Trials."""
    mean: float | None
    """Mean tokens; null where there are no trials."""


class Lengths(Record):
    """Length of the last stage."""

    final: dict[str, MeanLength]
    """By outcome: `all`, `right`, `wrong`; with a draft also `read_right`, `read_wrong`, `kept`, `converted`,
    `regressed` and `lost`."""
    truncated: Share | None
    """Answers cut at the token limit."""
    seconds: float | None
    """Mean seconds until an answer arrived, waiting for the engine included."""


class Measures(Record):
    """What was measured, once every trial is there."""

    problems: int
    """Problems with at least one verdict."""
    trials: int
    """Trials with a verdict."""
    correct: int
    """Right ones."""
    ungraded: int
    """Trials without a verdict, because a machine failed or the reference answer does not parse: not wrong ones."""
    pass_rate: Interval | None
    """pass@1."""
    interval: str
    """Which kind of interval that is."""
    wilson: Interval | None
    """The score interval, with one sample per problem."""
    well_formed: Share | None
    """Answers with the structure that the format term asks for."""
    exchange: ExchangeShares | None = None
    """Null for a single pass."""
    leak: LeakShares | None = None
    """Null for a single pass."""
    tokens: TokenUse
    """What the answers cost."""
    length: Lengths
    """How long they are."""
    outcomes: Outcomes
    """Right or wrong by problem, samples in order; null where there is no verdict."""

    @property
    def ungraded_problems(self) -> int:
        """Problems with an answer that has no verdict."""
        return sum(None in samples for samples in self.outcomes.values())


class DirectionChoice(Record):
    """How the direction of a cascade was chosen."""

    chosen: Direction
    """The direction that is reported."""
    by: str
    """`dev`, or the evaluated problems themselves."""
    pass_rates: dict[Direction, float | None]
    """Both directions on the evaluated problems."""
    optimism: float | None = None
    """What choosing on the evaluated problems is worth by itself."""


class EvalResult(Record):
    """One system on one set of problems."""

    system: str
    """Name of the system."""
    done: int
    """Trials on disk."""
    of: int
    """Trials in all."""
    run: RunFacts
    """What was evaluated."""
    data: EvalData
    """On which problems."""
    settings: EvalSettings
    """How."""
    records: list[str]
    """Files with the bouts, in the same folder."""
    measures: Measures | None = None
    """Null until every trial is there."""
    direction: DirectionChoice | None = None
    """How the direction was chosen; null for anything but a cascade."""

    @property
    def complete(self) -> bool:
        return self.measures is not None

    @property
    def measured(self) -> Measures:
        """The measures of a result that is known to be complete."""
        if self.measures is None:
            raise RunDirError(f"{self.system} is not finished: {self.done} of {self.of} trials are done", fix=AGAIN)
        return self.measures


class AdapterDistance(Record):
    """How far apart two adapters are in their weights."""

    cosine: float | None
    """Between the two updates of the base; null where one is zero, or where A and B have different bases."""
    norm_a: float
    """Frobenius norm of A's update."""
    norm_b: float
    """Frobenius norm of B's update."""


class PolicyKL(Record):
    """How far apart the policies are in what they would write."""

    nats_per_token: dict[str, float]
    """KL of one policy from the other or from the base, on completions that the first wrote; keyed by both names."""
    prompts: int
    """Problems it was measured on."""
    tokens: dict[str, int]
    """Tokens that each policy wrote."""


class PairResult(Record):
    """A and B together: `pair.json`."""

    run: RunFacts
    """What was evaluated."""
    settings: EvalSettings
    """How."""
    joint: Joint | None = None
    """A and B alone on the same trials."""
    either_right: Interval | None = None
    """Problems that at least one of them solves."""
    weights: AdapterDistance
    """How far apart the adapters are."""
    policy_kl: PolicyKL | None = None
    """Measured with `--divergence`."""


class SideResult(Record):
    """One side of a comparison: the results of one arm and system."""

    label: str
    """Arm and system, or name of the run and system."""
    values: dict[str, float]
    """Pass rate by seed."""
    pass_rate: Interval
    """Mean over problems, or over seeds."""
    over: str
    """What the interval is over: `problems` or `seeds`."""
    passes: int = 1
    """Completions in sequence that one answer takes."""
    tokens: float | None = 0.0
    """Tokens generated for one answer in all of them, mean over seeds; null where a file does not say it."""


def passes_of(measures: Measures) -> int:
    """Completions in sequence that one answer takes."""
    return 1 if measures.tokens.draft is None else 2


def tokens_of(measures: Measures) -> float:
    """Tokens generated for one answer, all passes."""
    return measures.tokens.total.generated / max(1, measures.trials)


class PairedTest(Record):
    """One side against the first."""

    first: str
    """Label of the reference."""
    second: str
    """Label of the other side."""
    problems: int
    """Problems that both graded."""
    test: str
    """Which test, by name."""
    difference: Interval
    """second - first."""
    p: float | None
    """p-value; null with too few values to test."""
    p_holm: float | None = None
    """After Holm's correction over all comparisons."""
    detectable: float | None
    """The smallest difference that would be detected four times in five; null where nothing varies."""
    needed: int | None = None
    """Problems (seeds, where these are compared) with which a difference of this size would be detected four times in
    five; null where there is none."""
    only_first: int | None = None
    """Problems that only the first solves, with one sample each."""
    only_second: int | None = None
    """Problems that only the second solves."""
    differences: dict[str, float] | None = None
    """By seed, where there are several."""
    bootstrap: Interval | None = None
    """Over seeds."""
    descriptive: bool = False
    """Whether there are too few seeds for the bootstrap to be more than descriptive."""
    note: str | None = None
    """What limits this test."""

    @property
    def decided(self) -> bool:
        """Whether the difference is larger than chance explains."""
        return self.p_holm is not None and self.p_holm < ALPHA


ALPHA = 0.05
AGAIN = "run the same `agon eval` again: it resumes"


def read_result(path: Path) -> EvalResult:
    """Read a result; one that is not complete is refused with what to type."""
    fix = "name a file that `agon eval` wrote, such as runs/NAME/evals/held_out/cascade.json"
    if not path.exists():
        raise RunDirError(f"{path} does not exist", fix=fix)
    if path.suffix != ".json":
        raise RunDirError(f"{path} is not a result of an evaluation", fix=fix)
    result = read_record(path, EvalResult, fix)
    if not result.complete:
        raise RunDirError(f"{path} is not finished: {result.done} of {result.of} trials are done", fix=AGAIN)
    measures = result.measured
    trials = [trial for samples in measures.outcomes.values() for trial in samples]
    counts = {"trials": len(trials) - trials.count(None), "correct": trials.count(True), "ungraded": trials.count(None)}
    for name, count in counts.items():
        if getattr(measures, name) != count:
            stated = f"{name} is {getattr(measures, name)}, its outcomes have {count}"
            raise RunDirError(f"{path} contradicts itself: {stated}", fix=fix)
    return result
