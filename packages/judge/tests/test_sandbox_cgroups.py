from __future__ import annotations

from pathlib import Path

import pytest

from agon_judge.sandbox import cgroups


def version_2(folder: Path, controllers: str) -> None:
    """A folder like a cgroup of version 2."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.controllers").write_text("cpu memory pids")
    (folder / "cgroup.subtree_control").write_text(controllers)


def test_version_2_is_used_below_our_own_group_where_it_is_delegated(tmp_path: Path) -> None:
    (tmp_path / "ours").write_text("0::/user/app\n")
    version_2(tmp_path / "mount", "")
    version_2(tmp_path / "mount" / "user" / "app", "memory pids")
    found = cgroups.places(tmp_path / "mount", tmp_path / "ours")
    assert found[0] == dict.fromkeys(cgroups.CONTROLLERS, tmp_path / "mount" / "user" / "app")


def test_version_1_needs_all_three_trees(tmp_path: Path) -> None:
    (tmp_path / "ours").write_text("4:memory:/a\n2:cpuacct,cpu:/b\n1:pids:/\n0::/\n")
    for name in ("memory/a", "pids", "cpuacct/b"):
        (tmp_path / name).mkdir(parents=True)
    found = cgroups.places(tmp_path, tmp_path / "ours")
    assert found[0] == {"memory": tmp_path / "memory/a", "pids": tmp_path / "pids", "cpuacct": tmp_path / "cpuacct/b"}
    (tmp_path / "pids").rmdir()
    assert cgroups.places(tmp_path, tmp_path / "ours") == []


def test_no_place_gives_no_group(tmp_path: Path) -> None:
    assert cgroups.make(64, tmp_path, tmp_path / "ours") is None


@pytest.mark.skipif(not cgroups.places(), reason="no writable cgroup on this machine")
def test_a_real_group_limits_counts_and_goes_away() -> None:
    group = cgroups.make(64)
    assert group is not None
    folders = [Path(member).parent for member in group.members]
    try:
        for size in (1 << 28, 1 << 30, 1 << 27):
            group.limit_memory(size)
            names = (folder / name for folder in folders for name in ("memory.limit_in_bytes", "memory.max"))
            limit = next(file for file in names if file.exists())
            assert int(limit.read_text()) == size
        assert (group.kills(), group.processes()) == (0, [])
        assert group.cpu() == 0
    finally:
        group.remove()
    assert not any(folder.exists() for folder in folders)
