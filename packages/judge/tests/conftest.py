"""For all tests of the judge."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("judge", deadline=None)
"""An example may take as long as a busy machine needs."""
settings.load_profile("judge")
