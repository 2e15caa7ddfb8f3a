"""Fixtures shared by all tests: one embedded engine a session (chDB allows one path a process)."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from stagewatch.core.settings import Settings, load_settings
from stagewatch.core.store import Store, migrate, open_store


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings on a fresh folder, all ports free."""
    folder = tmp_path_factory.mktemp("data")
    return load_settings(
        {
            "STAGEWATCH_DATA_DIR": str(folder / "stagewatch"),
            "STAGEWATCH_PORT": "0",
            "STAGEWATCH_OTLP_GRPC_PORT": "0",
            "STAGEWATCH_OTLP_HTTP_PORT": "0",
        }
    )


@pytest.fixture(scope="session")
def store(settings: Settings) -> Iterator[Store]:
    """A migrated store on the real engine, shared by the session: use your own `project`."""
    before = tempfile.tempdir
    opened = open_store(settings)
    migrate(opened)
    yield opened
    opened.close()
    tempfile.tempdir = before


@pytest.fixture
def project() -> str:
    """A project name nobody else uses."""
    return f"p-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def golden() -> Path:
    """The folder of captured requests."""
    return Path(__file__).parent / "golden"
