"""Cut copies of the published bases: every kind of layer, the published order, and the layout on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from agon.config import load_config
from agon.engine.adapters import linear_targets
from agon.engine.published import TEXT
from tests.engine.helpers.bases import WIDTH, cut_text, write_cut

from .helpers.families import FAMILIES

SCALING = Path(__file__).parents[2] / "configs" / "paper" / "scaling"
COMPOSITE = {"Qwen/Qwen3.5-2B": "qwen3_5", "google/gemma-4-E4B-it": "gemma4"}


def test_the_bases_are_those_of_the_scaling_table() -> None:
    assert {load_config(file).model.name for file in SCALING.glob("*.yaml")} == set(TEXT)


@pytest.mark.parametrize("name", list(TEXT))
def test_a_cut_keeps_every_kind_of_layer_in_the_published_order(name: str) -> None:
    published, cut = TEXT[name], cut_text(name)
    assert cut["hidden_size"] * WIDTH == published["hidden_size"]
    assert cut["num_hidden_layers"] < published["num_hidden_layers"]
    assert kinds(cut) == kinds(published)
    if "layer_types" in published:
        assert cut["layer_types"] == published["layer_types"][: cut["num_hidden_layers"]]


def kinds(config: dict[str, Any]) -> set[tuple[str, bool]]:
    """Kinds of attention, with and without keys and values of their own."""
    layers = config["num_hidden_layers"]
    types = config.get("layer_types", ["full_attention"] * layers)
    return {(kind, n >= layers - config.get("num_kv_shared_layers", 0)) for n, kind in enumerate(types)}


@pytest.mark.parametrize("composite", [True, False])
@pytest.mark.parametrize("name", list(COMPOSITE))
def test_a_learner_reads_the_text_model_of_either_layout(tmp_path: Path, name: str, composite: bool) -> None:
    write_cut(name, tmp_path, FAMILIES[COMPOSITE[name]](), composite=composite)
    written = load_file(tmp_path / "model.safetensors")
    assert any("visual" in tensor or "vision" in tensor for tensor in written) == composite
    model, report = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32, output_loading_info=True)
    assert not report["missing_keys"]
    targets = linear_targets(model)
    assert len(targets) == len({target.partition("layers.")[2] or target for target in targets})
    text = {tensor.replace(".language_model.", "."): values for tensor, values in written.items()}
    for target in targets:
        weight = model.get_submodule(target).weight
        assert torch.equal(weight, text[f"{target}.weight".replace(".language_model.", ".")]), target
