"""Which adapter versions are live, which of them a request means, and which may be evicted.

A version's name is never reused, nor its folder: vLLM keys its prefix cache by adapter name and path, and a reused pair
silently serves keys and values of the previous weights.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from agon.errors import EngineError
from agon.types import BASE, Policy, Seat, Version

KEPT = 2
"""Versions of each policy that stay live besides the pinned ones: the latest, and the one of the step before. Every
step that is played ahead of the learner needs one more."""


class Versions:
    """The names and folders of published adapters; `load` and `unload` are the engine's own, which needs this file."""

    def __init__(
        self,
        load: Callable[[Version, Path], None],
        unload: Callable[[Version], None],
        needs: str = "adapter_config.json",
        kept: int = KEPT,
    ) -> None:
        self.live: dict[Version, Path] = {}
        self._load, self._unload, self._needs, self._kept = load, unload, needs, kept
        self._used: dict[Path, Version] = {}
        self._history: dict[Policy | None, list[Version]] = {policy: [] for policy in Policy}
        self._pinned: set[Version] = set()

    def resolve(self, seat: Seat) -> Version:
        """The version that a request means, if it is live."""
        version = self._latest(seat) if isinstance(seat, Policy) else seat
        if version is None or (version != BASE and version not in self.live):
            raise EngineError(
                f"no version {version or seat} is live (live: {', '.join([BASE, *self.live])})",
                fix="publish or pin it before sampling from it",
            )
        return version

    def _latest(self, policy: Policy) -> Version | None:
        return self._history[policy][-1] if self._history[policy] else None

    def publish(self, version: Version, folder: Path, in_use: Collection[Version] = ()) -> None:
        """Load a version as the latest of its policy; unload what is neither recent, nor pinned, nor in use."""
        folder = folder.resolve()
        if version in {BASE, *self._used.values()} or folder in self._used:
            raise EngineError(
                f"version {version} or its folder {folder} was published before",
                fix="give every published adapter a fresh name and a fresh folder",
            )
        self._enter(version, folder)
        self._history[version.policy].append(version)
        kept = (
            self._pinned | {*in_use} | {version for past in self._history.values() for version in past[-self._kept :]}
        )
        for old in [version for version in self.live if version not in kept]:
            del self.live[old]
            self._unload(old)

    def pin(self, version: Version, folder: Path) -> None:
        """Keep a version live for good, loading it if it is not."""
        folder = folder.resolve()
        if version not in self.live:
            if version == BASE or self._used.get(folder, version) != version:
                message = f"{folder} was published as a different version"
                raise EngineError(message, fix="pin a version from its own folder")
            self._enter(version, folder)
        self._pinned.add(version)

    def _enter(self, version: Version, folder: Path) -> None:
        """Load a version; its name and folder stay used even if that fails."""
        if not (folder / self._needs).is_file():
            raise EngineError(f"{folder} has no {self._needs}", fix="publish a folder that the learner exported")
        self._used[folder] = version
        self._load(version, folder)
        self.live[version] = folder
