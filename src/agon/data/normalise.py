"""The text of a problem: which spellings are one question, and which values can be a gold answer.

    canonical(text)       canonical Unicode and single spaces: a problem's id is a hash of it
    question_key(text)    without compatibility forms, case, white space and prose punctuation: equal for one question

Signs that mean something in mathematics stay in a key, because `3 - 2`, `3 * 2` and `3.2` are three questions:
brackets, operators, a minus, a decimal point, a prime, a factorial. Standard library only; Unicode never changes how
an assigned character is normalised, so every Python agrees.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from agon.types import Problem, UnitTests, content_id

_INVISIBLE = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
_DASHES = re.compile("[\u2010-\u2015\u2212]")
_QUOTES = re.compile("[\u2018\u2019]")
_PROSE = re.compile(
    r"""\.(?!\d)                        # a full stop, not a decimal point
      | (?<!\d)[,:] | [,:](?!\d)        # not 1,000 and not 3:2
      | [;?"`$\u201c-\u201f\u2026]
      | (?<![\d)])(?<!\b\w)!            # not 5! and not n!
      | (?<!\S)' | (?<=[^\W\d_]{2})'    # not f'(x)
      | (?<=[^\W\d_]{2})-(?=[^\W\d_]{2})    # whole-number is whole number; 3 - 2 and x-y stay
    """,
    re.VERBOSE,
)


def canonical(text: str) -> str:
    """Canonical Unicode and single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


@lru_cache(maxsize=1 << 17)
def question_key(text: str) -> str:
    """What two spellings of one question have in common."""
    plain = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
    plain = _QUOTES.sub("'", _DASHES.sub("-", plain))
    return " ".join(_PROSE.sub(" ", plain).split()) or canonical(text)


def make_problem(
    question: str, answer: str, meta: Mapping[str, Any] | None = None, tests: UnitTests | None = None
) -> Problem:
    """A problem named by its content."""
    return Problem(content_id(canonical(question), canonical(answer)), question, answer, dict(meta or {}), tests)


def is_chat(value: object) -> bool:
    """Whether a value is a list of chat messages, as TRL's conversational data sets have for a prompt."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(m, Mapping) and {"role", "content"} <= m.keys() for m in value)
    )


def question_text(value: object) -> str:
    """The question of a row; ValueError with the reason if it cannot be one. Of a chat, what the user says, after what
    system messages say: the prompt around both is ours."""
    if isinstance(value, list) and is_chat(value):
        *before, last = value
        if last["role"] != "user" or any(message["role"] != "system" for message in before):
            raise ValueError("question is a chat of several turns; a question is one message of the user")
        if all(isinstance(message["content"], str) for message in value):
            value = "\n\n".join(message["content"].strip() for message in value)
        else:
            value = next(message["content"] for message in value if not isinstance(message["content"], str))
    if not isinstance(value, str):
        raise ValueError(f"question is {_kind(value)}")
    return _checked("question", value)


def gold_text(value: object) -> str:
    """The gold answer of a row as text; ValueError with the reason if it cannot be one."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"answer is {_kind(value)}")
    if isinstance(value, float) and math.isfinite(value):
        value = int(value) if value.is_integer() else value
    text = _checked("answer", str(value)).replace("\u2212", "-")
    if text.casefold() in {"nan", "inf", "-inf"}:
        raise ValueError(f"answer is {text}")
    return text


def _checked(what: str, text: str) -> str:
    text = text.strip()
    if not text:
        raise ValueError(f"{what} is empty")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} is not valid Unicode") from error
    return text


def _kind(value: object) -> str:
    return "null" if value is None else f"a {type(value).__name__}, not text"
