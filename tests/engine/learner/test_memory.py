"""Log-probabilities of long completions never exist as tokens x vocabulary: TRL's fused head works in tiles.

Full logits of 15,000 tokens over 151,936 words are 8.5 GiB in float32, and the backward pass needs several of them. The
bound below is for the tiles of TRL 1.16 on a CPU (4,096 x 32,768, about eight at a time); it does not grow with length.
On CPUs, memory that a step freed returns to the system.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from trl.kernels import chunked_logprob
from trl.trainer import utils

from agon.engine.learner.batch import Pack
from agon.engine.learner.learner import PairLearner
from agon.engine.learner.passes import MULTIPLE, Passes
from agon.engine.learner.setup import let_segments_grow
from agon.engine.synthetic import worst_case
from agon.errors import EngineError
from agon.types import Policy
from tests.engine.helpers.bases import random_base

from .helpers import make_learner, model_config, train, train_config

BOUND_GIB = 5.0
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""A third fewer seconds, and freed tiles still go back at once: a heap that keeps them may grow to twice the size."""

SCRIPT = """
import json, resource, sys
import torch
torch.set_num_threads(1)
from agon.config import Lora, Model, Train
from agon.engine.synthetic import worst_case
from tests.engine.helpers.bases import random_base
from agon.engine.learner.learner import PairLearner
from agon.types import Policy

VOCABULARY, TOKENS = 151_936, 15_000
sizes = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1)
base = random_base(vocab_size=VOCABULARY, head_dim=16, max_position_embeddings=16_384, **sizes)
model = Model(name="random", dtype="float32", lora=Lora(rank=2, alpha=4))
learner = PairLearner(model, Train(tokens_per_pass=1, warmup=0.0), total_steps=1, base=base)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
before = peak()
stream = worst_case(Policy.A, 1, VOCABULARY, 64, TOKENS)
metrics = learner.update([stream]).metrics[Policy.A]
print(json.dumps({"grew_gib": peak() - before, "tokens": metrics["tokens"], "grad_norm": metrics["grad_norm"]}))
"""


@pytest.mark.slow
def test_15000_tokens_over_a_vocabulary_of_151936_stay_under_the_bound() -> None:
    environ = os.environ | HUGE_PAGES
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=environ)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["tokens"] == 15_000
    assert found["grad_norm"] > 0
    assert found["grew_gib"] < BOUND_GIB


class Largest(TorchDispatchMode):
    """The size of the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        tensors = made if isinstance(made, (list, tuple)) else [made]
        self.elements = max([self.elements, *(t.numel() for t in tensors if isinstance(t, torch.Tensor))])
        return made


HOLES = """
import json
import torch
from agon.engine.learner.setup import release_freed_memory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

blocks = [bytearray(100_000) for _ in range(2_000)]
for block in blocks:
    block[::4096] = b"x" * len(block[::4096])
last = blocks[-1]
blocks.clear()
kept = resident()
release_freed_memory(torch.device("cpu"))
print(json.dumps({"kept": kept, "left": resident()}))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps freed pages this way")
def test_freed_memory_returns_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["kept"] - found["left"] > 0.5 * 2_000 * 100_000 / 2**20


def test_a_learner_releases_memory_after_its_rehearsal_and_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[str] = []
    monkeypatch.setattr("agon.engine.learner.learner.release_freed_memory", lambda device: released.append(device.type))
    learner = make_learner(total_steps=3)
    learner.rehearse(8, 8)
    assert released == ["cpu"]
    train(learner)
    assert released == ["cpu"] * (1 + 3)


def lengths(monkeypatch: pytest.MonkeyPatch, dtype: str) -> set[int]:
    """Lengths of packs and of what they score, in a short training."""
    seen, of = set[int](), Pack.of

    def spied(*args: Any) -> Pack:
        pack = of(*args)
        seen.update((pack.ids.size(1), pack.labels.size(1), pack.sources.size(0)))
        return pack

    monkeypatch.setattr("agon.engine.learner.passes.Pack.of", spied)
    base = random_base(num_hidden_layers=1).to(getattr(torch, dtype))
    train(PairLearner(model_config(dtype=dtype), train_config(), total_steps=3, base=base))
    return seen


def test_half_precision_on_a_cpu_meets_few_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN keeps kernels for each: a run of many lengths would grow without end."""
    assert all(length % MULTIPLE == 0 for length in lengths(monkeypatch, "bfloat16"))
    monkeypatch.undo()
    assert any(length % MULTIPLE for length in lengths(monkeypatch, "float32"))


def test_filled_packs_learn_the_same() -> None:
    moved = []
    for multiple in (1, MULTIPLE):
        learner = make_learner(total_steps=3, beta=0.05)
        learner.passes.multiple = multiple
        train(learner)
        moved.append([p.detach().clone() for policy in Policy for p in learner.pair.parameters(policy)])
    assert max(float((one - two).abs().max()) for one, two in zip(*moved, strict=True)) < 1e-5


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_no_tensor_of_a_step_is_as_large_as_tokens_times_vocabulary(
    monkeypatch: pytest.MonkeyPatch, beta: float
) -> None:
    vocabulary, tokens = 4000, 200
    monkeypatch.setattr(chunked_logprob, "TOKEN_CHUNK_SIZE", 32)
    monkeypatch.setattr(utils, "_CHUNKED_LOGPROB_CHUNK_SIZE", 512)
    base = random_base(vocab_size=vocabulary, hidden_size=8, intermediate_size=8, num_hidden_layers=1)
    learner = make_learner(total_steps=1, base=base, beta=beta, max_completion_tokens=tokens, tokens_per_pass=1)
    long = worst_case(Policy.A, 1, vocabulary, 8, tokens)
    with Largest() as largest:
        train(learner, lambda step: [long])
    assert largest.elements < tokens * vocabulary / 10


def test_memory_that_runs_out_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*args: object) -> None:
        raise torch.OutOfMemoryError("tried to allocate 2 GiB")

    learner = make_learner(total_steps=1)
    monkeypatch.setattr(Passes, "accumulate", too_large)
    for work in (lambda: learner.rehearse(8, 8), lambda: train(learner)):
        with pytest.raises(EngineError, match="tried to allocate"):
            work()


def test_segments_grow_on_a_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[str]()
    monkeypatch.setattr(torch.cuda.memory, "_set_allocator_settings", told.append)
    let_segments_grow(torch.device("cpu"))
    assert not told
    let_segments_grow(torch.device("cuda"))
    assert told == ["expandable_segments:True"]
