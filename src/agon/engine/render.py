"""Prompt -> token ids: the only place where text becomes tokens, for every sampler.

The chat template is rendered around markers; quoted text is encoded on its own, by a copy of the tokenizer that knows
no added tokens, and spliced in as ids. So control ids come only from the template and from our own words, which is
asserted for every prompt. The game knows one pair of reasoning markers, `<think>` and `</think>`. A family with markers
of its own is translated here: its completions to ours; our prompts to words without markers, since its template
switches reasoning on and its markers are control tokens, which it never saw in a user's turn.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agon.engine.base_config import check_on_hub
from agon.engine.protocol import DrawResult
from agon.engine.safe_load import cannot_load
from agon.errors import EngineError
from agon.protocols import Tokens
from agon.types import THINK_CLOSE, THINK_OPEN, Completion, Message, Prompt, Quote, Role, Version, content_id

GEMMA_OPEN, GEMMA_CLOSE = "<|channel>thought", "<channel|>"
WITHOUT_MARKERS = {f"inside {THINK_OPEN} and {THINK_CLOSE}": "first", f"After {THINK_CLOSE},": "After that,"}
"""How our prompts speak of reasoning, and the same without naming markers."""
PLAIN_TEMPLATE = "{{ bos_token or '' }}{% for message in messages %}{{ message.content }}\n\n{% endfor %}"
"""For a base model that has no chat template of its own."""

OTHER_TEMPLATE = "use a different chat template"
TEMPLATE_SECONDS = 10.0
"""CPU seconds for rendering one layout; published templates take milliseconds."""
LONGEST = 1_000_000
"""Characters of a rendered layout, which holds our own words and no quote."""

Layout = tuple[tuple[Role, tuple[str | None, ...]], ...]
"""Messages with every quote replaced by None: what prompts of one kind have in common."""

_MARKER = "@@quote:{}@@"
_SURROGATES = re.compile("[\ud800-\udfff]")
# Thinking on, where a family has the switch; the date fixed, or a prompt of Llama's would change every midnight.
_SWITCHES = {"enable_thinking": True, "date_string": "26 Jul 2024"}


@dataclass(frozen=True, slots=True)
class Rendered:
    """`opened`: the prompt's tail already opened the reasoning block, so the completion begins inside it."""

    ids: tuple[int, ...]
    opened: bool


@dataclass(frozen=True, slots=True)
class _Frame:
    """A prompt without its quotes: the ids around the gaps, and the control ids among them."""

    segments: tuple[tuple[int, ...], ...]
    controls: tuple[int, ...]
    opened: bool


class Renderer:
    """Renders prompts and reads completions for one tokenizer (any fast tokenizer of transformers)."""

    def __init__(self, tokenizer: Any, ends: frozenset[int] = frozenset(), embeddings: int = 0) -> None:
        """`ends`: ids that end a text besides those of tokenizer and template; `embeddings`: tokens that the model
        has, often more than the tokenizer."""
        if not getattr(tokenizer, "is_fast", False):
            raise EngineError(
                "this tokenizer has no fast version", fix="use a checkpoint that carries a tokenizer.json"
            )
        self.tokenizer = tokenizer
        self.template: str = _template(tokenizer) or PLAIN_TEMPLATE
        _check_operators(self.template)
        self.vocabulary = max(len(tokenizer), embeddings)
        self.controls = _controls(tokenizer)
        self._inner, self._data, self._ids = _copies(tokenizer, self.controls)
        vocabulary = tokenizer.get_added_vocab()
        gemma = "<|channel>" in vocabulary and GEMMA_CLOSE in vocabulary
        self._open, self._close = (GEMMA_OPEN, GEMMA_CLOSE) if gemma else (THINK_OPEN, THINK_CLOSE)
        self.hash = content_id(self.template, *(WITHOUT_MARKERS.values() if gemma else ()))
        self._frame = lru_cache(maxsize=256)(self._build)
        self._folds = not self._keeps_system()
        self.stop = self._stop_ids() | ends

    @classmethod
    def load(cls, path: str) -> Renderer:
        """A renderer for a checkpoint, without running its code."""
        from transformers import AutoTokenizer

        check_on_hub(path)
        try:
            tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        except Exception as error:  # a damaged file makes transformers raise nearly anything
            raise cannot_load(path, error) from error
        return cls(tokenizer, *_known(path))

    def render(self, prompt: Prompt) -> Rendered:
        """Token ids of a prompt whose quotes cannot speak for the template."""
        messages = _fold(prompt.messages) if self._folds else prompt.messages
        frame = self._frame(tuple((message.role, tuple(map(_ours, message.parts))) for message in messages))
        quotes = [part.text for message in messages for part in message.parts if isinstance(part, Quote)]
        ids = list(frame.segments[0])
        for quote, segment in zip(quotes, frame.segments[1:], strict=True):
            ids += self.encode(quote)
            ids += segment
        if tuple(token for token in ids if token in self.controls) != frame.controls:
            raise EngineError(
                "quoted text became control tokens", fix="report this tokenizer: its prompts are not safe"
            )
        return Rendered(tuple(ids), frame.opened)

    def encode(self, text: str) -> list[int]:
        """Ids of quoted text, none of them a control id even where the plain vocabulary contains one."""
        text = _SURROGATES.sub("\ufffd", text)
        ids = [self._ids.get(token, token) for token in self._data.encode(text, add_special_tokens=False).ids]
        if self.controls.isdisjoint(ids):
            return ids
        if len(text) < 2:
            raise EngineError(f"{text!r} is a control token of this tokenizer", fix="use a different tokenizer")
        half = len(text) // 2
        return self.encode(text[:half]) + self.encode(text[half:])

    def text(self, ids: Sequence[int]) -> str:
        """A completion as the game reads it: up to the end of the turn, with canonical reasoning markers."""
        end = next((n for n, token in enumerate(ids) if token in self.stop), len(ids))
        text = self.decode(ids[:end])
        if self._open == THINK_OPEN:
            return text
        return (
            text.replace(self._open + "\n", THINK_OPEN)
            .replace(self._open, THINK_OPEN)
            .replace(self._close, THINK_CLOSE)
        )

    def completion(self, rendered: Rendered, version: Version, drawn: DrawResult) -> Completion:
        """What an engine drew for a prompt, with its text and its tokens."""
        return Completion(
            text=self.text(drawn.ids),
            version=version,
            prompt_tokens=len(rendered.ids),
            generated_tokens=len(drawn.ids),
            finish=drawn.finish,
            opened=rendered.opened,
            tokens=Tokens(rendered.ids, drawn.ids, drawn.logprobs),
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Plain text of ids, with the family's own markers."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    @property
    def markers(self) -> tuple[str, str]:
        """How the family opens and closes its reasoning."""
        return self._open, self._close

    def clip(self, text: str, max_tokens: int) -> str:
        """A prefix of `text` that encodes to at most `max_tokens` ids."""
        while max_tokens > 0 and (length := len(self.encode(text))) > max_tokens:
            ends = [end for _, end in self._data.encode(_SURROGATES.sub("?", text), add_special_tokens=False).offsets]
            cut = ends[max_tokens - 1] if max_tokens < len(ends) else len(text) * max_tokens // length
            text = text[: min(cut, len(text) - 1)]
        return text if max_tokens > 0 else ""

    def _build(self, layout: Layout) -> _Frame:
        pieces = self._pieces(layout)
        segments = [tuple(self.tokenizer.encode(pieces[0], add_special_tokens=False))]
        segments += [tuple(self._inner.encode(piece, add_special_tokens=False).ids) for piece in pieces[1:]]
        controls = tuple(token for segment in segments for token in segment if token in self.controls)
        return _Frame(tuple(segments), controls, opened=pieces[-1].rstrip().endswith(self._open))

    def _pieces(self, layout: Layout, *, generate: bool = True) -> list[str]:
        """The rendered template, cut where the quotes go."""
        quotes = 0
        messages = []
        for role, parts in layout:
            content = ""
            for part in parts:
                content += _MARKER.format(quotes) if part is None else self._translate(part)
                quotes += part is None
            messages.append({"role": role, "content": content})
        text = self._apply(messages, generate)
        pieces = re.split(re.escape(_MARKER).replace(r"\{\}", r"(\d+)"), text)
        if pieces[1::2] != [str(n) for n in range(quotes)]:
            raise EngineError(
                "the chat template lost, repeated or reordered a part of the prompt",
                fix=OTHER_TEMPLATE,
            )
        return pieces[::2]

    def _apply(self, messages: list[dict[str, str]], generate: bool) -> str:
        from jinja2 import TemplateError

        try:
            with time_limit(TEMPLATE_SECONDS):
                text: str = self.tokenizer.apply_chat_template(
                    messages, chat_template=self.template, tokenize=False, add_generation_prompt=generate, **_SWITCHES
                )
            if len(text) > LONGEST:
                raise ValueError(f"it makes {len(text)} characters of them")
            return text
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise EngineError(f"the chat template refused the messages: {error}", fix=OTHER_TEMPLATE) from error
        except (TimeoutError, MemoryError) as error:
            raise EngineError(f"the chat template does not come to an end: {error}", fix=OTHER_TEMPLATE) from error

    def _translate(self, ours: str) -> str:
        """Our words, without the markers where the family has its own."""
        if self._open == THINK_OPEN:
            return ours
        for marked, plain in WITHOUT_MARKERS.items():
            ours = ours.replace(marked, plain)
        if THINK_OPEN in ours or THINK_CLOSE in ours:
            raise EngineError(
                f"a prompt names {THINK_OPEN} in words that are not known without it",
                fix="add them to WITHOUT_MARKERS in agon/engine/render.py",
            )
        return ours

    def _keeps_system(self) -> bool:
        """Whether the template keeps a system message: some refuse it, some silently drop it."""
        try:
            self._pieces((("system", (None,)), ("user", (None,))))
        except EngineError:
            return False
        return True

    def _stop_ids(self) -> frozenset[int]:
        """What ends a turn: the tokenizer's end of text, and the control id that follows an assistant's words."""
        ends = {self.tokenizer.eos_token_id} - {None}
        tail = self._pieces((("user", (None,)), ("assistant", (None,))), generate=False)[-1]
        after = [token for token in self._inner.encode(tail, add_special_tokens=False).ids if token in self.controls]
        return frozenset(ends | set(after[:1]))


def _template(tokenizer: Any) -> str | None:
    """The chat template; of several, the one that is used without tools."""
    given = tokenizer.chat_template
    if isinstance(given, dict):
        if "default" not in given:
            raise EngineError(f"no chat template is the default: {', '.join(sorted(given))}", fix=OTHER_TEMPLATE)
        given = given["default"]
    return given


def _check_operators(template: str) -> None:
    """Refuse products and powers, which no published template has: one of them can take hours and all memory."""
    from jinja2 import Environment, TemplateError

    try:
        tokens = [value for _, kind, value in Environment().lex(template) if kind == "operator"]
    except TemplateError as error:
        raise EngineError(f"cannot parse the chat template: {error}", fix=OTHER_TEMPLATE) from error
    if "*" in tokens or "**" in tokens:
        raise EngineError("the chat template multiplies, which may never end", fix=OTHER_TEMPLATE)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in Python code that uses more CPU time than this, in whichever thread it runs."""
    end, before = time.thread_time() + seconds, sys.gettrace()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if time.thread_time() > end:
            raise TimeoutError(f"more than {seconds:g} s of CPU time")
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _known(path: str) -> tuple[frozenset[int], int]:
    """The ids that end a text according to the checkpoint's own configs, where engines stop, and how many tokens the
    model has. A tokenizer may come without either config, and whoever loads the model reports a damaged one."""
    from transformers import AutoConfig, GenerationConfig

    ends: list[Any] = []
    embeddings = 0
    with suppress(Exception):
        ends.append(getattr(GenerationConfig.from_pretrained(path), "eos_token_id", None))
    with suppress(Exception):
        config = AutoConfig.from_pretrained(path, trust_remote_code=False)
        ends.append(getattr(config, "eos_token_id", None))
        embeddings = getattr(config.get_text_config(), "vocab_size", 0)
    ids = {end for some in ends for end in (some if isinstance(some, list) else [some])}
    return frozenset(ids - {None}), embeddings


def _ours(part: str | Quote) -> str | None:
    return None if isinstance(part, Quote) else part


def _fold(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """System words at the head of the first user message, for templates without a system role."""
    if messages[0].role != "system" or len(messages) < 2:
        return messages
    system, first, *rest = messages
    return (Message(first.role, (*system.parts, "\n\n", *first.parts)), *rest)


def _controls(tokenizer: Any) -> frozenset[int]:
    """Ids of added tokens that could be structure: not white space, not one character, not the unknown mark."""
    unknown = {tokenizer.unk_token_id} - {tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id}
    added = tokenizer.added_tokens_decoder.items()
    return frozenset(n for n, token in added if token.special or len(token.content.strip()) > 1) - unknown


def _copies(tokenizer: Any, controls: frozenset[int]) -> tuple[Any, Any, dict[int, int]]:
    """Two copies that treat their text as the middle of a longer one: with added tokens, and without control tokens."""
    from tokenizers import Tokenizer

    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    spec |= {"post_processor": None, "truncation": None, "padding": None}
    spec |= {part: _unprefixed(spec.get(part)) for part in ("normalizer", "pre_tokenizer")}
    inner = Tokenizer.from_str(json.dumps(spec))
    kept = [token for token in spec["added_tokens"] if token["id"] not in controls]
    data = Tokenizer.from_str(json.dumps(spec | {"added_tokens": [token for token in kept if not token["special"]]}))
    renumbered = {data.token_to_id(token["content"]): token["id"] for token in kept}
    return inner, data, {new: old for new, old in renumbered.items() if new not in (None, old)}


def _unprefixed(part: Any) -> Any:
    """A normalizer or pre-tokenizer that puts no space in front of its text."""
    if not isinstance(part, dict) or part.get("type") == "Prepend":
        return None
    keys = [key for key in ("normalizers", "pretokenizers") if key in part]
    nested = {key: [inner for inner in map(_unprefixed, part[key]) if inner is not None] for key in keys}
    switches = {"prepend_scheme": "never", "add_prefix_space": False}
    return part | nested | {key: value for key, value in switches.items() if key in part}
