"""A learner's log-probs by the example, against a server that draws with a model of its own, by transformers alone."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LENS = ROOT / "packages" / "lens" / "tests"
sys.path += [str(LENS), str(LENS / "writers"), str(ROOT / "examples")]

from agon_lens.cli import main  # noqa: E402
from lens_servers import Engine, serving  # noqa: E402

pytestmark = pytest.mark.slow
LIMIT = 0.01


class ModelEngine(Engine):
    """Serves a model under the name of its base, and with its adapter under the name `policy`.

    A model that was pushed replaces the base, as with TRL's server.
    """

    def __init__(self, model: Any, tokenizer: Any, adapter: Path) -> None:
        super().__init__({"policy": adapter}, attests=False, loads=False)
        self.model, self.tokenizer, self.ignores = model, tokenizer, False
        self.pushed: Any = None

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        if path != "/v1/completions":
            return super().answer(path, body)
        if self.pushed is not None:
            return 200, {"choices": [self.draw(self.pushed, body)]}
        if body["model"] == "base" or self.ignores:
            with self.model.disable_adapter():
                return 200, {"choices": [self.draw(self.model, body)]}
        return 200, {"choices": [self.draw(self.model, body)]}

    def draw(self, model: Any, body: Any) -> dict[str, Any]:
        import torch

        asked = self.tokenizer(body["prompt"], return_tensors="pt")
        drawn = model.generate(
            **asked, max_new_tokens=8, do_sample=True, top_k=0, output_logits=True, return_dict_in_generate=True
        )
        ids = drawn.sequences[0, asked.input_ids.shape[1] :]
        logprobs = torch.cat(drawn.logits).float().log_softmax(-1).gather(1, ids.unsqueeze(1)).squeeze(1)
        tokens = [self.tokenizer.decode(each) for each in ids]
        found = {"tokens": tokens, "token_logprobs": logprobs.tolist()}
        return {"text": self.tokenizer.decode(ids), "token_ids": ids.tolist(), "logprobs": found}


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelEngine]:
    """An engine whose base and adapter are those of the learner."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from agon.engine.shipped import folder_of

    base = folder_of("agon:tiny")
    torch.manual_seed(0)
    lora = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base, dtype="float32"), lora)
    model.save_pretrained(tmp_path / "policy")
    monkeypatch.setenv("LEARNER_BASE", str(base))
    monkeypatch.setenv("LEARNER_ADAPTERS", f"policy={tmp_path / 'policy'}")
    monkeypatch.setenv("LEARNER_DTYPE", "float32")
    return ModelEngine(model.eval(), AutoTokenizer.from_pretrained(base), tmp_path / "policy")


def test_the_command_scores_with_the_example_and_sees_a_server_that_ignores_the_adapter(
    engine: ModelEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--adapter", f"policy={tmp_path / 'policy'}", "--limit", str(LIMIT), "--no-probe"]
    words += ["--learner", str(ROOT / "examples" / "learner_scores.py:score")]
    with serving(engine) as url:
        assert main(["canary", url, *words]) == 0, capsys.readouterr().out
        capsys.readouterr()
        engine.ignores = True
        assert main(["canary", url, *words]) == 1
        (wrong,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("WRONG")]
        assert wrong.startswith("WRONG: policy is ")


def test_without_a_base_it_says_what_to_set(
    engine: ModelEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LEARNER_BASE")
    with serving(engine) as url:
        assert main(["canary", url, "--learner", str(ROOT / "examples" / "learner_scores.py:score")]) == 2
    assert "set LEARNER_BASE" in capsys.readouterr().err


@pytest.mark.parametrize("late", [False, True])
def test_in_a_run_of_trl_the_callback_stops_at_a_server_that_has_not_got_the_weights(
    engine: ModelEngine, tmp_path: Path, late: bool
) -> None:
    from canary_trl import EngineCanary
    from peft import LoraConfig
    from transformers import TrainerCallback
    from trl_run import train

    class Push(TrainerCallback):
        """Gives the server the weights before a step draws, as TRL does; a late one only those of the start."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if state.global_step == 0 or not late:
                engine.pushed = copy.deepcopy(more["model"]).eval()
                for module in engine.pushed.modules():  # a wrapped forward still calls the model that was copied
                    vars(module).pop("forward", None)

    lora = LoraConfig(r=4, target_modules="all-linear")
    options = {"peft_config": lora, "learning_rate": 0.02, "model_init_kwargs": {"dtype": "float32"}, "bf16": False}
    with serving(engine) as url:
        canary = EngineCanary(url, every=1, limit=LIMIT)
        with pytest.raises(RuntimeError, match=r"base is .* nats per token") if late else nullcontext():
            train(tmp_path / "out", steps=3, callbacks=[Push(), canary], **options)
    assert [report.good for report in canary.reports][:1] == [True]
    assert all(report.good for report in canary.reports) is not late
