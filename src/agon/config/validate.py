"""From a YAML file and `section.key=value` overrides to a Config, or to one error that lists every mistake."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agon.config.arms import ARMS, resolve
from agon.config.keys import defaults, did_you_mean, names, nearest_key
from agon.config.models import PRESETS, Config, resolved
from agon.config.read import Key, Place, Written, anchored, merge, parse, read
from agon.config.rules import CHOICES, RULES, broken_rules
from agon.config.trl_names import trl_hint
from agon.doors import places
from agon.errors import ConfigError, InputError

COMMAND_LINE = Place("command line")
LISTED = 8
"""Configs named when one does not exist."""
DATA = (".jsonl", ".parquet", ".csv")
"""Files of problems; a config may be JSON, which is YAML too."""
LOOK = 1 << 16
"""Characters of a file that are read to see whether it is a config."""
SUGGESTIONS = 20
"""Unknown keys for which a similar one is looked for: a file with more is not a misspelt config."""


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read, merge, override and validate; raise one ConfigError with every mistake."""
    name = os.path.normpath(path)
    _check_file(Path(name))
    written = read(name)
    if written.faults and not written.values:
        raise _error(name, written)
    return finished(written, name, overrides)


def finished(written: Written, name: str, overrides: Sequence[str] = ()) -> Config:
    """What was written, with the overrides, as a config; raise one ConfigError with every mistake."""
    if odd := [text for text in overrides if not isinstance(text, str)]:
        raise InputError(f"{odd[0]!r} is not an override", fix="write each as text of its own: 'train.max_steps=2'")
    named = {key: value for key, _, value in (text.partition("=") for text in overrides)}
    if "model.name" in named and "model.revision" not in named:
        written.forget_revision(named["model.name"])
    for text in overrides:
        _override(written, text)
    written.values = anchored(written.values, Path.cwd())  # what is still relative is from the command line
    config = _validate(written, name)
    if config is None or written.faults:
        _check_paths(written)
        raise _error(name, written)
    return config


def overrides_of(values: Mapping[str, Any], call: str, arguments: Iterable[str]) -> list[str]:
    """Keywords as overrides: `**{"train.max_steps": 50}`. One that is no key is answered with what was meant."""
    for name, value in values.items():
        if "." in name or name in names():
            continue
        own = difflib.get_close_matches(name, list(arguments), n=1)
        key, hint = nearest_key((name,)), trl_hint((name,))
        fix = "give a key of the config by its whole name, such as **{'train.max_steps': 50}"
        if own:
            fix = f"did you mean {own[0]}="
        elif key:
            fix = f"it is a key of the config: **{{{key!r}: {value!r}}}"
        elif hint:
            fix = hint
        raise InputError(f"{call} has no argument {name}", fix=fix)
    return [f"{name}={json.dumps(value, default=str)}" for name, value in values.items()]


def anchored_config(config: Config) -> Config:
    """A config made in Python, whose relative paths are relative to where Python was started."""
    return Config.model_validate(anchored(resolved(config), Path.cwd()))


def _check_file(path: Path) -> None:
    """Refuse data, and what is not a file, with the names of configs that are there."""
    if path.suffix in DATA and path.is_file():
        raise InputError(f"{path} is data, not a config", fix=f"write one for it: agon init custom --data {path}")
    if path.is_file() or (path.exists() and not path.is_dir()):
        return
    folder = path if path.is_dir() else path.parent
    here = sorted(str(file) for file in folder.glob("[!.]*.y*ml") if _has_key(file)) if folder.is_dir() else []
    listed = f"name one of: {', '.join(here[:LISTED])}" if here else "write one first: agon init tabletop"
    what = "is a folder, not a config" if path.is_dir() else "does not exist"
    raise InputError(f"{path} {what}", fix=listed)


def _has_key(file: Path) -> bool:
    """Whether a file has a line that begins with a key of a config; other tools write YAML too."""
    if not file.is_file():
        return False
    try:
        with file.open(encoding="utf-8") as text:
            lines = text.read(LOOK).splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    keys = {line.partition(":")[0] for line in lines}
    return not keys.isdisjoint({"extends", *Config.model_fields})


def _error(name: str, written: Written) -> ConfigError:
    ordered = sorted(written.faults, key=lambda fault: (fault[0] == COMMAND_LINE, *fault))
    lines = list(dict.fromkeys(f"{place}: {text}" for place, text in ordered))
    count = "1 mistake" if len(lines) == 1 else f"{len(lines)} mistakes"
    return ConfigError(
        f"{name}: {count}, nothing was started",
        fix="correct the lines above",
        faults=lines,
    )


def _override(written: Written, text: str) -> None:
    """Apply `section.key=value`; the value is read as YAML."""
    name, equals, raw = text.partition("=")
    key: Key = tuple(name.strip().split("."))
    if not equals or not all(key):
        written.report(COMMAND_LINE, f"{text!r} should look like section.key=value")
    elif written.places.get(key) == COMMAND_LINE:
        written.report(COMMAND_LINE, f"{name}: set twice")
    elif blocked := _blocked(written.values, key):
        written.report(COMMAND_LINE, f"{name}: {blocked} is a value, not a section")
    else:
        inside = Written()
        value = parse(raw, COMMAND_LINE.file, inside, key)
        written.faults += [(COMMAND_LINE, f"{name}: {fault}") for _, fault in inside.faults]
        written.put(key, value, dict.fromkeys([key, *inside.places], COMMAND_LINE))


def _blocked(values: Mapping[str, Any], key: Key) -> str | None:
    """The part of `key` that holds a value where a section is needed."""
    section: Any = values
    for depth, name in enumerate(key[:-1], 1):
        section = section.get(name, {})
        if not isinstance(section, dict):
            return ".".join(key[:depth])
    return None


def _validate(written: Written, file: str) -> Config | None:
    """Check the types and ranges of all fields, then the rules of those that are valid."""
    config, bad = None, set[Key]()
    try:
        config = Config.model_validate(written.values)
    except ValidationError as error:
        for detail in error.errors():
            if detail["loc"]:
                key = _key_of(detail, written.values)
                if not any(key[:depth] in bad for depth in range(1, len(key) + 1)):
                    text = _describe(detail, key, suggest=len(bad) < SUGGESTIONS)
                    written.report(_place_of(written, key, file), f"{'.'.join(key)}: {text}")
                bad.add(key)
    _check_presets(written)
    _check_rules(written, bad, file)
    if config is None and not written.faults:
        written.report(Place(file), "has a key that is not Unicode text")
    return config


def _check_presets(written: Written) -> None:
    """Refuse a misspelt preset now, not when the data is read."""
    known = (*PRESETS, *places("agon.presets"))
    for key, place in written.places.items():
        if len(key) == 3 and (key[0], key[2]) == ("data", "preset"):
            name = written.values["data"][key[1]]["preset"]
            if isinstance(name, str) and name not in known and not name.startswith("reasoning-gym:"):
                written.report(place, f"{'.'.join(key)}: there is no preset {name!r}{did_you_mean(name, known)}")


def _check_paths(written: Written) -> None:
    """Report files that do not exist together with the other mistakes; without any, they are reported when read."""
    for key, place in written.places.items():
        path = _value(written.values, key)
        if key[:1] == ("data",) and key[2:] == ("path",) and isinstance(path, str) and not Path(path).exists():
            written.report(place, f"{'.'.join(key)}: {path} does not exist")


def _value(values: Mapping[str, Any], key: Key) -> Any:
    for name in key:
        values = values.get(name, {}) if isinstance(values, dict) else {}
    return values


def _check_rules(written: Written, bad: set[Key], file: str) -> None:
    """Rules across fields, where their own fields are valid."""
    complete = merge(defaults(Config), _from_arm(written.values))

    def valid(name: str) -> bool:
        key = tuple(name.split("."))
        return not any(key[: len(b)] == b or b[: len(key)] == key for b in bad)

    for rule in broken_rules(complete, valid):
        keys = [tuple(name.split(".")) for name in rule.keys]
        doors = [] if rule in RULES else [tuple(name.split(".")) for name in CHOICES]  # a door's rule: what chose it
        doors.sort(key=lambda choice: choice[0] != keys[0][0])
        origin = next((key for key in (*keys, *doors) if key in written.places), ("arm",))
        written.report(_place_of(written, origin, file), f"{rule.keys[0]}: {rule.reason}")


def _from_arm(values: dict[str, Any]) -> dict[str, Any]:
    arm = values.get("arm")
    return merge({"game": resolve(arm)}, values) if isinstance(arm, str) and arm in ARMS else values


def _place_of(written: Written, key: Key, file: str) -> Place:
    """Where `key` was written, or something inside it, or the innermost section around it."""
    if key not in written.places and (inside := [k for k in written.places if key and k[: len(key)] == key]):
        key = inside[0]
    while key and key not in written.places:
        key = key[:-1]
    return written.places.get(key, Place(file))


def _key_of(detail: ErrorDetails, values: dict[str, Any]) -> Key:
    """The written key an error is about: pydantic adds names of union members behind it."""
    loc = tuple(str(part) for part in detail["loc"])
    if detail["type"] in {"missing", "extra_forbidden"}:
        return loc
    value: Any = values
    for depth, part in enumerate(loc):
        inside = value.get(part, ...) if isinstance(value, dict) else ...
        if isinstance(value, list) and part.isdigit():
            inside = value[int(part)]
        if inside is ...:
            return loc[:depth]
        value = inside
    return loc


def _describe(detail: ErrorDetails, key: Key, *, suggest: bool) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        meant = nearest_key(key) if suggest else None
        return trl_hint(key) or "unknown key" + (f"; did you mean {meant}?" if meant else "")
    if kind == "missing":
        return "is required"
    if kind == "value_error":
        known = {"arm": ARMS, "sampler.engine": places("agon.backends"), "rival.kind": places("agon.rivals")}
        near = (known | {"verifier": places("agon.verifiers")}).get(".".join(key), {})
        return str(detail["ctx"]["error"]) + did_you_mean(value, near)
    if kind in {"model_type", "dict_type", "model_attributes_type"}:
        return f"should be a section of keys and values, not {_shown(value)}"
    text = detail["msg"].replace("Input should", "should") + f", not {_shown(value)}"
    if kind == "literal_error":
        return text + did_you_mean(value, detail["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", "))
    if kind == "bool_type":
        return text + "; write true or false"
    return text


def _shown(value: object) -> str:
    """A value as it was written, as far as a line has room."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
