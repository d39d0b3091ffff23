"""The notation of a final answer: what it states, apart from how it is typeset.

`clean` removes typesetting; `read` splits the rest into values with their symbol, unit and percent sign, and into
tuples, sets and lists. All of it is linear in the text, so it is safe on anything that a policy writes. The only
mathematics here is that of plain rational numbers; math-verify compares expressions, in a different process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from agon.verify.math.units import split_unit

_UNICODE = str.maketrans(
    {
        **dict.fromkeys("−–‐‑﹣", "-"),
        **{
            "×": r"\times ",
            "·": r"\cdot ",
            "⋅": r"\cdot ",
            "÷": r"\div ",
            "√": r"\sqrt ",
            "±": r"\pm ",
            "…": r"\ldots ",
        },
        **{
            "π": r"\pi ",
            "∞": r"\infty ",
            "∅": r"\emptyset ",
            "ℝ": r"\mathbb{R}",
            "°": r"^\circ ",
            "²": "^2",
            "³": "^3",
        },
        **{"≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in "},
        **{"½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "⟨": "(", "⟩": ")"},
    }
)
_END = r"(?![A-Za-z])"
_REWRITES = tuple(
    (trigger, re.compile(pattern), replacement)
    for trigger, pattern, replacement in (
        ("inf", rf"(?<![A-Za-z\\])(?:infinity|inf){_END}", r"\\infty"),
        ("", rf"(?<![A-Za-z\\])(pi|sqrt|sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|ln|log|exp){_END}", r"\\\1"),
        ("\\!", r",\\!\s*", ","),
        ("{,}", r"\{,\}", ","),
        ("\\", rf"\\(?:left|right|[bB]igg?[lrm]?){_END}\.?", ""),
        ("\\", rf"(?<!\\)\\(?:(?:displaystyle|textstyle|limits){_END}|!)", ""),
        ("", rf"(?<!\\)\\(?:[,;: ]|q?quad{_END})|~|\s+", " "),
        ("\\", rf"\\(?:(?:math|text)(?:rm|bf|it|sf|tt|normal)|[mh]box|boldsymbol|bm){_END}", r"\\text"),
        ("\\text", r"\\text\s*\{([ie])\}", r" \1"),
        ("frac", rf"\\[dtc]frac{_END}", r"\\frac"),
        ("frac", r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
        ("frac", r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{"),
        ("frac", r"(\\frac\s*\{[^{}]*\})\s*(\d)", r"\1{\2}"),
        ("sqrt", r"\\sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}"),
        ("*", r"(?<!\*)\*(?!\*)", r"\\cdot "),
        ("\\", rf"\^\s*\{{\s*\\circ\s*\}}|\\degree{_END}", r"^\\circ"),
        ("brace", rf"\\l(?:brace){_END}", r"\\{"),
        ("brace", rf"\\r(?:brace){_END}", r"\\}"),
        ("angle", rf"\\langle{_END}", "("),
        ("angle", rf"\\rangle{_END}", ")"),
        ("vert", rf"\\[lr]?vert{_END}", "|"),
        ("\\", rf"\\(le|ge|ne)(?:q|qslant|qq)?{_END}", r"\\\1"),
        ("\\lt", rf"\\lt{_END}", "<"),
        ("\\gt", rf"\\gt{_END}", ">"),
        ("\\%", r"\\%", "%"),
    )
)
_WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`"))
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?")
_TAIL = re.compile(r"(?<![.,;\s])\s*[.,;]?$")
_DOLLAR = re.compile(r"(?<!\\)\$")
_REDUNDANT_SPACE = re.compile(r"(?<![0-9A-Za-z])\s+|\s+(?![0-9A-Za-z])")

_INT = r"\d{1,3}(?:,\d{3})+|\d{1,3}(?: \d{3})+|\d+"
_NUMBER = re.compile(
    rf"(?P<sign>[-+]?)\s*(?:(?P<whole>{_INT})?(?P<point>\.\d*)?(?:\\overline\s*\{{(?P<repeat>\d+)\}})?"
    r"(?:\s*(?:\\times|\\cdot)\s*10\s*\^\s*(?:\{\s*(?P<exp>-?\d{1,2})\s*\}|(?P<exp1>\d)))?)"
)
_FRACTION = re.compile(
    rf"(?P<sign>[-+]?)\s*(?:(?P<mixed>\d+)\s*)?\\frac\s*\{{\s*(?P<top>-?\s*(?:{_INT}))\s*\}}\s*\{{\s*(?P<bottom>{_INT})\s*\}}"
    rf"|(?P<sign2>[-+]?)\s*(?P<top2>{_INT})\s*/\s*(?P<bottom2>{_INT})"
)
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
_BASED = re.compile(r"([0-9A-F]+)\s*_\s*(?:\{\s*(\d{1,2})\s*\}|(\d{1,2}))")
_RATIO = re.compile(r"\d+(?:\.\d+)?(?:\s*:\s*\d+(?:\.\d+)?)+")
_CONNECTIVE = re.compile(r",?\s*(?:\\text\s*\{\s*,?\s*(?:and|or)\s*,?\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z]))\s*,?")
_WORDS = re.compile(r"\(?[A-Za-z][A-Za-z'’.\- ]*(?:,\s*[A-Za-z'’.\- ]+)*\)?")
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
NEAR = 2e-6
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class Rational:
    """A rational number and how it is written: an unevaluated fraction is not an integer."""

    value: Fraction
    decimal: bool = False
    fraction: bool = False


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


@lru_cache(maxsize=10_000)
def clean(text: str) -> str:
    """The text without typesetting: delimiters, spacing, fonts, synonyms of the same sign."""
    text = text.strip()
    if _PLAIN.fullmatch(text):
        return text
    text = _unwrap(text.translate(_UNICODE).strip())
    for trigger, pattern, replacement in _REWRITES:
        if trigger in text:
            text = pattern.sub(replacement, text)
    return _TAIL.sub("", _unwrap(text.strip()))


@lru_cache(maxsize=10_000)
def canonical(text: str) -> str:
    """The cleaned text without redundant spaces: two texts with the same canonical form are the same answer."""
    return _REDUNDANT_SPACE.sub("", clean(text))


def as_words(text: str) -> str | None:
    """The lower-case words of an answer that is words (`\\text{east}`, `(B)`), or None when it is mathematics."""
    cleaned = clean(text)
    inner = _TEXT.fullmatch(cleaned)
    words = (inner.group(1) if inner else cleaned).strip().rstrip(".")
    if not _WORDS.fullmatch(words) or not (inner or re.match(r"[A-Za-z]{3}", words)):
        return None
    return " ".join(words.strip("()").lower().replace("’", "'").split())


def number(text: str) -> Rational | None:
    """The rational that `text` spells: integer, decimal, repeating decimal, fraction, mixed or scientific."""
    if match := _FRACTION.fullmatch(text):
        return _fraction(match)
    match = _NUMBER.fullmatch(text)
    if not match or not (match["whole"] or len(match["point"] or "") > 1 or match["repeat"]):
        return None
    if match["repeat"] and not match["point"]:
        return None
    return _decimal(match)


def same_number(gold: Rational, answer: Rational) -> bool:
    """Whether two rationals are equal; a decimal may also stand for a fraction to six places and six digits."""
    if gold.value == answer.value:
        return True
    if not (gold.fraction and answer.decimal) and not (gold.decimal and answer.fraction):
        return False
    gap = abs(gold.value - answer.value)
    return gap <= 1e-6 and gap <= NEAR * abs(gold.value)


@lru_cache(maxsize=10_000)
def read(text: str) -> Node:
    """The tree of values that an answer states."""
    return _node(clean(text), depth=0)


def leaves(node: Node) -> tuple[Leaf, ...]:
    """Every value of a tree, in order."""
    if isinstance(node, Leaf):
        return (node,)
    return tuple(leaf for item in node.items for leaf in leaves(item))


def _unwrap(text: str) -> str:
    """Remove pairs of delimiters around the whole text, and unescaped dollar signs in pairs."""
    while text[:1] in ("$", "\\", "*", "`"):
        pair = next((pair for pair in _WRAPPERS if _wraps(text, *pair)), None)
        if pair is None:
            break
        text = text[len(pair[0]) : -len(pair[1])].strip()
    if "$" not in text or len(_DOLLAR.findall(text)) % 2:
        return text
    return _DOLLAR.sub("", text)


def _wraps(text: str, start: str, end: str) -> bool:
    inner = text[len(start) : -len(end)]
    return bool(inner) and text.startswith(start) and text.endswith(end) and start not in inner


def _digits(text: str) -> int:
    return int(re.sub(r"[, ]", "", text))


def _fraction(match: re.Match[str]) -> Rational | None:
    top, bottom = _digits(match["top"] or match["top2"]), _digits(match["bottom"] or match["bottom2"])
    if bottom == 0 or (match["mixed"] and top < 0):
        return None
    value = Fraction(top, bottom) + int(match["mixed"] or 0)
    return Rational(-value if "-" in (match["sign"] or match["sign2"] or "") else value, fraction=True)


def _decimal(match: re.Match[str]) -> Rational:
    digits = (match["point"] or ".")[1:]
    value = Fraction(_digits(match["whole"] or "0")) + Fraction(int(digits or "0"), 10 ** len(digits))
    if repeat := match["repeat"]:
        value += Fraction(int(repeat), (10 ** len(repeat) - 1) * 10 ** len(digits))
    value *= Fraction(10) ** int(match["exp"] or match["exp1"] or 0)
    return Rational(-value if match["sign"] == "-" else value, decimal=bool(match["point"]))


def _node(text: str, depth: int) -> Node:
    """Parse one value, or a group in brackets, a list or a ratio."""
    symbol, rest = _assignment(text)
    bare = _marks(rest)[0]
    if depth > 3 or number(bare):
        return _leaf(text)
    if _RATIO.fullmatch(bare):
        return Group(":", tuple(_leaf(part.strip()) for part in bare.split(":")), symbol)
    brackets = _brackets(rest)
    inner = _split(_inside(rest, brackets)) if brackets else []
    if len(inner) > 1 or brackets == "{}":
        return Group(brackets, _items(inner, depth, brackets == "{}"), symbol)
    if brackets and inner[0]:
        return _node(inner[0] if not symbol else f"{symbol}={inner[0]}", depth + 1)
    parts = _split(rest)
    if len(parts) > 1:
        return Group("", _items(parts, depth, True), symbol)
    return Group("", _items([text], depth, True)) if len(_signs(text)) > 1 else _leaf(text)


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
        return Leaf(based[1], text, symbol, unit, based[2] or based[3], percent)
    return Leaf(bare, text, symbol, unit, "", percent, number(bare))


def _assignment(text: str) -> tuple[str, str]:
    """`x = 5` is ("x", "5"); text without a symbol, or with several relations, is unchanged."""
    match = _ASSIGN.match(text)
    if not match or "=" in text[match.end() :] or "\\in " in text[match.end() :]:
        return "", text
    return re.sub(r"[\s{}]", "", match[1]), text[match.end() :].strip()


def _marks(text: str) -> tuple[str, str, bool]:
    """Value, unit, and whether a percent sign follows."""
    bare = re.sub(r"\s*(?:%|\\text\s*\{\s*(?:percent|%)\s*\}|(?<![A-Za-z\\])percent)$", "", text)
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
