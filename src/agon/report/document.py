"""The report of some runs: one Markdown page with every table of the paper, ours beside them, and the figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agon.report import extra_tables, figures, tables
from agon.report.collect import Run, Setting
from agon.report.escape import escape
from agon.rundir.files import telling, write

PAGE = "report.md"
READ = """\
How to read it. A cell is `pass@1 [95% interval]`, with the number of problems (n) and the seeds beside it. With one run
the interval is over problems and says nothing about another training run; with several it is Student's, over seeds,
and is wide when they are few. The interval of a difference takes its two numbers as independent, which on the same
problems is as a rule too wide; `agon compare` makes the paired test. Pairs are reported in the direction that dev
chose; both stand under "Directions". A cell that no run fills is `missing`. Columns headed "the paper" are its own
numbers (one run per method, 300 problems, direction chosen on those), and stand only where base and data are so too."""

CAPTIONS = {
    "Pass@1 by method": "Whiskers are the intervals of the main comparison; n and seeds stand below each name.",
    "Accuracy against length": "Whiskers are the intervals of the main comparison, which has n, seeds and budget.",
    "Over training": "Dev problems, both directions of a pair together; over seeds where there are several.",
}


def write_report(runs: Sequence[Run], folder: Path, with_figures: bool = True) -> Path:
    """Write the page and its figures into `folder`; return the page."""
    with telling(f"the report was not written to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        parts = ["# Report", READ, _runs(runs)]
        for setting, stem in stems(settings(runs)).items():
            parts += section(runs, setting, folder, stem if with_figures else None)
        parts += across(runs)
        page = folder / PAGE
        write(page, ("\n\n".join(parts) + "\n").encode("utf-8", "replace"))
    return page


def settings(runs: Sequence[Run]) -> list[Setting]:
    """What is compared with what, in a stable order."""
    return sorted({run.setting for run in runs}, key=lambda setting: (setting.data, setting.base))


def _runs(runs: Sequence[Run]) -> str:
    return f"## Runs and what they spent\n\n{extra_tables.budget_table(runs)}"


def stems(found: Sequence[Setting]) -> dict[Setting, str]:
    """How the figures of each setting are called: in plain letters, short, and no two alike."""
    made: dict[Setting, str] = {}
    for number, setting in enumerate(found, 1):
        plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in str(setting).lower())
        stem = plain.strip("-")[:80]
        made[setting] = f"{stem}-{number}" if not stem or stem in made.values() else stem
    return made


def section(runs: Sequence[Run], setting: Setting, folder: Path, stem: str | None) -> Iterator[str]:
    """Every table of one base on one set of problems; with figures where they have a name."""
    here = [run for run in runs if run.setting == setting]
    yield f"## {escape(str(setting))}"
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
    yield f"### The 2 x 2 design\n\n{tables.matrix_table(here)}"
    yield from _ours(here)
    if gone := tables.missing(here, (*tables.MAIN, "margin", "fixed-roles", "tiebreak", *tables.OURS)):
        yield "### Missing\n\nNo run here has measured:\n\n" + "\n".join(f"- {line}" for line in gone)


def _ours(here: Sequence[Run]) -> Iterator[str]:
    """What the paper does not measure."""
    yield f"### Directions\n\n{extra_tables.direction_table(here)}"
    yield f"### What the second stage does\n\n{extra_tables.exchange_table(here)}"
    yield f"### How far A and B fail together\n\n{extra_tables.pair_table(here)}"
    yield f"### How far apart A and B are\n\n{extra_tables.distance_table(here)}"
    yield f"### Tokens for one right answer\n\n{extra_tables.cost_table(here)}"


def across(runs: Sequence[Run]) -> Iterator[str]:
    """What compares settings, and what had to be left out."""
    for data in sorted({run.setting.data for run in runs}):
        yield f"## Scaling: {escape(data)}\n\n{tables.scaling_table(runs, data)}"
    if notes := [note for run in runs for note in run.notes]:
        yield "## Left out\n\n" + "\n".join(f"- {escape(note)}" for note in notes)
