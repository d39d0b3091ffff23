"""`agon.AgonTrainer`: scripts for TRL's GRPOTrainer train a pair, and no field of GRPOConfig is dropped unseen."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from agon import AgonTrainer
from agon.errors import ConfigError, InputError
from agon.rundir.directory import read_bouts
from agon.training import trainer as module

trl = pytest.importorskip("trl")
torch = pytest.importorskip("torch")
Rows = list[dict[str, Any]]


def plain(count: int = 24) -> Rows:
    return [{"prompt": f"What is {n} + {n}?", "ground_truth": str(2 * n)} for n in range(count)]


def chats(count: int = 24, system: str = "") -> Rows:
    before = [{"role": "system", "content": system}] if system else []
    return [
        {"prompt": [*before, {"role": "user", "content": f"What is {n} + {n}?"}], "solution": str(2 * n)}
        for n in range(count)
    ]


def correct(completions: list[str], ground_truth: list[str], **columns: Any) -> list[float]:
    found = [re.findall(r"<answer>(.*?)</answer>", text) for text in completions]
    return [float(each[-1:] == [gold]) for each, gold in zip(found, ground_truth, strict=True)]


def args(folder: Path | str = "out", **changed: Any) -> Any:
    small = {"use_cpu": True, "report_to": "none", "max_steps": 2, "num_generations": 4, "max_completion_length": 16}
    return trl.GRPOConfig(output_dir=str(folder), **{**small, **changed})


def made(settings: Any = None, **others: Any) -> AgonTrainer:
    given = {"reward_funcs": correct, "train_dataset": plain(), **others}
    return AgonTrainer("agon:tiny", args=settings or args(), **given)


# -- fields -----------------------------------------------------------------------------------------------------------


def test_every_field_of_the_installed_config_is_carried_quiet_or_refused() -> None:
    names = {field.name for field in fields(trl.GRPOConfig)}
    groups = [module.CARRIED, module.QUIET, module.ONLY.keys()]
    assert names == set().union(*groups)
    assert sum(map(len, groups)) == len(names), "a field stands in two groups"


def test_a_config_at_its_defaults_is_taken() -> None:
    trainer = AgonTrainer("agon:tiny", correct, trl.GRPOConfig("out", use_cpu=True), plain())
    train = trainer.config.train
    assert (train.learning_rate, train.beta, train.loss, train.epochs, train.seed) == (1e-6, 0.0, "dapo", 3, 42)
    assert (train.schedule, train.warmup, train.clip_norm, train.max_completion_tokens) == ("linear", 0.0, 1.0, 512)
    assert (trainer.config.game.group_size, train.problems_per_step) == (4, 1)


@pytest.mark.parametrize(
    ("field", "value", "key", "ours"),
    [
        ("learning_rate", 2e-5, "train.learning_rate", 2e-5),
        ("beta", 0.04, "train.beta", 0.04),
        ("loss_type", "dr_grpo", "train.loss", "dr_grpo"),
        ("max_grad_norm", 0.0, "train.clip_norm", None),
        ("num_generations", 8, "game.group_size", 4),
        ("per_device_train_batch_size", 16, "train.problems_per_step", 4),
        ("gradient_accumulation_steps", 3, "train.problems_per_step", 6),
        ("lr_scheduler_type", "cosine", "train.schedule", "cosine"),
        ("max_steps", 7, "train.epochs", 7),
        ("save_steps", 5, "save.every", 5),
        ("save_total_limit", 4, "save.keep", 4),
        ("model_init_kwargs", {"dtype": "float16", "revision": "abc"}, "model.revision", "abc"),
        ("model_init_kwargs", {"dtype": "float16"}, "model.dtype", "float16"),
        ("report_to", ["tensorboard"], "report_to", ["tensorboard"]),
    ],
)
def test_a_field_with_a_counterpart_is_carried(field: str, value: Any, key: str, ours: Any) -> None:
    config = made(args(**{field: value})).config.model_dump()
    for name in key.split("."):
        config = config[name]
    assert config == ours


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant", "constant_with_warmup"])
@pytest.mark.parametrize("warmup", [0, 3, 0.25])
def test_learning_rates_are_those_of_transformers(schedule: str, warmup: float) -> None:
    from transformers import get_scheduler

    from agon.engine.learner.constants import learning_rate

    settings = args(max_steps=8, lr_scheduler_type=schedule, warmup_steps=warmup, learning_rate=1.0)
    ours = made(settings).config.train
    weight = torch.nn.Parameter(torch.zeros(1))
    theirs = torch.optim.AdamW([weight], lr=1.0)
    rates = get_scheduler(schedule, theirs, num_warmup_steps=settings.get_warmup_steps(8), num_training_steps=8)
    for step in range(8):
        assert learning_rate(ours, step, 8) == pytest.approx(rates.get_last_lr()[0])
        theirs.step()
        rates.step()


def test_every_value_that_agon_does_not_have_is_refused_by_name_at_once() -> None:
    from peft import LoraConfig

    settings = args(epsilon=0.3, top_p=0.9, scale_rewards=False, loss_type="bnpo", learning_rate=0.0, epsilon_high=0.2)
    with pytest.raises(ConfigError) as caught:
        made(settings, peft_config=LoraConfig(r=8, lora_dropout=0.05))
    named = {fault.partition(":")[0] for fault in caught.value.faults}
    expected = {f"GRPOConfig.{name}" for name in ("epsilon", "top_p", "scale_rewards", "loss_type", "learning_rate")}
    assert named == expected | {"LoraConfig.lora_dropout"}


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"num_generations": 2}, "num_generations"),
        ({"num_generations": 5, "per_device_train_batch_size": 5}, "num_generations"),
        ({"num_train_epochs": 1.5, "max_steps": -1}, "num_train_epochs"),
        ({"steps_per_generation": 4}, "steps_per_generation"),
        ({"save_total_limit": 1}, "save_total_limit"),
        ({"push_to_hub": True}, "push_to_hub"),
        ({"model_init_kwargs": {"quantization_config": 1}}, "model_init_kwargs"),
        ({"vllm_importance_sampling_mode": "token_mask"}, "vllm_importance_sampling_mode"),
    ],
)
def test_a_value_without_a_counterpart_is_refused(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(args(**changed))
    assert [fault.partition(":")[0] for fault in caught.value.faults] == [f"GRPOConfig.{field}"]


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"callbacks": [1]}, "takes no callbacks"),
        ({"learning_rate": 1e-4}, "no argument learning_rate"),
        ({"train_dataset": None}, "train_dataset is a NoneType"),
        ({"train_dataset": iter([])}, "train_dataset is a list_iterator"),
        ({"eval_dataset": {"a": []}}, "eval_dataset is a dict"),
        ({"args": {"learning_rate": 1}}, "args is a dict"),
        ({"reward_funcs": []}, "reward_funcs is empty"),
        ({"train.max_step": 3}, "did you mean train.max_steps"),
    ],
)
def test_what_the_trainer_does_not_take_is_named(others: dict[str, Any], message: str) -> None:
    given = {"args": args(), "reward_funcs": correct, "train_dataset": plain(), **others}
    with pytest.raises(InputError, match=re.escape(message)):
        AgonTrainer("agon:tiny", **given)


def test_a_loaded_model_is_answered_with_its_name() -> None:
    class Loaded:
        class config:
            _name_or_path = "Qwen/Qwen3-0.6B"

    with pytest.raises(InputError, match="not a name") as caught:
        AgonTrainer(Loaded(), correct, args(), plain())  # type: ignore[arg-type]
    assert "model='Qwen/Qwen3-0.6B'" in caught.value.fix


def test_a_function_whose_name_says_so_decides_what_is_right() -> None:
    def format_reward(completions: list[str], **columns: Any) -> list[float]:
        return [0.0]

    trainer = made(args(reward_weights=[0.5, 2.0]), reward_funcs=[format_reward, correct])
    assert [each.__name__ for each in trainer._rewards] == ["correct", "format_reward"]
    assert trainer._weights == [0.5]
    assert any("correct decides what is right" in note for note in trainer.notes)
    with pytest.raises(InputError, match="its weight is 0"):
        made(args(reward_weights=[1.0, 0.0]), reward_funcs=[format_reward, correct])


def test_what_differs_from_trl_is_said() -> None:
    from peft import LoraConfig

    assert any("peft_config" in note for note in made().notes)
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])
    trainer = made(args(use_vllm=True, beta=0.1), peft_config=lora)
    assert trainer.config.model.lora.model_dump() == {
        "rank": 4, "alpha": 8, "targets": ["q_proj", "v_proj"], "layers": None,
    }  # fmt: skip
    assert [word for word in ("sequence_mask", "use_bias_correction_kl") if word in " ".join(trainer.notes)]


# -- scripts as TRL's documentation writes them -----------------------------------------------------------------------


def quick_start(folder: Path) -> AgonTrainer:
    from datasets import Dataset
    from trl.rewards import accuracy_reward

    few = {"train.max_steps": 2, "train.max_completion_tokens": 16, "eval.max_completion_tokens": 16}
    return AgonTrainer(
        model="agon:tiny",
        reward_funcs=accuracy_reward,
        train_dataset=Dataset.from_list(chats()),
        **few,
    )


def by_reference(folder: Path) -> AgonTrainer:
    def reward_func(completions: list[str], ground_truth: list[str], **kwargs: Any) -> list[float]:
        matches = [re.search(r"\\boxed\{(.*?)\}", completion) for completion in completions]
        contents = [match.group(1) if match else "" for match in matches]
        return [1.0 if c == gt else 0.0 for c, gt in zip(contents, ground_truth, strict=True)]

    return AgonTrainer(
        model="agon:tiny",
        reward_funcs=reward_func,
        args=args(folder),
        train_dataset=plain(),
        eval_dataset=[{"prompt": f"What is {n} - 1?", "ground_truth": str(n - 1)} for n in range(4)],
    )


def weighted_with_lora(folder: Path) -> AgonTrainer:
    from peft import LoraConfig
    from trl.rewards import accuracy_reward, think_format_reward

    return AgonTrainer(
        model="agon:tiny",
        reward_funcs=[think_format_reward, accuracy_reward],
        args=args(folder, learning_rate=1e-5, reward_weights=[0.2, 1.0], gradient_accumulation_steps=2),
        train_dataset=chats(system="Reason in <think> tags, then answer."),
        peft_config=LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM"),
    )


def asynchronous(folder: Path) -> AgonTrainer:
    async def async_reward_func(prompts: list[str], completions: list[str], **kwargs: Any) -> list[float]:
        await asyncio.sleep(0.01)
        return [1.0 if completion else 0.0 for completion in completions]

    return AgonTrainer("agon:tiny", async_reward_func, args(folder), [{"prompt": f"Say {n}."} for n in range(12)])


def by_task(folder: Path) -> AgonTrainer:
    """Rows without an answer; a function that applies to one task, and one of token ids."""

    def math_reward_func(prompts: list[str], completions: list[str], task: list[str], **kwargs: Any) -> list[Any]:
        scored = zip(completions, task, strict=True)
        return [(1.0 if text.strip() else -1.0) if each == "math" else None for text, each in scored]

    def length_reward(completion_ids: list[list[int]], trainer_state: Any, **kwargs: Any) -> list[float]:
        return [float(len(ids)) * 0.01 + trainer_state.global_step for ids in completion_ids]

    rows = [{"prompt": f"What is {n} + 2?", "task": "math"} for n in range(12)]
    return AgonTrainer("agon:tiny", [math_reward_func, length_reward], args(folder), rows, arm="coop")


@pytest.mark.contract
@pytest.mark.slow
@pytest.mark.parametrize("script", [quick_start, by_reference, weighted_with_lora, asynchronous, by_task])
def test_a_script_of_trl_trains_two_steps(
    script: Callable[[Path], AgonTrainer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trainer = script(tmp_path / "out")
    run = trainer.train(show="nothing")
    assert trainer.run is run
    assert [record.step for record in run.steps.records()] == [0, 1]
    assert all((run.path / "pair" / policy / "adapter_model.safetensors").is_file() for policy in "ab")
    bouts = read_bouts(run).to_pylist()
    assert bouts
    assert not [bout for bout in bouts if bout["draft_reason"] == "infra"]
    if script is weighted_with_lora:
        assert all(bout["question"].startswith("Reason in <think> tags") for bout in bouts)
    if script is by_reference:
        assert run.manifest.data.counts == {"train": 22, "dev": 2, "held_out": 4}
