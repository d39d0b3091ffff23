"""The operators, variables and unusual signs of an expression: a profile that the gate compares with the gold's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from agon.verify.math.notation import leaves, read

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|\.\d+|[A-Za-z]+|\S")
_CLASSES = {
    "integral": "int iint iiint oint",
    "sum": "sum",
    "product": "prod",
    "limit": "lim limsup liminf",
    "binomial": "binom dbinom tbinom choose",
    "determinant": "det",
    "divisor": "gcd lcm",
    "extremum": "max min sup inf arg",
    "remainder": "mod bmod pmod equiv",
    "rounding": "lfloor rfloor lceil rceil",
    "derivative": "partial nabla prime",
    "trigonometric": "sin cos tan cot sec csc",
    "inverse trigonometric": "arcsin arccos arctan",
    "hyperbolic": "sinh cosh tanh coth",
    "logarithm": "log ln lg",
    "exponential": "exp",
    "root": "sqrt",
    "fraction": "frac div",
    "plus or minus": "pm mp",
    "named": "operatorname deg dim ker Re Im Pr",
    "accent": "overline bar hat vec tilde widehat underline dot",
    "ellipsis": "ldots dots cdots",
    "set operation": "cup cap setminus",
    "relation": "le ge ne approx sim simeq cong to in notin subset subseteq neg lnot",
    "implication": "Rightarrow implies iff rightarrow mapsto Leftrightarrow",
}
_GREEK = """
    alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho varrho sigma tau
    upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega ell
"""
_OTHER = "pi infty circ text begin end mathbb mathcal emptyset varnothing angle triangle"
_SPELLINGS = "cdot times ast mid colon"
_OPERATORS = {name: label for label, names in _CLASSES.items() for name in names.split()}
_WORDS = "gcd lcm max min mod det floor ceil abs factorial choose binom int sum lim prod"
_WORD_OPERATORS = frozenset(_WORDS.split())
_LETTERS = frozenset(_GREEK.split())
_VALUES = _LETTERS | frozenset(_OTHER.split())
_KNOWN = _VALUES | frozenset(_SPELLINGS.split()) | frozenset(_OPERATORS) | frozenset("{}|,;: !%$\\")
_SIGNS = {"/": "fraction", "!": "factorial", "|": "absolute value", "=": "relation", "<": "relation", ">": "relation"}
_PATTERNS = {
    "code notation": re.compile(r"(?<![\w.])0[xXbBoO][0-9A-Fa-f]|\d[eE][-+]?\d|\*\*|//|\+\+"),
    "double sign": re.compile(r"[-+]\s*[-+]|[-+]\s*\(\s*[-+]"),
    "power of zero or one": re.compile(r"\^\s*(?:[01](?![\d.])|\{\s*(?:[-+]?0+|\+?0*1)\s*\})"),
    "zero term": re.compile(
        r"(?:[-+]|\\pm)\s*0(?!\s*[\d.)])|(?<![\w.}])0\s*(?:[A-Za-z(+-]|\\(?:cdot|times|pi|sqrt)(?![a-z]))"
    ),
    "split number": re.compile(r"\d\s+\d|\d\s*\\text\s*\{\s*[\d.]|[\d.]\s*\.\s*\d*\."),
    "numeric product": re.compile(
        r"\(\s*-?[\d.]+\s*\)\s*[\d(]|[\d}]\s*\(\s*-?(?:[\d.]+|\d+/\d+|\\frac\{\d+\}\{\d+\})\s*\)|\}\s*\d"
    ),
    "number behind a letter": re.compile(r"(?<![A-Za-z\\])(?<!\\frac )[A-Za-z]\s*\d"),
    "arithmetic with infinity": re.compile(
        r"\\infty\s*(?:\\cdot|\\times|[-+/^\d(])|[\d)]\s*(?:(?:\\cdot|\\times)\s*)?\\infty"
    ),
    "subscripted number": re.compile(r"[\d)\]]\s*_"),
    "ellipsis": re.compile(r"\.\s*\."),
    "stray sign": re.compile(r"[%#@?\"&`']|\\\\|\$|[€£]"),
}
_LOG_BASE = re.compile(r"(\\log\s*)_\s*(?:[A-Za-z0-9]|\{[^{}]*\})")
_FRACTIONAL_POWER = re.compile(r"(?<!\d)\d*\s*\^\s*\{\s*-?\s*(?:\d+\s*/\s*\d+|\\frac\s*\{\d+\}\s*\{\d+\})\s*\}")
_SET_OPERATION = re.compile(r"\\(?:cup|cap|setminus)(?![A-Za-z])")


@dataclass(frozen=True, slots=True)
class Profile:
    """What an expression consists of. `unknown` are commands that no rule covers; `joints` counts set operations."""

    operators: frozenset[str]
    variables: frozenset[str]
    patterns: frozenset[str]
    unknown: frozenset[str]
    tower: int
    joints: int
    decimal: bool


@lru_cache(maxsize=10_000)
def profile(text: str) -> Profile:
    """The profile of a text; plain numbers count only as decimals or fractions."""
    numbers = [leaf.number for leaf in leaves(read(text)) if leaf.number]
    plain = " , ".join(leaf.text for leaf in leaves(read(text)) if not leaf.number)
    body = re.sub(r"\\(?:begin|end)\s*\{[a-zA-Z]*matrix\}", " ", plain)
    rooted = _FRACTIONAL_POWER.sub(r"\\sqrt{}", body)
    tokens = _TOKEN.findall(re.sub(r"\\(?:text|mathbb)\s*\{[^{}]*\}", " ", rooted))
    body = _LOG_BASE.sub(r"\1 ", body)
    commands = frozenset(token[1:] for token in tokens if len(token) > 1 and token[0] == "\\")
    written_out = {"fraction"} if any(number.fraction for number in numbers) else set()
    return Profile(
        operators=_operators(plain, tokens, commands) | written_out,
        variables=frozenset(letter for token in tokens if token[0].isalpha() for letter in token)
        | (commands & _LETTERS),
        patterns=frozenset(name for name, pattern in _PATTERNS.items() if pattern.search(body)),
        unknown=commands - _KNOWN,
        tower=_tower(plain),
        joints=len(_SET_OPERATION.findall(plain)),
        decimal=any(number.decimal for number in numbers) or bool(re.search(r"\.\d", plain)),
    )


def _operators(plain: str, tokens: list[str], commands: frozenset[str]) -> frozenset[str]:
    """The classes of operators in a text, arithmetic included."""
    labels = {_OPERATORS[name] for name in commands if name in _OPERATORS}
    labels |= {"named" for token in tokens if token in _WORD_OPERATORS}
    labels |= {"determinant"} if "vmatrix" in plain.lower() else set()
    for index, token in enumerate(tokens):
        before, after = _before(tokens, index), tokens[index + 1] if index + 1 < len(tokens) else ""
        if label := _arithmetic(token, before, after):
            labels.add(label)
    return frozenset(labels)


def _before(tokens: list[str], index: int) -> str:
    """The token in front of a place; of a power, its base: the `x` of `x^2`, the `2` of `2^{10}`."""
    before = tokens[index - 1] if index else ""
    start = index - 1
    if before == "}":
        start = next((place for place in range(index - 1, 0, -1) if tokens[place] == "{"), 0)
    elif not before[:1].isdigit():
        return before
    power = start > 1 and tokens[index] != "^" == tokens[start - 1]
    return tokens[start - 2] if power else before


def _arithmetic(token: str, before: str, after: str) -> str:
    """The class of a sign in its place: `6\\cdot 7` is arithmetic, `2\\cdot\\sqrt{3}` is spelling."""
    if token in ("+", "-"):
        return "sum of terms" if _ends_value(before) else ""
    if token in ("\\cdot", "\\times", "\\ast"):
        return "product of numbers" if before[:1].isdigit() and (after[:1].isdigit() or after in ("-", "(")) else ""
    if token == "^":
        return "" if after == "\\circ" else "power of a symbol" if before[-1:].isalpha() else "power"
    return _SIGNS.get(token, "")


def _ends_value(token: str) -> bool:
    """Whether a sign after `token` is binary."""
    if token.startswith("\\"):
        return token[1:] in _VALUES
    return token[-1:].isalnum() or token in (")", "]", "}", "!", "|")


def _tower(text: str) -> int:
    """How deeply powers are nested in exponents: 1 for `2^{10}`, 2 for `2^{2^{10}}` and for `2^3^4`."""
    stack, deepest, chain = [0], 0, 0
    tokens = _TOKEN.findall(text)
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else ""
        if token == "^":
            chain = chain + 1 if index >= 2 and tokens[index - 2] == "^" else 1
            deepest = max(deepest, stack[-1] + chain)
        elif token in ("(", "[", "{"):
            stack.append(stack[-1] + (before == "^"))
        elif token in (")", "]", "}") and len(stack) > 1:
            stack.pop()
    return deepest
