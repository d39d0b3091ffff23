"""Where a service keeps the weights of a policy: what is written to disk in place of the weights."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from agon.errors import CheckpointError

REFERENCE = "tinker.json"


class SavedWeights(BaseModel):
    """Paths on the service: `sampler` to draw from, `state` to train on from; and the name of this copy as a hash."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    digest: str
    sampler: str
    state: str | None = None

    @classmethod
    def of(cls, sampler: str) -> Self:
        return cls(digest=hashlib.sha256(sampler.encode()).hexdigest(), sampler=sampler)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What `write` wrote."""
        try:
            return cls.model_validate_json((folder / REFERENCE).read_bytes())
        except (OSError, ValidationError) as error:
            raise CheckpointError(f"{folder / REFERENCE}: {error}", fix="resume the run that wrote it") from error

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REFERENCE).write_text(self.model_dump_json(indent=2) + "\n")
