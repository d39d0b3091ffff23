"""Mutations of the package still fit its source and its tests: the scripts that apply them take too long for CI."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "evidence"))
import engine_mutations  # noqa: E402
import game_mutations  # noqa: E402
from _mutations import Mutation  # noqa: E402

GAME = [Mutation(*edit, game_mutations.SUITE) for edit in game_mutations.EDITS]
ALL = [*engine_mutations.HEAVY, *engine_mutations.LIGHT, *GAME]


@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_a_mutation_fits(mutation: Mutation) -> None:
    home = "packages/judge/src" if mutation.file.startswith("agon_judge/") else "src/agon"
    assert (ROOT / home / mutation.file).read_text().count(mutation.old) == 1
    assert mutation.old != mutation.new
    for test in mutation.tests:
        file, _, name = test.partition("::")
        assert (ROOT / file).exists(), f"{file} moved"
        assert not name or f"def {name}(" in (ROOT / file).read_text(), f"{test} was renamed"
