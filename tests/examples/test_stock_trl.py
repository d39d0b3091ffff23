"""Two stock trainers play the whole game: both learn in every step, from what the game paid."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest

from agon import Policy, load_config

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "stock_trl.py"
CONFIG = EXAMPLE.parents[1] / "configs" / "tabletop" / "agon.yaml"


@pytest.mark.contract
def test_two_stock_trainers_train_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    spec = importlib.util.spec_from_file_location("stock_trl", EXAMPLE)
    assert spec
    assert spec.loader
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    paid = dict[tuple[Policy, int], float]()
    play = example.Match.play

    def noted(match: object) -> None:
        play(match)
        for policy, rows in match.rows.items():  # type: ignore[attr-defined]
            paid[policy, match.step] = math.fsum(row.reward.total for row in rows) / len(rows)  # type: ignore[attr-defined]

    monkeypatch.setattr(example.Match, "play", noted)
    words = ["train.max_steps=2", "train.problems_per_step=2", "game.group_size=4", "train.warmup=0"]
    logs = example.main(load_config(CONFIG, words))
    assert len(paid) == 4
    for policy in Policy:
        assert [entry["reward"] for entry in logs[policy]] == pytest.approx([paid[policy, step] for step in (1, 2)])
        assert all(entry["grad_norm"] > 0 for entry in logs[policy])
