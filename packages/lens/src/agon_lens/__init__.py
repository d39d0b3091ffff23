"""What happened in this run? Reads, diagnoses and shows the log of any GRPO trainer.

`diagnose` a log: which reward terms group normalisation cancels, what signal the others carry, why groups are dead.
`view` writes its groups as one HTML page, `watch` keeps a log while you train. The names below are imported when they
are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agon_lens.columns import Columns
    from agon_lens.diagnosis import Diagnoses, Diagnosis, diagnose
    from agon_lens.errors import LensError
    from agon_lens.findings import Finding
    from agon_lens.groups import GroupLog, RewardRow
    from agon_lens.log_viewer import view
    from agon_lens.logs import read
    from agon_lens.terms import Term
    from agon_lens.watching import watch

__version__ = "0.1.0"

_HOMES = {
    "Columns": "columns",
    "Diagnoses": "diagnosis",
    "Diagnosis": "diagnosis",
    "Finding": "findings",
    "GroupLog": "groups",
    "LensError": "errors",
    "RewardRow": "groups",
    "Term": "terms",
    "diagnose": "diagnosis",
    "read": "logs",
    "view": "log_viewer",
    "watch": "watching",
}
__all__ = [
    "Columns",
    "Diagnoses",
    "Diagnosis",
    "Finding",
    "GroupLog",
    "LensError",
    "RewardRow",
    "Term",
    "diagnose",
    "read",
    "view",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'agon_lens' has no attribute {name!r}")
    return getattr(import_module(f"agon_lens.{_HOMES[name]}"), name)
