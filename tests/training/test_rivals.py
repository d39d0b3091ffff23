"""Rivals that do not learn: only A moves, every bout names who it met, and a resumed run meets the same."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agon.config import Config, resolved
from agon.engine import http_client as http
from agon.engine.endpoint import CompletionCache, Endpoint
from agon.errors import EngineError
from agon.game.peek import escape
from agon.rundir import RunDir, read_bouts
from agon.rundir.pair import read_pair
from agon.rundir.records import RunState
from agon.training.loop import Training
from agon.training.rivals.endpoint import Endpoint as EndpointRival
from agon.training.rivals.league import League
from agon.training.streams import masking
from agon.types import Completion, Policy, Problem, Reason, Verdict, Version
from tests.engine.helpers.servers import server
from tests.game.helpers import RIGHT, WRONG
from tests.training.helpers.runs import config, directory, training

A0, A2, A4 = (Version.of(Policy.A, step, "ab12") for step in (0, 2, 4))
MODEL = "big/model-7b"


def with_rival(**rival: Any) -> Config:
    return Config.model_validate({**resolved(config()), "rival": rival})


def rows(run: RunDir) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_bouts(run).to_pylist()
    return found


def rivals(run: RunDir) -> list[str]:
    """The version that played B, bout by bout."""
    return [row["draft_version"] if row["drafter"] == "b" else row["challenge_version"] for row in rows(run)]


def fingerprint(run: RunDir) -> tuple[list[dict[str, Any]], str]:
    return rows(run), (run.path / "steps.jsonl").read_text()


# -- frozen -----------------------------------------------------------------------------------------------------------


def test_a_frozen_rival_plays_and_never_moves(tmp_path: Path) -> None:
    settings = with_rival(kind="frozen")
    run = directory(tmp_path, "x", settings)
    one = training(run, settings)
    assert one.go()
    first = one.state.first
    assert one.state.versions[Policy.B] == first[Policy.B]
    assert one.state.versions[Policy.A] != first[Policy.A]
    assert {*rivals(run)} == {first[Policy.B]}
    for record in run.steps.records():
        assert set(record.update) == {Policy.A}, "A learns in every step, as drafter and as challenger"
        assert {name[-1] for name in record.ledger} == {"a", "b"}, "the rival's tokens have their own entry"
    assert read_pair(run.path).info.rival == "frozen"
    assert {*run.points[-1].systems} >= {"a", "b", "ab", "ba"}


def test_a_rival_that_learns_is_what_it_was(tmp_path: Path) -> None:
    plain, named = config(), with_rival(kind="policy")
    made = []
    for name, settings in (("x", plain), ("y", named)):
        run = directory(tmp_path, name, settings)
        assert training(run, settings).go()
        made.append(fingerprint(run))
    assert made[0] == made[1]


# -- league -----------------------------------------------------------------------------------------------------------


def test_a_league_grows_by_versions_of_a_that_moved() -> None:
    league = League(with_rival(kind="league", every=2))

    def kept(members: tuple[Version, ...], newest: Version, done: int) -> tuple[Version, ...]:
        return league.kept(RunState(versions={Policy.A: newest}, league=members), done)

    assert kept((), A0, 0) == (A0,)
    assert kept((A0,), A2, 1) == (A0,)
    assert kept((A0,), A2, 2) == (A0, A2)
    assert kept((A0, A2), A2, 4) == (A0, A2)


def test_every_version_of_a_league_is_drawn_by_name() -> None:
    def drawn(seed: int, step: int) -> Version:
        league = League(config(rival__kind="league", train__seed=seed))
        return league.seats(RunState(versions={Policy.A: A4}, league=(A0, A2, A4)), step)[Policy.B]

    counts = Counter(drawn(0, step) for step in range(90))
    assert set(counts) == {A0, A2, A4}
    assert min(counts.values()) > 15
    assert [drawn(0, step) for step in range(9)] == [drawn(0, step) for step in range(9)]
    assert [drawn(0, step) for step in range(9)] != [drawn(1, step) for step in range(9)]


def test_a_league_plays_earlier_versions_of_a_and_resumes_exactly(tmp_path: Path) -> None:
    settings = with_rival(kind="league", every=1)
    run = directory(tmp_path, "whole", settings)
    assert training(run, settings).go()
    seen = [Version(name) for name in rivals(run)]
    assert all(version.policy is Policy.A for version in seen)
    assert len({*seen}) > 2
    for row in rows(run):
        rival = row["draft_version"] if row["drafter"] == "b" else row["challenge_version"]
        assert int(rival[2:8]) <= row["step"], "a rival is never newer than the step"
    again = directory(tmp_path, "stopped", settings)
    stop_after(training(again, settings), 3)
    assert training(RunDir.open(again.path), settings).go()
    assert fingerprint(again) == fingerprint(run)


def test_a_league_keeps_the_folders_of_its_versions(tmp_path: Path) -> None:
    settings = with_rival(kind="league", every=2)
    run = directory(tmp_path, "x", settings)
    one = training(run, settings)
    assert one.go()
    assert len(one.state.league) > 2
    assert {*one.state.league} <= {folder.name for folder in (run.path / "published").iterdir()}
    assert run.saved_state(6).run.league == one.state.league


def test_a_league_leaves_no_pair_to_evaluate(tmp_path: Path) -> None:
    settings = with_rival(kind="league")
    run = directory(tmp_path, "x", settings)
    assert training(run, settings).go()
    assert {*run.points[-1].systems} == {"a"}
    assert read_pair(run.path).info.rival == "league"


def stop_after(one: Training, steps: int) -> None:
    """Let a run fail in the step after so many."""
    step = one.step

    def fail() -> None:
        if one.machines.learner.step == steps:
            raise RuntimeError("stop here")
        step()

    one.step = fail  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="stop here"):
        one.go()


# -- endpoint ---------------------------------------------------------------------------------------------------------


def reply(body: dict[str, Any]) -> tuple[int, Any]:
    text = RIGHT if body["seed"] % 2 else WRONG
    usage = {"prompt_tokens": 31, "completion_tokens": 17}
    return 200, {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": usage}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "pause", lambda *_: 0.0)


class Asked:
    """A server that counts what it is asked; `answer` may be replaced."""

    def __init__(self) -> None:
        self.seeds: list[int] = []
        self.answer: Callable[[dict[str, Any]], tuple[int, Any]] = reply

    def __call__(self, path: str, body: Any) -> tuple[int, Any]:
        if path == "/v1/models":
            return 200, {"data": [{"id": MODEL}]}
        self.seeds.append(body["seed"])
        return self.answer(body)


@pytest.fixture
def asked() -> Iterator[tuple[str, Asked]]:
    asked = Asked()
    with server(asked) as url:
        yield url, asked


def against(url: str, run: RunDir, settings: Config) -> Training:
    one = training(run, settings)
    assert isinstance(one.rival, EndpointRival)
    one.rival._draw = Endpoint(url, MODEL, CompletionCache(run.path / "rival"), escape=escape).sample
    return one


def endpoint_config(url: str) -> Config:
    return with_rival(kind="endpoint", url=url, model=MODEL)


def test_an_endpoint_plays_b_and_its_tokens_are_counted(tmp_path: Path, asked: tuple[str, Asked]) -> None:
    settings = endpoint_config(asked[0])
    run = directory(tmp_path, "x", settings)
    assert against(asked[0], run, settings).go()
    assert {*rivals(run)} == {f"endpoint:{MODEL}"}
    for record in run.steps.records():
        stage = "draft" if record.drafter is Policy.B else "challenge"
        assert record.ledger[f"{stage}/b"].generated == 17 * record.ledger[f"{stage}/b"].rollouts
        assert set(record.update) == {Policy.A}
    assert len(asked[1].seeds) == 6 * 2 * 2, "the rival drafts or challenges once in every bout"
    assert read_pair(run.path).info.rival == f"endpoint:{MODEL}"


def test_a_resumed_run_asks_for_nothing_twice(tmp_path: Path, asked: tuple[str, Asked]) -> None:
    settings = endpoint_config(asked[0])
    run = directory(tmp_path, "x", settings)
    assert against(asked[0], run, settings).go()
    whole, before = fingerprint(run), len(asked[1].seeds)
    shutil.rmtree(run.checkpoints)
    asked[1].answer = lambda body: (200, {**reply(body)[1], "choices": [{"message": {"content": "other"}}]})
    assert against(asked[0], RunDir.open(run.path), settings).go()
    assert fingerprint(run) == whole
    assert len(asked[1].seeds) == before


def test_a_dead_endpoint_is_infra_and_teaches_nobody(tmp_path: Path, asked: tuple[str, Asked]) -> None:
    settings = endpoint_config(asked[0])
    run = directory(tmp_path, "x", settings)
    asked[1].answer = lambda body: reply(body) if body["seed"] % 5 else (503, {"error": "busy"})
    assert against(asked[0], run, settings).go()
    infra = [row for row in rows(run) for side in ("draft", "challenge") if row[f"{side}_reason"] == "infra"]
    assert infra
    for row in infra:
        side = "draft" if row["drafter"] == "b" else "challenge"
        assert (row[f"{side}_reason"], row[f"{side}_reward"], row[f"{side}_advantage"]) == ("infra", None, None)
        assert f"endpoint:{MODEL} gave no answer" in row[f"{side}_detail"]
        assert row["challenge_advantage"] is None, "a challenge of a draft that never came is masked"
        assert not row[f"{side}_correct"]


def test_a_run_stops_and_resumes_when_the_endpoint_is_gone(tmp_path: Path, asked: tuple[str, Asked]) -> None:
    settings = endpoint_config(asked[0])
    whole = directory(tmp_path, "whole", settings)
    assert against(asked[0], whole, settings).go()
    run = directory(tmp_path, "x", settings)
    one = against(asked[0], run, settings)

    def gone_at_step_three(body: dict[str, Any]) -> tuple[int, Any]:
        return (503, {}) if one.machines.learner.step >= 3 else reply(body)

    asked[1].answer = gone_at_step_three
    with pytest.raises(EngineError, match="the rival gave no answer to 4 of 4") as caught:
        one.go()
    assert "--resume" in caught.value.fix
    assert len(run.steps.records()) == 3, "the step that failed is not written"
    asked[1].answer = reply
    assert against(asked[0], RunDir.open(run.path), settings).go()
    assert fingerprint(run) == fingerprint(whole)


def test_a_verdict_is_infra_only_where_there_is_no_completion() -> None:
    async def verify(problem: Problem, completion: Completion) -> Verdict:
        return Verdict(True, True, Reason.CORRECT)

    judge, problem = masking(verify), Problem("p", "?", "4")
    given = Completion("", A0, 0, 0)
    assert asyncio.run(judge(problem, given)).reason is Reason.CORRECT
    failed = asyncio.run(judge(problem, replace(given, failure="gone")))
    assert (failed.reason, failed.detail, failed.graded) == (Reason.INFRA, "gone", False)


def test_the_config_of_a_run_holds_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGON_RIVAL_KEY", "secret-key")
    settings = endpoint_config("http://localhost:1/v1")
    run = directory(tmp_path, "x", settings)
    assert "secret-key" not in "".join(path.read_text() for path in run.path.iterdir() if path.is_file())
    assert "secret-key" not in json.dumps(resolved(settings))
