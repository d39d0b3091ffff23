"""What the templated problems of `tabletop-code` are made of: instructions in words, the code, and likely mistakes.

A family reads one value `v` and works on it line by line. `{c}` is a digit from 2 to 9. A mistake is code that a
beginner might write for the same words: a boundary that is off by one, an edge case, a wrong type, a wrong format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instruction:
    """One thing to do: how it is said, the expression that does it, and expressions that do not."""

    words: tuple[str, ...]
    code: str
    mistakes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeFamily:
    """Problems that read one kind of value: `steps` change it, `ends` say what is printed."""

    words: str
    read: str
    steps: tuple[Instruction, ...]
    ends: tuple[Instruction, ...]


def _keep(condition: str) -> str:
    return f"[x for x in v if {condition}]"


def _yes(condition: str, yes: str = "yes", no: str = "no") -> str:
    return f"'{yes}' if {condition} else '{no}'"


NUMBERS = CodeFamily(
    "Read an integer.",
    "int(input())",
    (
        Instruction(("Add {c} to it", "Increase it by {c}"), "v + {c}", ("v - {c}", "v * {c}")),
        Instruction(("Subtract {c} from it", "Decrease it by {c}"), "v - {c}", ("{c} - v", "v + {c}")),
        Instruction(("Multiply it by {c}", "Take it {c} times"), "v * {c}", ("v + {c}", "v * {c} + v")),
        Instruction(
            ("Divide it by {c}, rounding down", "Take the whole part of it over {c}, rounded down"),
            "v // {c}",
            ("v / {c}", "int(v / {c})", "round(v / {c})"),
        ),
        Instruction(
            ("Take its remainder modulo {c}", "Reduce it modulo {c}"), "v % {c}", ("v // {c}", "v % ({c} + 1)")
        ),
        Instruction(("Square it", "Multiply it by itself"), "v * v", ("v * 2", "v + v")),
        Instruction(("Take its absolute value", "Drop its sign"), "abs(v)", ("-v", "max(v, 0)")),
        Instruction(("Change its sign", "Negate it"), "-v", ("abs(v)", "-abs(v)")),
        Instruction(
            ("Add up its digits", "Replace it by the sum of its digits"),
            "sum(map(int, str(abs(v))))",
            ("sum(map(int, str(v)))", "len(str(abs(v)))"),
        ),
        Instruction(
            ("Halve it if it is even", "If it is a multiple of 2, divide it by 2"),
            "v // 2 if v % 2 == 0 else v",
            ("v // 2", "v // 2 if v % 2 else v"),
        ),
        Instruction(
            ("If it is above {c}, subtract {c}", "If it exceeds {c}, take {c} away"),
            "v - {c} if v > {c} else v",
            ("v - {c} if v >= {c} else v", "v - {c} if v < {c} else v"),
        ),
        Instruction(("Raise it to at least {c}", "If it is below {c}, make it {c}"), "max(v, {c})", ("min(v, {c})",)),
        Instruction(("Lower it to at most {c}", "If it is above {c}, make it {c}"), "min(v, {c})", ("max(v, {c})",)),
        Instruction(
            ("Round it down to a multiple of {c}", "Take the nearest multiple of {c} that is not above it"),
            "v - v % {c}",
            ("v % {c}", "v // {c}", "v + v % {c}"),
        ),
    ),
    (
        Instruction(("Print it", "Print the result"), "v"),
        Instruction(
            ("Print yes if it is even, otherwise no", "Is it a multiple of 2? Print yes or no"),
            _yes("v % 2 == 0"),
            (_yes("v % 2 == 1"), _yes("v % 2 == 0", "Yes", "No")),
        ),
        Instruction(
            ("Print yes if {c} divides it, otherwise no", "Is it a multiple of {c}? Print yes or no"),
            _yes("v % {c} == 0"),
            (_yes("v // {c} == 0"), _yes("v % {c} == 0", "no", "yes")),
        ),
        Instruction(
            ("Print how many digits it has", "Print the number of its digits"),
            "len(str(abs(v)))",
            ("len(str(v))", "len(str(abs(v))) - 1"),
        ),
        Instruction(
            ("Print it twice, with a space between", "Print two copies of it on a line"),
            "v, v",
            ("v * 2", "str(v) * 2"),
        ),
        Instruction(("Print its last digit", "Print its final digit"), "abs(v) % 10", ("v % 10", "abs(v) // 10")),
        Instruction(
            ("Print 1 if it is positive, otherwise 0", "Print 1 if it is above zero and 0 if not"),
            "int(v > 0)",
            ("int(v >= 0)", "v > 0"),
        ),
    ),
)

LISTS = CodeFamily(
    "Read a line of integers.",
    "list(map(int, input().split()))",
    (
        Instruction(("Keep those above {c}", "Keep what exceeds {c}"), _keep("x > {c}"), (_keep("x >= {c}"),)),
        Instruction(("Keep those below {c}", "Keep what is less than {c}"), _keep("x < {c}"), (_keep("x <= {c}"),)),
        Instruction(("Keep those of at least {c}", "Keep {c} or more"), _keep("x >= {c}"), (_keep("x > {c}"),)),
        Instruction(("Keep those of at most {c}", "Keep {c} or less"), _keep("x <= {c}"), (_keep("x < {c}"),)),
        Instruction(
            ("Keep the even ones", "Keep the multiples of 2"), _keep("x % 2 == 0"), (_keep("x % 2 == 1"), "v[::2]")
        ),
        Instruction(("Keep the odd ones", "Drop the even ones"), _keep("x % 2 == 1"), (_keep("x % 2 == 0"), "v[1::2]")),
        Instruction(
            ("Drop the multiples of {c}", "Keep what {c} does not divide"),
            _keep("x % {c} != 0"),
            (_keep("x % {c} == 0"), _keep("x != {c}")),
        ),
        Instruction(
            ("Keep the positive ones", "Keep what is above zero"),
            _keep("x > 0"),
            (_keep("x >= 0"), "[abs(x) for x in v]"),
        ),
        Instruction(
            ("Add {c} to each", "Increase each by {c}"), "[x + {c} for x in v]", ("v + [{c}]", "[x * {c} for x in v]")
        ),
        Instruction(
            ("Multiply each by {c}", "Take each {c} times"), "[x * {c} for x in v]", ("v * {c}", "[x + {c} for x in v]")
        ),
        Instruction(
            ("Square each", "Multiply each by itself"),
            "[x * x for x in v]",
            ("[x * 2 for x in v]", "[x + x for x in v]"),
        ),
        Instruction(("Sort them", "Put them in ascending order"), "sorted(v)", ("sorted(v, key=str)", "v[::-1]")),
        Instruction(
            ("Sort them from high to low", "Put them in descending order"),
            "sorted(v, reverse=True)",
            ("sorted(v)", "v[::-1]"),
        ),
        Instruction(("Reverse their order", "Turn them around"), "v[::-1]", ("sorted(v, reverse=True)", "v[:0:-1]")),
        Instruction(
            ("Drop repeated ones, keeping the first", "Keep the first of equal ones"),
            "list(dict.fromkeys(v))",
            ("sorted(set(v))", "v[:1]"),
        ),
        Instruction(("Drop the first", "Leave out the first"), "v[1:]", ("v[:-1]", "v[:1]")),
        Instruction(("Drop the last", "Leave out the last"), "v[:-1]", ("v[1:]", "v[-1:]")),
        Instruction(("Keep the first {c}", "Take {c} from the front"), "v[:{c}]", ("v[:{c} + 1]", "v[:{c} - 1]")),
        Instruction(("Drop the first {c}", "Skip {c} at the front"), "v[{c}:]", ("v[{c} - 1:]", "v[{c} + 1:]")),
        Instruction(
            ("Keep every second one, from the first", "Keep the first, third, fifth and so on"),
            "v[::2]",
            ("v[1::2]", _keep("x % 2 == 1")),
        ),
        Instruction(
            ("Replace each by the sum so far", "Take running sums"),
            "[sum(v[:i + 1]) for i in range(len(v))]",
            ("[sum(v[:i]) for i in range(len(v))]", "[sum(v[i:]) for i in range(len(v))]"),
        ),
    ),
    (
        Instruction(("Print their sum", "Print what they add up to"), "sum(v)", ("len(v)", "sum(v[1:])")),
        Instruction(("Print how many are left", "Print their number"), "len(v)", ("len(set(v))", "sum(v)")),
        Instruction(
            ("Print the largest, or 0 if there is none", "Print the maximum, for none 0"),
            "max(v, default=0)",
            ("max(v)", "max([0] + v)", "min(v, default=0)"),
        ),
        Instruction(
            ("Print the smallest, or 0 if there is none", "Print the minimum, for none 0"),
            "min(v, default=0)",
            ("min(v)", "min([0] + v)", "max(v, default=0)"),
        ),
        Instruction(("Print them", "Print all of them on a line"), "*v", ("v", "*v, sep=','")),
        Instruction(
            ("Print how many exceed {c}", "Print the number of those above {c}"),
            "sum(x > {c} for x in v)",
            ("sum(x >= {c} for x in v)", "sum(x for x in v if x > {c})"),
        ),
        Instruction(
            ("Print yes if one is above {c}, otherwise no", "Does any exceed {c}? Print yes or no"),
            _yes("any(x > {c} for x in v)"),
            (_yes("all(x > {c} for x in v)"), _yes("any(x >= {c} for x in v)"), "any(x > {c} for x in v)"),
        ),
    ),
)

TEXTS = CodeFamily(
    "Read a line of text.",
    "input()",
    (
        Instruction(("Put it in capitals", "Make it upper case"), "v.upper()", ("v.title()", "v.capitalize()")),
        Instruction(
            ("Capitalise every word", "Start each word with a capital"), "v.title()", ("v.capitalize()", "v.upper()")
        ),
        Instruction(("Reverse it", "Write it backwards"), "v[::-1]", ("' '.join(v.split()[::-1])", "v[:0:-1]")),
        Instruction(
            ("Reverse the order of its words", "Put its last word first, and so on"),
            "' '.join(v.split()[::-1])",
            ("v[::-1]", "' '.join(sorted(v.split()))"),
        ),
        Instruction(
            ("Sort its words", "Put its words in alphabetical order"),
            "' '.join(sorted(v.split()))",
            ("''.join(sorted(v))", "' '.join(sorted(v.split(), key=len))"),
        ),
        Instruction(
            ("Remove the spaces", "Join its words into one"), "v.replace(' ', '')", ("v.strip()", "v.replace(' ', '-')")
        ),
        Instruction(
            ("Replace each a by an o", "Write o for every a"),
            "v.replace('a', 'o')",
            ("v.replace('o', 'a')", "v.replace('a', 'o', 1)"),
        ),
        Instruction(
            ("Keep its first {c} characters", "Cut it after {c} characters"), "v[:{c}]", ("v[:{c} + 1]", "v[{c}:]")
        ),
        Instruction(
            ("Drop its first {c} characters", "Skip {c} characters at the start"),
            "v[{c}:]",
            ("v[{c} - 1:]", "v[:-{c}]"),
        ),
        Instruction(
            ("Double every character", "Write each character twice"),
            "''.join(x + x for x in v)",
            ("v + v", "v + ' ' + v"),
        ),
        Instruction(
            ("Repeat it {c} times", "Write it {c} times in a row"), "v * {c}", ("v * ({c} - 1)", "' '.join(v * {c})")
        ),
        Instruction(
            ("Keep words of more than {c} letters", "Drop words of up to {c} letters"),
            "' '.join(x for x in v.split() if len(x) > {c})",
            ("' '.join(x for x in v.split() if len(x) >= {c})", "' '.join(x for x in v.split() if len(x) < {c})"),
        ),
    ),
    (
        Instruction(("Print it", "Print the result"), "v"),
        Instruction(
            ("Print its length", "Print how many characters it has"), "len(v)", ("len(v.split())", "len(v) - 1")
        ),
        Instruction(
            ("Print how many words it has", "Print the number of its words"),
            "len(v.split())",
            ("v.count(' ')", "len(v)"),
        ),
        Instruction(
            ("Print how often it has an e", "Print the number of letters e"),
            "v.count('e')",
            ("v.find('e')", "'e' in v"),
        ),
        Instruction(
            ("Print it between two stars", "Print it with a star on each side"),
            "'*' + v + '*'",
            ("'*', v, '*'", "'*' + v"),
        ),
        Instruction(
            ("Print its longest word, the first of several", "Print the first of its longest words"),
            "max(v.split(), key=len, default='')",
            ("max(v.split(), default='')", "max(v.split()[::-1], key=len, default='')"),
        ),
    ),
)

FAMILIES: Mapping[str, CodeFamily] = {"numbers": NUMBERS, "lists": LISTS, "texts": TEXTS}
