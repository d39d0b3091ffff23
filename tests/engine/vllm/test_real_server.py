"""One real `vllm serve` over the tiny base in float32: what the sampler and `agon eval` promise, on the real thing."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from _engine import RANK, Bench, ask, build
from _server import vllm_server
from agon.cli import main
from agon.config import Config, load, resolved
from agon.data import splits
from agon.engine.build import build_sampler
from agon.engine.render import Renderer
from agon.engine.tiny.checkpoint import tiny_base
from agon.engine.vllm.sampler import Draw, VLLMSampler
from agon.engine.vllm.server import ServerEngine
from agon.errors import ConfigError
from agon.game.prompts import PROMPTS_HASH
from agon.protocols import Tokens
from agon.rundir import RunDir
from agon.rundir.pair import PairInfo
from agon.types import BASE, Direction, Policy, Sampling
from tests.engine.serving import VERSIONS, adapters

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
CONTEXT, CLOSE, MOVED = 1024, 1e-4, 1e-2
"""Tokens of context; nats within which two engines agree in float32, and beyond which a policy is another."""
SETTINGS = ["data.train.take=8", "data.dev.take=4", "data.held_out.take=8", "eval.temperature=0.0", "eval.top_p=1.0"]
SETTINGS += ["eval.max_completion_tokens=64", "train.max_peek_tokens=64", "model.dtype=float32", "sampler.engine=vllm"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has a pair, in float32, on vLLM."""
    config = load(ROOT / "configs" / "tabletop" / "agon.yaml", SETTINGS)
    made = RunDir.create(
        tmp_path_factory.mktemp("runs"), "tiny", resolved(config), {"data": {"hashes": splits(config.data).hashes}}
    )
    folders = adapters(tmp_path_factory.mktemp("adapters"))
    template = Renderer.load(str(tiny_base())).hash
    info = PairInfo(VERSIONS, "agon:tiny", PROMPTS_HASH, template, direction=Direction.BA, facts={"arm": "agon"})
    made.write_pair(folders[Policy.A], folders[Policy.B], info)
    return made.path


@pytest.fixture(scope="module")
def here(run: Path) -> list[dict[str, Any]]:
    """What `agon eval` records with an engine inside its process."""
    return evaluated(run)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with vllm_server(tiny_base(), context=CONTEXT, rank=RANK) as url:
        yield url


@pytest.fixture(scope="module")
def pair() -> Any:
    import torch

    torch.set_num_threads(1)
    return build(tiny_base())


@pytest.fixture
def table(server: str, pair: Any, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(VLLMSampler(str(tiny_base()), ServerEngine(server)), pair, tmp_path)
    yield made
    made.sampler.close()


def evaluated(run: Path, *words: str) -> list[dict[str, Any]]:
    """The records of every stage, without what differs between any two evaluations."""
    assert main(["eval", str(run), *words]) == 0
    found = []
    for path in sorted((run / "evals" / "held_out").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            for stage in ("draft", "final"):
                record.get(stage, {}).pop("seconds", None)
            found.append(record)
    return sorted(found, key=lambda record: (record["system"], record["problem"], record["sample"]))


def draws(table: Bench, *versions: str) -> dict[str, list[Tokens]]:
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


def test_an_evaluation_over_the_url_says_what_the_engine_inside_says(
    run: Path, here: list[dict[str, Any]], server: str
) -> None:
    for policy in Policy:
        load_adapter(server, VERSIONS[policy], run / "pair" / policy.value)
    shutil.rmtree(run / "evals")
    over = evaluated(run, "--url", f"{server}/v1", "--names", f"base={tiny_base()}")
    assert len(here) == len(over) == 32
    assert len({record["final"]["text"] for record in here}) > 8, "the texts tell problems apart"
    assert over == here


def test_both_adapters_and_the_base_share_a_batch_and_match_transformers(table: Bench) -> None:
    table.move(Policy.A, 0.02, seed=1)
    a, b = (table.publish(policy) for policy in Policy)
    drawn = draws(table, a, b, BASE)
    assert all(row.completion_ids and len(row.completion_ids) == len(row.logprobs or ()) for row in drawn[a])
    assert gap(table, Policy.A, drawn[a]) < CLOSE
    assert gap(table, Policy.B, drawn[b]) < CLOSE
    assert gap(table, None, drawn[BASE]) < CLOSE
    assert gap(table, Policy.B, drawn[a]) > MOVED, "the comparison tells policies apart"


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


def test_a_resumed_run_never_meets_the_weights_of_the_run_before(server: str, pair: Any, tmp_path: Path) -> None:
    folder, version = tmp_path / "same", "a@000001-same"
    for seed in range(3):
        table = Bench(VLLMSampler(str(tiny_base()), ServerEngine(server)), pair, tmp_path)
        table.move(Policy.A, 0.02, seed=10 + seed)
        pair.export(Policy.A, folder)
        table.sampler.publish(Policy.A, version, folder)
        found = gap(table, Policy.A, draws(table, version)[version])
        table.sampler.close()
        assert found < CLOSE


def test_a_run_refuses_an_address_elsewhere_before_it_says_a_word(server: str) -> None:
    port = server.rsplit(":", 1)[-1]
    config = load(ROOT / "configs" / "tabletop" / "agon.yaml", [*SETTINGS, f"sampler.url=http://192.0.2.1:{port}"])
    with pytest.raises(ConfigError, match="neither this machine nor in sampler"):
        sampler_of(config)
    named = load(ROOT / "configs" / "tabletop" / "agon.yaml", [*SETTINGS, f"sampler.url={server}"])
    sampler = sampler_of(named)
    assert sampler.engine.context == CONTEXT
    sampler.close()


def sampler_of(config: Config) -> Any:
    return build_sampler(config.sampler, config.model, str(tiny_base()), CONTEXT)
