"""A diagnosis as HTML: a page, or what a notebook shows of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agon_lens.charts import Chart, share_bar, side_by_side
from agon_lens.findings import MEANING, Finding
from agon_lens.formatting import escape_html as text
from agon_lens.page import plain_page, prose, table
from agon_lens.summary import COLUMNS, facts, term_table

if TYPE_CHECKING:
    from agon_lens.diagnosis import Diagnosis

NOTE = "Written by agon-lens from the log alone; groups are numbered as in `agon-lens view`."


def render_diagnoses(diagnoses: Sequence[Diagnosis], name: str, *, refresh: int = 0, viewer: str = "") -> str:
    """The page of one log, or of the streams of a run; with `viewer`, findings are links to the groups on that page."""
    meaning = "".join(f"<dt>{text(column)}</dt><dd>{prose(about)}</dd>" for column, about in COLUMNS.items())
    body = [f"<section>{section(diagnosis, viewer)}{_charts(diagnosis)}</section>" for diagnosis in diagnoses]
    body.append(f"<details><summary>What the columns mean</summary><dl>{meaning}</dl></details>")
    links = [(viewer, "the groups so far")] if viewer else []
    return plain_page(
        f"{name} · reward diagnostics",
        f"{name}: reward diagnostics",
        "\n".join(body),
        NOTE,
        refresh=refresh,
        links=links,
    )


def section(diagnosis: Diagnosis, viewer: str = "") -> str:
    """What to change first, the other findings, and the tables; all that a notebook shows."""
    first = diagnosis.change_first
    notes = "; ".join(map(text, [facts(diagnosis), *diagnosis.notes]))
    parts = [
        f'<h2>{text(diagnosis.name)}</h2><p class="facts">{notes}</p>',
        f'<div class="verdict">{_finding(first, viewer, "Change first: ")}</div>' if first else "",
    ]
    others = [f"<li>{_finding(each, viewer)}</li>" for each in diagnosis.findings if each is not first]
    if others:
        parts.append(f'<ol class="findings">{"".join(others)}</ol>')
    elif not first:
        parts.append("<p>Nothing looks wrong.</p>")
    if diagnosis.group_sizes[1] > 1:
        dead = [[text(cause.value), str(count), text(MEANING[cause])] for cause, count in diagnosis.dead.items()]
        parts.append(f"<h3>Terms</h3>{_terms(diagnosis)}")
        if dead:
            parts.append(f"<h3>Dead groups</h3>{table(('cause', 'groups', 'what it means'), dead, 'dead')}")
    return "".join(parts)


def _finding(finding: Finding, viewer: str, first: str = "") -> str:
    """A finding with its remedy, a link to what explains it, and the number of a group that shows it."""
    fix = f" <b>{first}{prose(finding.fix)}</b>" if finding.fix else ""
    links = f'<a href="{text(finding.page)}" rel="noreferrer">what this means</a>'
    if finding.groups:
        shown = f"group {finding.groups[0]}"
        links += f', see <a href="{text(viewer)}#{finding.groups[0]}">{shown}</a>' if viewer else f", see {shown}"
    return f'{prose(finding.sentence)}{fix} <span class="page">{links}</span>'


def _terms(diagnosis: Diagnosis) -> str:
    """The table of terms, with its shares as bars on one scale."""
    head, rows = term_table(diagnosis)
    shares = [term.share for term in diagnosis.terms]
    place = head.index("share")
    cells = [[text(cell) for cell in row] for row in rows]
    for row, share in zip(cells, shares, strict=True):
        row[place] = f"{row[place]} {share_bar(share, shares)}"
    return table(head, cells, "terms")


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
