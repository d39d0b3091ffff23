"""A diagnosis as one HTML page: what was found, the terms, and how they change over the steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agon.diagnose import Diagnosis
from agon.diagnose.findings import COLUMNS, MEANING, findings, term_cells
from agon.formatting import escape_html as text
from agon.formatting import plural
from agon.report.charts import Chart
from agon.report.markup import prose, table
from agon.report.viewer import SLOT, asset, sha256_source, write_page_file


def write_diagnose_page(diagnoses: Sequence[Diagnosis], out: Path, name: str) -> Path:
    """Write the page atomically."""
    write_page_file(out, render_diagnoses(diagnoses, name))
    return out


def render_diagnoses(diagnoses: Sequence[Diagnosis], name: str) -> str:
    """The page of one log, or of the streams of a run."""
    style = asset("report.css")
    values = {
        "title": text(f"{name} · reward diagnostics"),
        "name": text(f"{name}: reward diagnostics"),
        "style": style,
        "style-hash": sha256_source(style),
        "refresh": "",
        "body": "\n".join(map(_section, diagnoses)),
        "links": "",
    }
    return SLOT.sub(lambda match: values[match.group(1)], asset("report.html"))


def _section(diagnosis: Diagnosis) -> str:
    sentences = findings(diagnosis) or ["Nothing looks wrong."]
    found = "".join(f"<li>{prose(sentence)}</li>" for sentence in sentences)
    dead = [[text(cause.value), str(count), text(MEANING[cause])] for cause, count in diagnosis.dead.items()]
    counts = f"{plural(diagnosis.groups, 'group')}, {plural(diagnosis.rows, 'row')}"
    facts = "; ".join([counts, *map(text, diagnosis.notes)])
    parts = [
        f'<section><h2>{text(diagnosis.name)}</h2><p class="facts">{facts}</p>',
        f"<ul>{found}</ul><h3>Terms</h3>{table(tuple(COLUMNS), _rows(diagnosis))}",
        f"<h3>Dead groups</h3>{table(('cause', 'groups', 'what it means'), dead)}" if dead else "",
        _charts(diagnosis),
    ]
    return "".join([*parts, "</section>"])


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
    drawn = "".join(chart.svg() for chart in charts)
    return f'<h3>Over the steps</h3><div class="charts">{drawn}</div>' if drawn else ""
