"""The keys of the config tree: names, sections and defaults, and suggestions for misspelt ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from agon.config.models import Config


def sections(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The fields of a model that are models themselves."""
    kinds = {name_of(model, field): info.annotation for field, info in model.model_fields.items()}
    return {name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, BaseModel)}


def name_of(model: type[BaseModel], field: str) -> str:
    """The key of a field as it is written in a file."""
    return model.model_fields[field].alias or field


def names(model: type[BaseModel] = Config, above: str = "") -> list[str]:
    """Every dotted key of the tree, sections included, in the order of the models."""
    keys = []
    for field in model.model_fields:
        name = name_of(model, field)
        keys.append(f"{above}{name}")
        if below := sections(model).get(name):
            keys += names(below, f"{above}{name}.")
    return keys


def defaults(model: type[BaseModel]) -> dict[str, Any]:
    """Default values of the tree; fields without one are left out."""
    values: dict[str, Any] = {}
    for field, info in model.model_fields.items():
        name = name_of(model, field)
        if section := sections(model).get(name):
            values[name] = defaults(section)
        elif not info.is_required():
            values[name] = info.default
    return values


def nearest_key(key: tuple[str, ...]) -> str | None:
    """A similar key of the same section, or the same word in a different one."""
    *section, word = key
    inside = {name.split(".")[-1]: name for name in names() if name.split(".")[:-1] == section}
    anywhere = {name.split(".")[-1]: name for name in reversed(names())}
    near = [inside[match] for match in difflib.get_close_matches(word, inside, n=1)]
    near += [anywhere[match] for match in difflib.get_close_matches(word, anywhere, n=1, cutoff=0.8)]
    return near[0] if near else None


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """`; did you mean X?` when X is similar, else nothing."""
    near = difflib.get_close_matches(str(word), list(choices), n=1)
    return f"; did you mean {near[0]}?" if near else ""
