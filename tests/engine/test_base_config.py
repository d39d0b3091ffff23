"""The config.json of a base, wherever it is, without torch."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from agon.config import Model
from agon.engine.base_config import hub_answers, read_base_config
from agon.engine.published import TEXT
from agon.engine.render import Renderer
from agon.engine.safe_load import load_model
from agon.errors import ConfigError, EngineError


def test_a_base_of_the_paper_is_known() -> None:
    assert read_base_config(Model(name="Qwen/Qwen3-4B")) is TEXT["Qwen/Qwen3-4B"]


def test_a_folder_and_a_base_of_ours_have_a_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 7}))
    assert read_base_config(Model(name=str(tmp_path))) == {"hidden_size": 7}
    assert read_base_config(Model(name="agon:tiny"))["model_type"] == "qwen3"


@pytest.mark.parametrize("text", [None, "{", ""])
def test_a_folder_without_a_readable_file_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(EngineError, match="cannot read the config"):
        read_base_config(Model(name=str(tmp_path)))


def test_a_hub_that_cannot_be_reached_costs_seconds_and_no_noise(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    with socket.socket() as closed:  # bound and not listening: a connection is refused
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        assert not hub_answers()
        with pytest.raises(EngineError, match="cannot read the config"):
            read_base_config(Model(name="nobody/nothing"))
        for load in (Renderer.load, lambda name: load_model(name, "float32")):
            with pytest.raises(ConfigError, match="cannot be reached") as caught:
                load("nobody/nothing")
            assert "network" in caught.value.fix
    assert "Retrying" not in capfd.readouterr().err


def test_a_base_that_is_not_here_is_not_called_unknown_when_the_hub_is_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match="HF_HUB_OFFLINE is set") as caught:
        load_model("nobody/nothing", "float32")
    assert "unset HF_HUB_OFFLINE" in caught.value.fix
    with pytest.raises(ConfigError, match="cannot load the base /nobody/nothing/here"):
        load_model("/nobody/nothing/here", "float32")
