"""The cost table of docs/tinker.md follows from its prices and token counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "tinker.md").read_text()
ROWS = re.findall(r"^\| (\S+/\S+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| (\d+) \|$", PAGE, re.MULTILINE)


def test_the_page_s_token_counts_are_those_of_the_recipe() -> None:
    rollouts, completion, prompt, peek = 8 * 8 * 2, 4000, 200, 500
    prefill = rollouts * prompt + rollouts // 2 * peek
    counts = [prefill / 1e6, rollouts * completion / 1e6, (prefill + rollouts * completion) / 1e6]
    assert [float(n) for n in re.findall(r"([\d.]+) M", PAGE)] == pytest.approx(counts)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_of_the_table_adds_up(row: tuple[str, ...]) -> None:
    prefill, sample, train, step, whole = map(float, row[1:])
    cost = 0.0576 * prefill + 0.512 * sample + 0.5696 * train
    assert step == pytest.approx(cost, abs=0.005)
    assert whole == pytest.approx(375 * cost, abs=1)


def test_there_is_a_table() -> None:
    assert len(ROWS) == 4
