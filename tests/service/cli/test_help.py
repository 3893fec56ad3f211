"""Help of every command: in the reader's language, in groups, and whole."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ibi
import man_pages
from ibi.cli import archive, main
from ibi.cli.parser import Parser
from surface.commands import parsers

SOURCE = Path(ibi.__file__).parent.parent
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


def test_all_of_it_is_as_the_manual_pages_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGUAGE", "en")
    assert sorted(path.name for path in man_pages.changed(man_pages.FOLDER)) == [], "run: make man"


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


def test_the_list_of_commands_is_that_of_their_parsers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LANGUAGE", "en")
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert capsys.readouterr().out == parsers()["ibi"].format_help()


@pytest.mark.parametrize("words", [["--help"], ["--version"], []])
def test_the_list_of_commands_needs_no_module_of_theirs(words: list[str]) -> None:
    """To import all of them takes half a second."""
    seen = f"import sys; from ibi.cli import main; sys.argv[1:] = {words!r}\n"
    seen += "try: main()\nfinally: print({'msgspec', 'ibi.cli.mint'} & {*sys.modules}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "set()"


@pytest.mark.parametrize("words", [["--help"], ["completion", "bash"], ["nothing"]])
def test_an_install_of_the_library_alone_names_every_command(words: list[str]) -> None:
    program = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); sys.argv[1:] = {words!r}\n"
    program += "from ibi.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "archive" in done.stdout + done.stderr


def test_each_action_is_in_the_module_that_is_imported_for_it() -> None:
    """Otherwise all modules are imported for it, and it begins later."""
    whole = _actions("")
    assert len(whole) > 30
    assert {action for action in whole if not {action} <= _actions(action) < whole} == set()


def _actions(action: str) -> set[str]:
    """The actions of `ibi archive` that are there when one is asked for; "": all."""
    parser = Parser(prog="ibi")
    archive.add_parser(parser.add_subparsers(), action)
    group, _ = parser.subcommands()["archive"]
    return set(group.subcommands())
