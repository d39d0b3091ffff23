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
    "ton": "tonne",
    "mile/hour": "mph",
    "km/hour": "kph kmh",
    "unit": "",
    "newton": "n",
    "joule": "j",
    "watt": "w",
    "radian": "rad",
}
_CANONICAL = {word: unit for unit, others in _SYNONYMS.items() for word in (unit, *others.split())}
_KNOWN = frozenset(_SYNONYMS) | {"pound sterling"}
_POWERS = {"square": "2", "sq": "2", "squared": "2", "cubic": "3", "cu": "3", "cubed": "3"}
_CURRENCY = {"$": "dollar", "USD ": "dollar", "€": "euro", "EUR ": "euro", "£": "pound sterling"}
_OPERATIONS = """
    and or not no nor to than over times plus minus mod modulo base root factorial choose negative is are was wrong
    point divided multiplied percent percentage ppm bps halves
"""
_COUNTS = """
    zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy eighty
    ninety hundred thousand lakh million crore billion trillion pair dozen score gross half third quarter
"""
_NOT_UNITS = frozenset(_OPERATIONS.split()) | {word + s for word in _COUNTS.split() for s in ("", "s")}
_NOT_FIRST = frozenset(["squared", "cubed", "of", "by", "into"])
_SHARE = re.compile(
    r"(?:four|fif|six|seven|eigh|nin|ten|eleven|twelf|hundred|thousand|million|\w*teen|\w*tie)ths?|\w+teen"
)
_THINGS = """
    people person man men woman women child children boy girl kid student pupil teacher friend player member worker
    guest customer passenger animal dog cat cow horse chicken bird fish sheep pig bee frog
    apple orange banana pear egg cookie cake pie pizza slice cup bottle glass plate bag box basket jar can pack packet
    bunch piece item thing object toy ball marble card coin bill stamp sticker pen pencil book page word letter game
    flower plant tree seed leaf stone brick bead shirt sock shoe dress hat car bus truck train bike seat ticket room
    house building floor step lap trip vote point goal question problem number integer digit term factor multiple prime
    solution root way path pair combination arrangement side edge vertex vertices face angle triangle square rectangle
    circle line segment diagonal row column cell set group team class message photo video song
"""
_COUNTED = frozenset(_THINGS.split())
"""What is counted where neither the gold nor the question names a unit."""
_OLD = frozenset(["old", "each", "long", "wide", "high", "tall", "deep", "left", "total"])
"""Words beside a unit that leave the value as it is."""
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}\s*(?:\^\s*\{?\s*([23])\s*\}?)?$")
_PLAIN = re.compile(
    r"(?<![A-Za-z\\])([A-Za-z]{2,}(?:[ /][A-Za-z.]+){0,3}|[A-Za-z]/[A-Za-z]+)\.?\s*(?:\^\s*\{?\s*([23])\s*\}?)?$"
)
_DEGREE = re.compile(r"\^\s*\\circ$")
_LEADING = re.compile(r"^(-?)\s*\\?([$€£]|USD |EUR )\s*(?=[\d.\-\\])")


def split_unit(text: str, is_number: Callable[[str], bool]) -> tuple[str, str]:
    """A value and its unit: canonical if it is known, as written if not, empty if there is none.

    Plain words are a unit only after a space: any words after a plain number, known ones after an expression.
    Elsewhere letters are variables.
    """
    if match := _LEADING.match(text):
        head, unit = split_unit(text[match.end() :], is_number)  # `\$5\text{ dollars}`
        head = head if unit == _CURRENCY[match[2]] else text[match.end() :]
        return (match[1] + head).strip(), _CURRENCY[match[2]]
    if match := _DEGREE.search(text):
        return text[: match.start()].strip(), "degree"
    match = _TEXT.search(text) or _PLAIN.search(text)
    head = text[: match.start()].strip() if match else ""
    if not match or not head or not _is_unit(match[1]):
        return text, ""
    unit, after_space = canonical_unit(match[1], match[2] or ""), text[match.start() - 1] == " "
    if match.re is _TEXT:
        plausible = len(unit) > 1 or is_known(unit)
    elif is_number(head):
        plausible = is_known(unit) or (after_space and len(match[1].partition("/")[0]) > 2)
    else:
        plausible = is_known(unit) and after_space and len(unit) > 1
    return (head, unit) if plausible else (text, "")


def clash(one: str, other: str) -> bool:
    """Whether both units are known and differ; `unit` is any unit."""
    names = {one.partition("^")[0], other.partition("^")[0]}
    if "unit" in names:
        return one.partition("^")[2] != other.partition("^")[2] and is_known(one) and is_known(other)
    return bool(one and other) and one != other and is_known(one) and is_known(other)


def is_known(unit: str) -> bool:
    """Whether every part of a unit is in the table."""
    return all(part in _KNOWN for part in unit.partition("^")[0].split("/"))


def could_count(unit: str, question: str) -> bool:
    """Whether each word of a unit is known, something that is often counted, or a word of the question."""
    asked = set(re.findall("[a-z]+", question.lower()))

    def counts(word: str) -> bool:
        forms = {word, f"{word}s", word.removesuffix("s"), word.removesuffix("es")}
        return bool(forms & (asked | _COUNTED)) or (len(word) > 2 and is_known(word)) or word in _OLD

    return all(map(counts, re.findall("[a-z]+", unit)))


def canonical_unit(name: str, power: str = "") -> str:
    """`Square centimeters` and `cm^2` are `cm^2`, `meters per second` is `m/second`; other words are in lower case."""
    parts = [word.strip(".") for word in name.lower().replace(" per ", "/").replace("/", " / ").split()]
    if len(parts) == 2 and _singular(parts[0]) == "degree" and _singular(parts[1]) in ("celsius", "fahrenheit"):
        parts = parts[1:]
    power = next((_POWERS[word] for word in parts if word in _POWERS), power)
    base = " ".join(_singular(word) for word in parts if word not in _POWERS).replace(" / ", "/")
    return f"{base}^{power}" if power else base


def _singular(word: str) -> str:
    stems = (word, word.removesuffix("s"), word.removesuffix("es"))
    return next((_CANONICAL[stem] for stem in stems if stem in _CANONICAL), word)


def _is_unit(name: str) -> bool:
    """Short text without digits and without words that change the value (`42 million`, `42 hundredths`, `42 or so`)."""
    parts = re.split(r"[\s/,]+", name.strip().lower())
    if not name.strip() or len(parts) > 4 or not re.fullmatch(r"[A-Za-z./,'\- ]+", name.strip()):
        return False
    if parts[0] in _NOT_FIRST:
        return False
    return not any(part in _NOT_UNITS or _SHARE.fullmatch(part) for part in parts)
