"""Every bout of a step comes back from its parquet file, whatever the models wrote."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.errors import RunDirError, RunError
from agon.game.parse import parse
from agon.report import payload
from agon.report.rows import LoggedBout
from agon.rundir import RunDir, read_bouts
from agon.rundir import bouts as bouts_file
from agon.rundir.bouts import COLUMNS
from agon.types import (
    OWN_PARTS,
    PARTS,
    Bout,
    Completion,
    Message,
    Policy,
    Problem,
    Prompt,
    Quote,
    Reason,
    Reward,
    Rollout,
    Verdict,
    Version,
)
from tests.rundir.helpers import runs

PROBLEM = Problem("1f", "What is 6 x 7?", "42")


def rollout(
    policy: Policy, text: str, reward: Reward | None, reason: Reason = Reason.CORRECT, index: int = 0
) -> Rollout:
    prompt = Prompt((Message("system", ("Be brief.",)), Message("user", ("Solve: ", Quote(PROBLEM.question)))))
    completion = Completion(text, Version.of(policy, 3, "5f3c9a1e"), 11, 22, opened=True)
    verdict = Verdict(reason is Reason.CORRECT, True, reason, detail="42 = 42")
    return Rollout(PROBLEM, index, policy, prompt, completion, verdict, reward, 0.5 if reward else None)


def bout(text: str = "draft", peek: str | None = "So it is 42.") -> Bout:
    draft = rollout(Policy.A, text, Reward(0.0, 0.5), Reason.WRONG)
    challenge = rollout(Policy.B, "challenge", Reward(2.0, 0.5, conversion=1.0))
    return Bout(draft, challenge, peek, rival=3)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return runs.new_run(tmp_path)


def test_a_bout_comes_back_with_every_column(run: RunDir) -> None:
    path = run.write_bouts(12, [bout()], "agon")
    assert path.name == "step_000012.parquet"
    table = read_bouts(path)
    assert table.column_names == list(COLUMNS)
    [row] = table.to_pylist()
    head = {"step": 12, "arm": "agon", "problem_id": "1f", "question": "What is 6 x 7?", "answer": "42", "rival": 3}
    draft = {"draft_text": "draft", "draft_reason": "wrong", "draft_correct": False, "draft_reward": 0.5}
    seen = {"peek": "So it is 42.", "peek_leak": True, "drafter": "a", "challenger": "b"}
    challenge = {"challenge_reward": 3.5, "challenge_reward_conversion": 1.0, "challenge_reward_margin": 0.0}
    assert (head | draft | seen | challenge).items() <= row.items()
    assert row["challenge_prompt"] == "[system]\nBe brief.\n\n[user]\nSolve: What is 6 x 7?"
    assert None not in row.values()


def test_what_did_not_happen_is_null(run: RunDir) -> None:
    alone = Bout(rollout(Policy.A, "draft", None, Reason.INFRA))
    hidden = bout(peek=None)
    run.write_bouts(0, [alone, hidden], "grpo")
    first, second = read_bouts(run).to_pylist()
    nulls = {name for name, value in first.items() if value is None}
    rewards = {
        "draft_reward",
        "draft_reward_correctness",
        "draft_reward_format",
        "draft_reward_extra",
        "draft_advantage",
    }
    others = {name for name in COLUMNS if name.startswith("challenge")} | {"rival", "peek", "peek_leak"}
    assert nulls == rewards | others
    assert (second["peek"], second["peek_leak"], second["challenge_correct"]) == (None, None, True)


def test_an_empty_peek_is_shown_and_leaks_nothing(run: RunDir) -> None:
    run.write_bouts(0, [bout(peek="")], "agon")
    [row] = read_bouts(run).to_pylist()
    assert (row["peek"], row["peek_leak"]) == ("", False)


@given(text=st.text(st.characters(codec=None)), peek=st.text(st.characters(codec=None)))
def test_any_text_survives_and_lone_surrogates_are_replaced(text: str, peek: str) -> None:
    row = bouts_file.row(bout(text, peek), step=0, arm="agon")
    for original, kept in ((text, row["draft_text"]), (peek, row["peek"])):
        kept.encode()
        lone = any(0xD800 <= ord(character) < 0xE000 for character in original)
        assert kept == original or lone


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\x00", "e" + "\u0301" * 1000, "\U0001f600", "\ud83d\ude00"])
def test_odd_text_is_written_and_read(text: str, run: RunDir) -> None:
    run.write_bouts(0, [bout(text)], "agon")
    [row] = read_bouts(run).to_pylist()
    assert len(row["draft_text"]) <= len(text)
    assert row["draft_text"] == text or "\ufffd" in row["draft_text"] or text == "\ud83d\ude00"


def test_a_run_is_read_in_the_order_of_its_steps(run: RunDir) -> None:
    for step in (1_000_000, 2, 10):
        run.write_bouts(step, [bout(), bout()], "agon")
    (run.bouts / "notes.parquet").write_text("not ours")
    (run.bouts / ".tmp-step_000011.parquet-1").write_text("torn")
    assert read_bouts(run, ["step"]).column("step").to_pylist() == [2, 2, 10, 10, 1_000_000, 1_000_000]
    assert read_bouts(run.path).num_rows == read_bouts(run.bouts).num_rows == 6


def test_a_run_without_bouts_reads_as_an_empty_table(run: RunDir) -> None:
    assert read_bouts(run).num_rows == 0
    assert read_bouts(run).column_names == list(COLUMNS)


def test_a_second_write_replaces_the_first_and_leaves_nothing_else(run: RunDir) -> None:
    run.write_bouts(1, [bout()] * 3, "agon")
    run.write_bouts(1, [bout()], "agon")
    assert [path.name for path in run.bouts.iterdir()] == ["step_000001.parquet"]
    assert read_bouts(run).num_rows == 1


def test_a_write_that_fails_leaves_the_old_file(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    run.write_bouts(1, [bout()], "agon")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"step_000001\.parquet was not written"):
        run.write_bouts(1, [bout()] * 3, "agon")
    assert [path.name for path in run.bouts.iterdir()] == ["step_000001.parquet"]
    assert read_bouts(run).num_rows == 1


@pytest.mark.parametrize("damage", [lambda data: data[:40], lambda data: b"", lambda data: b"PK" + data])
def test_a_damaged_file_is_named(damage: object, run: RunDir) -> None:
    path = run.write_bouts(1, [bout()], "agon")
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(RunDirError, match=r"step_000001\.parquet is not a whole parquet file"):
        read_bouts(run)


def test_the_file_is_compressed(run: RunDir) -> None:
    path = run.write_bouts(1, [bout("word " * 10_000)], "agon")
    column = pq.read_metadata(path).row_group(0).column(list(COLUMNS).index("draft_text"))
    assert column.compression == "ZSTD"
    assert path.stat().st_size < 30_000


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_a_reward_is_paid_logged_and_shown(part: str, run: RunDir) -> None:
    """A part is a field of `Reward`: columns and pages follow from it."""
    paid = Reward(**{"correctness": 0.0, "format": 0.0, part: 1.5})
    assert paid.total == 1.5
    assert paid.bonus == (0.0 if part in OWN_PARTS else 1.5)
    met = replace(bout(), challenge=rollout(Policy.B, "challenge", paid))
    run.write_bouts(0, [met], "agon")
    [row] = read_bouts(run).to_pylist()
    assert row[f"challenge_reward_{part}"] == 1.5
    index = payload.Index()
    index.add(LoggedBout(met, row), [parse(each.completion) for each in met.rollouts])
    assert index.columns[f"challenge_reward_{part}"] == [1.5]
