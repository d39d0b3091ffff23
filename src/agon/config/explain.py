"""Describe the config tree: its keys, defaults and meanings, and suggestions for misspelt keys."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from functools import cache
from typing import Any

from pydantic import BaseModel

from agon.config.arms import ARMS, MAIN, ROOT
from agon.config.models import Config, json_schema
from agon.config.rules import RULES
from agon.doors import doors


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


def explain(name: str) -> dict[str, Any]:
    """Describe a dotted key, in plain JSON types."""
    info = _schema_of(name)
    section = _resolve(info["$ref"]) if "$ref" in info else {}
    description = info.get("description") or section["description"]  # pydantic omits a repeat of the section's own
    entry: dict[str, Any] = {"key": name, "description": " ".join(description.split())}
    if section:
        return entry | {"keys": [f"{name}.{key}" for key in section["properties"]]}
    entry["type"] = kind(info)
    entry["default"] = json.dumps(info["default"]) if "default" in info else "none: required"
    if name == "arm":
        entry["values"] = [f"{name}: {ARMS[name].about}" for name in MAIN]
        entry["ablations"] = [f"{arm.name}: {arm.about}" for arm in ARMS.values() if arm.name not in MAIN]
    elif name.removeprefix("game.") in ROOT:
        entry["default"] += " (from the arm)"
    brought = (rule for group in ("agon.backends", "agon.rivals") for kind in doors(group) for rule in kind.rules)
    told = (f"{rule.keys[0]}: {rule.reason}" for rule in (*RULES, *brought) if name in rule.keys)
    entry["rules"] = [*dict.fromkeys(told)]  # rivals share some
    return entry


def _schema_of(name: str) -> dict[str, Any]:
    info = _schema()
    for part in name.split("."):
        section = _resolve(info["$ref"]) if "$ref" in info else info
        info = section["properties"][part]
    return info


def _resolve(reference: str) -> dict[str, Any]:
    section: dict[str, Any] = _schema()["$defs"][reference.rsplit("/", 1)[-1]]
    return section


@cache
def _schema() -> dict[str, Any]:
    return json_schema()


def kind(info: dict[str, Any]) -> str:
    """The type of a JSON Schema property, in words."""
    if "anyOf" in info:
        return _either(dict.fromkeys(kind(option) for option in info["anyOf"]))
    if "const" in info:
        return f"`{info['const']}`"
    if "enum" in info:
        return _either(f"`{value}`" for value in info["enum"])
    if info["type"] == "array":
        return f"list of {kind(info['items'])}"
    if info["type"] == "object":
        return f"mapping to {kind(info['additionalProperties'])}"
    limits = [f"{word} {info[key]:g}" for key, word in _LIMITS.items() if key in info]
    return f"{_KINDS[info['type']]} {' and '.join(limits)}".strip()


def _either(options: Iterable[str]) -> str:
    *most, last = options
    return f"{', '.join(most)} or {last}" if most else last


_KINDS = {"string": "string", "integer": "integer", "number": "number", "boolean": "true or false", "null": "null"}
_LIMITS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def suggest_key(key: tuple[str, ...]) -> str:
    """A similar key of the same section, or the same word in a different one."""
    *section, word = key
    inside = {name.split(".")[-1]: name for name in names() if name.split(".")[:-1] == section}
    anywhere = {name.split(".")[-1]: name for name in reversed(names())}
    near = [inside[match] for match in difflib.get_close_matches(word, inside, n=1)]
    near += [anywhere[match] for match in difflib.get_close_matches(word, anywhere, n=1, cutoff=0.8)]
    return f"; did you mean {near[0]}?" if near else ""


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """`; did you mean X?` when X is similar, else nothing."""
    near = difflib.get_close_matches(str(word), list(choices), n=1)
    return f"; did you mean {near[0]}?" if near else ""
