"""The viewer of a log: groups side by side, rewards term by term, in one HTML file.

The page holds the rewards of every row, and blocks of texts that are opened one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agon_lens.columns import Columns, named_columns
from agon_lens.dead import group_causes
from agon_lens.diagnosis import Diagnosis, diagnose_log
from agon_lens.findings import Rank
from agon_lens.formatting import plural, utf8
from agon_lens.groups import Group, GroupLog, Scale, normalise, totals
from agon_lens.lines import Progress, Source
from agon_lens.logs import GroupTexts, RolloutLog, StepRange, read_rollouts
from agon_lens.page import TEXT_SCRIPTS, asset, compress, fill_page, rounded, write_page_file

LOG_SCRIPTS = (*TEXT_SCRIPTS, "groups.js", "group.js", "log.js")
SCHEMA = 1
BLOCK = 8
"""Groups whose texts are inflated together."""
LIVE = "live"


def view(
    source: Source,
    out: str | Path = "rollouts.html",
    columns: Columns | None = None,
    *,
    steps: StepRange | str | None = None,
    scale: Scale | None = None,
    progress: Progress | None = None,
    **names: Any,
) -> Path:
    """Write the page of a log, or of some of its steps ("0:99"), atomically; a file that is not a page of ours is never
    replaced. Columns are named as in `diagnose`."""
    columns = named_columns(columns, names)
    chosen = StepRange.parse(steps) if isinstance(steps, str) else steps
    write_page_file(Path(out), render_log(read_rollouts(source, columns, chosen, progress), scale))
    return Path(out)


def render_log(rollouts: RolloutLog, scale: Scale | None = None) -> str:
    """The page as HTML."""
    index = compress(log_index(rollouts, diagnose_log(rollouts.log, scale)))
    texts = rollouts.texts
    blocks = [compress(list(map(_block, texts[at : at + BLOCK]))) for at in range(0, len(texts), BLOCK)]
    title, style = f"{utf8(rollouts.log.name)} · agon-lens", asset("page.css") + asset("log.css")
    return fill_page(asset("log.html"), title, list(map(asset, LOG_SCRIPTS)), style, index, blocks)


def log_index(rollouts: RolloutLog, found: Diagnosis) -> dict[str, object]:
    """Everything but the texts: one value per group in `groups`, one per row in `rows`."""
    log = rollouts.log
    causes = group_causes(log)
    groups = [log.groups[k] for k in rollouts.shown]
    rows = [row for group in groups for row in group]
    kinds = [f"dead: {cause.value}" if (cause := causes[k]) else LIVE for k in rollouts.shown]
    logged = any(row.advantage is not None for row in rows)
    return {
        "schema": SCHEMA,
        "name": utf8(log.name),
        "facts": _facts(found, logged),
        "findings": _findings(found, rollouts.shown),
        "terms": [utf8(name) for name in log.terms],
        "block_size": BLOCK,
        "best": _best(groups, kinds),
        "groups": {
            "step": [log.steps[k] for k in rollouts.shown],
            "size": [len(group) for group in groups],
            "kind": kinds,
            "only": _deciding(found, rollouts.shown),
            "title": [utf8(title) for title in rollouts.titles()],
            "gold": [utf8(texts.gold[:200]) for texts in rollouts.texts],
        },
        "rows": {
            "total": [rounded(row.total) for row in rows],
            "advantage": [rounded(value) for group in groups for value in _advantages(group, found.scale, log)],
            "correct": [row.correct for row in rows],
            "truncated": [row.truncated for row in rows],
            "terms": [[rounded(row.terms[k]) for row in rows] for k in range(len(log.terms))],
        },
    }


def _findings(found: Diagnosis, shown: Sequence[int]) -> list[dict[str, object]]:
    """The findings, each with the first of the groups on this page that shows it."""
    places = {number: place for place, number in enumerate(shown)}
    return [
        {
            "sentence": utf8(finding.sentence),
            "fix": utf8(finding.fix),
            "page": finding.page,
            "cost": finding.rank is not Rank.NOTE,
            "first": finding is found.change_first,
            "example": next((places[number] for number in finding.groups if number in places), None),
        }
        for finding in found.findings
    ]


def _facts(found: Diagnosis, logged: bool) -> list[str]:
    low, high = found.group_sizes
    size = f"{low}" if low == high else f"{low} to {high}"
    advantages = "as logged" if logged else "computed: the log has none"
    return [f"{plural(found.groups, 'group')} of {size}", *map(utf8, found.notes), f"advantages {advantages}"]


def _advantages(group: Group, scale: Scale, log: GroupLog) -> list[float | None]:
    """Those of the log; where it has none, those that the totals imply."""
    if any(row.advantage is not None for row in group):
        return [row.advantage for row in group]
    graded = totals(group)
    implied = iter(normalise(graded, scale, log.resolution) if len(graded) > 1 else [])
    return [None if row.total is None else next(implied, None) for row in group]


def _deciding(found: Diagnosis, shown: Sequence[int]) -> list[int | None]:
    """The one term that alone decides a group, for every group on the page."""
    alone = {number: k for k, term in enumerate(found.terms) for number in term.decides_in}
    several = sum(bool(term.varies_in) for term in found.terms) > 1
    return [alone.get(number) if several else None for number in shown]


def _best(groups: Sequence[Group], kinds: Sequence[str]) -> int:
    """The group to look at first: live, with the widest rewards, the newest of these."""

    def rank(k: int) -> tuple[float, int]:
        paid = totals(groups[k])
        return (max(paid) - min(paid) if kinds[k] == LIVE else -1.0, k)

    return max(range(len(groups)), key=rank)


def _block(texts: GroupTexts) -> dict[str, object]:
    completions = [
        utf8(said) if isinstance(said, str) else [[utf8(role), utf8(text)] for role, text in said]
        for said in texts.completions
    ]
    return {"prompt": utf8(texts.prompt), "gold": utf8(texts.gold), "completions": completions}
