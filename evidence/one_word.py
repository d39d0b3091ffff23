"""One word names one thing, and the package stays small: names, import circles, untyped dictionaries, lengths.

No public class is defined twice, and a module name repeats only where its folder says what it is. No module imports
itself through others, function-level imports included. `ls src/agon` shows the architecture. A public signature is that
of a name in `agon.__all__` or of a public member of such a class; the fields of a class are its signature too. The
checks are those of tests/architecture/checks.py. The lines of `src/` are compared with those before the parts were
rearranged, and do not fail the claim.
"""

from __future__ import annotations

import sys

from _lib import ROOT, arguments, verdict

sys.path.insert(0, str(ROOT))

from tests.architecture import checks
from tests.architecture.tree import modules

EXTRA_SOURCES = ("src/agon",)
LINES_BEFORE = 19_360


def main() -> None:
    arguments(__doc__ or "")
    files, functions = checks.files(modules()), checks.functions(modules())
    violations = {name: check() for name, check in checks.CHECKS.items()}
    values = {
        "entries": len(checks.entries()),
        "untyped dictionaries": len(checks.any_dicts()),
        "longest file": max(part.lines for part in files),
        "longest function": max(part.lines for part in functions),
    }
    limits = dict(
        zip(values, (checks.ENTRIES, checks.ANY_DICTS, checks.FILE_LINES, checks.FUNCTION_LINES), strict=True)
    )
    lines = sum(part.lines for part in files)
    for name, found in violations.items():
        print(f"{'FAIL' if found else 'ok  '} {name}: {len(found)}")
        print(*(f"       {sentence}\n" for sentence in found), sep="", end="")
    for name, value in values.items():
        print(f"{name}: {value} of at most {limits[name]}")
    print(f"lines of src/: {lines:,}, {lines - LINES_BEFORE:+,} against {LINES_BEFORE:,} before")
    verdict(
        "one word names one thing, no module imports itself, and every part is small",
        value={"violations": sum(map(len, violations.values())), **values},
        goal={"violations": 0, **limits},
        holds=not any(violations.values()),
        violations={name: len(found) for name, found in violations.items()},
        modules=len(files),
        functions=len(functions),
        lines=lines,
        lines_before=LINES_BEFORE,
    )


if __name__ == "__main__":
    main()
