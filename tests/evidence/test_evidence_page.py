"""docs/evidence.md and the front page show when each result was measured, and no change of code makes them fail."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType
from typing import Any

import pytest

from tests.architecture.tree import ROOT

sys.path.insert(0, str(ROOT / "evidence"))
import _sources


@pytest.fixture
def pages() -> ModuleType:
    loader = SourceFileLoader("generate_evidence_docs", str(ROOT / "scripts" / "generate_evidence_docs"))
    module = module_from_spec(spec_from_loader("generate_evidence_docs", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


def result(name: str, **more: Any) -> dict[str, Any]:
    machine = {"cores": 2, "cpu": "x", "memory_gib": 1, "gpus": []}
    measured = {"seconds": 1.0, "commit": "a" * 40, "dirty": False, "versions": {}, "hardware": machine}
    return {"name": name, "claim": "a", "value": 1, "goal": 1, "holds": True, "date": "2026-01-31", **measured, **more}


FRONT = """
<!-- verdicts: written by scripts/docs --write -->
<!-- end of verdicts -->
<!-- results: written by scripts/docs --write -->
<!-- end of results -->
"""


def rows(page: str) -> dict[str, str]:
    return {line.split("]")[0][3:]: line for line in page.splitlines() if line.startswith("| [")}


def test_every_row_shows_its_revision_and_date(pages: ModuleType) -> None:
    kept = [result("tabletop"), result(pages.HEADLINES[0], dirty=True)]
    page, front = pages.page(kept), pages.readme(FRONT, kept)
    assert all("aaaaaaaaaa" in row and "2026-01-31" in row for row in rows(page).values())
    assert "with changes" in rows(page)[pages.HEADLINES[0]]
    assert rows(front).keys() == {pages.HEADLINES[0]}
    assert "2026-01-31" in rows(front)[pages.HEADLINES[0]]
    assert "2026-01-31" in front.split("end of verdicts")[0]


def test_a_result_whose_date_was_not_kept_says_so(pages: ModuleType) -> None:
    old = {key: value for key, value in result("tabletop").items() if key != "date"}
    assert "date not kept" in rows(pages.page([old]))["tabletop"]


def test_a_front_page_without_tables_stays_as_it_is(pages: ModuleType) -> None:
    assert pages.readme("# Agon\n", [result("tabletop")]) == "# Agon\n"


def test_pages_do_not_change_with_the_sources_of_a_result(pages: ModuleType) -> None:
    kept = [result("tabletop", sources="one"), result(pages.HEADLINES[0], sources="one")]
    later = [one | {"sources": "two"} for one in kept]
    assert pages.page(kept) == pages.page(later)
    assert pages.readme(FRONT, kept) == pages.readme(FRONT, later)


def test_every_headline_and_every_guard_has_a_script(pages: ModuleType) -> None:
    assert all((ROOT / "evidence" / f"{name}.py").exists() for name in {*pages.HEADLINES, *_sources.GUARDS})
    assert not _sources.GUARDS & set(pages.HEADLINES)
