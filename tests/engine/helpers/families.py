"""Small tokenizers in the style of each family: real algorithms, its added tokens, and its own chat template.

The templates are the originals, as TRL's package carries them; ChatML, which has no owner, is a fixture of ours.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from agon.game import prompts

FIXTURES = Path(__file__).parents[2] / "fixtures" / "templates"
ORIGINALS = Path(find_spec("trl").origin).parent / "chat_templates"  # type: ignore[union-attr, arg-type]
GEMMA4_REVISIONS = ("gemma4", "gemma4_v2", "gemma4_v3", "gemma4_v4", "gemma4_v5")
CORPUS = [prompts._FORMAT, prompts._CHALLENGE, prompts._MOA, "0 1 2 3 4 5 6 7 8 9 thought system user model assistant"]

CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
THINK = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
GEMMA4 = ["<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|think|>", "<|tool>", "<tool|>", '<|"|>', "<|image|>"]
LLAMA3 = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]


def template(name: str) -> str:
    return (ORIGINALS / f"{name}.jinja").read_text()


def wrap(core: Tokenizer, special: list[str], ordinary: list[str], chat: str | None, **names: str) -> Any:
    """A transformers tokenizer with special and non-special added tokens, and a chat template."""
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    core.add_tokens([AddedToken(token, special=False, normalized=False) for token in ordinary])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, clean_up_tokenization_spaces=False, **names)
    tokenizer.chat_template = chat
    return tokenizer


def byte_level(**options: Any) -> Tokenizer:
    core = Tokenizer(models.BPE(**options))
    core.normalizer = normalizers.NFC()
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    )
    return core


def byte_fallback(special: list[str]) -> Tokenizer:
    """As SentencePiece does: a visible space, bytes for what the vocabulary lacks, white-space runs as tokens."""
    core = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    core.normalizer = normalizers.Replace(" ", "▁")
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    reserved = [*special, *(f"<0x{byte:02X}>" for byte in range(256))]
    core.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=900, special_tokens=reserved, show_progress=False))
    kept = Tokenizer(type(core.model)(**_parts(core), unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    kept.normalizer, kept.decoder = core.normalizer, core.decoder
    return kept


def _parts(core: Tokenizer) -> dict[str, Any]:
    import json

    model = json.loads(core.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(pair) for pair in model["merges"]]}


def qwen3() -> Any:
    return wrap(byte_level(), CHATML, THINK, template("qwen3"), eos_token="<|im_end|>", pad_token="<|endoftext|>")


def qwen3_5(default: str = "nothink") -> Any:
    """Qwen3.5: up to 2B its template does not reason unless it is asked to, from 4B on it does."""
    chat = template(f"qwen3_5_{default}")
    return wrap(byte_level(), CHATML, THINK, chat, eos_token="<|im_end|>", pad_token="<|endoftext|>")


def chatml() -> Any:
    chat = (FIXTURES / "chatml.jinja").read_text()
    return wrap(byte_level(), CHATML, [], chat, eos_token="<|im_end|>", unk_token="<|endoftext|>")


def llama3() -> Any:
    core = byte_level(ignore_merges=True)
    return wrap(core, LLAMA3, [], template("llama3_2"), bos_token="<|begin_of_text|>", eos_token="<|eot_id|>")


def gemma4(revision: str = GEMMA4_REVISIONS[-1]) -> Any:
    special = ["<pad>", "<eos>", "<bos>", "<unk>", *GEMMA4]
    names = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"}
    return wrap(byte_fallback(special), special, ["\n\n", "\n\n\n", "<table>"], template(revision), **names)


def gemma2() -> Any:
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    names = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"}
    return wrap(byte_fallback(special), special, ["\n\n"], template("gemma"), **names)


def plain() -> Any:
    """A base model's tokenizer: no chat template, a space put in front of every text."""
    special = ["<unk>", "<s>", "</s>"]
    core = byte_fallback(special)
    core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return wrap(core, special, [], None, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


FAMILIES = {family.__name__: family for family in (qwen3, qwen3_5, gemma4, gemma2, llama3, chatml, plain)}
