"""The notation of a final answer: what it states, apart from how it is typeset.

`read` splits a cleaned text into values with their symbol, unit and percent sign, and into tuples, sets, lists,
intervals and columns. All of it is linear in the text, so it is safe on anything that a policy writes. The only
mathematics here is that of plain rational numbers; math-verify compares expressions, in a different process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from agon_judge.math.rationals import Rational, number
from agon_judge.math.spelling import clean
from agon_judge.math.units import split_unit

_GREEK = """
    alpha beta gamma delta epsilon varepsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau phi varphi chi psi
    omega ell
"""
_LETTER = rf"(?:[A-Za-z]|\\(?:{'|'.join(_GREEK.split())}))"
_NAME = rf"{_LETTER}(?:_(?:[A-Za-z0-9]|\{{[A-Za-z0-9]+\}}))?(?:\s*\([A-Za-z]\))?"
_ASSIGN = re.compile(
    rf"\s*({_NAME}|(?:m\s*)?\\angle\s*[A-Z]{{1,3}}|[A-Z]{{2,3}}|\\text\{{[A-Za-z ]+\}}"
    rf"|\(\s*{_NAME}(?:\s*,\s*{_NAME})*\s*\))"
    r"\s*(=|\\in(?![A-Za-z]))\s*(?=\S)"
)
_BASED = re.compile(r"(?:\(([0-9A-F]+)\)|([0-9A-F]+))\s*_\s*(?:\{\s*\(?\s*(\w+)\s*\)?\s*\}|(\d{1,2}))")
_DIGITS = "two three four five six seven eight nine ten eleven twelve"
_BASES = {word: str(base) for base, word in enumerate(_DIGITS.split(), start=2)}
_RATIO = re.compile(r"\d+(?:\.\d+)?(?:\s*(?::|to)\s*\d+(?:\.\d+)?)+")
_OR = re.compile(r"\s*(?:\\text\s*\{\s*or\s*\}|(?<![A-Za-z\\])or(?![A-Za-z]))\s*")
_CONNECTIVE = re.compile(r",?\s*(?:\\text\s*\{\s*,?\s*(?:and|or)\s*,?\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z]))\s*,?")
_WORDS = re.compile(r"\(?[A-Za-z][A-Za-z'’.\- ]*(?:,\s*[A-Za-z'’.\- ]+)*\)?")
_TIME = re.compile(r"(\d{1,2}:\d{2})\s*([ap])\.?m\.?", re.IGNORECASE)
_FILLER = re.compile(r"^(?:(?:option|choice) (?=\(?[a-z]\)?$)|(?:an?|the) (?=\w\w))")
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
_COLUMN = re.compile(r"\\begin\s*\{[pb]matrix\}([^&]*)\\end\s*\{[pb]matrix\}")
_BUILDER = re.compile(rf"\\\{{\s*{_LETTER}(?:\s*\\in\s*\\mathbb\{{R\}})?\s*(?:\||:|\\mid(?![a-z]))(.*)\\\}}")
_COMPARISON = re.compile(r"(<|>|\\le(?![A-Za-z])|\\ge(?![A-Za-z]))")
_THOUSANDS = re.compile(r"(?:[^,;(\[]|(?<=\d),(?=\d{3}(?!\d)))*")
_RISING = ("<", "\\le")
_VARIABLE = re.compile(_LETTER)
_PERCENT = re.compile(r"\s*(?:%|\\text\s*\{\s*(?:per ?cent|pct|%)\s*\}|(?<![A-Za-z\\])(?:per ?cent|pct))$")
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value: `text` is its LaTeX without symbol, unit and percent sign; `whole` keeps the symbol."""

    text: str
    whole: str
    symbol: str = ""
    unit: str = ""
    base: str = ""
    percent: bool = False
    number: Rational | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Several values. Brackets are `{}` for a set, empty for a bare list, `:` for a ratio; all others are ordered."""

    brackets: str
    items: tuple[Node, ...]
    symbol: str = ""

    @property
    def ordered(self) -> bool:
        return self.brackets not in ("", "{}")


Node = Leaf | Group


def as_words(text: str) -> str | None:
    """The words of an answer in words, or a time (`\\text{east}`, `(B)`, `12:30 PM`), else None."""
    words, quoted = _unquoted(text)
    if _TIME.fullmatch(words):
        return plain_words(text)
    is_prose = _WORDS.fullmatch(words.rstrip(".")) and (quoted or re.match(r"[A-Za-z]{3}|an? \w", words))
    return plain_words(text) if is_prose else None


def plain_words(text: str) -> str:
    """A text in lower case without brackets, articles and `option` in front of a letter."""
    words, _ = _unquoted(text)
    if time := _TIME.fullmatch(words):
        return f"{time[1]} {time[2].lower()}m"
    words = _FILLER.sub("", " ".join(words.rstrip(".").lower().replace("’", "'").split()))
    while words.startswith("(") and words.endswith(")"):
        words = words[1:-1].strip()
    return words[0] if re.fullmatch(r"[a-z]\)", words) else words


@lru_cache(maxsize=10_000)
def read(text: str) -> Node:
    """The tree of values that an answer states."""
    return _node(clean(text), depth=0)


def leaves(node: Node) -> tuple[Leaf, ...]:
    """Every value of a tree, in order."""
    if isinstance(node, Leaf):
        return (node,)
    return tuple(leaf for item in node.items for leaf in leaves(item))


def _unquoted(text: str) -> tuple[str, bool]:
    """The cleaned text, or what one `\\text` around all of it quotes, and whether there was one."""
    cleaned = clean(text)
    inner = _TEXT.fullmatch(cleaned)
    return (inner[1] if inner else cleaned).strip(), inner is not None


def _node(text: str, depth: int) -> Node:
    """Parse one value, or a group in brackets, a list, a ratio, an interval or a column."""
    symbol, rest = _assignment(text)
    bare = _marks(rest)[0]
    if depth > 3 or number(bare):
        return _leaf(text)
    if _RATIO.fullmatch(bare):
        return Group(":", tuple(_leaf(part.strip()) for part in re.split(":|to", bare)), symbol)
    if column := _COLUMN.fullmatch(rest):
        rows = [row for row in column[1].split("\\\\") if row.strip()]
        return Group("()", _items(rows, depth, False), symbol)
    if builder := _BUILDER.fullmatch(rest):
        return _node(builder[1].strip(), depth + 1)
    if region := _region(text):
        return _node(region, depth + 1)
    return _bracketed(symbol, rest, depth) or _listed(text, symbol, rest, depth)


def _bracketed(symbol: str, rest: str, depth: int) -> Node | None:
    """The group or the value inside brackets around the whole text, if there are any."""
    brackets = _brackets(rest)
    inner = _split(_inside(rest, brackets)) if brackets else []
    if len(inner) > 1 or brackets == "{}":
        return Group(brackets, _items(inner, depth, brackets == "{}"), symbol)
    if brackets and inner[0]:
        return _node(inner[0] if not symbol else f"{symbol}={inner[0]}", depth + 1)
    return None


def _listed(text: str, symbol: str, rest: str, depth: int) -> Node:
    """A bare list, or one value."""
    if "," in rest and _THOUSANDS.fullmatch(rest) and "\\{" not in rest and not _CONNECTIVE.search(rest):
        return _leaf(text.replace(",", ""))
    parts = _split(rest)
    if len(parts) > 1:
        items = _items(parts, depth, True)
        return _point(items) or Group("", items, symbol)
    return Group("", _items([text], depth, True)) if len(_signs(text)) > 1 else _leaf(text)


def _point(items: tuple[Node, ...]) -> Group | None:
    """`x = 1, y = 2` is the point (1,2): a list whose values have different letters as names, in their order."""
    names = [item.symbol for item in items]
    if len(set(names)) < len(names) or not all(len(name) == 1 for name in names):
        return None
    return Group("()", tuple(sorted(items, key=lambda item: item.symbol)), f"({','.join(sorted(names))})")


def _region(text: str) -> str:
    """`x < 2 or x > 3` as `x \\in (-\\infty, 2) \\cup (3, \\infty)`; empty if it is not inequalities in one letter."""
    if not _COMPARISON.search(text) and "\\infty" not in text:
        return ""
    parts = _OR.split(text)
    found = [_interval(part) or ("", part if len(parts) > 1 and _is_open_ended(part) else "") for part in parts]
    letters = {letter for letter, _ in found if letter}
    if len(letters) > 1 or not all(interval for _, interval in found):
        return ""
    return "".join(f"{letter} \\in " for letter in letters) + r" \cup ".join(interval for _, interval in found)


def _interval(text: str) -> tuple[str, str] | None:
    """`3 < x \\le 4` as ("x", "(3,4]"); None if it is not an inequality in one letter between constants."""
    parts = [part.strip() for part in _COMPARISON.split(text)]
    if len(parts) == 3:
        rising = parts[1] in _RISING
        end = "\\infty" if rising == bool(_VARIABLE.fullmatch(parts[2])) else "-\\infty"
        parts = [end, "<>"[not rising], *parts] if _VARIABLE.fullmatch(parts[0]) else [*parts, "<>"[not rising], end]
    if len(parts) != 5 or not _VARIABLE.fullmatch(parts[2]):
        return None
    low, first, letter, second, high = parts if parts[1] in _RISING else reversed(parts)
    if (first in _RISING) != (second in _RISING) or not all(map(_is_constant, (low, high))):
        return None
    return letter, f"{'(' if first in '<>' else '['}{low}, {high}{')' if second in '<>' else ']'}"


def _is_open_ended(text: str) -> bool:
    return "\\infty" in text and bool(_brackets(text))


def _is_constant(text: str) -> bool:
    return bool(text) and not re.search("[A-Za-z=|]", re.sub(r"\\[A-Za-z]+", "", text))


def _items(parts: list[str], depth: int, bag: bool) -> tuple[Node, ...]:
    """The nodes of the parts; in a set or list, `a \\pm b` stands for two of them."""
    texts = [signed for part in parts for signed in (_signs(part) if bag else [part])]
    return tuple(_node(text.strip(), depth + 1) for text in texts)


def _signs(text: str) -> list[str]:
    if "\\pm" not in text and "\\mp" not in text:
        return [text]
    upper = text.replace("\\pm", "+").replace("\\mp", "-")
    lower = text.replace("\\pm", "-").replace("\\mp", "+")
    return [re.sub(r"^((?:[^=]*=)?)\s*\+", r"\1", upper.strip()), lower]


def _leaf(text: str) -> Leaf:
    """Parse one value into symbol, percent sign, unit, number base and the rest."""
    symbol, rest = _assignment(text)
    bare, unit, percent = _marks(rest)
    if based := _BASED.fullmatch(bare):
        base = based[3] or based[4]
        if (base := _BASES.get(base, base)).isdigit():
            return Leaf(based[1] or based[2], text, symbol, unit, base, percent)
    return Leaf(bare, text, symbol, unit, "", percent, number(bare))


def _assignment(text: str) -> tuple[str, str]:
    """`x = 5` is ("x", "5"); text without a symbol, or with several relations, is unchanged."""
    match = _ASSIGN.match(text)
    if not match or "=" in text[match.end() :] or "\\in " in text[match.end() :]:
        return "", text
    return re.sub(r"[\s{}]", "", match[1]), text[match.end() :].strip()


def _marks(text: str) -> tuple[str, str, bool]:
    """Value, unit, and whether a percent sign follows."""
    bare = _PERCENT.sub("", text)
    if bare != text:
        return bare.strip(), "", True
    bare, unit = split_unit(text, lambda head: number(head) is not None)
    return bare, unit, False


def _brackets(text: str) -> str:
    """The pair of brackets that encloses all of `text`, if one does."""
    start = 2 if text.startswith(r"\{") else 1
    if not text or text[start - 1] not in _OPEN or (start == 1 and text[0] == "{"):
        return ""
    depth = 0
    for index, sign in enumerate(text):
        depth += (sign in _OPEN) - (sign in _CLOSE)
        if depth == 0 and index >= start - 1:
            return text[start - 1] + sign if index == len(text) - 1 else ""
    return ""


def _inside(text: str, brackets: str) -> str:
    return text[2:-2] if brackets == "{}" else text[1:-1]


def _split(text: str) -> list[str]:
    """Split at commas, semicolons, `and` and `or` outside all brackets, but not at thousands separators."""
    text = _CONNECTIVE.sub(" ; ", text)
    if re.search(r",\s|;", text):
        text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    parts, depth, last = [], 0, 0
    for index, sign in enumerate(text):
        depth += (sign in _OPEN) - (sign in _CLOSE)
        if sign in ",;" and depth <= 0:
            parts.append(text[last:index])
            last = index + 1
    return [part.strip() for part in [*parts, text[last:]]]
