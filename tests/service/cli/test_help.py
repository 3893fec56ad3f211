"""Help of every command: in the reader's language, in groups, and whole."""

from __future__ import annotations

import re

import pytest

from ibi.cli import main
from surface.commands import parsers

SAME = {"FILE", "Dublin Core", "ibi completion"}
"""What begins lines that are the same in both languages."""


def _help(monkeypatch: pytest.MonkeyPatch, language: str) -> dict[str, str]:
    """The help of each command, a line for each argument."""
    monkeypatch.setenv("LANGUAGE", language)
    monkeypatch.setenv("COLUMNS", "2000")
    return {name: parser.format_help() for name, parser in parsers().items()}


def test_the_help_of_every_command_is_in_portuguese(monkeypatch: pytest.MonkeyPatch) -> None:
    english, portuguese = (_help(monkeypatch, language) for language in ("en", "pt_BR"))
    assert set(english) == set(portuguese)
    untranslated = []
    for name, text in english.items():
        same = set(text.splitlines()) & set(portuguese[name].splitlines())
        for line in same:
            meaning = re.split(r"\s{2,}", line.strip())[-1]
            if " " in meaning and not meaning.startswith(("-", *SAME)):
                untranslated.append(f"{name}: {line}")
    assert untranslated == []


def test_headings_and_the_usage_line_are_in_portuguese(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LANGUAGE", "pt_BR")
    with pytest.raises(SystemExit, match="0"):
        main(["archive", "edit", "--help"])
    printed = capsys.readouterr().out
    assert printed.startswith("uso: ibi archive edit ")
    assert {line for line in printed.splitlines() if re.fullmatch(r"\w+:", line)} == {
        "argumentos:",
        "opções:",
    }


@pytest.mark.parametrize("program", ["archive", "resolver"])
def test_each_action_stands_once_under_a_heading_of_its_own_kind(
    monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setenv("LANGUAGE", "en")
    parser = parsers()[f"ibi {program}"]
    actions = next(list(each.choices) for each in parser._actions if isinstance(each.choices, dict))
    printed = parser.format_help()
    listed = re.findall(r"^  ([a-z-]+)", printed, re.MULTILINE)
    assert sorted(each for each in listed if not each.startswith("-")) == sorted(actions)
    headings = re.findall(r"^(\w.*):$", printed, re.MULTILINE)
    assert "commands" not in headings
    assert len(headings) >= 6
