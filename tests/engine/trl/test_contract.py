"""What the learner takes for granted about TRL 1.16 and transformers 5.19. A failure here names what moved.

engine/trl/compat.py lists the private names; each is used in engine/trl/trainer.py.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
import trl
from transformers import Trainer
from transformers.modeling_flash_attention_utils import FlashAttentionKwargs
from trl import GRPOConfig, GRPOTrainer
from trl.trainer import grpo_trainer, utils

from agon.engine.trl.metrics import TRL_METRICS
from agon.engine.trl.trainer import PairTrainer
from agon.types import Policy

from .helpers import make_learner, train


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def source(function: Any) -> str:
    return inspect.getsource(function)


def test_trl_is_the_version_that_was_read() -> None:
    assert trl.__version__.startswith("1.16."), "read GRPOTrainer again, then move the pin"


SIGNATURES = {
    "_compute_loss": ["self", "model", "inputs"],
    "training_step": ["self", "model", "inputs", "num_items_in_batch"],
    "_send_telemetry": ["self"],
}


@pytest.mark.parametrize("name", list(SIGNATURES))
def test_a_hook_has_the_signature_that_we_override_or_call(name: str) -> None:
    assert parameters(getattr(GRPOTrainer, name)) == SIGNATURES[name]


def test_log_probabilities_are_asked_for_as_we_ask() -> None:
    names = parameters(GRPOTrainer._get_per_token_logps_and_entropies)
    assert names[:5] == ["self", "model", "input_ids", "attention_mask", "logits_to_keep"]


def test_the_fused_head_takes_shifted_labels_and_ignores_the_rest() -> None:
    assert "shift_labels=None" in source(utils.add_fused_lm_head)
    assert "labels != -100" in source(utils.add_fused_lm_head)
    assert 'backbone_attr = "base_model"' in source(utils.add_fused_lm_head), "its hidden states are cut there"


def test_kernels_for_variable_lengths_are_told_the_rows_as_we_tell_them() -> None:
    names = set(FlashAttentionKwargs.__annotations__)
    assert {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"} <= names


def test_prepare_inputs_takes_one_batch() -> None:
    assert len(parameters(GRPOTrainer._prepare_inputs)) == 2


def test_the_loss_is_trl_s_own() -> None:
    assert PairTrainer._compute_loss is GRPOTrainer._compute_loss
    assert PairTrainer.compute_loss is GRPOTrainer.compute_loss


def test_the_loss_divides_by_the_window_that_we_set() -> None:
    text = source(GRPOTrainer._compute_loss)
    assert text.count("self.current_gradient_accumulation_steps") == 7
    assert 'inputs["num_items_in_batch"].clamp(min=1.0) / self.accelerator.num_processes' in text
    assert "self.current_gradient_accumulation_steps / self.args.steps_per_generation" in text
    assert GRPOTrainer.loss_is_scaled_for_ga is True


def test_the_loss_reads_advantages_after_its_forward_pass_and_allows_one_per_token() -> None:
    text = source(GRPOTrainer._compute_loss)
    assert text.index("self._get_per_token_logps_and_entropies(") < text.index('inputs["advantages"]')
    assert "if advantages.dim() == 1:" in text


def test_the_loss_s_forward_pass_is_the_fused_head_through_the_peft_model() -> None:
    assert "fused_lm_head=True" in source(GRPOTrainer._get_per_token_logps_and_entropies)
    learner = make_learner()
    assert learner.pair.model.get_base_model().forward.__name__ == "forward"
    assert "_fused_forward" in learner.pair.model.get_base_model().forward.__func__.__code__.co_name


def test_the_metrics_that_we_catch_exist() -> None:
    learner = make_learner(total_steps=1, beta=0.1)
    found = train(learner)[0].metrics[Policy.A]
    assert set(TRL_METRICS) <= set(found)


def test_the_trainer_carries_the_attributes_that_we_touch() -> None:
    trainer = make_learner(beta=0.5).trainer
    assert isinstance(trainer._metrics["train"], dict)
    assert trainer.beta == trainer.args.beta == 0.5
    assert trainer.args.steps_per_generation == trainer.args.gradient_accumulation_steps == 1
    assert trainer.num_iterations == 1
    assert trainer.aux_loss_enabled is False
    assert trainer.args.gradient_checkpointing_kwargs == {"use_reentrant": False}
    assert trainer.args.vllm_importance_sampling_clip_max == 3.0


def test_the_data_set_that_trl_requires_comes_from_its_own_import() -> None:
    assert grpo_trainer.Dataset.__module__.startswith("datasets")


def test_the_optimizer_is_the_one_that_stock_would_make() -> None:
    args = make_learner().trainer.args
    kind, settings = Trainer.get_optimizer_cls_and_kwargs(args)
    assert kind is torch.optim.AdamW
    assert settings == {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "fused": True}
    assert GRPOConfig.__dataclass_fields__["optim"].default == args.optim
    assert GRPOConfig.__dataclass_fields__["weight_decay"].default == args.weight_decay == 0.0


@pytest.mark.slow
def test_trl_is_imported_without_vllm() -> None:
    """TRL asks `trl.import_utils.is_vllm_available` at import; when that moves, a start costs twice as long again."""
    code = "import sys, agon.engine.trl.learner, trl.import_utils as gate\n"
    code += "print('vllm' in sys.modules, gate.is_vllm_available())"
    quiet = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, env=quiet)
    installed = importlib.util.find_spec("vllm") is not None
    assert done.stdout.split() == ["False", str(installed)], done.stderr[-1000:]
