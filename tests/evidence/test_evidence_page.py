"""docs/evidence.md marks results that are older than their sources; README has the verdicts in words."""

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


def test_a_result_older_than_its_sources_is_marked(pages: ModuleType) -> None:
    page = pages.page([result("tabletop", older=True), result("trl_parity", older=False)])
    rows = {line.split("]")[0][3:]: line for line in page.splitlines() if line.startswith("| [")}
    assert "**older**" in rows["tabletop"]
    assert "older" not in rows["trl_parity"]
    assert "1 of 2 results" in page
    assert "**older**" in page.split("### tabletop")[1].split("###")[0]
    assert "**older**" not in page.split("### trl_parity")[1]


def test_a_verdict_is_read_from_its_interval(pages: ModuleType) -> None:
    cells = ["supported: +7.1 points [+4.9, +9.4]", "undecided: +0.2 points [-1.1, +1.6]", "-5.5 points [-7.9, -3.1]"]
    assert pages.places(["one", "two", "three"], cells) == (
        "ahead in *one* (+7.1); behind in *three* (-5.5); no clear difference in *two* (+0.2)."
    )


def test_every_guard_has_a_script() -> None:
    assert all((ROOT / "evidence" / f"{name}.py").exists() for name in _sources.GUARDS)


def test_results_are_compared_with_their_sources(pages: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sources, "is_current", lambda result, script: script.stem == "tabletop")
    assert {one["name"] for one in pages.results() if not one["older"]} == {"tabletop"}
