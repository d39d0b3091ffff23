"""An engine beside the learner on one GPU samples from its policies: on every base of the paper, and after a sleep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from _engine import QWEN3_06B, random_checkpoint
from agon.config import Config
from agon.engine.published import TEXT
from agon.engine.synthetic import worst_case
from agon.training.machines import Machines, build
from agon.types import Policy, Version
from tests.engine.helpers.bases import write_cut
from tests.engine.helpers.families import gemma4, qwen3, qwen3_5

pytestmark = pytest.mark.gpu
Record = Callable[[str, object], None]
FREED = 0.2
"""Of the GPU's memory, by an engine that was given 0.4 of it."""


@contextmanager
def colocated(base: Path, noise: float = 1e-3, **sampler: Any) -> Iterator[Machines]:
    """Learner and engine over one base, as a run builds them; B is as far from A as `noise`."""
    source = {"path": "unused.jsonl"}
    raw = {
        "arm": "agon",
        "model": {"name": str(base), "dtype": "bfloat16", "init": {"b_noise_std": noise}},
        "data": {"train": source, "dev": source, "held_out": source},
        "verifier": "math",
        "train": {
            "max_completion_tokens": 256,
            "max_peek_tokens": 256,
            "tokens_per_pass": 40,
            "warmup": 0.0,
            "learning_rate": 1e-3,
        },
        "eval": {"max_completion_tokens": 256},
        "sampler": {"engine": "vllm", "gpu_memory_utilization": 0.4, "max_model_len": 1024, **sampler},
    }
    with closing(build(Config.model_validate(raw), total_steps=1)) as machines:
        yield machines


def publish(machines: Machines, root: Path, step: int) -> dict[Policy, Version]:
    versions = {}
    for policy in Policy:
        versions[policy] = Version.of(policy, step, machines.learner.hash(policy)[:8])
        machines.learner.export(policy, root / versions[policy])
        machines.sampler.publish(versions[policy], root / versions[policy])
    return versions


def learn(machines: Machines, vocabulary: int) -> None:
    streams = [worst_case(policy, 2, vocabulary, 128, 256, seed=n) for n, policy in enumerate(Policy)]
    machines.learner.update(streams)


def test_an_engine_sleeps_while_the_learner_works_and_wakes_to_its_policies(
    tmp_path: Path, record_property: Record
) -> None:
    with colocated(random_checkpoint(tmp_path / "base", **QWEN3_06B), sleep=True) as machines:
        machines.check(publish(machines, tmp_path, 0))
        awake, total = torch.cuda.mem_get_info()
        machines.rest()
        asleep, _ = torch.cuda.mem_get_info()
        record_property("freed_gib", round((asleep - awake) / 2**30, 2))
        assert asleep - awake > FREED * total
        learn(machines, 1024)
        machines.check(publish(machines, tmp_path, 1))
        gaps = machines.gaps()
        record_property("gaps", gaps)
        assert len(gaps) == 3, "of the base and both policies, measured at the start"


def test_by_default_an_engine_beside_a_learner_sleeps_and_takes_what_is_left(
    tmp_path: Path, record_property: Record
) -> None:
    base = random_checkpoint(tmp_path / "base", **QWEN3_06B)
    with colocated(base, gpu_memory_utilization=None) as machines:
        free, total = torch.cuda.mem_get_info()
        record_property("left_gib", round(free / 2**30, 2))
        assert free < 0.25 * total
        machines.check(publish(machines, tmp_path, 0))
        machines.rest()
        record_property("left_asleep_gib", round(torch.cuda.mem_get_info()[0] / 2**30, 2))
        assert torch.cuda.mem_get_info()[0] > 0.8 * total


TOKENIZERS = {"qwen3": qwen3, "qwen3_5_text": qwen3_5, "gemma4_text": gemma4}


@pytest.mark.parametrize("name", list(TEXT))
def test_every_base_of_the_scaling_table_is_sampled_as_it_is_learnt(
    name: str, tmp_path: Path, record_property: Record
) -> None:
    """A cut copy, published as the original: its classes, kinds of layers and names, on the kernels of a GPU."""
    base = write_cut(name, tmp_path / "base", TOKENIZERS[TEXT[name]["model_type"]](), spread=0.01)
    with colocated(base, noise=0.05) as machines:
        machines.check(publish(machines, tmp_path, 0))
        learn(machines, 512)
        machines.check(publish(machines, tmp_path, 1))
        gaps = machines.gaps()
        record_property("gaps", gaps)
        assert len(gaps) == 3, "of the base and both policies, measured at the start"


@pytest.mark.gpu(count=2)
def test_an_engine_that_is_split_over_two_gpus_is_sampled_as_it_is_learnt(
    tmp_path: Path, record_property: Record
) -> None:
    """Beside the learner where there are two GPUs, on the last two where there are more."""
    base = random_checkpoint(tmp_path / "base", **QWEN3_06B)
    with colocated(base, noise=0.05, options={"tensor_parallel_size": 2}) as machines:
        machines.check(publish(machines, tmp_path, 0))
        machines.rest()
        learn(machines, 1024)
        versions = publish(machines, tmp_path, 1)
        machines.check(versions)
        assert machines.attest(versions.values()) == []
        assert machines.attested() == 6, "both policies: at the start, as published, and after the step"
        gaps = machines.gaps()
        record_property("gaps", gaps)
        assert len(gaps) == 3
