"""A user's Python file as a module."""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def load_file(path: Path) -> ModuleType:
    """Run a file as a module that is named by its path: under its own name it might hide another."""
    place = path.resolve()
    spec = spec_from_file_location(re.sub(r"\W", "_", str(place)), place)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
