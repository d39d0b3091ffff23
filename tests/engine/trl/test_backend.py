"""What would couple the two policies is refused before anything heavy is imported."""

from __future__ import annotations

from typing import Any

import pytest

from agon.engine.trl.backend import check_backend, check_devices
from agon.errors import ConfigError

REFUSED = [
    ({"ACCELERATE_USE_DEEPSPEED": "true"}, 1.0, "DeepSpeed clips all parameters by one joint norm"),
    ({"ACCELERATE_USE_DEEPSPEED": "true"}, None, "DeepSpeed steps the optimizer inside backward"),
    ({"ACCELERATE_USE_FSDP": "true"}, 1.0, "FSDP1 clips only the whole model"),
    ({"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}, None, "FSDP2 by accelerate splits the adapters"),
]


@pytest.mark.parametrize(("environ", "clip", "reason"), REFUSED)
def test_backends_that_would_couple_the_policies_are_refused_with_the_reason(
    environ: Any, clip: Any, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        check_backend(environ, clip)
    assert "torchrun" in refused.value.fix


def test_one_process_with_several_gpus_is_refused_with_how_to_launch() -> None:
    check_devices(1)
    with pytest.raises(ConfigError, match="one process sees 4 GPUs") as refused:
        check_devices(4)
    assert "torchrun --nproc-per-node 4" in refused.value.fix
    assert "torchrun --nproc-per-node 1" in refused.value.fix, "one learner beside engines"


def test_plain_data_parallelism_is_accepted() -> None:
    check_backend({"WORLD_SIZE": "8", "ACCELERATE_USE_FSDP": "false"}, 1.0)
