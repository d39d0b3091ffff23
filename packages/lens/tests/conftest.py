"""For all tests of agon-lens."""

from hypothesis import settings

settings.register_profile("lens", deadline=None)
"""An example may take as long as a busy machine needs."""
settings.load_profile("lens")
