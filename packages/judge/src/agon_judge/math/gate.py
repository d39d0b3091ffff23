"""The gate in front of math-verify: cheap rules that refuse an answer before it is parsed.

Everything here is linear in the text and runs in the caller's process. There are two kinds of rules:

    limits   what could hang or crash a worker (length, nesting, digits, towers, factorials)
    forms    what math-verify would pay for and we do not: the unevaluated question, `41=42`, a percent sign that nobody
             asked for, a set for a point, two values for one. An operator is allowed only if the gold has it.

The forms never refuse the gold itself: an answer that is written like the gold has already been accepted.
"""

from __future__ import annotations

import re
import unicodedata

from agon_judge.math import units
from agon_judge.math.notation import Group, Leaf, Node, leaves, read
from agon_judge.math.operators import Profile, profile
from agon_judge.verdict import Reason, Verdict

MAX_CHARS = 1000
MAX_NESTING = 40
MAX_DIGITS = 59
MAX_ITEMS = 64

_IMPLIED = {
    "root": {"power"},
    "power": {"root", "fraction"},
    "trigonometric": {"fraction"},
    "power of a symbol": {"power", "root", "fraction"},
    "exponential": {"power"},
    "binomial": {"fraction", "factorial", "sum of terms"},
    "relation": {"set operation"},
    "set operation": {"relation"},
}


_RELATION = re.compile(r"[=<>]|\\(?:le|ge)(?![A-Za-z])")
_PRODUCT = re.compile(r"\\(?:cdot|times|ast)(?![A-Za-z])|[)}]\s*(?:\\frac|\()")
_EXPONENT = re.compile(r"\^\s*\{?\s*[-+(]*\s*(\d{3,})")
_FACTORIAL = re.compile(r"!\s*[)\]}]*\s*!|\d{4}\s*!")
_TEXT_BESIDE = re.compile(r"\S\s*\\text(?![A-Za-z])|\\text\s*\{[^{}]*\}\s*\S")
"""Words beside a value: parsed as letters, they would be factors, and anything times 0 is 0."""
_EXP = frozenset({"exponential", "hyperbolic"})
_STRANGE = frozenset(("Nd", "Nl", "No", "Cf", "Cc", "Co", "Cs", "Cn", "Mn", "Me", "So", "Sk", "Lm"))


def limits(text: str, gold: str = "") -> str:
    """What makes `text` too dangerous or too strange to parse, or an empty string; `gold` permits its own sizes."""
    if len(text) > MAX_CHARS:
        return f"longer than {MAX_CHARS} characters"
    if sign := _strange(text):
        return f"character U+{ord(sign):04X}"
    if _nesting(text) > MAX_NESTING:
        return f"nested deeper than {MAX_NESTING}"
    joined = re.sub(r"(?<=\d)[\s,]+(?=\d)|\\[!,;: ]|\{,\}", "", text)
    return _sizes(joined, gold)


def refuse(gold: str, answer: str, question: str = "") -> Verdict | None:
    """The rule that an answer to this gold breaks, or None if math-verify may see it."""
    asked, given = profile(gold), profile(answer)
    for rule in (_shape, _percent, _unit):
        refusal = rule(read(gold), read(answer), question)
        if refusal is not None:
            return refusal
    if extra := _extra(asked, given, read(gold), read(answer)):
        return Verdict(Reason.UNPARSABLE, extra)
    return None


def mentions_percent(text: str) -> bool:
    """Whether a percent sign in the answer could have been asked for."""
    return "%" in text or "percent" in text.lower()


def _permitted(asked: Profile, gold: Node, answer: Node) -> set[str]:
    """The operators that an answer may have against this gold: the gold's own and their other spellings."""
    permitted = set(asked.operators) | {"power of a symbol"}
    permitted |= {more for label in asked.operators for more in _IMPLIED.get(label, ())}
    permitted |= {"fraction"} if asked.decimal else set()
    permitted |= {"relation", "set operation"} if _is_interval(asked, gold) else set()
    if not _is_curve(gold):
        return permitted
    unsolved = isinstance(answer, Leaf) and not answer.symbol and "=" in answer.whole
    return permitted | ({"relation", "sum of terms"} if unsolved else {"relation"})


def _is_interval(asked: Profile, gold: Node) -> bool:
    return (isinstance(gold, Group) and gold.ordered) or "set operation" in asked.operators


def _is_curve(gold: Node) -> bool:
    """`y = 2x + 3` may be answered by an equation; `x = 5` asks for 5."""
    return isinstance(gold, Leaf) and bool(gold.symbol) and gold.number is None


def _extra(asked: Profile, given: Profile, gold: Node, answer: Node) -> str:
    """The first thing in the answer that the gold does not permit."""
    if label := next(iter(sorted(given.operators - _permitted(asked, gold, answer))), ""):
        return f"{label} where the gold has none"
    if name := next(iter(sorted(given.patterns - asked.patterns)), ""):
        return name
    if all(leaf.number for leaf in leaves(gold)) and any(map(_is_product, leaves(answer))):
        return "product where the gold is a number"
    if any(_TEXT_BESIDE.search(leaf.text) for leaf in leaves(answer)) and "\\text" not in _source(gold):
        return "words where the gold has none"
    if unknown := sorted(given.unknown - asked.unknown):
        return f"command \\{unknown[0]}"
    if given.tower > max(1, asked.tower):
        return "tower of powers"
    if given.joints > max(asked.joints, "relation" in asked.operators):
        return "more set operations than the gold has"
    known = asked.variables | set(gold.symbol if _is_curve(gold) else "") | set("e" if _EXP & asked.operators else "")
    foreign = given.variables - known
    if foreign and not (_is_interval(asked, gold) and "relation" in given.operators):
        return f"variable {min(foreign)} that the gold does not have"
    return ""


def _source(node: Node) -> str:
    return " ".join(leaf.text for leaf in leaves(node))


def _is_product(leaf: Leaf) -> bool:
    return leaf.number is None and bool(_PRODUCT.search(leaf.text))


def _shape(gold: Node, answer: Node, _: str) -> Verdict | None:
    """One value for one value; a set is not a tuple where the gold is ordered; brackets are part of the answer."""
    if gold.symbol and answer.symbol and gold.symbol != answer.symbol:
        return Verdict(Reason.WRONG, f"{answer.symbol} where the gold gives {gold.symbol}")
    if isinstance(answer, Leaf):
        return _leaf_shape(gold, answer)
    if len(answer.items) > MAX_ITEMS or any(isinstance(item, Leaf) and not item.text for item in answer.items):
        return Verdict(Reason.UNPARSABLE, "not a list of values")
    if isinstance(gold, Leaf):
        if answer.brackets == "{}" and len(answer.items) == 1:
            return _leaf_shape(gold, answer.items[0]) if isinstance(answer.items[0], Leaf) else None
        if {"relation", "set operation"} & profile(gold.whole).operators or "\\mathbb" in gold.text:
            return None
        return _wrong(gold, answer) if answer.brackets else Verdict(Reason.AMBIGUOUS, "several values for one")
    if gold.brackets != answer.brackets and (gold.ordered or answer.ordered):
        return _wrong(gold, answer)
    return None


def _leaf_shape(gold: Node, answer: Leaf) -> Verdict | None:
    """A number base must be the gold's, or 10; no letter is given by itself; no chains of relations."""
    if isinstance(gold, Leaf) and answer.base not in ("", gold.base, "" if gold.base else "10"):
        return Verdict(Reason.WRONG, f"base {answer.base}")
    if len(answer.symbol) == 1 and answer.symbol in profile(answer.text).variables:
        return Verdict(Reason.UNPARSABLE, f"{answer.symbol} on both sides")
    if len(_RELATION.findall(answer.whole)) > max(1, sum(len(_RELATION.findall(leaf.whole)) for leaf in leaves(gold))):
        return Verdict(Reason.UNPARSABLE, "chain of relations")
    return None


def _wrong(gold: Node, answer: Node) -> Verdict:
    names = [node.brackets or "a bare list" if isinstance(node, Group) else "a value" for node in (answer, gold)]
    return Verdict(Reason.WRONG, f"{names[0]} where the gold is {names[1]}")


def _percent(gold: Node, answer: Node, question: str) -> Verdict | None:
    """A percent sign is allowed only if the gold or the question mentions percent."""
    permitted = any(leaf.percent for leaf in leaves(gold)) or mentions_percent(question)
    if permitted or not any(leaf.percent for leaf in leaves(answer)):
        return None
    return Verdict(Reason.WRONG, "percent sign that neither gold nor question has")


def _unit(gold: Node, answer: Node, question: str) -> Verdict | None:
    """Units are optional; two known ones must agree, and an unknown one must be something to count."""
    for one, other in zip(leaves(gold), leaves(answer), strict=False):
        if units.clash(one.unit, other.unit):
            return Verdict(Reason.WRONG, f"{other.unit} where the gold is in {one.unit}")
    unknown = {leaf.unit for leaf in leaves(answer) if not units.is_known(leaf.unit)}
    for unit in sorted(unknown - {""} - {leaf.unit for leaf in leaves(gold)}):
        if not units.could_count(unit, question):
            return Verdict(Reason.UNPARSABLE, f"{unit} is not a unit")
    return None


def _strange(text: str) -> str:
    """The first character that looks like another one or like nothing: foreign digits, zero-width, direction marks."""
    if text.isascii() and text.isprintable():
        return ""
    return next((sign for sign in text if _is_strange(sign)), "")


def _is_strange(sign: str) -> bool:
    if sign.isascii() or sign in "½¼¾²³°":
        return sign < " " and sign not in "\n\t\r"
    return unicodedata.category(sign) in _STRANGE or "\uff00" <= sign <= "\uffef"


def _nesting(text: str) -> int:
    depth = deepest = 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        deepest = max(deepest, depth)
    return deepest + text.count("\\sqrt\\sqrt") + text.count("\\frac\\frac")


def _sizes(text: str, gold: str) -> str:
    """Long digit runs, long exponents and big or nested factorials, unless the gold has them too."""
    if any(len(run) > MAX_DIGITS and run not in gold for run in re.findall(r"\d{4,}", text)):
        return f"more than {MAX_DIGITS} digits in a row"
    longest = max((len(exponent) for exponent in _EXPONENT.findall(gold)), default=0)
    for exponent in _EXPONENT.findall(text):
        if len(exponent) > max(2, longest) or (len(exponent) > 3 and exponent not in gold):
            return f"exponent of {len(exponent)} digits"
    return "big factorial" if _FACTORIAL.search(text) and not _FACTORIAL.search(gold) else ""
