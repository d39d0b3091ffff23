"""What a worker says of a slot, over layers that hold adapters as vLLM's do; test_attest.py asks a real engine."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from vllm.lora.request import LoRARequest

from agon.engine.vllm import compat, worker
from agon.engine.vllm.worker import WEIGHTS, StrictAdapters

RANK, SLOTS = 2, 3
NAMES = ("layers.0.up", "layers.1.up", "layers.0.down")


class Layer:
    """Slots of one layer, with room for a larger rank."""

    def __init__(self) -> None:
        self.lora_a_stacked = (torch.zeros(SLOTS, 1, RANK + 2, 5, dtype=torch.bfloat16),)
        self.lora_b_stacked = (torch.zeros(SLOTS, 1, 7, RANK + 2, dtype=torch.bfloat16),)

    def reset_lora(self, index: int) -> None:
        for stacked in (self.lora_a_stacked[0], self.lora_b_stacked[0]):
            stacked[index] = 0

    def set_lora(self, index: int, a: torch.Tensor, b: torch.Tensor) -> None:
        self.reset_lora(index)
        self.lora_a_stacked[0][index, 0, :RANK] = a
        self.lora_b_stacked[0][index, 0, :, :RANK] = b


class Manager:
    """As much of vLLM's two managers as a worker asks."""

    def __init__(self) -> None:
        self.modules, self.lora_index_to_id = {name: Layer() for name in NAMES}, list[int]()
        self._adapter_manager = self

    def _load_adapter(self, request: LoRARequest) -> dict[str, torch.Tensor]:
        return load_file(Path(request.lora_path, WEIGHTS))  # type: ignore[no-any-return]

    def _create_merged_loras_inplace(self, adapter: dict[str, torch.Tensor]) -> None: ...

    def _get_lora_layer_weights(self, adapter: dict[str, torch.Tensor], name: str) -> Any:
        return (
            SimpleNamespace(lora_a=adapter[f"{name}.a"], lora_b=adapter[f"{name}.b"])
            if f"{name}.a" in adapter
            else None
        )

    def add_adapter(self, request: LoRARequest) -> None:
        if request.lora_int_id not in self.lora_index_to_id:
            self.lora_index_to_id.append(request.lora_int_id)
            adapter = self._load_adapter(request)
            for name, layer in self.modules.items():
                if weights := self._get_lora_layer_weights(adapter, name):
                    layer.set_lora(self.lora_index_to_id.index(request.lora_int_id), weights.lora_a, weights.lora_b)


def write(folder: Path, seed: int) -> Path:
    """An adapter of the first two layers."""
    torch.manual_seed(seed)
    folder.mkdir()
    save_file(
        {f"{n}.{k}": torch.randn((RANK, 5) if k == "a" else (7, RANK)) for n in NAMES[:2] for k in "ab"},
        folder / WEIGHTS,
    )
    return folder


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A worker with two adapters, of which `one` is in no slot yet."""
    folders = {name: write(tmp_path / name, seed) for seed, name in enumerate(("one", "two"))}
    requests = {name: LoRARequest(name, 10 + n, str(folder)) for n, (name, folder) in enumerate(folders.items())}
    monkeypatch.setattr(worker, "REQUESTS", requests)
    made = StrictAdapters()
    made.model_runner = SimpleNamespace(lora_manager=Manager())
    made.model_runner.lora_manager.add_adapter(requests["two"])

    def ask(name: str, folder: str | None = None, of: str | None = None) -> list[str]:
        chosen = folders[folder or name]
        return made.attest(name, str(chosen), digest(folders[of] if of else chosen))

    return SimpleNamespace(ask=ask, layers=made.model_runner.lora_manager.modules, folders=folders)


def test_an_adapter_equals_its_file_after_vllm_rounded_it(asked: Any) -> None:
    assert asked.ask("two") == asked.ask("one") == []


def test_another_adapters_file_differs_in_every_layer_that_it_has(asked: Any) -> None:
    assert asked.ask("one", "two") == list(NAMES[:2])


@pytest.mark.parametrize(
    ("name", "place"),
    [(NAMES[0], (0, 0, 0, 0)), (NAMES[1], (0, 0, RANK + 1, 3)), (NAMES[2], (0, 0, 0, 0))],
    ids=["a weight", "beyond the rank", "a layer without weights"],
)
def test_one_number_that_differs_names_its_layer(asked: Any, name: str, place: tuple[int, ...]) -> None:
    stacked = asked.layers[name].lora_a_stacked[0]
    stacked[place] += 0.0078125
    before = stacked.clone()
    assert asked.ask("two") == [name]
    assert asked.ask("one") == [], "another slot"
    assert torch.equal(stacked[0], before[0]), "asking mends nothing"


def test_a_file_that_the_learner_did_not_write_is_named(asked: Any) -> None:
    assert asked.ask("one", of="two") == [f"{WEIGHTS} is not the learner's"]


def test_weights_that_are_not_numbers_equal_themselves(asked: Any) -> None:
    weights = load_file(asked.folders["one"] / WEIGHTS)
    save_file({name: tensor * float("nan") for name, tensor in weights.items()}, asked.folders["one"] / WEIGHTS)
    assert asked.ask("one") == []


def test_a_name_that_was_never_loaded_is_said(asked: Any) -> None:
    assert StrictAdapters().attest("three", "", "") == ["no adapter three is loaded"]


def test_an_adapter_that_was_removed_is_not_loaded_again_to_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = object.__new__(compat.LRUCacheWorkerLoRAManager)
    workers._adapter_manager = SimpleNamespace(remove_adapter=lambda number: True)
    for number, name in enumerate(("gone", "kept")):
        monkeypatch.setitem(worker.REQUESTS, name, LoRARequest(name, 90 + number, "folder"))
    assert workers.remove_adapter(90)
    assert StrictAdapters().attest("gone", "", "") == ["no adapter gone is loaded"]
    assert "kept" in worker.REQUESTS
