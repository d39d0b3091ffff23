"""One study for all tests of tables and figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from agon.report.collect import MeasuredRun, collect

from .helpers import make_study


@pytest.fixture(scope="session")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_study(tmp_path_factory.mktemp("study"), {"agon": 3, "coop": 2, "grpo": 1, "shared-opponent": 1})


@pytest.fixture(scope="session")
def runs(paths: list[Path]) -> list[MeasuredRun]:
    return collect(paths)
