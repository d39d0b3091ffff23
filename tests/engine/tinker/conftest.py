"""A fake service for every test, and downloads from it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agon.engine.tinker.client import TinkerClient

from .helpers import Behaviour, FakeService, FakeServiceClient, fake_sdk

Serve = Callable[..., FakeService]


@pytest.fixture
def clients() -> list[FakeServiceClient]:
    return []


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clients: list[FakeServiceClient]) -> Serve:
    """Start a fake service that behaves as asked; the SDK then talks to it."""

    def start(vocabulary: int = 32, **behaviour: Any) -> FakeService:
        folder = tmp_path / "archives"
        folder.mkdir(exist_ok=True)
        service = FakeService(folder, vocabulary, Behaviour(**behaviour))
        monkeypatch.setitem(sys.modules, "tinker", fake_sdk(service, clients))

        def download(url: str, timeout: float) -> io.BytesIO:
            return io.BytesIO(Path(url.removeprefix("http://files")).read_bytes())

        monkeypatch.setattr("urllib.request.urlopen", download)
        return service

    return start


@pytest.fixture
def client(serve: Serve) -> TinkerClient:
    serve()
    return TinkerClient("http://127.0.0.1:1")
