"""Errors: what a traceback in Python ends with."""

from __future__ import annotations

import copy
import sys
import traceback
from pathlib import Path

import pytest

from agon import errors
from agon.errors import AgonError, ConfigError, InputError, naming_extras, need


def test_a_traceback_ends_with_what_to_do() -> None:
    lines = traceback.format_exception_only(ConfigError("x.yaml does not exist", fix="agon init tabletop"))
    assert lines == ["agon.errors.ConfigError: x.yaml does not exist\n", "fix: agon init tabletop\n"]
    assert traceback.format_exception_only(AgonError("no"))[1:] == []


def test_a_missing_package_of_an_extra_is_answered_with_what_to_install() -> None:
    with pytest.raises(InputError, match="torch is not installed") as caught, naming_extras():
        raise ModuleNotFoundError(name="torch.nn")
    assert caught.value.fix == "pip install -e '.[train,eval,plot]'"
    with pytest.raises(ModuleNotFoundError), naming_extras():
        raise ModuleNotFoundError(name="mine")


def test_advice_names_the_package_outside_of_a_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (
        errors.upgrade() == "install a newer Agon: git pull, then pip install -e packages/judge -e packages/lens -e ."
    )
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "lib" / "agon" / "errors.py"))
    assert errors.install("train", "eval") == "pip install 'agon-rl[train,eval]'"
    assert errors.install() == "pip install agon-rl"
    assert errors.upgrade() == "install a newer Agon: pip install -U agon-rl"


def test_what_is_needed_is_looked_for_without_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="scipy is not installed") as caught:
        need("pytest", "scipy")
    assert caught.value.fix == "pip install -e '.[eval]'"


def test_an_error_keeps_its_fix_between_processes() -> None:
    sent = copy.copy(AgonError("no", fix="do"))  # by the same protocol as pickle
    assert (str(sent), sent.fix, sent.__notes__) == ("no", "do", ["fix: do"])
