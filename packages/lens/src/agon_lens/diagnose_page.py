"""A diagnosis as one HTML page: what was found, the terms, and how they change over the steps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from agon_lens.charts import Chart, share_bars, side_by_side
from agon_lens.diagnosis import Diagnosis
from agon_lens.examples import Example
from agon_lens.findings import COLUMNS, MEANING, Finding, change_first, findings, term_cells
from agon_lens.formatting import escape_html as text
from agon_lens.formatting import plural
from agon_lens.page import plain_page, prose, table, write_page_file

KEPT = r"[^\n\u200c\u200d]+"
NOTE = "Written by agon-lens from the log alone."


def write_diagnose_page(
    diagnoses: Sequence[Diagnosis], out: str | Path, name: str, examples: Mapping[int, Example] | None = None
) -> Path:
    """Write the page of a log called `name`, atomically; a file that is not a page of ours is never replaced."""
    write_page_file(Path(out), render_diagnoses(diagnoses, name, examples))
    return Path(out)


def render_diagnoses(
    diagnoses: Sequence[Diagnosis],
    name: str,
    examples: Mapping[int, Example] | None = None,
    *,
    refresh: int = 0,
    links: Sequence[tuple[str, str]] = (),
    viewer: str = "",
) -> str:
    """The page of one log, or of the streams of a run; `examples` are groups of a single log, by their number. With the
    page of a viewer, examples are links to it: a page that loads itself again would close them."""
    meaning = "".join(f"<dt>{text(column)}</dt><dd>{prose(about)}</dd>" for column, about in COLUMNS.items())
    body = [_section(diagnosis, examples or {}, viewer) for diagnosis in diagnoses]
    body.append(f"<details><summary>What the columns mean</summary><dl>{meaning}</dl></details>")
    title = f"{name} · reward diagnostics"
    return plain_page(title, f"{name}: reward diagnostics", "\n".join(body), NOTE, refresh=refresh, links=links)


def _section(diagnosis: Diagnosis, examples: Mapping[int, Example], viewer: str) -> str:
    found = findings(diagnosis)
    sentences = "".join(_finding(finding, examples, viewer) for finding in found) or "<li>Nothing looks wrong.</li>"
    first = change_first(found)
    dead = [[text(cause.value), str(count), text(MEANING[cause])] for cause, count in diagnosis.dead.items()]
    counts = f"{plural(diagnosis.groups, 'group')}, {plural(diagnosis.rows, 'row')}"
    facts = "; ".join([counts, *map(text, diagnosis.notes)])
    parts = [
        f'<section><h2>{text(diagnosis.name)}</h2><p class="facts">{facts}</p>',
        f'<p class="verdict">Change first: {prose(first)}</p>' if first else "",
        f'<ol class="findings">{sentences}</ol>',
        _pictures(diagnosis),
        f"<h3>Terms</h3>{table(tuple(COLUMNS), _rows(diagnosis))}" if diagnosis.has_groups else "",
        f"<h3>Dead groups</h3>{table(('cause', 'groups', 'what it means'), dead)}"
        if dead and diagnosis.group_sizes[1] > 1
        else "",
        _charts(diagnosis),
    ]
    return "".join([*parts, "</section>"])


def _finding(finding: Finding, examples: Mapping[int, Example], viewer: str) -> str:
    """A finding with its remedy, the page that explains it, and a group that shows it."""
    fix = f" <b>{prose(finding.fix)}</b>" if finding.fix else ""
    shown = next((number for number in finding.groups if number in examples), None)
    example = _example(shown, examples[shown]) if shown is not None else ""
    if viewer and finding.groups:
        example = f' <a href="{text(viewer)}#{finding.groups[0]}">Example: group {finding.groups[0]}</a>'
    return f'<li>{prose(finding.sentence)}{fix} <span class="page">{text(finding.page)}</span>{example}</li>'


def _example(number: int, example: Example) -> str:
    rows = [
        [f"#{k}", *(text(cell) for cell in cells), _lines(said)]
        for k, (cells, said) in enumerate(zip(example.cells, example.texts, strict=True))
    ]
    where = f"group {number}" if example.step is None else f"step {example.step:g}, group {number}"
    asked = _lines(example.prompt) if example.prompt else ""
    shown = table(("row", *example.head, "completion"), rows)
    return f"<details><summary>Example: {where}</summary>{asked}{shown}</details>"


def _lines(written: str) -> str:
    """A text of a model: hidden characters are shown, apart from ends of lines and the joiners of Persian and emoji."""
    plain = written.replace("\r\n", "\n").replace("\t", "    ")
    return f"<pre>{re.sub(KEPT, lambda part: text(part[0]), plain)}</pre>"


def _pictures(diagnosis: Diagnosis) -> str:
    """Which term alone decides how many groups, and how many are dead: the two ways to learn nothing intended."""
    groups = diagnosis.groups or 1
    alone = {term.name: term.sole_signal / groups for term in diagnosis.terms if term.sole_signal}
    several = 1 - sum(alone.values()) - diagnosis.dead_groups / groups
    if not alone or not diagnosis.several_terms_vary:
        return ""
    shares = {f"{name} alone": share for name, share in alone.items()}
    shares |= {"several terms together": max(0.0, several), "dead: nothing is learnt": diagnosis.dead_groups / groups}
    return f'<div class="charts">{share_bars("What decides the groups", shares)}</div>'


def _rows(diagnosis: Diagnosis) -> list[list[str]]:
    return [[text(cell) for cell in term_cells(term)] for term in diagnosis.terms]


def _charts(diagnosis: Diagnosis) -> str:
    """Dead groups over the steps, and the mean of every term, four to a chart."""
    trend, names = diagnosis.trend, [term.name for term in diagnosis.terms]
    charts = [Chart("Dead groups", {"dead": [(each.step, each.dead) for each in trend]}, percent=True)]
    for first in range(0, len(names), 4):
        chosen = {name: first + k for k, name in enumerate(names[first : first + 4])}
        series = {name: [(each.step, each.means[k]) for each in trend] for name, k in chosen.items()}
        charts.append(Chart("Mean reward by term", series))
    drawn = side_by_side(charts)
    return f"<h3>Over the steps</h3>{drawn}" if drawn else ""
