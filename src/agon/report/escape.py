"""Words from files on a page or a terminal: names of bases, arms and paths are shown, never obeyed."""

from __future__ import annotations

import re
import unicodedata

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
MARKUP = re.compile(r"[|<&`]|\](?=[(\[])")


def tame(text: str) -> str:
    """One line without a character that moves a cursor, turns the direction of text or cannot be seen."""
    return "".join(_spelled(letter) if unicodedata.category(letter) in HIDDEN else letter for letter in text)


def escape(text: str) -> str:
    """The text in Markdown: it makes no cell, no element, no link and no picture."""
    return MARKUP.sub(lambda found: "&lt;" if found[0] == "<" else f"\\{found[0]}", tame(" ".join(text.split())))


def _spelled(letter: str) -> str:
    return f"<U+{ord(letter):04X}>"
