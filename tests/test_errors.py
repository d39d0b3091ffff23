"""Errors: what a traceback in Python ends with."""

from __future__ import annotations

import copy
import traceback

from agon.errors import AgonError, ConfigError


def test_a_traceback_ends_with_what_to_do() -> None:
    lines = traceback.format_exception_only(ConfigError("x.yaml does not exist", fix="agon init tabletop"))
    assert lines == ["agon.errors.ConfigError: x.yaml does not exist\n", "fix: agon init tabletop\n"]
    assert traceback.format_exception_only(AgonError("no"))[1:] == []


def test_an_error_keeps_its_fix_between_processes() -> None:
    sent = copy.copy(AgonError("no", fix="do"))  # by the same protocol as pickle
    assert (str(sent), sent.fix, sent.__notes__) == ("no", "do", ["fix: do"])
