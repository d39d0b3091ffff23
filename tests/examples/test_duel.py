"""Traces of duels become rows: groups, masks, rewards, and what is left out."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from agon.errors import DataError, RunError
from agon.game.rules import Game
from agon.types import Policy

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "duel"))
from duel import read
from duel_rules import peek_of_reply

A, B = "a@000004-5f3c9a1e", "b@000004-77aa01bc"
GAME = Game(group_size=2)


def node(role: str, ids: list[int], drawn: int = 0, **more: Any) -> dict[str, Any]:
    """A message as verifiers writes it: the last `drawn` of its ids were sampled."""
    marks = [False] * (len(ids) - drawn) + [True] * drawn
    logprobs = [-0.25] * drawn
    message = {"role": role, "content": more.pop("content", role)}
    return {"message": message, "sampled": drawn > 0, "token_ids": ids, "mask": marks, "logprobs": logprobs, **more}


def trace(seat: str, model: str, reward: float, nodes: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A seat that asked a tool: a prompt, a call, the tool's result, an answer."""
    nodes = nodes or [
        node("user", [1, 2]),
        node("assistant", [3, 4, 5], 2, parent=0),
        node("tool", [6, 7], parent=1),
        node("assistant", [8, 9], 1, parent=2, content="So.\n<answer>1</answer>"),
    ]
    return {
        **{"agent": {"name": seat, "config": {"model": model}}, "nodes": nodes, "errors": [], "info": {"peek": "So."}},
        **{"rewards": {"exact": {"score": reward, "weight": 1.0}}, "metrics": {"right": float(reward >= 1)}},
        **{"calls": [{"finish_reason": "stop"}], "stop_condition": "agent_completed"},
    }


def episode(draft: float, challenge: float, key: str = "x", **more: Any) -> dict[str, Any]:
    seats = [trace("draft", A, draft), trace("challenge", B, challenge)]
    seats[1]["rewards"]["conversion"] = {"score": float(challenge >= 1 > draft), "weight": 0.5}
    task = {"key": key, "data": {"prompt": "Q?", "answer": "1"}}
    return {"task": task, "ok": True, "errors": [], "traces": seats, **more}


def written(folder: Path, *episodes: dict[str, Any]) -> Path:
    file = folder / "traces.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in episodes))
    return file


def test_a_conversation_is_one_row_and_tool_results_are_marked(tmp_path: Path) -> None:
    played = read(written(tmp_path, episode(0, 1), episode(1, 1)), 4, GAME).played
    tokens = played.bouts[0].draft.completion.tokens
    assert (tokens.prompt_ids, tokens.completion_ids) == ((1, 2, 3), (4, 5, 6, 7, 8, 9))
    assert tokens.sampled == (True, True, False, False, False, True)
    assert [math.isnan(value) for value in tokens.logprobs] == [not drawn for drawn in tokens.sampled]
    assert played.bouts[0].draft.completion.generated_tokens == 3


def test_seats_are_policies_and_the_game_pays_and_compares_them(tmp_path: Path) -> None:
    played = read(
        written(tmp_path, episode(0, 1), episode(1, 1), episode(0, 0, "y"), episode(0.5, 0, "y")), 4, GAME
    ).played
    assert (played.drafter, played.challenger) == (Policy.A, Policy.B)
    assert [[row.reward.total for row in group] for group in played.standalone.groups] == [[0, 2], [0, 0.5]]
    assert played.competitive is not None
    assert [[row.reward.total for row in group] for group in played.competitive.groups] == [[3, 2], [0, 0]]
    assert [row.advantage is None for row in played.competitive.rollouts()] == [False, False, True, True]
    assert played.bouts[0].peek == "So."


def test_duels_of_a_failed_machine_are_left_out_and_counted(tmp_path: Path) -> None:
    error = {"type": "ProviderError", "message": "the server is gone"}
    failed = episode(0, 1, ok=False, errors=[error])
    duels = read(written(tmp_path, episode(0, 1), failed, episode(1, 1)), 4, GAME)
    assert [bout.draft.index for bout in duels.played.bouts] == [0, 1]
    assert duels.failures == ("ProviderError: the server is gone",)
    with pytest.raises(RunError, match="2 of 2 duels failed: ProviderError"):
        read(written(tmp_path, failed, failed), 4, GAME)


def test_traces_without_token_ids_or_of_something_else_are_refused(tmp_path: Path) -> None:
    blind = episode(0, 1)
    for each in blind["traces"][0]["nodes"]:
        each |= {"token_ids": [], "mask": [], "logprobs": []}
    for bad in (blind, {"rows": 1}, episode(0, 1) | {"traces": [trace("draft", "gpt", 0), trace("challenge", B, 1)]}):
        with pytest.raises(DataError, match="line 1 is not a duel"):
            read(written(tmp_path, bad), 4, GAME)


def test_only_the_last_message_is_shown_and_its_answer_is_withheld() -> None:
    assert peek_of_reply("<think>secret</think>Add them.\n<answer>12</answer>", 100) == "Add them."
    assert peek_of_reply("Add 5 and 7.\nIt is 12.", 100) == "Add 5 and 7."
    assert peek_of_reply("12", 100) == ""
