"""What the fields of a record are: the docstrings under them, for the generated pages."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise


def field_texts(record: type) -> dict[str, str]:
    """The docstring under every field of a record; empty where there is none."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
    texts: dict[str, str] = {}
    for node, below in pairwise([*getattr(tree, "body", []), None]):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            described = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            texts[node.target.id] = " ".join(str(below.value.value).split()) if described else ""
    return texts
