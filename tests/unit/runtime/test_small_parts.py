"""The environment of commands, numbers that processes share, and settings that change while a service runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibi.errors import SetupError
from ibi.runtime import environment
from ibi.runtime.generation_counter import UNKNOWN, GenerationCounter
from ibi.runtime.logging import LONGEST, scrubbed
from ibi.runtime.reload import WatchedSettings


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("IBI_DATA", environment.environment_data),
        ("IBI_RESOLVER", environment.environment_resolver),
        ("NOTIFY_SOCKET", environment.environment_notify_socket),
    ],
)
def test_a_variable_that_is_empty_is_none(monkeypatch: pytest.MonkeyPatch, name: str, read: object) -> None:
    assert callable(read)
    for value, found in (("/a", "/a"), ("", None)):
        monkeypatch.setenv(name, value)
        assert read() == found
    monkeypatch.delenv(name)
    assert read() is None


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_SDK_DISABLED": "True"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_SDK_DISABLED": "false"}, True),
    ],
)
def test_traces_are_wanted_where_an_endpoint_is_named(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wanted: bool
) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert environment.environment_wants_traces() is wanted


def test_two_processes_see_the_same_numbers(tmp_path: Path) -> None:
    path = tmp_path / "generation"
    one, other = GenerationCounter(path), GenerationCounter(path)
    assert (one.current, len(one.numbers), path.stat().st_size, path.stat().st_mode & 0o777) == (
        UNKNOWN, 1, 8, 0o600,
    )  # fmt: skip
    one.set(7)
    assert other.current == 7
    other.change()
    assert one.current not in {UNKNOWN, 7}
    assert one.current <= 2**63
    seen = {one.current}
    for _ in range(9):
        one.change()
        seen.add(other.current)
    assert len(seen) == 10


def test_a_file_with_fewer_numbers_grows_and_one_with_more_stays(tmp_path: Path) -> None:
    path = tmp_path / "generation"
    GenerationCounter(path).set(7)
    three = GenerationCounter(path, 3)
    assert (list(three.numbers), path.stat().st_size) == ([7, 0, 0], 24)
    three.numbers[2] = 9
    assert (GenerationCounter(path).current, path.stat().st_size) == (7, 24)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"):
        GenerationCounter(tmp_path / "link")


def test_settings_are_read_again_when_their_file_has_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, reads = tmp_path / "settings", list[str]()
    path.write_text("first")

    def read() -> str:
        reads.append(path.read_text())
        if reads[-1] == "wrong":
            raise SetupError("{path} is wrong", path=path)
        return reads[-1]

    def refuse(before: str, found: str) -> None:
        if found == "never":
            raise SetupError("from {before} to {found} no one goes", before=before, found=found)

    settings = WatchedSettings([path, tmp_path / "absent"], read, refuse)
    with caplog.at_level("INFO", "ibi"):
        for text, current in (
            ("first", "first"),
            ("wrong", "first"),
            ("never", "first"),
            ("second", "second"),
        ):
            if text != "first":
                path.write_text(text)
            assert [settings.current() for _ in range(2)] == [current] * 2
        path.unlink()
        with pytest.raises(FileNotFoundError):
            settings.current()
    assert reads == ["first", "wrong", "never", "second"]
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"the settings were changed and cannot be used: {path} is wrong"),
        ("WARNING", "the settings were changed and cannot be used: from first to never no one goes"),
        ("INFO", "the settings were changed"),
    ]


def test_a_message_is_cut_off_where_it_is_too_long() -> None:
    text = "ab " * LONGEST
    assert scrubbed(text[:LONGEST]) == text[:LONGEST]
    assert scrubbed(text[: LONGEST + 1]) == f"{text[:LONGEST]}..."
    looked_at = 16 * LONGEST
    assert scrubbed("x=" + "y" * (looked_at - 2)) == "x=***"
    assert scrubbed("x=" + "y" * (looked_at - 1)) == " ..."
