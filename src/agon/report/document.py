"""The report of some runs: one Markdown page with every table of the paper, our own tables, and the figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agon.formatting import escape_markdown
from agon.report import extra_tables, figures, tables
from agon.report.collect import MeasuredRun, Setting
from agon.rundir.files import output_errors_as, write

PAGE = "report.md"
READ = """\
## How to read the tables

A number is `pass@1 [95% interval]`, with the number of problems (n) and the seeds beside it. With one run the interval
is over problems and says nothing about another training run; with several it is Student's, over seeds, and wide when
they are few. The interval of a difference treats its two numbers as independent, which is usually too wide on the same
problems; `agon compare` runs the paired test. Pairs are reported in the direction that was chosen on dev; "Directions"
has both. A number that no run has measured is `missing`. Columns headed "the paper" hold its own numbers (one run per
method, 300 problems, direction chosen on those), and appear only where base and data are the paper's."""

STALENESS = """\
Updates between the weights that drew a step and those that learnt from it (`train.staleness`). A difference between
runs of different staleness is also one of the age of their samples."""

CAPTIONS = {
    "Pass@1 by method": "Whiskers are the intervals of the main comparison; n and seeds are below each name.",
    "Accuracy against length": "Whiskers are the intervals of the main comparison, which has n, seeds and budget.",
    "Over training": "Both directions of a pair together; over seeds where there are several.",
}


def write_report(runs: Sequence[MeasuredRun], folder: Path, with_figures: bool = True, head: str = "# Report") -> Path:
    """Write the page and its figures into `folder`; return the page."""
    with output_errors_as(f"the report was not written to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        parts = [head, *([READ, f"## Runs and training budget\n\n{extra_tables.budget_table(runs)}"] if runs else [])]
        for setting, stem in stems(settings(runs)).items():
            parts += section(runs, setting, folder, stem if with_figures else None)
        parts += across(runs)
        page = folder / PAGE
        write(page, ("\n\n".join(parts) + "\n").encode("utf-8", "replace"))
    return page


def settings(runs: Sequence[MeasuredRun]) -> list[Setting]:
    """Every setting of the runs, in a stable order."""
    return sorted({run.setting for run in runs}, key=lambda setting: (setting.data, setting.base))


def stems(ordered: Sequence[Setting]) -> dict[Setting, str]:
    """A short, unique file name in plain letters for the figures of each setting."""
    made: dict[Setting, str] = {}
    for number, setting in enumerate(ordered, 1):
        plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in str(setting).lower())
        stem = plain.strip("-")[:80]
        made[setting] = f"{stem}-{number}" if not stem or stem in made.values() else stem
    return made


def section(runs: Sequence[MeasuredRun], setting: Setting, folder: Path, stem: str | None) -> Iterator[str]:
    """Every table of one base on one set of problems, and its figures if they have a file name."""
    here = [run for run in runs if run.setting == setting]
    yield f"## {escape_markdown(str(setting))}"
    if stem is not None:
        for title, name in figures.draw(here, setting, folder, stem).items():
            yield f"![{title}]({name}.svg)\n\n*{title}. {CAPTIONS[title]} Also as [PNG]({name}.png).*"
    code = "code" in setting.data
    first = ("Second domain", tables.code_table) if code else ("Main comparison", tables.main_table)
    for title, table in (
        first,
        ("Intervals", tables.interval_table),
        ("Transfer", tables.transfer_table),
        ("Ablations", tables.ablation_table),
        ("Density lever", tables.density_table),
    ):
        yield f"### {title}\n\n{table(here, setting)}"
    yield f"### The 2 x 2 design\n\n{tables.design_table(here)}"
    yield from _ours(here)
    if absent := tables.missing(here, (*tables.MAIN, "margin", "fixed-roles", "tiebreak", *tables.OURS)):
        yield "### Missing\n\nNo run has measured:\n\n" + "\n".join(f"- {line}" for line in absent)


def _ours(here: Sequence[MeasuredRun]) -> Iterator[str]:
    """What the paper does not measure."""
    yield f"### Directions\n\n{extra_tables.direction_table(here)}"
    yield f"### Effect of the second stage\n\n{extra_tables.exchange_table(here)}"
    yield f"### Shared errors of A and B\n\n{extra_tables.pair_table(here)}"
    yield f"### Distance between A and B\n\n{extra_tables.distance_table(here)}"
    yield f"### Tokens per right answer\n\n{extra_tables.cost_table(here)}"
    if staleness := extra_tables.staleness_table(here):
        yield f"### Steps played ahead\n\n{STALENESS}\n\n{staleness}"


def across(runs: Sequence[MeasuredRun]) -> Iterator[str]:
    """Comparisons across settings, and what was skipped."""
    for data in sorted({run.setting.data for run in runs}):
        yield f"## Scaling: {escape_markdown(data)}\n\n{tables.scaling_table(runs, data)}"
    if notes := [note for run in runs for note in run.notes]:
        yield "## Skipped\n\n" + "\n".join(f"- {escape_markdown(note)}" for note in notes)
