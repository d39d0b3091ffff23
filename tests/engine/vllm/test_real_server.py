"""One real `vllm serve` over the tiny base in float32: what the samplers promise, on the real thing."""

from __future__ import annotations

import hashlib
import json
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from _engine import RANK, Bench, ask, build
from _server import vllm_server
from agon.config import Init, Lora, Model, SamplerConfig
from agon.engine.adapters import build_pair
from agon.engine.fleet import Fleet
from agon.engine.openai import OpenAISampler
from agon.engine.protocol import Draw
from agon.engine.safe_load import load_model
from agon.engine.shipped import folder_of
from agon.engine.vllm.door import Vllm
from agon.engine.vllm.host import in_own_process
from agon.engine.vllm.local import LocalEngine
from agon.engine.vllm.sampler import VLLMSampler
from agon.engine.vllm.server import ServerEngine
from agon.errors import ConfigError
from agon.game.peek import escape
from agon.protocols import Tokens
from agon.types import BASE, Policy, Sampling, Version
from tests.engine.helpers.servers import VERSIONS, adapters, answers

pytestmark = pytest.mark.slow
CONTEXT, CLOSE, MOVED = 1024, 1e-4, 1e-2
"""Tokens of context; nats within which two engines agree in float32, and beyond which policies differ."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with vllm_server(folder_of("agon:tiny"), context=CONTEXT, rank=RANK) as url:
        yield url


@pytest.fixture(scope="module")
def pair() -> Any:
    import torch

    torch.set_num_threads(1)
    return build(folder_of("agon:tiny"))


@pytest.fixture
def table(server: str, pair: Any, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(VLLMSampler(str(folder_of("agon:tiny")), Fleet(ServerEngine(server))), pair, tmp_path)
    yield made
    made.sampler.close()


def draws(table: Bench, *versions: Version) -> dict[Version, list[Tokens]]:
    """Rows of all these versions in one batch, each from seeds of its own number."""
    prompts = [table.sampler.renderer.render(ask(f"Problem {n}: count to ten.")).ids for n in range(4)]
    asked = [Draw(ids, version, n, Sampling(max_tokens=24)) for version in versions for n, ids in enumerate(prompts)]
    rows = zip(asked, table.sampler.draw_all(asked), strict=True)
    tokens = [Tokens(draw.ids, drawn.ids, drawn.logprobs) for draw, drawn in rows]
    return {version: tokens[4 * n : 4 * n + 4] for n, version in enumerate(versions)}


def gap(table: Bench, policy: Policy | None, rows: list[Tokens]) -> float:
    """The largest difference at any token between the server and transformers with PEFT."""
    scored = zip(rows, table.score(policy, rows), strict=True)
    return max(abs(a - b) for row, other in scored for a, b in zip(row.logprobs or (), other, strict=True))


def load_adapter(server: str, name: str, folder: Path) -> None:
    body = json.dumps({"lora_name": name, "lora_path": str(folder.resolve())}).encode()
    wanted = urllib.request.Request(
        f"{server}/v1/load_lora_adapter", data=body, headers={"Content-Type": "application/json"}
    )
    urllib.request.urlopen(wanted, timeout=60).close()


def test_any_client_of_the_server_gets_the_completions_of_an_engine_of_this_machine(
    server: str, tmp_path: Path
) -> None:
    folders = adapters(tmp_path, std=0.4)
    settings: dict[str, Any] = {"dtype": "float32", "context": CONTEXT, "rank": RANK, "max_loras": 4, "memory": 0.4}
    engine = in_own_process(partial(LocalEngine, str(folder_of("agon:tiny")), **settings))
    here = VLLMSampler(str(folder_of("agon:tiny")), Fleet(engine))
    there = OpenAISampler(f"{server}/v1", str(folder_of("agon:tiny")), escape=escape, renderer=here.renderer)
    for policy, folder in folders.items():
        load_adapter(server, VERSIONS[policy], folder)
        for sampler in (here, there):
            sampler.publish(VERSIONS[policy], folder)
    there.check()
    assert there.ids
    expected = answers(here)
    here.close()
    assert len({drawn[-1].text for row in expected for drawn, _ in row}) > 20, "the texts tell systems apart"
    assert answers(there) == expected
    there.close()


def test_both_adapters_and_the_base_share_a_batch_and_match_transformers(table: Bench) -> None:
    table.move(Policy.A, 0.02, seed=1)
    a, b = (table.publish(policy) for policy in Policy)
    drawn = draws(table, a, b, BASE)
    assert all(row.completion_ids and len(row.completion_ids) == len(row.logprobs or ()) for row in drawn[a])
    assert gap(table, Policy.A, drawn[a]) < CLOSE
    assert gap(table, Policy.B, drawn[b]) < CLOSE
    assert gap(table, None, drawn[BASE]) < CLOSE
    assert gap(table, Policy.B, drawn[a]) > MOVED, "the comparison tells policies apart"


def test_adapters_in_the_last_layers_alone_match_transformers_beside_the_base(server: str, tmp_path: Path) -> None:
    pair = build_pair(
        load_model(str(folder_of("agon:tiny")), "float32"), Lora(rank=RANK, alpha=16, layers=2), Init(), seed=0
    )
    table = Bench(VLLMSampler(str(folder_of("agon:tiny")), Fleet(ServerEngine(server))), pair, tmp_path)
    for seed, policy in enumerate(Policy):
        table.move(policy, 0.1, seed)
    a, b = (table.publish(policy) for policy in Policy)
    drawn = draws(table, a, b, BASE)
    table.sampler.close()
    assert gap(table, Policy.A, drawn[a]) < CLOSE
    assert gap(table, Policy.B, drawn[b]) < CLOSE
    assert gap(table, None, drawn[BASE]) < CLOSE
    assert gap(table, None, drawn[a]) > MOVED, "the comparison tells an adapter from the base"


def test_a_publication_changes_one_policy_and_not_the_other(table: Bench) -> None:
    a, b = (table.publish(policy) for policy in Policy)
    before = draws(table, a, b)
    table.move(Policy.A, 0.02, seed=2)
    assert gap(table, Policy.A, before[a]) > MOVED
    new = table.publish(Policy.A)
    after = draws(table, new, b)
    assert gap(table, Policy.A, after[new]) < CLOSE
    assert [row.completion_ids for row in after[b]] == [row.completion_ids for row in before[b]]
    assert gap(table, Policy.B, after[b]) < CLOSE


def test_a_server_says_whether_it_holds_the_learners_file(table: Bench) -> None:
    a = table.publish(Policy.A)
    folder, fleet = table.sampler.live[a], table.sampler.fleet
    digest = hashlib.sha256((folder / "adapter_model.safetensors").read_bytes()).hexdigest()
    assert table.sampler.submit(fleet.attest(a, folder, digest, 0)).result() == []
    table.move(Policy.A, 5e-5, seed=3)
    table.pair.export(Policy.A, folder)
    differing = table.sampler.submit(fleet.attest(a, folder, digest, 0)).result()
    assert differing[0] == "adapter_model.safetensors is not the learner's"
    assert any("layers.0" in name for name in differing)


def test_a_resumed_run_never_meets_the_weights_of_the_run_before(server: str, pair: Any, tmp_path: Path) -> None:
    folder, version = tmp_path / "same", Version("a@000001-same")
    for seed in range(3):
        table = Bench(VLLMSampler(str(folder_of("agon:tiny")), Fleet(ServerEngine(server))), pair, tmp_path)
        table.move(Policy.A, 0.02, seed=10 + seed)
        pair.export(Policy.A, folder)
        table.sampler.publish(version, folder)
        found = gap(table, Policy.A, draws(table, version)[version])
        table.sampler.close()
        assert found < CLOSE


def test_an_address_elsewhere_is_refused_before_anything_is_sent(server: str) -> None:
    port = server.rsplit(":", 1)[-1]
    with pytest.raises(ConfigError, match="neither this machine nor in sampler"):
        sampler_at(f"http://192.0.2.1:{port}")
    sampler = sampler_at(server)
    assert sampler.fleet.context == CONTEXT
    sampler.close()


def sampler_at(url: str) -> Any:
    settings, model = SamplerConfig(engine="vllm", urls=[url]), Model(name="agon:tiny", dtype="float32")
    return Vllm.open_sampler(settings, model, str(folder_of("agon:tiny")), CONTEXT)
