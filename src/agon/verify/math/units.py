"""Units after a value: removed before values are compared, and compared themselves if both sides have one."""

from __future__ import annotations

import re
from collections.abc import Callable

_SYNONYMS = {
    "mm": "millimeter millimetre",
    "cm": "centimeter centimetre",
    "m": "meter metre",
    "km": "kilometer kilometre",
    "inch": "in inches",
    "foot": "ft feet",
    "yard": "yd",
    "mile": "mi",
    "gram": "g gm",
    "kilogram": "kg",
    "pound": "lb lbs",
    "ounce": "oz",
    "second": "sec s",
    "minute": "min",
    "hour": "hr h",
    "day": "",
    "week": "",
    "month": "",
    "year": "yr",
    "cent": "",
    "dollar": "usd buck",
    "euro": "",
    "liter": "litre l",
    "milliliter": "millilitre ml",
    "gallon": "gal",
    "degree": "deg",
    "celsius": "c",
    "fahrenheit": "f",
    "newton": "n",
    "joule": "j",
    "watt": "w",
    "radian": "rad",
}
_CANONICAL = {word: unit for unit, others in _SYNONYMS.items() for word in (unit, *others.split())}
_POWERS = {"square": "2", "sq": "2", "squared": "2", "cubic": "3", "cu": "3", "cubed": "3"}
_CURRENCY = {"$": "dollar", "€": "euro", "£": "pound sterling"}
_VALUE_WORDS = """
    and or not no nor to than over times plus minus mod modulo base root factorial choose negative is are was wrong
    hundred thousand million billion trillion dozen score half halves third thirds quarter quarters percent percentage
"""
_NOT_UNITS = frozenset(_VALUE_WORDS.split())
_SHARE = re.compile(r"(?:four|fif|six|seven|eigh|nin|ten|eleven|twelf|hundred|thousand|million|\w*teen|\w*tie)ths?")
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}\s*(?:\^\s*\{?\s*([23])\s*\}?)?$")
_PLAIN = re.compile(r"(?<![A-Za-z\\])([A-Za-z]{2,}(?:[ /][A-Za-z.]+){0,3})\s*(?:\^\s*\{?\s*([23])\s*\}?)?$")
_DEGREE = re.compile(r"\^\s*\\circ$")
_LEADING = re.compile(r"^(-?)\s*\\?([$€£])\s*(?=[\d.\-\\])")


def split_unit(text: str, is_number: Callable[[str], bool]) -> tuple[str, str]:
    """A value and its unit: canonical if it is known, as written if not, empty if there is none.

    Plain words are a unit only after a plain number, and unknown ones only after a space; elsewhere letters are
    variables.
    """
    if match := _LEADING.match(text):
        return (match[1] + text[match.end() :]).strip(), _CURRENCY[match[2]]
    if match := _DEGREE.search(text):
        return text[: match.start()].strip(), "degree"
    match = _TEXT.search(text) or _PLAIN.search(text)
    head = text[: match.start()].strip() if match else ""
    if not match or not head or not _is_unit(match[1]):
        return text, ""
    unit, quoted = canonical_unit(match[1], match[2] or ""), match.re is _TEXT
    after_space = len(match[1]) > 2 and text[match.start() - 1] == " "
    plausible = len(unit) > 1 if quoted else after_space and is_number(head)
    return (head, unit) if plausible or (_known(unit) and (quoted or is_number(head))) else (text, "")


def clash(one: str, other: str) -> bool:
    """Whether both units are known and differ."""
    return bool(one and other) and one != other and _known(one) and _known(other)


def canonical_unit(name: str, power: str = "") -> str:
    """`Square centimeters` and `cm^2` are `cm^2`; an unknown unit is kept in lower case."""
    parts = [word.strip(".") for word in name.lower().split()]
    power = next((_POWERS[word] for word in parts if word in _POWERS), power)
    base = " ".join(_singular(word) for word in parts if word not in _POWERS)
    return f"{base}^{power}" if power else base


def _singular(word: str) -> str:
    stems = (word, word.removesuffix("s"), word.removesuffix("es"))
    return next((_CANONICAL[stem] for stem in stems if stem in _CANONICAL), stems[1])


def _known(unit: str) -> bool:
    return unit.partition("^")[0] in {*_SYNONYMS, "pound sterling"}


def _is_unit(name: str) -> bool:
    """Short text without digits and without words that change the value (`42 million`, `42 hundredths`, `42 or so`)."""
    parts = re.split(r"[\s/,]+", name.strip().lower())
    if not name.strip() or len(parts) > 4 or not re.fullmatch(r"[A-Za-z./,'\- ]+", name.strip()):
        return False
    return not any(part in _NOT_UNITS or _SHARE.fullmatch(part) for part in parts)
