"""docs/evidence.md marks results that are older than their sources, and README shows none of those."""

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


def result(name: str, *, older: bool) -> dict[str, Any]:
    machine = {"cores": 2, "cpu": "x", "memory_gib": 1, "gpus": []}
    measured = {"seconds": 1.0, "commit": "0" * 40, "dirty": False, "versions": {}, "hardware": machine}
    return {"name": name, "claim": "a", "value": 1, "goal": 1, "holds": True, "older": older, **measured}


def front_page(pages: ModuleType, kept: list[dict[str, Any]]) -> str:
    text: str = pages.readme((ROOT / "README.md").read_text(), kept)
    return text.split(pages.RESULTS[0])[1].split(pages.RESULTS[1])[0]


def test_a_result_older_than_its_sources_is_marked(pages: ModuleType) -> None:
    page = pages.page([result("tabletop", older=True), result("trl_parity", older=False)])
    rows = {line.split("]")[0][3:]: line for line in page.splitlines() if line.startswith("| [")}
    assert "**older**" in rows["tabletop"]
    assert "older" not in rows["trl_parity"]
    assert "1 of 2 results" in page
    assert "**older**" in page.split("### tabletop")[1].split("###")[0]
    assert "**older**" not in page.split("### trl_parity")[1]


def test_readme_shows_the_first_results_that_are_current(pages: ModuleType) -> None:
    shown = front_page(pages, [result(name, older=name == "step_ratio") for name in pages.HEADLINES])
    assert "step_ratio" not in shown
    assert "trl_parity" in shown
    assert shown.count("\n| [") == pages.SHOWN


def test_readme_says_so_where_no_result_is_current(pages: ModuleType) -> None:
    assert "No result is current" in front_page(pages, [result("trl_parity", older=True)])


def test_every_headline_and_every_guard_has_a_script(pages: ModuleType) -> None:
    assert all((ROOT / "evidence" / f"{name}.py").exists() for name in {*pages.HEADLINES, *_sources.GUARDS})
    assert not _sources.GUARDS & set(pages.HEADLINES)


def test_results_are_compared_with_their_sources(pages: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sources, "is_current", lambda result, script: script.stem == "tabletop")
    assert {one["name"] for one in pages.results() if not one["older"]} == {"tabletop"}
