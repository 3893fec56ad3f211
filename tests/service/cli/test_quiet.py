"""--quiet and progress: what people see on stderr besides results, and what programs never see."""

from __future__ import annotations

import io
import json
import re
import sys
import time
from pathlib import Path

import pytest

from ibi.cli import main, progress
from ibi.cli.common import OUTPUT
from ibi.cli.progress import Progress

ITEM = '{"rep": "archive.example/a/2026/01.02.03.04", "url": "http://a.example/"}\n'


class Terminal(io.StringIO):
    """What a terminal was sent."""

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        """The text, without what moves the cursor and colours."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


def terminal_for(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Stands for stderr in the rest of a test (pytest puts its own there after fixtures); progress is shown at once."""
    found = Terminal()
    for name, value in {"TERM": "xterm", "COLUMNS": "120", "LANGUAGE": "en"}.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setattr(progress, "SHOWN_AFTER", 0)
    return found


def _until_shown(terminal: Terminal, words: str) -> None:
    end = time.monotonic() + 10
    while words not in terminal.shown:
        assert time.monotonic() < end, terminal.shown
        time.sleep(0.02)


def test_progress_has_words_and_counts_in_the_language_of_the_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = terminal_for(monkeypatch)
    with Progress("items written", 12_000) as shown:
        shown.at(1_500)
        _until_shown(terminal, "1,500 of 12,000")
    assert "items written" in terminal.shown
    monkeypatch.setenv("LANGUAGE", "pt_BR")
    with Progress("arquivos lidos", 2_500_000, in_bytes=True) as shown:
        shown.at(1_500_000)
        _until_shown(terminal, "1,5 MB de 2,5 MB")
    with Progress("registros") as shown:
        shown.at(7)
        _until_shown(terminal, " 7 ")


def test_what_is_quick_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_for(monkeypatch)
    monkeypatch.setattr(progress, "SHOWN_AFTER", 60)
    started = time.monotonic()
    with Progress("items written", 2) as shown:
        shown.at(1)
    assert time.monotonic() - started < 10
    assert terminal.getvalue() == ""


def test_there_is_no_progress_without_a_terminal_or_after_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = terminal_for(monkeypatch)
    monkeypatch.setattr(OUTPUT, "quiet", True)
    with Progress("items written", 2) as shown:
        shown.at(1)
        time.sleep(0.3)
    assert terminal.getvalue() == ""
    monkeypatch.setattr(OUTPUT, "quiet", False)
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    with Progress("items written", 2) as shown:
        shown.at(1)
        time.sleep(0.3)
    assert plain.getvalue() == ""
    assert capsys.readouterr().out == ""


def test_json_is_alone_on_stdout_where_progress_is_shown(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = terminal_for(monkeypatch)
    file = tmp_path / "items.jsonl"
    file.write_text(ITEM)
    assert main(["archive", "import", "--data", str(data), str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["added"] == 1
    assert main(["archive", "audit", "--data", str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["faults"] == []
    assert "Traceback" not in terminal.shown


def test_quiet_leaves_out_remarks_and_leaves_results_warnings_and_errors(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGUAGE", "en")

    def typed(*words: str) -> tuple[str, str]:
        main([*words, "--data", str(data)])
        printed = capsys.readouterr()
        return printed.out, printed.err

    token = ("archive", "token", "add", "--scope", "read")
    assert typed(*token, "a")[1] == "the token a is shown only now:\n"
    out, err = typed(*token, "b", "--quiet")
    assert out.startswith("ibi_")
    assert err == ""
    assert typed(*token, "b", "--quiet")[1] != ""
    assert typed("archive", "search", "nothing", "like", "this")[1] == "nothing was found\n"
    assert typed("archive", "search", "nothing", "like", "this", "--quiet") == ("", "")
    assert typed("archive", "set", "--quiet", "--files-address", "a b")[1].startswith("ibi: ")


def test_quiet_holds_for_one_command(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["archive", "index", "--data", str(data), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["archive", "index", "--data", str(data)]) == 0
    assert capsys.readouterr().err != ""
