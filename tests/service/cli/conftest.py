"""Commands as they are typed, and their words in English."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ibi.cli import main

ARCHIVE = "--address archive.example:80 --ip 127.0.0.1 --for-trying --json"


@pytest.fixture
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGUAGE", "en")


@pytest.fixture
def typed(
    english: None,  # noqa: ARG001 - it sets the language
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str, str]]:
    """Runs `ibi` in this process: words -> (status, stdout, stderr)."""

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            status = main([*map(str, words)])
        except SystemExit as leaving:
            status = int(str(leaving.code))
        printed = capsys.readouterr()
        assert "Traceback" not in printed.out + printed.err
        return status, printed.out, printed.err

    return run


@pytest.fixture
def data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The data directory of a new Archive."""
    assert main(["archive", "init", "--data", str(tmp_path / "a"), *ARCHIVE.split()]) == 0
    capsys.readouterr()
    return tmp_path / "a"
