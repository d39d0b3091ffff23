"""One HTML page about one run or many: the result first, then health, curves and costs; only what was measured.

It has no script and makes no request; its style is allowed by its hash. It is readable on a phone, in the dark, and on
paper.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from agon.formatting import UNKNOWN, count, interval, percent
from agon.formatting import escape_html as text
from agon.report.curve import curve
from agon.report.run_story import RunStory, cost, title, told_apart
from agon.rundir.files import output_errors_as
from agon.rundir.records import StepRecord
from agon.rundir.results import EvalResult
from agon_lens.charts import Chart, side_by_side
from agon_lens.page import plain_page, prose, table, write_page_file

PAGE = "report.html"
NOTE = (
    "Bars are pass@1 with its 95% interval. An answer in two passes costs both. "
    "Kept: right drafts that the second pass left right; converted: wrong ones that it made right; echoed: wrong ones "
    "whose answer it gave again."
)
FOOT = "Written by Agon from the files of the run alone."
TABLE = "results.csv"
CURVES = 4
"""Runs up to which their curves are drawn in one chart: more lines than colours cannot be told apart."""


def write_page(stories: Sequence[RunStory], out: Path, links: Sequence[tuple[str, str]] = ()) -> Path:
    """Write the page to `out`; `links` are (file, words), relative to it."""
    page = render_page(stories, links)
    with output_errors_as(f"{out} was not written"):
        out.parent.mkdir(parents=True, exist_ok=True)
    write_page_file(out, page)
    return out


def render_page(stories: Sequence[RunStory], links: Sequence[tuple[str, str]] = ()) -> str:
    """The page as HTML."""
    stories = told_apart(stories)
    name = stories[0].path.resolve().name if len(stories) == 1 else f"{len(stories)} runs"
    body = [*_summary(stories), *(part for story in stories for part in _run(story, len(stories) > 1))]
    return plain_page(f"{name} · Agon report", name, "\n".join(body), FOOT, links=links)


def _summary(stories: Sequence[RunStory]) -> Iterator[str]:
    """Many runs side by side, the best first; nothing for one run."""
    if len(stories) < 2:
        return
    measured = sorted((s for s in stories if _rate(s) is not None), key=lambda story: -(_rate(story) or 0.0))
    if measured:
        best = measured[0]
        first, *_ = best.verdict().split(". ")
        yield f'<p class="verdict"><b>{text(best.name)}</b> has the highest rate: {text(first)}.</p>'
        if told := [f"<li>{text(line)}</li>" for other in measured[1:] for line in best.against(other)]:
            yield f"<ul>{''.join(told)}</ul>"
    facts = [(s.path, s.line.state, s.line.progress, s.line.score, s.line.before) for s in stories]
    rows = [[*map(text, known), *_cells(story)] for known, story in zip(facts, stories, strict=True)]
    head = ("run", "state", "steps", "dev", "before training", "held-out", "passes", "tokens per answer")
    yield f"<h2>Runs</h2>{table(head, rows)}"
    if len(stories) <= CURVES:
        dev = {story.name: [(point.step, point.rate) for point in curve(story.measured)] for story in stories}
        yield side_by_side([Chart("Right answers on dev, as each run answers", dev, percent=True)])


def _rate(story: RunStory) -> float | None:
    result = story.headline
    return result.measured.pass_rate.value if result and result.measured.pass_rate else None


def _cells(story: RunStory) -> list[str]:
    result = story.headline
    if result is None:
        return [UNKNOWN] * 3
    passes, tokens = cost(result)
    return [text(interval(result.measured.pass_rate)), passes, count(tokens)]


def _run(story: RunStory, many: bool) -> Iterator[str]:
    """One run: result, health, what was measured, curves, spending."""
    measured = story.measured
    facts = (
        f"arm {measured.arm}, base {measured.setting.base}, problems: {measured.setting.data}; seed {measured.seed}; "
        f"{story.line.state}, {story.line.progress} steps"
    )
    heading = f"<h2 class='run'>{text(story.path)}</h2>" if many else ""
    first, _, rest = story.verdict().partition(". ")
    told = f'<p class="verdict">{text(first)}{"." if rest else ""}</p>' + (f"<p>{text(rest)}</p>" if rest else "")
    yield f'<section>{heading}<p class="facts">{text(facts)}</p>{told}'
    yield _health(story)
    if results := story.held_out:
        rows = [_result(result, story.before_training(result.system)) for result in results]
        yield f"<h3>Held-out problems</h3>{table(HEAD, rows)}"
        yield f'<p class="note">{NOTE}</p>'
    if charts := side_by_side(story.charts()):
        yield f"<h3>Over training</h3>{charts}"
    if measured.spending.steps:
        yield f"<h3>Spent in training</h3><p>{text(_spent(story))}</p>"
    for note in measured.notes:
        yield f'<p class="note">skipped: {text(note)}</p>'
    yield "</section>"


HEAD = (
    *("system", "before training", "pass@1 [95%]", "", "right", "passes", "tokens per answer"),
    *("per right answer", "kept", "converted", "echoed"),
)


def _result(result: EvalResult, before: EvalResult | None) -> list[str]:
    measured, (passes, tokens) = result.measured, cost(result)
    each = measured.tokens.per_correct
    exchange = measured.exchange
    shares = (exchange.kept, exchange.conversion, exchange.echo) if exchange else ()
    moved = [percent(share.rate.value) if share and share.rate else UNKNOWN for share in shares] or ["", "", ""]
    return [
        text(title(result)),
        text(interval(before.measured.pass_rate)) if before else "",
        text(interval(measured.pass_rate)),
        _bar(result),
        f"{measured.correct}/{measured.trials}",
        passes,
        count(tokens),
        count(each.generated if each else None),
        *moved,
    ]


def _bar(result: EvalResult) -> str:
    """A rate and its interval as a bar of 120 units."""
    rate = result.measured.pass_rate
    if rate is None:
        return ""
    low, high = (120 * (x if x is not None else rate.value) for x in (rate.low, rate.high))
    whisker = f'<line class="whisker" x1="{low:.1f}" x2="{high:.1f}" y1="7" y2="7"/>'
    bar = f'<rect class="bar" width="{120 * rate.value:.1f}" height="14" rx="3"/>'
    return f'<svg class="rate" viewBox="0 0 120 14" aria-hidden="true">{bar}{whisker}</svg>'


def _health(story: RunStory) -> str:
    found = story.health
    if not found:
        return f'<p class="good">Nothing looks wrong with this run{_live(story.steps)}.</p>' if story.steps else ""
    told = ((one.message[:1].upper() + one.message[1:], one.fix.replace("RUN", str(story.path))) for one in found)
    items = (f"<li><b>{prose(message)}</b> {prose(fix)}</li>" for message, fix in told)
    return f'<h3>Health</h3><ul class="health">{"".join(items)}</ul>'


def _live(steps: Sequence[StepRecord]) -> str:
    """How much of it taught anything, which many runs that are well do little."""
    streams = [stream for record in steps for stream in record.streams]
    live, groups = sum(stream.live_groups for stream in streams), sum(stream.groups for stream in streams)
    return f"; {percent(live / groups)} of its groups were live, where a quarter or more is usual" if groups else ""


def _spent(story: RunStory) -> str:
    spent = story.measured.spending
    words = f"{spent.steps} steps, {count(spent.rollouts)} rollouts, {count(spent.generated)} tokens generated"
    share, weight = story.measured.bonus_bites, story.measured.bonus_weight
    if share is not None:
        words += f"; the bonus changed the advantages of {percent(share)} of the groups"
    if weight is not None:
        words += f"; in groups with right and wrong drafts, being right against a wrong one counted {weight:.2f} times "
        words += "as much (mean over steps)"
    return words


def results_csv(stories: Sequence[RunStory]) -> str:
    """Every result as a row, for other programs."""
    file = io.StringIO()
    out = csv.writer(file, lineterminator="\n")
    out.writerow(("run", "arm", "seed", "data", "system", "pass_rate", "low", "high", "trials", "passes", "tokens"))
    for story in stories:
        for (data, system), result in sorted(story.measured.results.items()):
            rate, (passes, tokens) = result.measured.pass_rate, cost(result)
            limits = (rate.value, rate.low, rate.high) if rate else (None, None, None)
            where = (story.path, story.measured.arm, story.measured.seed, data, system)
            out.writerow((*where, *limits, result.measured.trials, 1 if passes == "one pass" else 2, round(tokens, 1)))
    return file.getvalue()
