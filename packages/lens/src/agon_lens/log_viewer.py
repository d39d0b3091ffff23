"""The viewer of a log: groups side by side, rewards term by term, in one HTML file.

The page holds the rewards of every row, and blocks of texts that are opened one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agon_lens.columns import Columns
from agon_lens.dead import group_causes
from agon_lens.diagnosis import Diagnosis, diagnose
from agon_lens.findings import Rank, change_first, findings
from agon_lens.formatting import plural, utf8
from agon_lens.groups import Group, GroupLog, Scale, column, normalise, totals, varies
from agon_lens.lines import Progress
from agon_lens.logs import GroupTexts, Paths, RolloutLog, StepRange, read_rollouts
from agon_lens.page import TEXT_SCRIPTS, asset, compress, fill_page, rounded, write_page_file

LOG_SCRIPTS = (*TEXT_SCRIPTS, "groups.js", "group.js", "log.js")
SCHEMA = 1
BLOCK = 8
"""Groups whose texts are inflated together."""
LIVE = "live"


def view(
    paths: Paths,
    out: str | Path,
    columns: Columns | None = None,
    *,
    steps: StepRange | None = None,
    scale: Scale | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write the page of a log, or of some of its steps, atomically; a file that is not a page of ours is never
    replaced."""
    write_page_file(Path(out), render_log(read_rollouts(paths, columns, steps, progress), scale))
    return Path(out)


def render_log(rollouts: RolloutLog, scale: Scale | None = None) -> str:
    """The page as HTML."""
    index = compress(log_index(rollouts, diagnose(rollouts.log, scale)))
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
        "remedy": utf8(change_first(findings(found))),
        "terms": [utf8(name) for name in log.terms],
        "block_size": BLOCK,
        "best": _best(groups, kinds),
        "groups": {
            "step": [log.steps[k] for k in rollouts.shown],
            "size": [len(group) for group in groups],
            "kind": kinds,
            "only": [_deciding(group, log) if found.several_terms_vary else None for group in groups],
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
            "example": next((places[number] for number in finding.groups if number in places), None),
        }
        for finding in findings(found)
    ]


def _facts(found: Diagnosis, logged: bool) -> list[str]:
    low, high = found.group_sizes
    size = f"{low}" if low == high else f"{low} to {high}"
    norm = "mean and standard deviation" if found.scale == "group" else "mean"
    advantages = "as logged" if logged else f"computed from the group's {norm}: the log has none"
    return [f"{plural(found.groups, 'group')} of {size}", f"advantages {advantages}", *map(utf8, found.notes)]


def _advantages(group: Group, scale: Scale, log: GroupLog) -> list[float | None]:
    """Those of the log; where it has none, those that the totals imply."""
    if any(row.advantage is not None for row in group):
        return [row.advantage for row in group]
    graded = totals(group)
    implied = iter(normalise(graded, scale, log.resolution) if len(graded) > 1 else [])
    return [None if row.total is None else next(implied, None) for row in group]


def _deciding(group: Group, log: GroupLog) -> int | None:
    """The one term that varies among the graded rows of a group; None where none or several do."""
    graded = tuple(row for row in group if row.total is not None)
    varying = [k for k in range(len(log.terms)) if varies(column(graded, k), log.resolution)]
    return varying[0] if len(varying) == 1 else None


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
