"""The endpoint plugin, with an engine that replays what a real vLLM drew; evidence/serve_parity.py runs it in one."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evidence"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "vllm_plugin"))
from _serve import recording, write_halves
from agon.deploy.serve.served_pair import ServedPair

RECORDED = recording()
QUESTION: str = RECORDED["questions"][0]


class Replay:
    """What the plugin uses of vLLM's engine."""

    finish = "stop"

    async def generate(
        self, prompt: dict[str, Any], params: Any, request_id: str, *, lora_request: str
    ) -> AsyncIterator[Any]:
        [answer] = [
            each
            for each in RECORDED["answers"]
            if each["prompt"] == prompt["prompt_token_ids"] and each["model"] == lora_request
        ]
        assert params.max_tokens <= 400
        yield SimpleNamespace(outputs=[SimpleNamespace(token_ids=answer["ids"], finish_reason=self.finish)])


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    pytest.importorskip("vllm", reason="the plugin runs inside vLLM")
    from agon_vllm_plugin import AgonPlugin

    app = FastAPI()
    AgonPlugin().attach_router(app)
    app.state.agon_pair = pair = ServedPair.load(write_halves(tmp_path_factory.mktemp("pair")), weights=False)
    served = {version: version for version in pair.folder.info.versions.values()}
    app.state.openai_serving_models = SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=512), lora_requests=served
    )
    app.state.engine_client = Replay()
    return app


def ask(app: FastAPI, **fields: Any) -> Any:
    body = {"question": QUESTION, "temperature": 0, "max_tokens": 400, **fields}
    return TestClient(app).post("/v1/agon/answers", json=body)


def test_the_answer_is_the_one_of_the_cascade(app: FastAPI) -> None:
    text, (draft, challenge) = app.state.agon_pair.renderer.text, RECORDED["answers"][:2]
    found = ask(app).json()
    assert found["draft"] == text(draft["ids"])
    assert found["answer"] == text(challenge["ids"])
    assert found["completion_tokens"] == len(draft["ids"]) + len(challenge["ids"])
    alone = ask(app, model="a").json()
    assert (alone["answer"], alone["draft"], alone["peek"]) == (found["draft"], None, None)


@pytest.mark.parametrize(
    "fields", [{"question": " "}, {"model": "gpt"}, {"temperature": -1}, {"max_tokens": 0}, {"colour": "red"}]
)
def test_what_makes_no_question_is_refused(app: FastAPI, fields: dict[str, Any]) -> None:
    assert ask(app, **fields).status_code == 422


def test_a_prompt_without_room_is_refused(app: FastAPI) -> None:
    refused = ask(app, question="seven " * 600)
    assert refused.status_code == 400
    assert "no room" in refused.json()["detail"]


def test_a_completion_that_vllm_aborts_is_no_answer(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.state.engine_client, "finish", "abort")
    assert ask(app).status_code == 503
