"""Small tokenizers in the style of each family: real algorithms, its added tokens, our chat-template fixtures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from agon.game import prompts

TEMPLATES = Path(__file__).parents[2] / "fixtures" / "templates"
CORPUS = [prompts._FORMAT, prompts._CHALLENGE, prompts._MOA, "0 1 2 3 4 5 6 7 8 9 thought system user model assistant"]

CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
THINK = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
GEMMA4 = ["<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|think|>", "<|tool>", "<tool|>", '<|"|>', "<|image|>"]
LLAMA3 = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]


def template(name: str) -> str:
    return (TEMPLATES / f"{name}.jinja").read_text()


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


def qwen3_5() -> Any:
    return wrap(byte_level(), CHATML, THINK, template("qwen3_5"), eos_token="<|im_end|>", pad_token="<|endoftext|>")


def chatml() -> Any:
    return wrap(byte_level(), CHATML, [], template("chatml"), eos_token="<|im_end|>", unk_token="<|endoftext|>")


def llama3() -> Any:
    core = byte_level(ignore_merges=True)
    return wrap(core, LLAMA3, [], template("llama3"), bos_token="<|begin_of_text|>", eos_token="<|eot_id|>")


def gemma4() -> Any:
    special = ["<pad>", "<eos>", "<bos>", "<unk>", *GEMMA4]
    names = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"}
    return wrap(byte_fallback(special), special, ["\n\n", "\n\n\n", "<table>"], template("gemma4"), **names)


def gemma2() -> Any:
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    names = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"}
    return wrap(byte_fallback(special), special, ["\n\n"], template("gemma2"), **names)


def plain() -> Any:
    """A base model's tokenizer: no chat template, a space put in front of every text."""
    special = ["<unk>", "<s>", "</s>"]
    core = byte_fallback(special)
    core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return wrap(core, special, [], None, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


FAMILIES = {family.__name__: family for family in (qwen3, qwen3_5, gemma4, gemma2, llama3, chatml, plain)}
