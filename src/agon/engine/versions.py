"""Which adapter versions are live, which of them a request means, and which may go.

A version's name is never reused, nor its folder: vLLM keys its prefix cache by adapter name and path, and a reused pair
silently serves keys and values of the weights before.
"""

from __future__ import annotations

from pathlib import Path

from agon.errors import EngineError
from agon.types import BASE, Policy

KEPT = 2
"""Versions of each policy that stay live besides the pinned ones: the latest, and the one of the step before."""


class Versions:
    """The names and folders of published adapters."""

    def __init__(self) -> None:
        self.live: dict[str, Path] = {}
        self._used: dict[Path, str] = {}
        self._history: dict[Policy, list[str]] = {policy: [] for policy in Policy}
        self._pinned: set[str] = set()

    def resolve(self, policy: Policy | None, version: str | None) -> str:
        """The version that a request means, if it is live."""
        if version is None:
            version = BASE if policy is None else (self._history[policy] or [f"{policy.value}@none"])[-1]
        if version != BASE and version not in self.live:
            raise EngineError(
                f"no version {version} is live (live: {', '.join([BASE, *self.live])})",
                fix="publish or pin it before sampling from it",
            )
        return version

    def publish(self, policy: Policy, version: str, folder: Path) -> None:
        """Make `version` the policy's latest."""
        folder = folder.resolve()
        if version in {BASE, *self._used.values()} or folder in self._used:
            raise EngineError(
                f"version {version} or its folder {folder} was published before",
                fix="give every published adapter a fresh name and a fresh folder",
            )
        self._enter(version, folder)
        self._history[policy].append(version)

    def pin(self, version: str, folder: Path) -> bool:
        """Keep `version` live for good; True if it has yet to be loaded."""
        folder, new = folder.resolve(), version not in self.live
        if new and (version == BASE or self._used.get(folder, version) != version):
            raise EngineError(f"{folder} was published as another version", fix="pin a version from its own folder")
        self._pinned.add(version)
        if new:
            self._enter(version, folder)
        return new

    def evict(self) -> list[str]:
        """Forget what is neither pinned nor among the latest of its policy; say what that was."""
        kept = self._pinned | {version for past in self._history.values() for version in past[-KEPT:]}
        gone = [version for version in self.live if version not in kept]
        for version in gone:
            del self.live[version]
        return gone

    def drop(self, version: str) -> None:
        """Forget a version that could not be loaded; its name and folder stay used."""
        self.live.pop(version, None)
        self._pinned.discard(version)
        for past in self._history.values():
            if version in past:
                past.remove(version)

    def _enter(self, version: str, folder: Path) -> None:
        if not (folder / "adapter_config.json").is_file():
            raise EngineError(f"{folder} is not a PEFT directory", fix="publish a folder that the learner exported")
        self.live[version] = self._used_by(folder, version)

    def _used_by(self, folder: Path, version: str) -> Path:
        self._used[folder] = version
        return folder
