"""What every section of the config is built from: a frozen model, and scalars that are what they were written as."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# strict: a quoted number is a string, and 1 is not true
Switch = Annotated[bool, Field(strict=True)]
Positive = Annotated[int, Field(strict=True, ge=1)]
Natural = Annotated[int, Field(strict=True, ge=0)]
Number = Annotated[float, Field(strict=True)]
Weight = Annotated[float, Field(strict=True, ge=0)]
Scalar = bool | int | float | str


class Frozen(BaseModel):
    """A section of the config: immutable, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)
