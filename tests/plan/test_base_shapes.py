"""Shapes from configs alone: the same parameters that transformers builds."""

from __future__ import annotations

from typing import Any

import pytest

from agon.config import Lora
from agon.engine.published import RECIPES, TEXT
from agon.errors import ConfigError, EngineError
from agon.plan.base_shapes import Shape, shape_of
from tests.engine.helpers.bases import FAMILIES, TINY


def built(config: dict[str, Any]) -> Any:
    """The model on the meta device: names and sizes, no numbers."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))


def shape(name: str, model: Any) -> Shape:
    """Of a published base from what we ship; of a family from the config.json that transformers would write."""
    return shape_of(CONFIGS[name] if name in TEXT | RECIPES else model.config.to_dict())


def published(name: str) -> dict[str, Any]:
    """The config of a base with the first layers of every kind, which is what a count can get wrong."""
    config = dict((TEXT | RECIPES)[name])
    layers = {"qwen3": 2, "llama": 2, "qwen3_5_text": 4, "gemma4_text": 12}[config["model_type"]]
    fewer = {"num_hidden_layers": layers}
    if "layer_types" in config:
        fewer["layer_types"] = config["layer_types"][:layers]
    if "num_kv_shared_layers" in config:
        fewer["num_kv_shared_layers"] = 6
    return config | fewer


CONFIGS = {name: published(name) for name in TEXT | RECIPES} | {family: TINY | FAMILIES[family] for family in FAMILIES}


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_those_that_transformers_builds(name: str) -> None:
    model = built(CONFIGS[name])
    assert shape(name, model).text_parameters == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "billions"),
    [("Qwen3-8B", 8.2), ("Qwen3-14B", 14.8), ("Qwen3-32B", 32.8), ("Llama-3.3-70B-Instruct", 70.6)],
)
def test_larger_bases_have_the_parameters_of_their_model_cards(name: str, billions: float) -> None:
    (config,) = (config for path, config in RECIPES.items() if path.endswith(f"/{name}"))
    assert round(shape_of(config).parameters / 1e9, 1) == billions


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("targets", ["all-linear", ["q_proj", "down_proj"]])
@pytest.mark.parametrize("layers", [None, 2])
def test_adapters_are_those_that_the_learner_puts_on(name: str, targets: str | list[str], layers: int | None) -> None:
    from torch import nn

    from agon.engine.adapters import adapted

    model, lora = built(CONFIGS[name]), Lora(rank=8, targets=targets, layers=layers)
    linear = {path: module for path, module in model.named_modules() if isinstance(module, nn.Linear)}
    expected = sum(8 * (linear[path].in_features + linear[path].out_features) for path in adapted(model, lora))
    assert shape(name, model).adapter_parameters(lora) == expected


def test_a_target_that_no_layer_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="no linear layer is called nothing"):
        shape_of(TEXT["Qwen/Qwen3-0.6B"]).adapter_parameters(Lora(targets=["nothing"]))


def test_more_layers_than_the_base_has_are_refused() -> None:
    shape = shape_of(TEXT["Qwen/Qwen3-0.6B"])
    assert shape.adapter_parameters(Lora(layers=28)) == shape.adapter_parameters(Lora())
    with pytest.raises(ConfigError, match="the base has 28 layers"):
        shape.adapter_parameters(Lora(layers=29))


def test_the_text_of_a_composite_checkpoint_is_planned() -> None:
    text = TEXT["Qwen/Qwen3.5-2B"]
    assert shape_of({"model_type": "qwen3_5", "text_config": text}) == shape_of(text)


def test_what_is_no_plain_decoder_is_refused() -> None:
    with pytest.raises(EngineError, match="experts"):
        shape_of(TINY | {"model_type": "qwen3_moe", "num_experts": 8})
    with pytest.raises(EngineError, match="has no 'intermediate_size'"):
        shape_of({key: value for key, value in TINY.items() if key != "intermediate_size"})
