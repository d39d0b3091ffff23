"""Presets: the published schemas, the rules, and two ways to load that agree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agon.config import Source
from agon.data import PRESETS, load, presets, read
from agon.errors import DataError
from tests.data.helpers import NO_REAL_DATA, REAL, code_row, deepmath_rows, write_jsonl, write_parquet

needs_real_data = pytest.mark.skipif(not REAL.is_dir(), reason=NO_REAL_DATA)
GSM8K_ROWS = [
    {"question": "How many eggs?", "answer": "16 - 3 = <<16-3=13>>13\n#### 13"},
    {"question": "How much money?", "answer": "It is a lot.\n#### 1,234,567"},
    {"question": "How cold?", "answer": "#### not yet\n#### -5"},
]
MATH_ROWS = [
    {
        "problem": "Add $1$ and $2$.",
        "solution": r"\boxed{3}",
        "answer": "3",
        "subject": "Algebra",
        "level": 1,
        "unique_id": "test/algebra/1.json",
    }
]
CARD = """---
configs:
- config_name: {config}
  data_files:
  - split: {split}
    path: {path}
---
"""


def write_hub(folder: Path, name: str) -> Path:
    """A data set folder laid out as on the Hub, with the published columns."""
    preset = PRESETS[name]
    rows: list[dict[str, Any]] = {
        "deepmath-hard": deepmath_rows(),
        "gsm8k": GSM8K_ROWS,
        "math-500": MATH_ROWS,
        "codecontests-easy": [code_row(), code_row(description="A hard one.", difficulty=3)],
    }[name]
    inner = preset.config or "data"
    if preset.parquet:
        write_parquet(folder / inner / f"{preset.split}-00000-of-00001.parquet", rows)
        card = CARD.format(config=preset.config or "default", split=preset.split, path=f"{inner}/{preset.split}-*")
        (folder / "README.md").write_text(card)
    else:
        write_jsonl(folder / f"{preset.split}.jsonl", rows)
    return folder


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Point a preset's Hub id at a local folder; everything else of the Hub path stays as it is."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")

    def publish(name: str) -> Path:
        folder = write_hub(tmp_path / name, name)
        monkeypatch.setitem(PRESETS, name, dataclasses.replace(PRESETS[name], hub_id=str(folder)))
        return folder

    return publish


@pytest.mark.parametrize(
    ("name", "count"), [("deepmath-hard", 3), ("gsm8k", 3), ("math-500", 1), ("codecontests-easy", 1)]
)
def test_the_hub_and_a_local_copy_give_the_same_problems(hub: Callable[[str], Path], name: str, count: int) -> None:
    folder = hub(name)
    remote, local = read(Source(preset=name)), read(Source(preset=name, path=str(folder)))
    assert len(remote.problems) == count
    assert sorted(remote.problems, key=lambda p: p.id) == sorted(local.problems, key=lambda p: p.id)
    assert (remote.revision, local.revision) == (PRESETS[name].revision, None)
    assert (remote.rows, remote.filtered) == (local.rows, local.filtered)


@pytest.mark.parametrize("name", ["deepmath-hard", "gsm8k", "math-500", "codecontests-easy"])
def test_the_hub_is_asked_for_the_pinned_revision_and_the_needed_columns_only(
    hub: Callable[[str], Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    hub(name)
    asked: list[dict[str, Any]] = []
    real = datasets.load_dataset
    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: asked.append(k) or real(*a, **k))
    table = presets._hub_table(PRESETS[name], PRESETS[name].revision)
    assert asked[0]["revision"] == PRESETS[name].revision
    assert tuple(table.column_names) == PRESETS[name].columns


def test_every_preset_is_pinned_to_a_commit() -> None:
    for preset in PRESETS.values():
        assert presets._commit(preset.revision) == preset.revision


def test_a_revision_can_be_named_but_must_be_a_commit(hub: Callable[[str], Path]) -> None:
    hub("gsm8k")
    other = "0123456789" * 4
    assert read(Source(preset="gsm8k", options={"revision": other})).revision == other
    with pytest.raises(DataError, match="not a commit"):
        read(Source(preset="gsm8k", options={"revision": "main"}))


def test_a_hub_that_cannot_be_reached_is_reported_with_a_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach the Hub")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(DataError, match="cannot load openai/gsm8k") as caught:
        read(Source(preset="gsm8k"))
    assert "local copy" in caught.value.fix


def test_a_hub_data_set_that_lost_a_column_is_reported(hub: Callable[[str], Path]) -> None:
    folder = hub("gsm8k")
    write_parquet(folder / "main" / "train-00000-of-00001.parquet", [{"question": "q", "gold": "1"}])
    with pytest.raises(DataError, match="cannot load"):
        read(Source(preset="gsm8k"))


BARE = ["Yes", "no", "TRUE", "False", "True.", "(false)", "incorrect!", "**No**", "Yes, it is", "No; see above"]
WRAPPED = ["$\\text{Yes}$", "\\boxed{\\text{No}}", "\\textbf{Correct}"]


@pytest.mark.parametrize("gold", [*BARE, *WRAPPED])
def test_binary_answers_are_recognised(gold: str) -> None:
    assert presets.is_binary(gold)


@pytest.mark.parametrize(
    "gold",
    ["No solution", "no such n", "0", "1", "n", "T", "yesterday", "\\text{none}", "nope", "\\top", "None", "x=no"],
)
def test_answers_that_only_look_binary_stay(gold: str) -> None:
    assert not presets.is_binary(gold)


def test_deepmath_hard_keeps_difficulty_eight_without_binary_answers(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "train.jsonl", deepmath_rows())
    pool = read(Source(preset="deepmath-hard", path=path))
    assert sorted(problem.answer for problem in pool.problems) == ["1", "No solution", r"\frac{7}{2}"]
    assert (pool.rows, pool.filtered) == (8, {"with a binary answer": 3, "of a different difficulty": 2})


def test_gsm8k_golds_stand_after_the_last_mark_without_separators(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "train.jsonl", GSM8K_ROWS)
    assert sorted(problem.answer for problem in load(Source(preset="gsm8k", path=path))) == ["-5", "1234567", "13"]


def test_a_few_unusable_rows_are_counted_and_many_are_refused(tmp_path: Path) -> None:
    good = [{"question": f"q{n}", "answer": f"#### {n}"} for n in range(199)]
    bad = {"question": "q", "answer": "no mark"}
    few, many = (write_jsonl(tmp_path / name, [*good, *[bad] * n]) for name, n in (("few.jsonl", 1), ("many.jsonl", 3)))
    assert read(Source(preset="gsm8k", path=few)).unusable == {"answer has no ####": 1}
    with pytest.raises(DataError, match=r"3 of 202 rows .* no ####: rows 200, 201, 202"):
        read(Source(preset="gsm8k", path=many))


def test_unknown_presets_options_and_columns_are_refused() -> None:
    with pytest.raises(DataError) as caught:
        read(Source(preset="gsm8"))
    assert caught.value.fix == "did you mean gsm8k?"
    with pytest.raises(DataError, match="no option splt"):
        read(Source(preset="gsm8k", options={"splt": "test"}))
    with pytest.raises(DataError, match="has its own columns"):
        read(Source(preset="gsm8k", columns={"question": "q"}))


def test_a_folder_without_the_preset_s_split_is_reported(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "test.jsonl", GSM8K_ROWS)
    with pytest.raises(DataError, match=r"holds no train\*"):
        read(Source(preset="gsm8k", path=str(tmp_path)))


@needs_real_data
@pytest.mark.parametrize(
    ("name", "folder", "count"), [("gsm8k", "gsm8k", 7473), ("gsm8k-test", "gsm8k", 1319), ("math-500", "math500", 500)]
)
def test_real_rows_are_all_usable_and_all_different(name: str, folder: str, count: int) -> None:
    pool = read(Source(preset=name, path=str(REAL / folder)))
    assert (len(pool.problems), pool.duplicates, pool.conflicts, pool.unusable) == (count, 0, 0, {})
    assert len({problem.id for problem in pool.problems}) == count


@needs_real_data
def test_real_gsm8k_golds_are_plain_numbers() -> None:
    problems = load(Source(preset="gsm8k", path=str(REAL / "gsm8k")))
    assert all(float(problem.answer) == float(problem.answer) for problem in problems)
