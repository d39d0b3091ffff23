"""Tiny tokenizers, and checkpoints on disk, as those of `agon:tiny`.

The tokenizer is byte-level BPE whose merges run over whole phrases of our prompts, so that a prompt costs tens of
tokens and not hundreds; any other text still round-trips.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agon.types import THINK_CLOSE, THINK_OPEN

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKERS = (THINK_OPEN, THINK_CLOSE)
ATOMS = r"\n[a-i]\)(?: [-+*/])?| = ?\d+| ?\d+|\n?</?answer>"
"""What never merges with its neighbours: labels with their operation, values, operands, answer tags."""

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tokenizer(texts: Iterable[str], atoms: str = ATOMS) -> Any:
    """A tokenizer whose merges come from `texts`: prompts and completions in the pieces in which they are encoded."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(atoms), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=8192,
            min_frequency=2,
            special_tokens=list(SPECIALS),
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    inner.add_tokens([AddedToken(marker, special=False, normalized=False) for marker in MARKERS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False
    )
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]}, replace_extra_special_tokens=False)
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a checkpoint on disk."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def token_settings(tokenizer: Any) -> dict[str, Any]:
    """What a model's config must know of its tokenizer; the vocabulary is rounded up to a multiple of 64."""
    return {
        "vocab_size": -(-len(tokenizer) // 64) * 64,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
    }


def save(folder: Path, model: Any, tokenizer: Any) -> None:
    """Write model, generation config and tokenizer as one checkpoint."""
    from transformers import GenerationConfig

    stops = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    model.generation_config = GenerationConfig(do_sample=True, eos_token_id=stops, pad_token_id=tokenizer.pad_token_id)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
