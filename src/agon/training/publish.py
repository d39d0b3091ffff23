"""From the learner's weights to the sampler: versions, published folders, and the check that they arrived.

A version's name and folder are never reused, also after a resume: engines cache by both.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from agon.rundir.files import remove_tree
from agon.rundir.records import Flight
from agon.training.machines import Machines
from agon.types import Policy, Version

Versions = Mapping[Policy, Version]


class Publisher:
    """Hands adapters to the sampler and removes the folders that no engine can still be reading."""

    def __init__(self, machines: Machines, folder: Path, staleness: int = 0) -> None:
        self.machines, self.folder = machines, folder
        self._past = deque[set[Version]](maxlen=1 + staleness)
        """The versions before the current ones, those of steps in flight included."""

    def name(self, current: Versions, done: int) -> dict[Policy, Version]:
        """The version of every policy after `done` steps: a new one for each whose weights changed."""
        learner, names = self.machines.learner, dict(current)
        for policy in Policy:
            digest = learner.hash(policy)[:8]
            if policy not in names or names[policy].digest != digest:
                names[policy] = Version.of(policy, done, digest)
        return names

    def publish(
        self, new: Iterable[Version], current: Versions, first: Versions, league: Sequence[Version] = ()
    ) -> None:
        """Publish new versions, each from a folder of its own, and check that the engines hold them."""
        for version in new:
            assert version.policy is not None
            self.machines.learner.export(version.policy, self.folder / version)
            self.machines.sampler.publish(version, self.folder / version)
        self._remove_old(current, {*first.values(), *league})
        for version in dict.fromkeys((*first.values(), *league)):  # rivals that do not move
            self.machines.sampler.pin(version, self.folder / version)
        self.machines.check(current)

    def copy(self, versions: Iterable[Version], into: Path) -> None:
        """Put earlier versions into a checkpoint: steps in flight are drawn from them again after a resume."""
        for version in versions:
            shutil.copytree(self.folder / version, into / version)

    def restore(self, flights: Iterable[Flight], checkpoint: Path) -> None:
        """Publish the earlier versions of a checkpoint, in the order in which they were made."""
        for flight in sorted(flights, key=lambda flight: flight.step):
            self._past.append(set(flight.versions.values()))
        folders = sorted(checkpoint.iterdir(), key=lambda path: path.name.partition("@")[2])
        for folder in folders:
            shutil.copytree(folder, self.folder / folder.name, dirs_exist_ok=True)
            self.machines.sampler.publish(Version(folder.name), self.folder / folder.name)

    def _remove_old(self, current: Versions, rivals: Collection[Version]) -> None:
        """Remove folders of versions that are neither current, nor rivals that stay, nor of steps before."""
        kept = {*current.values(), *rivals}.union(*self._past)
        self._past.append(set(current.values()))
        if self.folder.is_dir():
            for folder in self.folder.iterdir():
                if folder.name not in kept:
                    remove_tree(folder)
