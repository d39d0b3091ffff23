"""One spelling for each sign: the text of an answer without typesetting.

Every rewrite is linear in the text, so `clean` is safe on anything that a policy writes.
"""

from __future__ import annotations

import re
from functools import lru_cache

_UNICODE = str.maketrans(
    {
        **dict.fromkeys("−–‐‑﹣", "-"),
        **dict.fromkeys("“”", '"'),
        **{"×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": r"\div ", "√": r"\sqrt ", "±": r"\pm "},
        **{"…": r"\ldots ", "π": r"\pi ", "∞": r"\infty ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}"},
        **{"°": r"^\circ ", "²": "^2", "³": "^3", "¢": r"\text{ cents}"},
        **{"≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in "},
        **{"½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "⟨": "(", "⟩": ")"},
    }
)
_FULL_WIDTH = {0xFF01 + offset: 0x21 + offset for offset in range(94)} | {0x3000: " "}
_END = r"(?![A-Za-z])"
_FUNCTIONS = "pi|sqrt|sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|ln|log|exp"
_ARGUMENT = r"\s*[({]?\s*([A-Za-z0-9]+)\s*[)}]?\s*"
_LEAD = r"(?:the )?(?:final )?answer(?: is:?|:)"
_QUOTED = r"(?:\\text\s*\{)?\s*"
_REWRITES = tuple(
    (trigger, re.compile(pattern), replacement)
    for trigger, pattern, replacement in (
        ("nswer", rf"(?i)^(?:\\text\s*\{{\s*{_LEAD}\s*\}}|{_LEAD})\s*(?=\S)", ""),
        ("", r"^(?:\\therefore(?![A-Za-z])|=|####)\s*(?=\S)", ""),
        ("\\text", r"\\text\s*\{\s*(-|\\\$)\s*\}", r"\1"),
        ("", r"(?i)^(?:negative|minus)\s+(?=[\d.\\$])", "-"),
        ("\\underline", r"^\\underline\s*\{([^{}]*)\}$", r"\1"),
        ("\\colon", rf"\\colon{_END}", ":"),
        ("{:}", r"\{:\}", ":"),
        (":", r"(?i)^(\d{1,2})\s*:\s*(\d\d)\s*(?:\\text\s*\{)?\s*([ap])\.?\s?m\.?\s*\}?$", r"\1:\2 \3m"),
        ("\\text", r"(?<=\d)\s*\\text\s*\{\s*to\s*\}\s*(?=\d)", " to "),
        ("real", rf"(?i)^{_QUOTED}(?:the )?(?:set of )?(?:all )?(?:reals|real numbers)\s*\}}?$", r"\\mathbb{R}"),
        ("olution", rf"(?i)^{_QUOTED}(?:there (?:is|are) )?no solutions?\s*\}}?$", r"\\emptyset"),
        ("\\Bbb", r"\\Bbb\s*\{?\s*([A-Z])\s*\}?", r"\\mathbb{\1}"),
        ("\\operatorname", rf"\\operatorname\*?\s*\{{\s*({_FUNCTIONS})\s*\}}", r"\\\1 "),
        ("\\backslash", rf"\\backslash{_END}", r"\\setminus "),
        ("]", r"^\]([^\[\]()]*[,;][^\[\]()]*)(?=[\[\]]$)", r"(\1"),
        ("[", r"^([\[(][^\[\]()]*[,;][^\[\]()]*)\[$", r"\1)"),
        ("=", r"^((?:[^A-Za-z=<>\\]|\\[a-z]+)+)=\s*([A-Za-z])$", r"\2=\1"),
        (".", r"(?i)(?<![a-z])(sq|cu)\.\s*(?=[a-z])", r"\1 "),
        ("!", r"^([A-Za-z]{2}[A-Za-z ]*)!$", r"\1"),
        ("inf", rf"^{_QUOTED}infinity\s*\}}$", r"\\infty"),
        ("inf", rf"(?<![A-Za-z\\])(?:infinity|inf){_END}", r"\\infty"),
        ("", rf"(?<![A-Za-z\\])({_FUNCTIONS}){_END}", r"\\\1"),
        (",", r"(?<=\d)(?:,\\!|\{,\})\s*(?=\d{3}(?!\d))", ""),
        ("\\!", r",\\!\s*", ","),
        ("{,}", r"\{,\}", ","),
        ("\\", rf"\\(?:left|right|[bB]igg?[lrm]?){_END}\.?", ""),
        ("\\", rf"(?<!\\)\\(?:(?:displaystyle|textstyle|limits){_END}|!)", ""),
        ("", rf"(?<!\\)\\(?:[,;: ]|q?quad{_END})|~|\s+", " "),
        ("\\", rf"\\(?:(?:math|text)(?:rm|bf|it|sf|tt|normal)|[mh]box|boldsymbol|bm){_END}", r"\\text"),
        ("\\math", rf"\\math(bb|cal|frak|scr)\s+([A-Za-z]){_END}", r"\\math\1{\2}"),
        ("\\text", r"\\text\s*\{([ie])\}", r" \1"),
        ("\\text", r"^\\text\s*\{\s*(-?[\d.][^{}]*)\}$", r"\1"),
        ("\\text", r"\\text\s*\{([^{}^]*)\^\s*\{?([23])\}?\s*\}", r"\\text{\1}^\2"),
        ("\\over", rf"\{{([^{{}}]*)\\over{_END}([^{{}}]*)\}}", r"\\frac{\1}{\2}"),
        ("frac", rf"\\[dtc]frac{_END}", r"\\frac"),
        ("frac", r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
        ("frac", r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{"),
        ("frac", r"(\\frac\s*\{(?:[^{}]|\{[^{}]*\})*\})\s*(\d)", r"\1{\2}"),
        ("frac", r"(?<=frac\{)(\d{1,3}),(?=\d{3}(?!\d))", r"\1"),
        ("frac", rf"\\frac\s*\{{\s*\\(ln|log){_ARGUMENT}\}}\s*\{{\s*\\\1{_ARGUMENT}\}}", r"\\log_{\3}(\2)"),
        ("sqrt", r"\\sqrt\s*\[\s*2\s*\]", r"\\sqrt"),
        ("sqrt", r"\\sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}"),
        ("sqrt", r"\\sqrt\s*(\d+(?:\.\d+)?)", r"\\sqrt{\1}"),
        ("\\exp", r"\\exp\s*(?:\(([^(){}]*)\)|\{([^(){}]*)\})", r"e^{\1\2}"),
        ("\\log", rf"\\log\s*_\s*(?:\{{\s*e\s*\}}|e{_END})", r"\\ln "),
        ("*", r"(?<!\*)\*(?!\*)", r"\\cdot "),
        ("^", r"\^\s*-\s*(\d+)", r"^{-\1}"),
        ("10", r"(\\times|\\cdot)\s*10\s*\^\s*(\d\d+)", r"\1 10^{\2}"),
        ("\\", rf"(?:\^|\\text)\s*\{{\s*\^?\s*\\circ\s*\}}|\\degree{_END}|\^\s*\\text\s*\{{o\}}", r"^\\circ"),
        ("brace", rf"\\l(?:brace){_END}", r"\\{"),
        ("brace", rf"\\r(?:brace){_END}", r"\\}"),
        ("\\", rf"\\varnothing{_END}|\\\{{\s*\\\}}", r"\\emptyset"),
        ("angle", rf"\\langle{_END}", "("),
        ("angle", rf"\\rangle{_END}", ")"),
        ("vert", rf"\\[lr]?vert{_END}", "|"),
        ("\\", rf"\\(le|ge|ne)(?:q|qslant|qq)?{_END}", r"\\\1"),
        ("<=", r"<=", r"\\le "),
        (">=", r">=", r"\\ge "),
        ("\\lt", rf"\\lt{_END}", "<"),
        ("\\gt", rf"\\gt{_END}", ">"),
        ("\\%", r"\\%", "%"),
        ("\\cr", rf"\\cr{_END}", r"\\\\"),
        ("array", r"[(\[]\s*\\begin\s*\{array\}\s*\{[clr|\s]*\}", r"\\begin{pmatrix}"),
        ("array", r"\\end\s*\{array\}\s*[)\]]", r"\\end{pmatrix}"),
        ("\\", r"(?<=[.\d])\\(?:bar|dot)\s*\{(\d+)\}", r"\\overline{\1}"),
        ("\\overline", r"\\overline\s*\{\s*\.(\d+)\s*\}", r".\\overline{\1}"),
        ("dots", r"(\d)\1\1\s*\\[lc]?dots", r"\\overline{\1}"),
        ("...", r"(\d)\1\1\s*\.\.\.", r"\\overline{\1}"),
        ("base", r"\\text\s*\{\s*\(?\s*(?:in )?base (\w+)\s*\)?\s*\}", r"_{\1}"),
        ("base", r"\\text\s*\{\s*(?:in )?base\s*\}\s*(\d+)", r"_{\1}"),
        ("base", r"(?<=[\d)])\s*\(?(?:in )?base (\w+)\)?$", r"_{\1}"),
        ("_", r"_\s*\{\s*\\text\s*\{\s*(\w+)\s*\}\s*\}", r"_{\1}"),
    )
)
_WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`"), ('"', '"'))
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?")
_TAIL = re.compile(r"(?<![.,;\s])\s*[.,;]?$")
_INFIX = re.compile(r"\\(?:over|choose|atop)(?![A-Za-z])")
"""Commands that need the braces around them."""
_DOLLAR = re.compile(r"(?<!\\)\$")
_REDUNDANT_SPACE = re.compile(r"(?<![0-9A-Za-z])\s+|\s+(?![0-9A-Za-z])")
_SHORT_SCRIPT = re.compile(r"([_^])\s*\{\s*([A-Za-z0-9]|\\[A-Za-z]+)\s*\}(?!\s*[A-Za-z0-9])")
_SPACED = re.compile(r"\d ?, \d{3}(?!\d)")


@lru_cache(maxsize=10_000)
def clean(text: str) -> str:
    """The text without typesetting: delimiters, spacing, fonts, synonyms of the same sign."""
    text = text.strip()
    if _PLAIN.fullmatch(text):
        return text
    text = _unwrap(text.translate(_UNICODE).strip())
    while text.endswith("\\\\"):  # a line break
        text = text[:-2].rstrip()
    for trigger, pattern, replacement in _REWRITES:
        if trigger in text:
            text = pattern.sub(replacement, text)
    return _unwrap(_TAIL.sub("", _unwrap(text.strip())))


@lru_cache(maxsize=10_000)
def canonical(text: str) -> str:
    """The cleaned text without redundant spaces: two texts with the same canonical form are the same answer."""
    text = clean(text)
    if "{" in text:  # the braces around one sign, which TeX does not need
        text = _SHORT_SCRIPT.sub(r"\1\2", text)
    return _REDUNDANT_SPACE.sub("", text)


def written_alike(gold: str, answer: str) -> bool:
    """Whether two texts differ only in typesetting; `58, 500` is two values where the gold is 58,500."""
    if canonical(gold) != canonical(answer):
        return False
    return "," not in answer or not _SPACED.search(clean(answer)) or bool(_SPACED.search(clean(gold)))


def full_width(text: str) -> str:
    """Full-width ASCII, as some keyboards write it, as ASCII."""
    return text if text.isascii() else text.translate(_FULL_WIDTH)


def _unwrap(text: str) -> str:
    """Remove pairs of delimiters around the whole text, and unescaped dollar signs in pairs."""
    while text[:1] in ("$", "\\", "*", "`", '"'):
        pair = next((pair for pair in _WRAPPERS if _wraps(text, *pair)), None)
        if pair is None:
            break
        text = text[len(pair[0]) : -len(pair[1])].strip()
    if text[:1] == "{" and _closes_at_the_end(text) and not _INFIX.search(text):
        text = text[1:-1].strip()
    if "$" not in text or len(_DOLLAR.findall(text)) % 2:
        return text
    return _DOLLAR.sub("", text)


def _closes_at_the_end(text: str) -> bool:
    """Whether the brace that opens a text closes with its last sign."""
    depth = 0
    for place, sign in enumerate(text):
        depth += ((sign == "{") - (sign == "}")) * (text[place - 1 : place] != "\\")
        if depth == 0:
            return place == len(text) - 1
    return False


def _wraps(text: str, start: str, end: str) -> bool:
    inner = text[len(start) : -len(end)]
    return bool(inner) and text.startswith(start) and text.endswith(end) and start not in inner
