"""The pair that the tests of the gateway serve."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="the gateway needs the extra `serve`")

from agon.deploy.serve.served_pair import ServedPair

from .helpers import write_halves


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> ServedPair:
    """The adapters that ship with the package, whose answers were recorded from a real vLLM."""
    return ServedPair.load(write_halves(tmp_path_factory.mktemp("pair")), weights=False)
