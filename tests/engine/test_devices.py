"""Engines get the last GPUs; the learner has the first."""

from __future__ import annotations

import pytest
import torch

from agon.engine.devices import can_split, check_split, engine_devices, heads_in, visible_devices
from agon.errors import ConfigError

EIGHT = [str(number) for number in range(8)]


@pytest.mark.parametrize(("engines", "devices"), [(8, EIGHT), (6, EIGHT[2:]), (1, ["7"])])
def test_engines_get_the_last_gpus(engines: int, devices: list[str]) -> None:
    assert engine_devices(engines, EIGHT) == [[device] for device in devices]


def test_an_engine_that_is_split_gets_consecutive_gpus() -> None:
    assert engine_devices(3, EIGHT, 2) == [["2", "3"], ["4", "5"], ["6", "7"]]
    assert engine_devices(2, ["4", "GPU-6", "7"], 1) == [["GPU-6"], ["7"]]
    assert engine_devices(1, EIGHT, 8) == [EIGHT]


def test_on_a_cpu_there_is_nothing_to_share_out() -> None:
    assert engine_devices(3, [], 2) == [(), (), ()]


def test_more_engines_than_gpus_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"sampler\.replicas is 3, but this machine has 2 visible GPUs") as refused:
        engine_devices(3, ["4", "6"])
    assert refused.value.fix == "write sampler.replicas=2 or less"


def test_engines_that_need_more_gpus_than_there_are_are_refused_with_what_fits() -> None:
    with pytest.raises(ConfigError, match=r"replicas is 4 .*tensor_parallel_size is 2: 8 GPUs, .*has 7 ") as refused:
        engine_devices(4, EIGHT[1:], 2)
    assert refused.value.fix == "write sampler.replicas=3 or less"
    with pytest.raises(ConfigError, match=r"tensor_parallel_size is 4, but this machine has 2 ") as refused:
        engine_devices(1, ["0", "1"], 4)
    assert "write sampler.options.tensor_parallel_size=2 or less" in refused.value.fix


@pytest.mark.parametrize(
    ("config", "fitting"),
    [
        ({"num_attention_heads": 16, "num_key_value_heads": 8}, {1, 2, 4, 8, 16}),
        ({"num_attention_heads": 40, "num_key_value_heads": 8}, {1, 2, 4, 8, 40}),
        ({"num_attention_heads": 12}, {1, 2, 3, 4, 6, 12}),
        ({"num_attention_heads": 12, "num_key_value_heads": 2}, {1, 2, 4, 6, 12}),
        ({"text_config": {"num_attention_heads": 24, "num_key_value_heads": 4, "linear_num_key_heads": 6}}, {1, 2}),
    ],
)
def test_an_engine_is_split_over_a_number_that_divides_the_heads(config: dict[str, object], fitting: set[int]) -> None:
    heads = heads_in(config)
    assert {each for each in range(1, 41) if can_split(each, heads)} == fitting
    refused = next(each for each in range(3, 41) if each not in fitting)
    with pytest.raises(ConfigError, match=rf"sampler\.options\.tensor_parallel_size is {refused}, and vLLM") as error:
        check_split(refused, heads, "my-base")
    assert error.value.fix == f"write sampler.options.tensor_parallel_size={max(n for n in fitting if n < refused)}"


def test_gpus_are_named_as_the_environment_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-6")
    assert visible_devices() == ["4", "GPU-6"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert visible_devices() == []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert visible_devices() == ["0", "1"]
