"""Three steps of GRPO with TRL 1.16: `python trl_run.py FOLDER` leaves FOLDER/completions/*.parquet.

The policy is the tiny base of Agon. `watch` is agon-lens's own: what it logs is compared with what TRL logs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from agon.engine.shipped import folder_of


def digits(completions: list[Any], **more: Any) -> list[float]:
    """Pays digits."""
    return [float(sum(letter.isdigit() for letter in completion[0]["content"])) for completion in completions]


def brief(completions: list[Any], **more: Any) -> list[float]:
    """A small penalty by length."""
    return [-0.001 * len(completion[0]["content"]) for completion in completions]


def train(
    folder: Path,
    steps: int = 3,
    group: int = 4,
    funcs: list[Any] | None = None,
    callbacks: list[Any] | None = None,
    peft_config: Any = None,
    **settings: Any,
) -> GRPOTrainer:
    """A short training run that logs its completions to a folder; `settings` are further ones of GRPOConfig."""
    chat = [{"prompt": [{"role": "user", "content": f"What is {n} + {n}?"}], "n": n} for n in range(8)]
    usual = {
        "output_dir": str(folder),
        "max_steps": steps,
        "per_device_train_batch_size": 2 * group,
        "num_generations": group,
        "max_completion_length": 12,
        "log_completions": True,
        "num_completions_to_print": 0,
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    trainer = GRPOTrainer(
        str(folder_of("agon:tiny")),
        reward_funcs=funcs or [digits, brief],
        args=GRPOConfig(**usual | settings),
        train_dataset=Dataset.from_list(chat),
        callbacks=callbacks,
        peft_config=peft_config,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return trainer


if __name__ == "__main__":
    out = Path(sys.argv[1])
    train(out)
