"""What the rival sees of a draft: its summary, the answer withheld, every structural string turned into plain text.

Answer blocks and boxes give way to a placeholder, never to nothing, so that removing one cannot assemble another. Where
the answer is a program, so do code blocks: a summary that contains the program states the answer. Matching is looser
than grading (`< Answer >` is withheld although nobody would pay for it). A worked summary may still say its answer in
prose; the paper accepts that, so `leaks` measures it and nothing edits it away.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

from agon.game.parse import parse
from agon.types import Completion
from agon_judge.answers import answer_spans, boxes, without

WITHHELD = "[withheld]"

_ANSWER = re.compile(r"[<＜]\s{0,9}/?\s{0,9}answer\b[^<>＜＞]{0,64}[>＞]", re.IGNORECASE)
_BOX = re.compile(
    r"\\(?:boxed|[bf]box|framebox)(?![A-Za-z])(?:\[[^\[\]{}\n]{0,40}\])?(?:\s|%[^\n]{0,80}\n)*(?P<brace>\{)?"
    r"|\\[{}]|[{}]",
    re.IGNORECASE,
)
# Single characters with lookarounds: no replacement can make or break another, so escaping twice is escaping once.
_STRUCTURE = re.compile(
    r"[<＜](?=\s{0,9}[|｜]"
    r"|[\s/]{0,9}[\w\"▁:.-]{1,64}\s{0,9}[|｜]?[\s/]{0,9}[>＞]"
    r"|\s{0,9}/?\s{0,9}(?:answer|think)\b"
    r"|\W{0,20}attempt"
    r"|</?SYS)"
    r"|(?<=[|｜])[>＞]"
    r"|[\[［](?=/?(?-i:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_(?:CALLS|RESULTS|CONTENT)|IMG|CLS|SEP|MASK|PAD|UNK|[BE]OS)"
    r"[\]］])",
    re.IGNORECASE,
)
_TICKS = re.compile(r"`{3,}|~{3,}")
_ESCAPES = {"<": "&lt;", "＜": "&lt;", ">": "&gt;", "＞": "&gt;", "[": "&#91;", "［": "&#91;"}


def peek(completion: Completion, clip: Callable[[str], str], *, withhold_code: bool = False) -> str:
    """The rival's view of a draft (section 4.3); empty when the draft has no summary."""
    summary = parse(completion).summary
    text = neutral(_replace(summary, code_blocks(summary)) if withhold_code else summary)
    if not text.replace(WITHHELD, "").strip():
        return ""
    return neutral(clip(text)).strip()


def code_blocks(text: str) -> list[tuple[int, int]]:
    """Where code stands between runs of three or more backticks or tildes; an unclosed block runs to the end."""
    spans: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for run in _TICKS.finditer(text):
        if opened is None:
            opened = run
        elif run.group().startswith(opened.group()):
            spans.append((opened.start(), run.end()))
            opened = None
    return [*spans, (opened.start(), len(text))] if opened else spans


def bare_program(answer: str) -> str:
    """The first program in an answer without the fence around it, or the answer itself."""
    for start, end in code_blocks(answer):
        return answer[start:end].strip("`~").partition("\n")[2]
    return answer


def neutral(text: str) -> str:
    """Withhold answers and boxes, then escape what could pass for structure; doing it twice changes nothing."""
    text = _replace(text, answer_spans(text, _ANSWER)[0])
    text = _replace(text, ((box.start, box.end) for box in boxes(text, _BOX)))
    return escape(text)


def escape(text: str) -> str:
    """Turn what could pass for structure into plain text, and nothing else; doing it twice changes nothing."""
    return _STRUCTURE.sub(lambda match: _ESCAPES[match.group()], text)


def leaks(peek_text: str, answer: str) -> bool:
    """Whether the withheld answer still stands in the peek, compared as whole tokens after normalisation."""
    texts = {_tokens(peek_text), _tokens(_SPLIT_NUMBER.sub("", peek_text))}
    return any(needle in text for needle in _spellings(answer) for text in texts)


def _replace(text: str, spans: Iterable[tuple[int, int]]) -> str:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return WITHHELD.join(without(text, merged))


_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]")
_SPACING = re.compile(r"\\(?:left|right|displaystyle|text|mathrm|mathbf|[,;:! ])|[$*_`{}]")
_FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{([^{}]*)\}|(\d))\s*(?:\{([^{}]*)\}|(\d))")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_SPLIT_NUMBER = re.compile(r"(?<=\d)(?: (?=\d{3}(?!\d))|[{}](?=\d))")
"""Inside `58 500` and `4{2}`, which may also be two numbers."""
_ZEROS = re.compile(r"(?<=\d)\.0+(?![\d.])|(?<=\.)(\d*[1-9])0+(?!\d)")
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+|[^\w\s]")
_NUMBERS = {
    "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
    "nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "thirteen": "13", "fourteen": "14", "fifteen": "15",
    "sixteen": "16", "seventeen": "17", "eighteen": "18", "nineteen": "19", "twenty": "20", "thirty": "30",
    "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90",
}  # fmt: skip
_TENS_AND_ONES = re.compile(
    rf"\b({'|'.join(word for word, value in _NUMBERS.items() if int(value) >= 20)})[-\s]"
    rf"({'|'.join(word for word, value in _NUMBERS.items() if 0 < int(value) < 10)})\b"
)
_SHORT_NUMBER = re.compile(r"-?\d{1,6}(?:\.\d{1,6}|/[1-9]\d{0,5})?")
_DECIMALS = 6


def _spellings(answer: str) -> Iterator[str]:
    """The tokens of an answer; of a short number also as a fraction and as a decimal, `3/4` and `0.75`."""
    tokens = _tokens(answer)
    if tokens != "\x1f":
        yield tokens
    if _SHORT_NUMBER.fullmatch(number := tokens.replace("\x1f", "")):
        value = Fraction(number)
        yield _tokens(str(value))
        if 10**_DECIMALS % value.denominator == 0:
            yield _tokens(f"{float(value):.{_DECIMALS}f}")


def _tokens(text: str) -> str:
    """Tokens of a text, each fenced by a separator: case, width, LaTeX dressing and number words set aside."""
    # One character at a time: canonical reordering of a long run of combining marks is quadratic.
    text = re.sub(r"[^\x00-\x7f]", lambda match: unicodedata.normalize("NFKC", match.group()), text)
    text = _INVISIBLE.sub("", text).replace("\u2212", "-").casefold()
    text = _SPACING.sub(" ", _THOUSANDS.sub("", _FRACTION.sub(r"\1\2/\3\4", text)))
    text = _TENS_AND_ONES.sub(lambda match: str(int(_NUMBERS[match[1]]) + int(_NUMBERS[match[2]])), text)
    words = (_NUMBERS.get(token, token) for token in _TOKEN.findall(_ZEROS.sub(r"\1", text)))
    return "\x1f" + "".join(f"{word}\x1f" for word in words)
