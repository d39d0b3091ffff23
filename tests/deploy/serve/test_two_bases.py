"""A pair over two bases behind one gateway: each policy on servers of its own base, in its own ids."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from agon.cli import main
from agon.deploy.pair_settings import problem_of
from agon.deploy.serve import vllm_command
from agon.deploy.serve.served_pair import ServedPair
from agon.errors import InputError
from agon.game.prompts import challenge_prompt, draft_prompt
from agon.pool import State
from agon.types import Policy

from .helpers import QUESTION, RECORDED, body, served

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "evidence"))
from _serve import BASE, SECOND_BASE, write_two_bases
from _stub_vllm import Stub

SUMMARY = "three and four are seven"
TEXTS = {
    Policy.A: f"<think>a bit</think>{SUMMARY} <answer>6</answer>",
    Policy.B: "<think>is it 6?</think>no <answer>7</answer>",
}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> ServedPair:
    return ServedPair.load(write_two_bases(tmp_path_factory.mktemp("two")), weights=False)


class Recorder(Stub):
    """Answers with one text, in the ids of a base, and keeps the prompts."""

    def __init__(self, pair: ServedPair, policy: Policy) -> None:
        renderer, model = pair.renderer(policy), pair.folder.info.versions[policy]
        ids = [*renderer.encode(TEXTS[policy]), min(renderer.stop)]
        models = {"data": [{"id": name, "max_model_len": 1024} for name in ("base", model)]}
        answers = [{"model": model, "prompt": [], "ids": ids, "finish": "stop"}]
        super().__init__({**RECORDED, "models": models, "answers": answers})
        self.prompts = list[tuple[int, ...]]()

    async def complete(self, asked: dict[str, Any], *more: Any) -> bool:
        if asked["max_tokens"] > 1:  # one token is a probe
            self.prompts.append(tuple(asked["prompt"]))
        return await super().complete(asked, *more)


def test_each_policy_is_asked_in_its_own_ids_on_a_server_of_its_base(two: ServedPair) -> None:
    stubs = {policy: [Recorder(two, policy)] for policy in Policy}

    async def scenario() -> dict[str, Any]:
        async with served(two, stubs) as up:
            reply = await up.client.post("/v1/chat/completions", json=body(agon={"return_draft": True}))
            assert up.gateway.replicas.slots == 2 * up.gateway.settings.slots
            assert [[*replica.names] for replica in up.gateway.replicas.members] == [[Policy.A], [Policy.B]]
            return dict(reply.json())

    answer = asyncio.run(scenario())
    message, told = answer["choices"][0]["message"], answer["agon"]
    assert (told["draft"], message["content"]) == (TEXTS[Policy.A], "7")
    problem = problem_of(QUESTION, two.settings)
    prompts = {Policy.A: draft_prompt(problem), Policy.B: challenge_prompt(problem, told["peek"])}
    for policy, prompt in prompts.items():
        assert stubs[policy][0].prompts == [two.renderer(policy).render(prompt).ids]
        assert two.renderer(policy).render(prompt).ids != two.renderer(policy.rival).render(prompt).ids
    assert SUMMARY in told["peek"]


def test_it_is_not_ready_while_one_base_has_no_server(two: ServedPair) -> None:
    async def scenario() -> None:
        async with served(two, {policy: [Recorder(two, policy)] for policy in Policy}) as up:
            assert (await up.client.get("/ready")).status_code == 200
            up.gateway.replicas.members[1].state = State.DOWN
            assert (await up.client.get("/ready")).status_code == 503

    asyncio.run(scenario())


def test_one_command_is_printed_for_each_base(two: ServedPair, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(two.folder.path), "--print-command"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for number, (policy, line) in enumerate(zip(Policy, lines, strict=True)):
        words, module = shlex.split(line), f"{two.folder.info.versions[policy]}={two.folder.adapter(policy)}"
        assert words[2] == two.bases[policy].path
        assert words[words.index("--port") + 1] == str(8001 + number)
        assert words[words.index("--lora-modules") + 1] == module
        assert words[words.index("--max-loras") + 1] == "1"
        assert float(words[words.index("--gpu-memory-utilization") + 1]) < 0.5


def test_no_server_takes_the_gateways_port(two: ServedPair, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(two.folder.path), "--print-command", "--vllm-port", "7999"]) == 2
    assert "vLLM cannot listen on port 8000" in capsys.readouterr().err


@pytest.mark.parametrize("backends", [["http://h:1"], ["a=http://h:1"], ["a=http://h:1", "http://h:2"]])
def test_servers_of_two_bases_are_named_for_their_policies(
    two: ServedPair, backends: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(two.folder.path), *(f"--backend={url}" for url in backends)]) == 2
    said = capsys.readouterr().err
    assert f"A and B have different bases, {BASE} and {SECOND_BASE}" in said
    assert "write --backend a=URL --backend b=URL" in said


@pytest.mark.parametrize("composite", [True, False])
def test_a_composite_is_served_with_the_extension_that_knows_its_names(
    two: ServedPair, monkeypatch: pytest.MonkeyPatch, composite: bool
) -> None:
    monkeypatch.setattr(vllm_command, "on_cpu", lambda: False)
    monkeypatch.setattr(vllm_command, "is_composite", lambda path: composite)
    for words in vllm_command.vllm_commands(two, vllm_command.VllmSettings(8001, "bfloat16")).values():
        assert ("agon.engine.vllm.worker.StrictAdapters" in words) is composite
        assert ("--language-model-only" in words) is composite
    with pytest.raises(InputError, match="no float32 on a GPU"):
        vllm_command.vllm_commands(two, vllm_command.VllmSettings(8001, "float32"))
