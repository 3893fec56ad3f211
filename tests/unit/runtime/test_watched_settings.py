"""When settings are read again, from files and from a shared store, and what is logged of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ibi.errors import SetupError
from ibi.runtime.reload import WatchedSettings

CHANGED = "the settings were changed"
BAD = "the settings were changed and cannot be used: they are bad"
FORBIDDEN = "the settings were changed and cannot be used: third may not follow second"


class Settings:
    """What `read` finds, and how often it was read."""

    def __init__(self) -> None:
        self.found = "first"
        self.reads = 0
        self.changes = list[tuple[str, str]]()

    def read(self) -> str:
        self.reads += 1
        if self.found == "bad":
            raise SetupError("they are bad")
        return self.found

    def refuse(self, before: str, found: str) -> None:
        self.changes.append((before, found))
        if found == "third":
            raise SetupError("{found} may not follow {before}", found=found, before=before)


class Versions:
    """The versions of documents in a shared store, by name; `read` is what was looked at."""

    def __init__(self) -> None:
        self.numbers = {"a.toml": 1, "b.toml": 1}
        self.folders = list[Path]()
        self.looks = list[str]()

    def of(self, folder: Path) -> Versions:
        self.folders.append(folder)
        return self

    def version(self, name: str) -> int:
        self.looks.append(name)
        return self.numbers[name]


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


def test_files_are_read_again_when_one_of_them_has_changed_in_any_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings, files = Settings(), [tmp_path / "a.toml", tmp_path / "b.toml"]
    files[0].write_text("1")
    watched = WatchedSettings(files, settings.read, settings.refuse)
    assert [watched.current(), watched.current(), settings.reads] == ["first", "first", 1]
    settings.found, at = "second", files[0].stat().st_mtime_ns
    assert watched.current() == "first"

    def write(file: Path, text: str) -> Path:
        file.write_text(text)
        os.utime(file, ns=(at, at + 1))
        return file

    changes: list[Callable[[], object]] = [
        lambda: os.utime(files[0], ns=(at, at + 1)),
        lambda: files[1].write_text(""),
        lambda: write(files[0], "12"),
        lambda: write(tmp_path / "c", "12").replace(files[0]),
        files[1].unlink,
    ]
    for reads, change in enumerate(changes, start=2):
        change()
        assert [watched.current(), watched.current(), settings.reads] == ["second", "second", reads]
    assert settings.changes == [("first", "second"), *[("second", "second")] * 4]
    assert caplog.messages == [CHANGED] * 5


def test_what_cannot_be_used_is_logged_once_and_the_former_settings_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings, file = Settings(), tmp_path / "a.toml"
    watched = WatchedSettings([file], settings.read, settings.refuse)
    outcomes = list[str]()
    for found in ("second", "bad", "third", "fourth"):
        settings.found = found
        file.write_text(found)
        outcomes += [watched.current(), watched.current()]
    assert outcomes == ["second"] * 6 + ["fourth"] * 2
    assert caplog.messages == [CHANGED, BAD, FORBIDDEN, CHANGED]
    assert settings.changes == [("first", "second"), ("second", "third"), ("second", "fourth")]
    settings.found = "bad"
    with pytest.raises(SetupError, match="they are bad"):
        WatchedSettings([file], settings.read, settings.refuse)


def test_settings_of_a_store_are_read_at_each_look_until_they_can_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, versions = Settings(), Versions()
    monkeypatch.setattr("ibi.runtime.reload.documents_of", versions.of)
    files = [tmp_path / "a.toml", tmp_path / "b.toml"]
    WatchedSettings(files[:1], settings.read, settings.refuse)
    watched = WatchedSettings(files, settings.read, settings.refuse)
    assert versions.looks == ["a.toml", "a.toml", "b.toml"]
    assert versions.folders == [tmp_path] * 2
    (tmp_path / "a.toml").touch()  # the file of the node counts for nothing
    assert [watched.current(), settings.reads] == ["first", 2]
    settings.found = "bad"
    versions.numbers["b.toml"] += 1
    assert [watched.current(), watched.current(), settings.reads] == ["first", "first", 4]
    settings.found = "second"
    assert [watched.current(), watched.current(), settings.reads] == ["second", "second", 5]
    settings.found = "bad"
    versions.numbers["a.toml"] += 1
    assert watched.current() == "second"
    assert caplog.messages == [BAD, CHANGED, BAD]
