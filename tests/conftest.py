"""For all tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import settings

settings.register_profile("agon", deadline=None)
"""An example may take as long as a busy machine needs."""
settings.load_profile("agon")


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """A test in quarantine runs, and its failure is reported by name without failing the build."""
    for item in items:
        if mark := item.get_closest_marker("quarantine"):
            if not mark.kwargs.get("reason"):
                raise pytest.UsageError(f'{item.nodeid}: say why: @pytest.mark.quarantine(reason="...")')
            item.add_marker(pytest.mark.xfail(reason=f"quarantine: {mark.kwargs['reason']}", strict=False))


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a user's state folder remembers is forgotten after the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
