"""docs/evidence.md and the front page show when each result was measured, and no change of code makes them fail."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from tests.architecture.tree import ROOT, script

sys.path.insert(0, str(ROOT / "evidence"))
import _sources


@pytest.fixture
def pages() -> ModuleType:
    return script("generate_evidence_docs")


def result(name: str, **more: Any) -> dict[str, Any]:
    machine = {"cores": 2, "cpu": "x", "memory_gib": 1, "gpus": []}
    measured = {"seconds": 1.0, "commit": "a" * 40, "dirty": False, "versions": {}, "hardware": machine}
    return {"name": name, "claim": "a", "value": 1, "goal": 1, "holds": True, "date": "2026-01-31", **measured, **more}


FRONT = """
<!-- verdicts: written by scripts/docs --write -->
<!-- end of verdicts -->
"""


def rows(page: str) -> dict[str, str]:
    return {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}


def test_every_row_shows_its_revision_and_date(pages: ModuleType) -> None:
    kept = [result("tabletop"), result("trl_parity", dirty=True)]
    page, front = pages.page(kept), pages.readme(FRONT, kept)
    assert all("aaaaaaaaaa" in row and "2026-01-31" in row for row in rows(page).values())
    assert "with changes" in rows(page)["trl_parity"]
    assert "2026-01-31" in front.split("end of verdicts")[0]


def test_a_verdict_is_read_from_its_interval(pages: ModuleType) -> None:
    cells = ["supported: +7.1 points [+4.9, +9.4]", "undecided: +0.2 points [-1.1, +1.6]", "-5.5 points [-7.9, -3.1]"]
    assert pages.places(["one", "two", "three"], cells) == (
        "ahead in *one* (+7.1); behind in *three* (-5.5); no clear difference in *two* (+0.2)."
    )


def test_a_result_whose_date_was_not_kept_says_so(pages: ModuleType) -> None:
    old = {key: value for key, value in result("tabletop").items() if key != "date"}
    assert "date not kept" in rows(pages.page([old]))["tabletop"]


def test_pages_do_not_change_with_the_sources_of_a_result(pages: ModuleType) -> None:
    kept = [result("tabletop", sources="one"), result("trl_parity", sources="one")]
    later = [one | {"sources": "two"} for one in kept]
    assert pages.page(kept) == pages.page(later)
    assert pages.readme(FRONT, kept) == pages.readme(FRONT, later)


def test_every_guard_has_a_script() -> None:
    assert all((ROOT / "evidence" / f"{name}.py").exists() for name in _sources.GUARDS)
