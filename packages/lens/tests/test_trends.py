"""Rewards over the steps of a log, and differences that normalisation makes large."""

from __future__ import annotations

import json
from pathlib import Path

from agon_lens import diagnose, read
from agon_lens.trends import over_steps, thirds


def log(path: Path, steps: int = 9) -> Path:
    """Half of the groups are alive at first, none at the end; `format` rises from 0 to 1; a tiny term decides some."""
    rows = []
    for step in range(steps):
        for group in range(4):
            alive = group < 2 and step < 6
            for k in range(4):
                right = float(alive and k == 0)
                tiny = 0.01 * k if group == 3 and step < 3 else 0.0
                row = {"step": step, "prompt": f"p{group}", "reward_correct": right, "reward_tiny": tiny}
                rows.append(row | {"reward_format": step / (steps - 1)})
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_dead_groups_and_means_are_followed_over_the_steps(tmp_path: Path) -> None:
    (found,) = read(log(tmp_path / "log.jsonl"))
    trend = over_steps(found)
    assert [each.step for each in trend] == list(range(9))
    assert (trend[0].dead, trend[4].dead, trend[8].dead) == (0.25, 0.5, 1.0)
    assert trend[8].means[found.terms.index("reward_format")] == 1.0
    (rise,) = [each for each in diagnose(found).findings if each.kind == "changing dead groups"]
    assert rise.numbers == {"early": 0.25, "late": 1.0}


def test_levels_stand_in_the_table(tmp_path: Path) -> None:
    (found,) = read(log(tmp_path / "log.jsonl"))
    lines = {line.split()[0]: line.split() for line in str(diagnose(found)).splitlines()[3:7]}
    assert lines["term"][-5:] == ["mean", "min", "max", "early", "late"]
    assert lines["reward_format"][-5:] == ["0.5", "0", "1", "0.125", "0.875"]


def test_a_log_without_steps_has_no_trend(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": "p", "reward": float(k)}) for k in range(4)))
    (found,) = read(path)
    assert over_steps(found) == ()
    assert str(diagnose(found)).splitlines()[3].split()[-1] == "max"


def test_a_tiny_term_that_decides_groups_is_reported_where_it_is_amplified(tmp_path: Path) -> None:
    (found,) = read(log(tmp_path / "log.jsonl"))
    (tiny,) = [each for each in diagnose(found).findings if each.kind == "decides by little"]
    assert (tiny.numbers["term"], tiny.numbers["small"], len(tiny.groups)) == ("reward_tiny", 3, 3)
    assert "decides by little" not in {each.kind for each in diagnose(found, scale="none").findings}


def test_thirds_of_few_values() -> None:
    assert thirds([1.0, 5.0]) == (1.0, 5.0)
    assert thirds([0.0, 2.0, 4.0, 6.0, 8.0, 10.0]) == (1.0, 9.0)


def test_a_group_that_lives_without_the_term_is_not_decided_by_it(tmp_path: Path) -> None:
    small = [{"prompt": "p", "reward_x": 0.01 * k, "reward_y": 0.01 * (k % 2)} for k in range(4)]
    large = [{"prompt": "q", "reward_x": float(k), "reward_y": 0.0} for k in range(4)]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, small + large)))
    (found,) = read(path)
    assert [term.amplified for term in diagnose(found).terms] == [0, 0]
