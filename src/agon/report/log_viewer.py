"""`agon view` for the log of any GRPO trainer: groups side by side, rewards term by term, in one HTML file.

Like the match viewer, the page contains all that it shows, makes no request and writes text nodes only.
"""

from __future__ import annotations

from pathlib import Path

from agon.diagnose.groups import Scale
from agon.diagnose.rollouts import RolloutLog
from agon.formatting import utf8
from agon.report.log_payload import pack_log
from agon.report.viewer import TEXT_SCRIPTS, asset, fill_page, write_page_file

LOG_SCRIPTS = (*TEXT_SCRIPTS, "groups.js", "group.js", "log.js")


def write_log_viewer(rollouts: RolloutLog, out: Path, scale: Scale | None = None) -> Path:
    """Write the page of a log atomically."""
    write_page_file(out, render_log(rollouts, scale))
    return out


def render_log(rollouts: RolloutLog, scale: Scale | None = None) -> str:
    """The page as HTML."""
    packed, style = pack_log(rollouts, scale), asset("page.css") + asset("log.css")
    return fill_page("log.html", utf8(rollouts.log.name), LOG_SCRIPTS, style, packed.index, packed.blocks)
