"""Problems: presets, local files, generators; seeded splits that never share a problem; a check of their answers.

    load(source, seed=0)    the problems of one source
    splits(data)            train, dev and held-out of a config, with `.hashes`

Importing this package loads the standard library only; `datasets`, pyarrow and reasoning-gym are imported when a source
needs them.
"""

from __future__ import annotations

from agon.data.presets import PRESETS
from agon.data.sources import Splits, load, read, splits

__all__ = ["PRESETS", "Splits", "load", "read", "splits"]
