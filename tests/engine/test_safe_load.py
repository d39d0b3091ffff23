"""Bases and adapters of strangers: nothing of theirs runs, and the base stays what it was."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from agon.engine import safe_load
from agon.engine.hf.sampler import HFSampler
from agon.engine.merge import merge
from agon.engine.render import Renderer
from agon.engine.safe_load import add_adapter, base_digest, load_model
from agon.engine.shipped import folder_of
from agon.errors import AgonError, ConfigError, EngineError, RunDirError
from agon.rundir.adapter import SETTINGS, WEIGHTS
from agon.types import Policy, Version
from tests.engine.helpers.servers import adapters


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return adapters(tmp_path_factory.mktemp("adapters"))[Policy.A]


@pytest.fixture
def adapter(plain: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(plain, tmp_path / "adapter"))


def say(folder: Path, **settings: object) -> None:
    said = json.loads((folder / SETTINGS).read_text())
    (folder / SETTINGS).write_text(json.dumps(said | settings))


def test_two_adapters_leave_the_base_as_it_was_and_random_numbers_too(plain: Path) -> None:
    model = load_model(str(folder_of("agon:tiny")), "float32")
    before, state = base_digest(model), torch.random.get_rng_state()
    both = add_adapter(add_adapter(model, plain, "one"), plain, "two")
    assert list(both.peft_config) == ["one", "two"]
    assert base_digest(both) == base_digest(model) == before
    assert torch.equal(torch.random.get_rng_state(), state)
    with torch.no_grad():
        next(parameter for name, parameter in both.named_parameters() if "base_layer" in name).data[0, 0] += 1e-3
    assert base_digest(both) != before


def test_an_adapter_that_would_rewrite_the_base_is_refused_by_every_loader(adapter: Path, tmp_path: Path) -> None:
    say(adapter, init_lora_weights="pissa")
    sampler = HFSampler(str(folder_of("agon:tiny")))
    before = base_digest(sampler._model)
    with pytest.raises(RunDirError, match="init_lora_weights"):
        sampler.publish(Version("a@1-x"), adapter)
    assert base_digest(sampler._model) == before
    sampler.close()
    with pytest.raises(RunDirError, match="init_lora_weights"):
        merge(str(folder_of("agon:tiny")), adapter, tmp_path / "merged")


def test_a_base_that_loading_changed_is_an_error(adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second line: should the list of settings let something through."""
    say(adapter, init_lora_weights="pissa")
    monkeypatch.setattr(safe_load, "check_adapter", lambda folder: None)
    with pytest.raises(EngineError, match="changed the base"):
        add_adapter(load_model(str(folder_of("agon:tiny")), "float32"), adapter, "one")


def test_a_sampler_hashes_its_base_once_per_publication(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = list[str]()

    def counting(model: object) -> str:
        hashed.append(base_digest(model))
        return hashed[-1]

    monkeypatch.setattr(safe_load, "base_digest", counting)
    sampler = HFSampler(str(folder_of("agon:tiny")))
    folders = [Path(shutil.copytree(plain, tmp_path / str(step))) for step in range(4)]
    for step in range(3):
        sampler.publish(Version(f"a@{step}-x"), folders[step])
    assert len(hashed) == 3
    with torch.no_grad():
        sampler._model.get_input_embeddings().weight[0, 0] += 1
    with pytest.raises(EngineError, match="changed the base"):
        sampler.publish(Version("a@3-x"), folders[3])
    sampler.close()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(adapter: Path, value: float) -> None:
    tensors = load_file(adapter / WEIGHTS)
    next(iter(tensors.values()))[0, 0] = value
    save_file(tensors, adapter / WEIGHTS)
    with pytest.raises(EngineError, match="not finite"):
        add_adapter(load_model(str(folder_of("agon:tiny")), "float32"), adapter, "one")


@pytest.mark.parametrize("change", [{"r": 7}, {"target_modules": ["no_such_layer"]}, {"target_modules": ["q_proj"]}])
def test_settings_that_do_not_fit_the_weights_are_refused(adapter: Path, change: dict[str, object]) -> None:
    say(adapter, **change)
    with pytest.raises(EngineError, match="does not fit this base"):
        add_adapter(load_model(str(folder_of("agon:tiny")), "float32"), adapter, "one")


@pytest.fixture
def with_code(tmp_path: Path) -> Path:
    """A base of a kind that only its own code knows; `ran` appears when that runs."""
    folder = Path(shutil.copytree(folder_of("agon:tiny"), tmp_path / "base"))
    ran = tmp_path / "ran"
    (folder / "evil.py").write_text(f"open({str(ran)!r}, 'w')\n")
    mapping = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M", "AutoTokenizer": ["evil.T", None]}
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "evil", "auto_map": mapping}))
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps(tokenizer | {"tokenizer_class": "EvilTokenizer", "auto_map": mapping})
    )
    return folder


def test_code_of_a_base_never_runs_whatever_is_typed(
    with_code: Path, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = [
        lambda: Renderer.load(str(with_code)),
        lambda: HFSampler(str(with_code)),
        lambda: load_model(str(with_code), "float32"),
        lambda: merge(str(with_code), plain, tmp_path / "merged"),
    ]
    for attempt in attempts:
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
        with pytest.raises(AgonError) as refused:
            attempt()
        assert "code" in refused.value.fix
    assert not (tmp_path / "ran").exists()


DAMAGED = {"config.json": b"[]", "model.safetensors": bytes(64), "tokenizer.json": b'{"model": 3}'}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_base_is_an_error_with_a_fix(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folder_of("agon:tiny"), tmp_path / "base"))
    (folder / name).write_bytes(DAMAGED[name])
    with pytest.raises(ConfigError, match="cannot load the base") as refused:
        HFSampler(str(folder))
    assert refused.value.fix


def test_pickled_weights_of_a_base_are_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folder_of("agon:tiny"), tmp_path / "base"))
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="cannot load the base"):
        load_model(str(folder), "float32")
