"""What goes to the SDK and what comes back, on a fake of it: CI has no server (see helpers.py)."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from agon.engine.protocol import Draw
from agon.engine.tinker.client import ANONYMOUS, AdamStep, TinkerClient, WeightedRow
from agon.errors import ConfigError, EngineError
from agon.protocols import Tokens
from agon.types import BASE as BARE
from agon.types import Sampling

from .helpers import BASE, FakeServiceClient

ROW = Tokens((1, 2, 3), (4, 5), (-1.0, -2.0))


def test_a_missing_sdk_is_bad_input_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tinker", None)
    with pytest.raises(ConfigError, match="needs tinker") as caught:
        TinkerClient("http://127.0.0.1:1")
    assert "[tinker]" in caught.value.fix


def test_the_hosted_service_needs_its_key(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    serve()
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="TINKER_API_KEY is not set"):
        TinkerClient(None)


@pytest.mark.parametrize(("own", "sent"), [(None, ANONYMOUS), ("tml-mine", "tml-mine")])
def test_the_key_of_the_hosted_service_never_goes_to_a_url(
    serve: Any, clients: list[FakeServiceClient], monkeypatch: pytest.MonkeyPatch, own: str | None, sent: str
) -> None:
    serve()
    monkeypatch.setenv("TINKER_API_KEY", "tml-secret")
    if own:
        monkeypatch.setenv("AGON_API_KEY", own)
    TinkerClient("http://127.0.0.1:1")
    assert clients[-1].options["api_key"] == sent
    assert "tml-secret" not in str(clients[-1].options)
    TinkerClient(None)
    assert clients[-1].options["api_key"] == "tml-secret"


def test_weights_and_log_probs_stand_at_the_positions_that_predict_the_completion(client: TinkerClient) -> None:
    seen: list[Any] = []
    adapter = client.create(BASE, 4, seed=1)
    inner, send = adapter._client, adapter._client.forward_backward
    inner.forward_backward = lambda data, loss: seen.extend(data) or send(data, loss)
    scores = adapter.accumulate([WeightedRow(ROW, (0.5, -0.5))])
    assert seen[0].model_input.ids == [1, 2, 3, 4]
    assert seen[0].loss_fn_inputs["target_tokens"] == [2, 3, 4, 5]
    assert seen[0].loss_fn_inputs["advantages"] == [0.0, 0.0, 0.5, -0.5]
    assert seen[0].loss_fn_inputs["logprobs"] == [0.0, 0.0, -1.0, -2.0]
    assert scores[0] == pytest.approx(adapter.score([ROW])[0])
    assert len(scores[0]) == 2


def test_a_step_moves_one_adapter_and_reports_the_gradient(client: TinkerClient) -> None:
    first, second = client.create(BASE, 4, seed=1), client.create(BASE, 4, seed=2)
    before = first.score([ROW]), second.score([ROW])
    first.accumulate([WeightedRow(ROW, (1.0, 1.0))])
    norm = first.step(AdamStep(0.1))
    assert norm is not None
    assert norm > 0
    assert sum(first.score([ROW])[0]) > sum(before[0][0])
    assert second.score([ROW]) == before[1]


def test_seeds_fit_into_31_bits_and_fix_a_draw(client: TinkerClient) -> None:
    sampler = client.base_sampler(BASE)
    draws = [Draw((1, 2), BARE, seed, Sampling(1.0, 1.0, 6)) for seed in (2**62 + 5, 2**62 + 5, 2**62 + 6)]
    ids = [sampler.draw_now(draw, frozenset()).ids for draw in draws]
    assert ids[0] == ids[1] != ids[2]
    assert asyncio.run(sampler.draw(draws[0], frozenset())).ids == ids[0]


def test_what_the_sdk_raises_is_an_engine_error_with_a_fix(client: TinkerClient) -> None:
    with pytest.raises(EngineError, match="failed to restore tinker://gone/weights/x: KeyError") as caught:
        client.restore("tinker://gone/weights/x")
    assert "still keeps tinker://gone/weights/x" in caught.value.fix
    with pytest.raises(EngineError, match="hand out the weights") as caught:
        client.archive("tinker://gone/x")
    assert "--resume" in caught.value.fix
