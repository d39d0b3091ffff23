"""What happened in this run? Reads, diagnoses and shows the log of any GRPO trainer.

`read` a log, `diagnose` it: which reward terms group normalisation cancels, what signal the others carry, why groups
are dead. `view` writes its groups as one HTML page. The names below are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agon_lens.columns import Columns
    from agon_lens.diagnose_page import write_diagnose_page
    from agon_lens.diagnosis import Diagnosis, diagnose
    from agon_lens.errors import LensError
    from agon_lens.groups import GroupLog, RewardRow
    from agon_lens.log_viewer import view
    from agon_lens.logs import RolloutLog, StepRange, read, read_rollouts
    from agon_lens.terms import Term
    from agon_lens.watching import watch

__version__ = "0.1.0"

__all__ = [
    "Columns",
    "Diagnosis",
    "GroupLog",
    "LensError",
    "RewardRow",
    "RolloutLog",
    "StepRange",
    "Term",
    "diagnose",
    "read",
    "read_rollouts",
    "view",
    "watch",
    "write_diagnose_page",
]

_HOMES = {
    "Columns": "columns",
    "Diagnosis": "diagnosis",
    "GroupLog": "groups",
    "LensError": "errors",
    "RewardRow": "groups",
    "RolloutLog": "logs",
    "StepRange": "logs",
    "Term": "terms",
    "diagnose": "diagnosis",
    "read": "logs",
    "read_rollouts": "logs",
    "view": "log_viewer",
    "watch": "watching",
    "write_diagnose_page": "diagnose_page",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'agon_lens' has no attribute {name!r}")
    return getattr(import_module(f"agon_lens.{_HOMES[name]}"), name)
