"""An Archive that is served whole, and three ways to do its operations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ibi.accounts.tokens import Scope, Tokens
from support.archive.administration_fixture import AdministeredArchive, administered_archive
from support.archive.three_ways import Ways, wait_for_jobs


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdministeredArchive]:
    with administered_archive(tmp_path_factory.mktemp("ways")) as made:
        yield made


@pytest.fixture
def ways(
    served: AdministeredArchive,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ways]:
    """Three ways to one Archive; the next test finds no job under way, whichever that is."""
    monkeypatch.setenv("LANGUAGE", "en")
    data = served.archive.data
    tokens = Tokens(data)
    if any(each.name == "ways" for each in tokens.all()):
        tokens.revoke("ways")
    token = tokens.make("ways", "2026-11-27T00:00:00Z", [Scope.ADMIN])
    yield Ways(data, served.new_browser("root"), token, capsys, tmp_path)
    wait_for_jobs(data)
