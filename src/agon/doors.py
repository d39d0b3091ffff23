"""The doors: what a run can be made of, by name, from this package or from somebody else's.

    agon.backends     what draws and learns          agon.engine.backend.Backend
    agon.rivals       who plays policy B             agon.training.rivals.Rival
    agon.verifiers    what judges completions        a function like `agon.verify.math` that opens a Verifier
    agon.presets      problem sets on the Hub        agon.data.presets.Preset

A package adds an entry point of the group with a value like `package.module:NAME`. A door is imported when its name is
used, also to check a config: it imports nothing heavy before it is opened. The kernel knows no name. Commands enter in
the same way (`agon.cli`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal

from agon.errors import ConfigError

Group = Literal["agon.backends", "agon.rivals", "agon.verifiers", "agon.presets"]

OURS: Mapping[str, Mapping[str, str]] = {
    "agon.backends": {
        "two-bases": "agon.engine.two_bases.door:TwoBases",
        "ray": "agon.engine.ray.door:Ray",
        "vllm": "agon.engine.vllm.door:Vllm",
        "hf": "agon.engine.hf.door:Hf",
        "tinker": "agon.engine.tinker.door:Tinker",
    },
    "agon.rivals": {
        "policy": "agon.training.rivals:Rival",
        "frozen": "agon.training.rivals.frozen:Frozen",
        "league": "agon.training.rivals.league:League",
        "endpoint": "agon.training.rivals.endpoint:Endpoint",
    },
    "agon.verifiers": {
        "math": "agon.verify:math",
        "math-verify": "agon.verify:math_verify",
        "code": "agon.verify:code",
        "environment": "agon.verify.environment:open_environment",
        "reasoning-gym": "agon.verify.environment:open_environment",
    },
}
"""What comes with Agon, in the order in which a config is offered to it."""


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
    try:
        opened = import_module(module)
        return getattr(opened, attribute) if attribute else opened
    except (ImportError, AttributeError) as error:
        fix = "install what it needs, or remove the package that declares it"
        raise ConfigError(f"{group} {name!r} cannot be imported from {place}: {error}", fix=fix) from error


def doors(group: Group) -> Iterator[Any]:
    """Every door of a group, in order."""
    return (door(group, name) for name in places(group))


def claimed(values: Mapping[str, Any]) -> Any:
    """The backend of a config, given as plain values: the first door that claims it."""
    return next(kind for kind in doors("agon.backends") if kind.claims(values))
