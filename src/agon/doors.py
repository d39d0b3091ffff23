"""The doors: what a run can be made of, by name, from this package or from somebody else's.

    agon.backends     what draws and learns          agon.engine.backend.Backend
    agon.rivals       who plays policy B             agon.training.rivals.Rival
    agon.verifiers    what judges completions        a function like `agon.verify.math` that opens a Verifier
    agon.presets      problem sets on the Hub        agon.data.presets.Preset

A package adds an entry point of the group with a value like `package.module:NAME`. A door is imported when its name is
used, also to check a config: it imports nothing heavy before it is opened. The kernel knows no name. A door that is
broken harms only what names it. Commands enter in the same way (`agon.cli`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal

from agon.errors import ConfigError

Group = Literal["agon.backends", "agon.rivals", "agon.verifiers", "agon.presets"]

OURS: Mapping[str, Mapping[str, str]] = {
    "agon.backends": {
        "vllm": "agon.engine.vllm.door:Vllm",
        "hf": "agon.engine.hf.door:Hf",
        "tinker": "agon.engine.tinker.door:Tinker",
    },
    "agon.rivals": {
        "policy": "agon.training.rivals:Rival",
        "frozen": "agon.training.rivals.frozen:Frozen",
        "league": "agon.training.rivals.league:League",
    },
    "agon.verifiers": {
        "math": "agon.verify:math",
        "math-verify": "agon.verify:math_verify",
        "code": "agon.verify:code",
        "environment": "agon.verify.environment:open_environment",
        "reasoning-gym": "agon.verify.environment:open_environment",
    },
}
"""What comes with Agon."""
NEEDED: Mapping[str, Sequence[str]] = {
    "agon.backends": ("name", "opens_here", "rules", "unused"),
    "agon.rivals": ("kind", "rivalry", "rules", "unused", "seats"),
}
"""What is asked of a door before a config that names it is valid."""


@cache
def places(group: Group) -> Mapping[str, str]:
    """Where each door of a group is, ours first; a name that is taken cannot be taken again."""
    found = dict(OURS.get(group, {}))
    for entry in entry_points(group=group):
        found.setdefault(entry.name, entry.value)
    return found


def door(group: Group, name: str) -> Any:
    """What stands behind a name; ConfigError where nothing does."""
    if (place := places(group).get(name)) is None:
        near = [f"did you mean {word}? " for word in get_close_matches(name, places(group), n=1)]
        known = ", ".join(places(group))
        raise ConfigError(
            f"there is no {group.removeprefix('agon.')[:-1]} {name!r}", fix=f"{''.join(near)}choose from: {known}"
        )
    module, _, attribute = place.partition(":")
    fix = "install what it needs, or remove the package that declares it"
    try:
        opened = import_module(module)
        found = getattr(opened, attribute) if attribute else opened
    except (Exception, SystemExit) as error:  # somebody else's module may do anything
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{group} {name!r} cannot be imported from {place}: {why}", fix=fix) from error
    if lacking := [needed for needed in NEEDED.get(group, ()) if not hasattr(found, needed)]:
        raise ConfigError(f"{group} {name!r} at {place} has no {', '.join(lacking)}", fix=fix)
    return found


def doors(group: Group) -> Iterator[Any]:
    """Every door of a group that can be opened, in order."""
    for name in places(group):
        if name in OURS.get(group, {}) or broken(group, name) is None:
            yield door(group, name)


def broken(group: Group, name: str) -> ConfigError | None:
    """Why a door cannot be opened."""
    try:
        door(group, name)
    except ConfigError as error:
        return error
    return None
