"""Read YAML with positions: values as they were written, the line of every key, and every mistake.

Scalars are parsed as in YAML 1.2: `1e-5` is a number, `no` is a string, `010` is ten. A key may be written once;
aliases and tags are refused. `extends: ./base.yaml` takes that file's values wherever this one writes none, key by key.
Relative paths are relative to the file that writes them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from agon.config.keys import sections
from agon.config.models import Config

Key = tuple[str, ...]
Values = dict[str, Any]
"""What a file writes: values of any type, by key; the validator decides what they may be."""
VERIFIER_FILE = re.compile(r"(.+\.py):([A-Za-z_]\w*)")
"""A verifier in a file of the user: `judge.py:correct`."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something was written. Line 0 means the file as a whole, or the command line."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(slots=True)
class Written:
    """What was written, where, and what is wrong with it so far."""

    values: dict[str, Any] = field(default_factory=dict)
    places: dict[Key, Place] = field(default_factory=dict)
    faults: list[tuple[Place, str]] = field(default_factory=list)

    def report(self, place: Place, text: str) -> None:
        self.faults.append((place, text))

    def put(self, key: Key, value: Any, places: dict[Key, Place]) -> None:
        """Set one value, replacing what was there."""
        section = self.values
        for name in key[:-1]:
            section = section.setdefault(name, {})
        section[key[-1]] = value
        self.places = {k: place for k, place in self.places.items() if k[: len(key)] != key} | places

    def forget_revision(self, name: object) -> None:
        """Drop the revision of a base that is replaced by the one called `name`: it is a commit of the old one."""
        model = _section(self.values, "model")
        if model.get("name") != name and "revision" in model:
            del model["revision"]
            self.places.pop(("model", "revision"), None)


def read(path: str, below: tuple[str, ...] = ()) -> Written:
    """Read a file and all files that it extends. `below` are the files that extend this one."""
    written = Written()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        written.report(Place(path), f"cannot be read: {reason}")
        return written
    value = parse(text, path, written)
    if isinstance(value, dict):
        written.values = anchored(_with_sections(value, Config), Path(path).parent)
    elif not written.faults:
        written.report(Place(path), "should be a mapping of keys to values")
    return _extended(written, path, below)


def _with_sections(values: Values, model: type[BaseModel]) -> Values:
    """`train:` with every line below it commented out is an empty section, not a null."""
    made = dict(values)
    for name, section in sections(model).items():
        if name in made and (made[name] is None or isinstance(made[name], dict)):
            made[name] = _with_sections(made[name] or {}, section)
    return made


def anchored(values: Values, folder: Path) -> Values:
    """The values of a config with its relative paths made absolute: they are meant relative to `folder`."""
    return with_paths(values, lambda path: os.path.normpath((folder / path).absolute()))


def portable(values: Values, folder: Path) -> Values:
    """The same with paths below the current directory or `folder` made relative to `folder`: they may move together."""
    places = (Path.cwd(), folder.absolute())

    def relative(path: str) -> str:
        return os.path.relpath(path, folder.absolute()) if any(map(Path(path).is_relative_to, places)) else path

    return with_paths(values, relative)


def with_paths(values: Values, change: Callable[[str], str]) -> Values:
    """A copy in which every path is changed: problems, a verifier's file, adapters to start from, a base's folder."""
    copy: Values = deepcopy(dict(values))
    model, init = _section(copy, "model"), _section(_section(copy, "model"), "init")
    for source in map(partial(_section, _section(copy, "data")), _section(copy, "data")):
        _change(source, "path", lambda path: bool(path), change)
    for base in (model, _section(model, "b")):
        _change(base, "name", lambda name: name.startswith(("./", "../")) or Path(name).is_absolute(), change)
    for key in ("a", "b"):
        _change(init, key, _is_folder, change)
    _change(copy, "verifier", lambda name: bool(VERIFIER_FILE.fullmatch(name)), change)
    reward = _section(copy, "reward")
    if isinstance(terms := reward.get("terms"), list):
        in_files = [isinstance(name, str) and VERIFIER_FILE.fullmatch(name) for name in terms]
        reward["terms"] = [change(name) if here else name for name, here in zip(terms, in_files, strict=True)]
    return copy


def _section(values: Values, name: str) -> Values:
    section = values.get(name)
    return section if isinstance(section, dict) else {}


def _change(section: Values, key: str, holds: Callable[[str], bool], change: Callable[[str], str]) -> None:
    if isinstance(value := section.get(key), str) and holds(value):
        section[key] = change(value)


def _is_folder(start: str) -> bool:
    """Whether `model.init.a` or `.b` names a folder: neither a word of ours nor an adapter that ships with us."""
    return start not in ("", "zero", "noise") and not start.startswith("agon:")


def _extended(written: Written, path: str, below: tuple[str, ...]) -> Written:
    """Put the values of the file that `path` extends underneath its own."""
    if "extends" not in written.values:
        return written
    place, parent = written.places[("extends",)], written.values.pop("extends")
    if not isinstance(parent, str):
        written.report(place, f"extends: should be the path of a config file, not {parent!r}")
        return written
    target = os.path.normpath(Path(path).parent / parent)
    if target in (path, *below):
        written.report(place, f"extends: {parent} leads back to this file")
        return written
    if not Path(target).is_file():
        written.report(place, f"extends: there is no file {target}")
        return written
    base = read(target, (path, *below))
    model = _section(written.values, "model")
    if "name" in model and "revision" not in model:
        base.forget_revision(model["name"])
    values = merge(base.values, written.values)
    inherited = {key: place for key, place in base.places.items() if _holds(values, key)}
    return Written(values, inherited | written.places, base.faults + written.faults)


def _holds(values: Any, key: Key) -> bool:
    """Whether `key` still exists after merging; a replaced section removes its keys."""
    for name in key:
        if isinstance(values, list) and name.isdigit() and int(name) < len(values):
            values = values[int(name)]
        elif isinstance(values, dict) and name in values:
            values = values[name]
        else:
            return False
    return True


def as_flow(value: Any) -> str:
    """A value as YAML in one line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=math.inf)
    return text.removesuffix("...\n").strip()


def merge(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` on top of `under`: mappings merge key by key, everything else replaces."""
    merged = dict(under)
    for key, value in over.items():
        below = under.get(key)
        merged[key] = merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


class _Loader(yaml.SafeLoader):
    """Composes nodes only. Every plain scalar stays a string for `_plain` to parse; aliases are refused."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not supported; use `extends`", problem_mark=mark)
        return super().compose_node(parent, index)


_PLAIN: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (re.compile(r"|~|null|Null|NULL"), lambda text: None),
    (re.compile(r"true|True|TRUE|false|False|FALSE"), lambda text: text.lower() == "true"),
    (re.compile(r"(?=.{1,99}$)[-+]?\d+(_\d+)*"), lambda text: int(text)),
    (re.compile(r"[-+]?(\d+(_\d+)*\.?\d*|\.\d+)([eE][-+]?\d+)?"), lambda text: float(text)),
    (re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"), lambda text: float(text.replace(".", ""))),
)


def _plain(text: str) -> Any:
    """The value of an unquoted scalar."""
    return next((convert(text) for pattern, convert in _PLAIN if pattern.fullmatch(text)), text)


def parse(text: str, file: str, written: Written, at: Key = ()) -> Any:
    """The value of a YAML text; places and faults go to `written`."""
    try:
        node = yaml.compose(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or "has characters that YAML does not allow"
        written.report(Place(file, mark.line + 1 if mark else 0), f"is not valid YAML: {reason}")
        return None
    except RecursionError:
        written.report(Place(file), "is nested too deeply to be a config")
        return None
    return None if node is None else _Reader(file, written).value(node, at)


@dataclass(slots=True)
class _Reader:
    file: str
    written: Written

    def place(self, node: yaml.Node) -> Place:
        return Place(self.file, node.start_mark.line + 1)

    def value(self, node: yaml.Node, at: Key) -> Any:
        if node.tag not in _OWN_TAGS:
            self.written.report(self.place(node), f"tags are not supported: remove {node.tag.replace(_TAG, '!!')}")
        if isinstance(node, yaml.MappingNode):
            return {key: self.value(child, (*at, key)) for key, child in self.pairs(node, at)}
        if isinstance(node, yaml.SequenceNode):
            return [self.item(child, (*at, str(i))) for i, child in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return _plain(node.value) if node.style is None else node.value

    def item(self, node: yaml.Node, at: Key) -> Any:
        self.written.places[at] = self.place(node)
        return self.value(node, at)

    def pairs(self, node: yaml.MappingNode, at: Key) -> Iterator[tuple[str, yaml.Node]]:
        """The keys of a mapping, each once, with their places recorded."""
        first: dict[str, Place] = {}
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.written.report(self.place(key), "a key should be a string")
            elif key.value in first:
                name = ".".join((*at, key.value))
                self.written.report(self.place(key), f"{name}: written twice, first on line {first[key.value].line}")
            else:
                first[key.value] = self.written.places[(*at, key.value)] = self.place(key)
                yield key.value, child


_TAG = "tag:yaml.org,2002:"
_OWN_TAGS = frozenset(f"{_TAG}{kind}" for kind in ("str", "map", "seq"))
