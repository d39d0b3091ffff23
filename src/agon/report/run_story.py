"""What one run has to tell on a page: its result in a sentence, its health, its curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agon.eval.intervals import t_interval
from agon.eval.results import common_means
from agon.eval.systems import TITLES
from agon.formatting import count, interval, not_graded, points
from agon.report.collect import HELD_OUT, MeasuredRun, read_run
from agon.report.headline import BEFORE, Headline, headline_of
from agon.report.overview import RunLine, run_line
from agon.rundir import RunDir
from agon.rundir.health import Symptom, dev_change, symptoms
from agon.rundir.records import StepRecord
from agon.rundir.results import EvalResult, Interval, passes_of, tokens_of
from agon_lens.charts import Chart, Series

ORDER = ("ab", "ba", "self-refine", "self-cascade", "self-cascade-b", "a", "b", "moa", "base")
DEV = {"a": "A alone", "b": "B alone", "ab": "A drafts, B answers", "ba": "B drafts, A answers"}


@dataclass(frozen=True, slots=True)
class RunStory:
    """A run as a reader meets it."""

    path: Path
    measured: MeasuredRun
    line: RunLine
    steps: list[StepRecord]
    where: str = ""
    """Follows the name, where other runs of a page have the same arm and seed."""

    @classmethod
    def read(cls, path: Path) -> RunStory:
        return cls(path, read_run(path), run_line(path), RunDir.open(path).steps.records())

    @property
    def name(self) -> str:
        return f"{self.measured.arm}, seed {self.measured.seed}{self.where}"

    @property
    def headline(self) -> EvalResult | None:
        """The result that represents the run, if it was measured on held-out problems."""
        return found.after if (found := self._headline) else None

    @property
    def before(self) -> EvalResult | None:
        """The same before training, if that was measured."""
        return found.before if (found := self._headline) else None

    @property
    def _headline(self) -> Headline | None:
        return headline_of(self.measured.results, self.measured.headline)

    def before_training(self, system: str) -> EvalResult | None:
        """A system on held-out problems before training, if that was measured."""
        return self.measured.results.get((BEFORE, system))

    @property
    def held_out(self) -> list[EvalResult]:
        """What was measured on held-out problems, each system once."""
        held = {system: result for (data, system), result in self.measured.results.items() if data == HELD_OUT}
        return [held[name] for name in ORDER if name in held]

    @property
    def health(self) -> list[Symptom]:
        base = self.measured.setting.base
        return symptoms(self.steps, self.measured.points, ended=self.line.state == "done", base=base)

    def verdict(self) -> str:
        """The result in one or two sentences; or what to type to get one."""
        moved = dev_change(self.measured.points)
        on_dev = f" {str(moved).capitalize()}." if moved else ""
        if (found := self._headline) is None:
            return f"{self._not_measured()}{on_dev}"
        passes, tokens = cost(found.after)
        told = f"{found}. It answers in {passes} and {count(tokens)} tokens.{self._learnt()}"
        others = [f"{title(other)} {interval(other.measured.pass_rate)}" for other in self._one_pass()]
        beside = f" In one pass: {'; '.join(others)}." if others and passes != "one pass" else ""
        return f"{told}{beside}{self._gain()}{on_dev}"

    def _not_measured(self) -> str:
        if deployed := self.measured.results.get((HELD_OUT, self.measured.headline)):
            return f"No held-out answer has a verdict: {not_graded(deployed.measured)}."
        both = [result for result in self.held_out if result.system in ("ab", "ba")]
        if not both:
            return f"Not evaluated on held-out problems yet: agon eval {self.path}."
        rates = "; ".join(f"{title(result)} {interval(result.measured.pass_rate)}" for result in both)
        return f"Dev chose no direction, so no rate stands for this run on held-out problems: {rates}."

    def _learnt(self) -> str:
        """What training changed, on the held-out problems."""
        if self.headline is None or self.before is None:
            return f" Before training: agon eval {self.path} --step 0."
        gained = paired_difference(self.headline, self.before)
        if gained is None:
            return ""
        return f" Training changed that by {points(gained)}{': no difference is shown' if _unclear(gained) else ''}."

    def against(self, other: RunStory) -> Iterator[str]:
        """What this run solves more than another on the problems that both answered: as the other is deployed, and the
        best that it does in two passes."""
        twice = [result for result in other.held_out if passes_of(result.measured) > 1 and result.measured.trials]
        twice.sort(key=lambda result: -result.measured.correct / result.measured.trials)
        deployed = other.headline
        two = [] if deployed and passes_of(deployed.measured) > 1 else twice[:1]
        for result in filter(None, [deployed, *two]):
            if self.headline and (gained := paired_difference(self.headline, result)):
                tail = ": no difference is shown" if _unclear(gained) else ""
                yield f"Against {other.name}, {title(result)} in {cost(result)[0]}: {points(gained)}{tail}."

    def _one_pass(self) -> list[EvalResult]:
        return [result for result in self.held_out if result.measured.tokens.draft is None]

    def _gain(self) -> str:
        """What the second pass is worth against the better policy alone, on the problems that both answered."""
        result = self.headline
        alone = [r for r in self._one_pass() if r.system in ("a", "b") and r.measured.correct]
        if result is None or passes_of(result.measured) == 1 or not alone:
            return ""
        best = max(alone, key=lambda other: other.measured.correct / other.measured.trials)
        gained = paired_difference(result, best)
        if gained is None:
            return ""
        tail = ": no difference is shown" if _unclear(gained) else ""
        first, alone_before = self.before, self.before_training(best.system)
        known = paired_difference(first, alone_before) if first and alone_before else None
        untrained = f" (before training {points(known)})" if known else ""
        return f" The second pass is worth {points(gained)} over {title(best)}{untrained}, on the same problems{tail}."

    def charts(self) -> Iterator[Chart]:
        """Curves over training; those without data are empty."""
        dev = {name: self._dev(system) for system, name in DEV.items()}
        yield Chart("Right answers on dev", dev, percent=True)
        yield Chart("Right answers in training", self._both("pass_rate"), percent=True)
        yield Chart("Reward", self._both("reward_mean"))
        yield Chart("Live groups", self._live(), percent=True)
        yield Chart("Kept, converted, echoed", self._exchange(), percent=True)
        yield Chart("Tokens per completion", self._both("tokens_mean"))

    def _dev(self, system: str) -> Series:
        counted = [(point.step, point.systems.get(system)) for point in self.measured.points]
        return [(step, rate) for step, counts in counted if counts and (rate := counts.pass_rate) is not None]

    def _both(self, field: str) -> dict[str, Series]:
        named = {"drafts": "standalone", "challenges": "competitive"}
        return {
            name: [
                (record.step, value)
                for record in self.steps
                if (stream := getattr(record, place)) is not None and (value := getattr(stream, field)) is not None
            ]
            for name, place in named.items()
        }

    def _live(self) -> dict[str, Series]:
        rows = [(record.step, record.standalone, record.competitive) for record in self.steps]
        return {
            "drafts": [(step, a.live_groups / a.groups) for step, a, _ in rows if a.groups],
            "challenges": [(step, b.live_groups / b.groups) for step, _, b in rows if b is not None and b.groups],
        }

    def _exchange(self) -> dict[str, Series]:
        rows = [(record.step, record.exchange) for record in self.steps if record.exchange]
        return {
            "right drafts kept": [(s, e.kept) for s, e in rows if e.kept is not None],
            "wrong drafts converted": [(s, e.converted) for s, e in rows if e.converted is not None],
            "wrong answers echoed": [(s, e.echoed) for s, e in rows if e.echoed is not None],
        }


def told_apart(stories: Sequence[RunStory]) -> list[RunStory]:
    """Runs with names of their own: those of one arm and seed, such as with two learning rates, get their path."""
    names = Counter(story.name for story in stories)
    return [replace(story, where=f" ({story.path})") if names[story.name] > 1 else story for story in stories]


def title(result: EvalResult) -> str:
    """A system in words; of a trained run, the policy that refines itself is A unless its name says otherwise."""
    if result.run.arm and result.system == "self-cascade":
        return "A refines its own draft"
    return TITLES.get(result.system, result.system)


def cost(result: EvalResult) -> tuple[str, float]:
    """Passes in words, and tokens generated for one answer in all of them."""
    return "one pass" if passes_of(result.measured) == 1 else "two passes", tokens_of(result.measured)


def _unclear(difference: Interval) -> bool:
    return difference.low is not None and difference.high is not None and difference.low <= 0 <= difference.high


def paired_difference(one: EvalResult, two: EvalResult) -> Interval | None:
    """How much more the first solves than the second, with Student's interval over the problems that both answered."""
    first, second = common_means(one.measured.outcomes, two.measured.outcomes)
    return t_interval([a - b for a, b in zip(first, second, strict=True)]) if first else None
