"""What the learner takes for granted about TRL's fused head and transformers' attention. A failure names what moved."""

from __future__ import annotations

import inspect
import subprocess
import sys

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.modeling_flash_attention_utils import FlashAttentionKwargs
from trl.trainer import utils

from agon.engine.learner.fused_head import fuse_head
from tests.engine.helpers.bases import random_base


def test_the_head_scores_shifted_labels_as_the_logits_do() -> None:
    ids = torch.arange(2, 22).view(1, -1)
    plain, fused = random_base(), random_base()
    fuse_head(fused, 0.7)
    output = fused(input_ids=ids[:, :-1], shift_labels=ids[:, 1:], fused_lm_head=True)
    logps = (plain(input_ids=ids[:, :-1]).logits / 0.7).log_softmax(-1)
    torch.testing.assert_close(output.log_probs, logps.gather(2, ids[:, 1:, None])[..., 0])
    torch.testing.assert_close(output.entropy, -(logps.exp() * logps).sum(-1))


def test_hidden_states_are_cut_where_the_head_takes_them() -> None:
    assert 'backbone_attr = "base_model"' in inspect.getsource(utils.add_fused_lm_head)


def test_kernels_for_variable_lengths_are_told_the_rows_as_we_tell_them() -> None:
    names = set(FlashAttentionKwargs.__annotations__)
    assert {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"} <= names


def test_attention_of_transformers_is_called_as_it_is_declared() -> None:
    assert {"attention_mask", "dropout", "scaling"} <= inspect.signature(sdpa_attention_forward).parameters.keys()
    assert "attention_mask" in inspect.signature(sdpa_mask).parameters
    assert callable(torch.cuda.memory._set_allocator_settings)


def test_the_learner_is_imported_without_vllm() -> None:
    code = "import sys, agon.engine.learner.learner; print('vllm' in sys.modules)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"
