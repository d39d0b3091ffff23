"""The probe finds out what a service does, on fakes that differ where services were seen to differ (see helpers.py)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agon.config import Config
from agon.engine.tinker.capabilities import Capabilities, check_alpha, lost, probe
from agon.engine.tinker.client import TinkerClient
from agon.engine.tinker.token_weights import Averaging
from agon.errors import ConfigError, EngineError

from .helpers import BASE

URL = "http://127.0.0.1:1"
SPLIT = {"preset": "tabletop", "take": 8, "options": {"family": "chain", "difficulty": 5}}


def config(**sections: Any) -> Config:
    data = {"train": SPLIT, "dev": SPLIT, "held_out": SPLIT}
    plain = {"arm": "agon", "model": {"name": BASE}, "data": data, "verifier": "math"}
    return Config.model_validate(plain | sections)


@pytest.mark.parametrize("over_positions", [False, True])
@pytest.mark.parametrize("over_rows", [False, True])
@pytest.mark.parametrize("clips", [False, True])
def test_averages_and_clipping_are_measured(serve: Any, over_positions: bool, over_rows: bool, clips: bool) -> None:
    serve(over_positions=over_positions, over_rows=over_rows, clips=clips)
    found = probe(TinkerClient(URL), BASE, 4, 32, seed=1)
    assert found == Capabilities(
        Averaging(over_positions, over_rows), clips, seeds=True, prompt_logprobs=True, alpha=32, shares=False
    )


def test_seeds_that_fix_nothing_are_found_out(serve: Any) -> None:
    serve(seeds=False)
    assert probe(TinkerClient(URL), BASE, 4, 32, seed=1).seeds is False


def test_layers_that_share_a_matrix_are_found_out(serve: Any) -> None:
    serve(shares=True)
    assert probe(TinkerClient(URL), BASE, 4, 32, seed=1).shares is True


def test_a_service_that_keeps_its_weights_is_refused(serve: Any) -> None:
    serve(hands_out_weights=False)
    with pytest.raises(EngineError, match="hand out the weights"):
        probe(TinkerClient(URL), BASE, 4, 32, seed=1)


def test_a_loss_that_is_averaged_in_an_unknown_way_is_refused(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    service = serve()
    plain, calls = service.step, []
    monkeypatch.setattr(
        service, "step", lambda slot, adam: calls.append(1) or _tripled(slot, calls) or plain(slot, adam)
    )
    with pytest.raises(EngineError, match="a row twice changes the service's gradient by a factor of 6, not 2 or 1"):
        probe(TinkerClient(URL), BASE, 4, 32, seed=1)


def _tripled(slot: Any, calls: list[int]) -> None:
    if len(calls) == 2:
        slot.gradient = [3 * gradient for gradient in slot.gradient]


def test_everything_that_no_service_can_do_is_refused_at_once() -> None:
    asked: dict[str, Any] = {
        "model": {
            "name": BASE,
            "lora": {"targets": ["q_proj"], "layers": 1},
            "init": {"a": "some/folder", "b": "some/folder"},
        },
        "train": {"beta": 0.1, "temperature": 0.7, "importance": "none"},
    }
    config(**asked)
    with pytest.raises(ValidationError) as caught:
        config(**asked, sampler={"engine": "tinker"})
    text = str(caught.value)
    for key in (
        "train.beta",
        "train.temperature",
        "train.importance",
        "lora.targets",
        "lora.layers",
        "init.a",
        "init.b",
    ):
        assert key in text
    config(sampler={"engine": "tinker"})


def test_a_different_alpha_is_refused_with_the_one_to_write() -> None:
    found = Capabilities(Averaging(True, True), clips=False, seeds=True, prompt_logprobs=True, alpha=16, shares=False)
    with pytest.raises(ConfigError, match=r"alpha 16, and model\.lora\.alpha is 32") as caught:
        check_alpha(config(), found)
    assert caught.value.fix == "write model.lora.alpha=16"


def test_what_is_lost_depends_on_what_was_measured() -> None:
    best = Capabilities(Averaging(False, False), clips=True, seeds=True, prompt_logprobs=True, alpha=32, shares=False)
    worst = Capabilities(
        Averaging(False, False), clips=False, seeds=False, prompt_logprobs=False, alpha=32, shares=True
    )
    assert not [note for note in lost(config(), best) if "this server" in note]
    assert len([note for note in lost(config(), worst) if "this server" in note]) == 4
    unclipped = config(train={"clip_norm": None})
    assert len([note for note in lost(unclipped, worst) if "this server" in note]) == 3
