"""GPUs by name and by size."""

from __future__ import annotations

import pytest

from agon.errors import InputError
from agon.plan.gpus import BY_MEMORY, GPUS, find_gpu, hardware_of


@pytest.mark.parametrize("name", ["4090", "RTX 4090", "rtx4090", "24", "24GB", "24 gb"])
def test_a_gpu_has_several_names(name: str) -> None:
    assert find_gpu(name) is GPUS["4090"]


def test_a_size_stands_for_a_gpu_of_that_size() -> None:
    for size, name in BY_MEMORY.items():
        assert 0.91 * int(size) <= GPUS[name].gib <= int(size)


def test_any_other_size_has_memory_and_no_speed() -> None:
    found = find_gpu("96")
    assert (found.memory, found.teraflops, found.bandwidth) == (96 * 2**30, None, None)


@pytest.mark.parametrize("name", ["gtx970", "", "0", "2", "9999", "-24", "24.5"])
def test_what_is_not_known_is_answered_with_what_is(name: str) -> None:
    with pytest.raises(InputError) as refused:
        find_gpu(name)
    assert "h100" in refused.value.fix


def test_hardware_is_what_the_command_line_names() -> None:
    assert hardware_of(None) is None
    found = hardware_of("h100", 8, "2.5")
    assert found is not None
    assert (found.gpu, found.gpus, found.price) == (GPUS["h100"], 8, 2.5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("h100", 0, None), "--gpus must be"),
        (("h100", 1, "-1"), "--price must be"),
        (("h100", 1, "abc"), "--price must be"),
        (("h100", 1, "nan"), "--price must be"),
        ((None, 2, None), "need --gpu"),
        ((None, 1, "2.0"), "need --gpu"),
    ],
)
def test_hardware_that_is_none_is_refused(words: tuple[str | None, int, str | None], message: str) -> None:
    with pytest.raises(InputError, match=message):
        hardware_of(*words)
