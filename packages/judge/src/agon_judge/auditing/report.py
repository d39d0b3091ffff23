"""What an audit found, as a value that prints as a table, shows as one in a notebook, and makes a page of its own."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from html import escape
from importlib import resources
from typing import Any, Literal

from agon_judge.errors import in_python
from agon_judge.verdict import printable

WIDTH = 72
Severity = Literal["fault", "remark"]


@dataclass(frozen=True, slots=True)
class Example:
    """The smallest text that shows a finding."""

    question: str
    gold: str | None
    text: str
    reward: float | None
    detail: str = ""

    @property
    def paid(self) -> str:
        reward = "no verdict" if self.reward is None else f"{self.reward:g}"
        if self.reward is None and self.detail:
            return self.detail
        return f"{reward}; {self.detail}" if self.detail else reward


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found: on `rows` of the `of` rows that were tried."""

    kind: str
    severity: Severity
    rows: int
    of: int
    example: Example

    @property
    def share(self) -> float:
        return self.rows / self.of if self.of else 0.0


@dataclass(frozen=True, slots=True, repr=False)
class Audit:
    """What a reward pays for. `passed` is False where a fault is on more than the share `bound` of the rows."""

    target: str
    version: str
    rows: int
    calls: int
    template: str
    seconds: Mapping[str, float]
    findings: tuple[Finding, ...]
    bound: float = 0.0
    hints: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.severity == "fault" and each.share > self.bound)

    @property
    def passed(self) -> bool:
        return not self.faults

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"passed": self.passed}

    def as_html(self) -> str:
        """A page of its own: one file without scripts."""
        return page(self)

    def __repr__(self) -> str:
        return table(replace(self, hints=tuple(map(in_python, self.hints))))

    def _repr_html_(self) -> str:
        hints = "".join(f"<p>{escape(hint)}</p>" for hint in map(in_python, self.hints))
        rows = _rows(self) if self.findings else ""
        return f"<p><b>{escape(self.target)}</b>: {escape(summary(self))}</p>{rows}{hints}"


def table(audit: Audit) -> str:
    """What was tried, then one finding per paragraph, the faults first."""
    seconds = audit.seconds
    lines = [
        f"{audit.target}{f' ({audit.version})' if audit.version else ''}: {audit.calls} calls on {audit.rows} rows",
        f"answers written as  {short(audit.template)}",
        f"seconds per call    median {seconds['median']:.2g}, at most {seconds['most']:.2g}",
    ]
    for finding in audit.findings:
        example = finding.example
        lines += ["", f"{finding.severity:<7} {finding.kind}: {finding.rows} of {finding.of} rows"]
        lines.append(f"        text    {short(example.text)}")
        lines.append(f"        gold    {short(example.gold) if example.gold is not None else 'none'}")
        lines.append(f"        reward  {example.paid}")
    lines += ["", *(f"hint: {hint}" for hint in audit.hints), summary(audit)]
    return "\n".join(lines)


def summary(audit: Audit) -> str:
    """The last line: passed, or how many kinds of fault there are."""
    bound = f" on more than {audit.bound:.0%} of the rows" if audit.bound else ""
    if audit.passed:
        return f"passed: no fault{bound}"
    count = len(audit.faults)
    return f"failed: {count} {'kind' if count == 1 else 'kinds'} of fault{bound}"


def page(audit: Audit) -> str:
    """The shell of all our pages (the style is that of the log viewer) around the table."""
    style = (resources.files("agon_judge") / "auditing" / "assets" / "page.css").read_text("utf-8")
    hashed = "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    facts = " · ".join(
        [
            *([escape(audit.version)] if audit.version else []),
            f"{audit.calls:,} calls on {audit.rows} rows",
            f"answers written as <code>{escape(visible(audit.template))}</code>",
            f"median {audit.seconds['median']:.2g} s per call, at most {audit.seconds['most']:.2g} s",
        ]
    )
    hints = "".join(f'<p class="note">{escape(hint)}</p>' for hint in audit.hints)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="Agon">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '{hashed}'; base-uri 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>Audit of {escape(audit.target)}</title>
<style>{style}</style>
</head>
<body>
<header><span class="mark" aria-hidden="true"><i class="a"></i><i class="b"></i></span>
<h1>What does {escape(audit.target)} pay for?</h1></header>
<main>
<p class="verdict {"good" if audit.passed else "bad"}">{escape(summary(audit)).capitalize()}</p>
<p class="facts">{facts}</p>
{_rows(audit) if audit.findings else ""}
{hints}
</main>
<footer>This page is one file: it loads nothing and sends nothing.</footer>
</body>
</html>
"""


def _rows(audit: Audit) -> str:
    """The findings as an HTML table."""
    head = (
        "<tr><th></th><th>finding</th><th>rows</th><th>smallest text</th><th>reference answer</th><th>reward</th></tr>"
    )
    rows = "".join(
        f'<tr class="{finding.severity}"><td>{finding.severity}</td><td>{escape(finding.kind)}</td>'
        f"<td>{finding.rows} of {finding.of}</td><td><code>{escape(_lines(finding.example.text))}</code></td>"
        f"<td><code>{escape(_lines(finding.example.gold or ''))}</code></td>"
        f"<td>{escape(finding.example.paid)}</td></tr>"
        for finding in audit.findings
    )
    return f'<div class="wide"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def short(text: str | None) -> str:
    """One line of a text, as Python would write it where it is not printable."""
    shown = visible(text or "")
    return shown if len(shown) <= WIDTH else f"{shown[: WIDTH - 3]}..."


def _lines(text: str) -> str:
    """A text with its line ends, where everything else in it can be seen."""
    return text if visible(text.replace("\n", "")) == text.replace("\n", "") else visible(text)


def visible(text: str) -> str:
    return repr(text) if not text.strip() or printable(text) != text else text
