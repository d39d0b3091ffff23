"""`agon_judge.math_reward` in a real GRPOTrainer: rewards reach it, and a row without a verdict is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agon_judge
from tests.engine.helpers.bases import random_base

WORDS = ["<pad>", "<eos>", "q1", "q2", "<answer>42</answer>", "<answer>41</answer>"]
GOLDS = {"q1": "42", "q2": r"\aleph_0"}


def test_trl_pays_right_and_wrong_and_skips_rows_without_a_verdict(tmp_path: Path) -> None:
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    plain = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<pad>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>")
    seen: list[tuple[list[Any], list[float | None]]] = []

    def reward(completions: list[str], **columns: Any) -> list[float | None]:
        rewards = agon_judge.math_reward(completions, **columns)
        seen.append((columns["answer"], rewards))
        return rewards

    def roll_out(prompts: list[str], trainer: Any) -> dict[str, Any]:
        drawn = [[4 + index % 2, 1] for index in range(len(prompts))]
        return {"prompt_ids": [[WORDS.index(p)] for p in prompts], "completion_ids": drawn, "logprobs": None}

    settings = GRPOConfig(
        output_dir=str(tmp_path), num_generations=2, per_device_train_batch_size=4, max_steps=1, report_to="none",
        max_completion_length=4, bf16=False, use_cpu=True, save_strategy="no", disable_tqdm=True, shuffle_dataset=False,
        logging_steps=1,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=random_base(),
        args=settings,
        train_dataset=Dataset.from_dict({"prompt": list(GOLDS), "answer": list(GOLDS.values())}),
        processing_class=tokenizer,
        reward_funcs=reward,
        rollout_func=roll_out,
    )
    trainer.train()
    ((answers, rewards),) = seen
    assert answers == ["42", "42", GOLDS["q2"], GOLDS["q2"]]
    assert rewards == [1.0, 0.0, None, None]
    assert trainer.state.log_history[0]["rewards/reward/mean"] == 0.5
