"""The C library's heap, for learners on CPUs."""

from __future__ import annotations

import ctypes


def give_back() -> bool:
    """Give freed pages of the heap back to the system; say whether any were. Only glibc can: elsewhere nothing happens.

    Steps differ in length, so freed tensors leave holes that the next step's do not fit: without this a learner on a
    CPU holds more after every long step, up to a multiple of what it uses.
    """
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError, TypeError):
        return False
