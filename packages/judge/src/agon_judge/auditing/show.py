"""An audit as a table for a terminal, and as one HTML file without scripts."""

from __future__ import annotations

from html import escape

from agon_judge.auditing.run import Audit, Finding
from agon_judge.verdict import printable

WIDTH = 72


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
        lines.append(f"        reward  {_reward(finding)}")
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
    """The same as a page of its own."""
    rows = "".join(
        f"<tr class={finding.severity}><td>{finding.severity}<td>{escape(finding.kind)}"
        f"<td>{finding.rows} of {finding.of}<td><code>{escape(_visible(finding.example.text))}</code>"
        f"<td><code>{escape(_visible(finding.example.gold or ''))}</code><td>{escape(_reward(finding))}"
        for finding in audit.findings
    )
    head = "<tr><th><th>finding<th>rows<th>smallest text<th>its gold<th>reward"
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Audit of {escape(audit.target)}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid #8884; }}
code {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
.fault td:first-child {{ color: #b00020; font-weight: 600; }}
:root {{ color-scheme: light dark; }}
</style>
<h1>What does {escape(audit.target)} pay for?</h1>
<p>{escape(audit.version)} · {audit.calls} calls on {audit.rows} rows · answers written as
<code>{escape(_visible(audit.template))}</code> · median {audit.seconds["median"]:.2g} s per call, at most
{audit.seconds["most"]:.2g} s</p>
<p><strong>{escape(summary(audit))}</strong></p>
{"".join(f"<p>{escape(hint)}</p>" for hint in audit.hints)}
<table><thead>{head}</thead><tbody>{rows}</tbody></table>
</html>
"""


def short(text: str | None) -> str:
    """One line of a text, as Python would write it where it is not printable."""
    shown = _visible(text or "")
    return shown if len(shown) <= WIDTH else f"{shown[: WIDTH - 3]}..."


def _visible(text: str) -> str:
    return repr(text) if not text.strip() or printable(text) != text else text


def _reward(finding: Finding) -> str:
    example = finding.example
    reward = "no verdict" if example.reward is None else f"{example.reward:g}"
    if example.reward is None and example.detail:
        return example.detail
    return f"{reward}; {example.detail}" if example.detail else reward
