"""Linear attention through its slow reference is refused where sequences are long."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from transformers import AutoConfig

from agon.engine import linear_attention
from agon.engine.linear_attention import LONGEST, check_kernels, has_kernels, has_linear_attention
from agon.engine.published import TEXT
from agon.errors import ConfigError


def config_of(name: str) -> Any:
    return AutoConfig.for_model(**TEXT[name])


def test_one_base_of_the_scaling_table_has_linear_attention() -> None:
    assert [name for name in TEXT if has_linear_attention(config_of(name))] == ["Qwen/Qwen3.5-2B"]


def test_a_composite_checkpoint_is_judged_by_its_text_model() -> None:
    assert has_linear_attention(AutoConfig.for_model("qwen3_5", text_config=TEXT["Qwen/Qwen3.5-2B"]))


def test_long_sequences_through_the_reference_are_refused_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_attention, "has_kernels", lambda: False)
    slow = config_of("Qwen/Qwen3.5-2B")
    check_kernels(slow, LONGEST)
    check_kernels(config_of("Qwen/Qwen3-4B"), 17_048)
    with pytest.raises(ConfigError, match="17,048 tokens") as refused:
        check_kernels(slow, 17_048)
    assert "'.[qwen3-5]'" in refused.value.fix
    monkeypatch.setattr(linear_attention, "has_kernels", lambda: True)
    check_kernels(slow, 17_048)


def test_kernels_count_only_if_they_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fla", "fla.ops", "fla.ops.gated_delta_rule"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert not has_kernels()
    monkeypatch.setattr(sys.modules["fla.ops.gated_delta_rule"], "chunk_gated_delta_rule", len, raising=False)
    assert has_kernels()
    monkeypatch.setitem(sys.modules, "fla.ops.gated_delta_rule", None)
    assert not has_kernels()
