"""`ibi archive token`: made once, listed with what each may do, and revoked; in both of its spellings."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.cli import main


def say(data: Path, *words: str) -> int:
    return main(["archive", "token", "--data", str(data), *words])


def test_a_token_is_printed_once_and_alone(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert say(data, "--name", "repository", "--scope", "deposit,read") == 0
    printed = capsys.readouterr()
    assert re.fullmatch(r"ibi_[A-Za-z0-9_-]{43}\n", printed.out)
    assert printed.err == "the token repository is shown only now:\n"
    known = Tokens(data).find(printed.out.strip())
    assert known is not None
    assert (known.name, known.scopes) == ("repository", (Scope.READ, Scope.DEPOSIT))
    assert printed.out.strip() not in (data / "tokens.json").read_text()
    assert say(data, "--list") == 0
    listed = capsys.readouterr().out
    assert re.fullmatch(r"repository  20[0-9-]{8}T[0-9:]{8}Z  read,deposit\n", listed)
    assert say(data, "--revoke", "repository") == 0
    assert Tokens(data).find(printed.out.strip()) is None
    capsys.readouterr()
    assert (say(data, "--list"), capsys.readouterr().out) == (0, "")


def test_programs_are_told_the_same(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert say(data, "--name", "a", "--scope", "admin", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert Tokens(data).find(made["token"]) is not None
    assert say(data, "--list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "tokens": [{"name": "a", "scopes": ["admin"], "made": made["made"]}]
    }
    assert say(data, "--revoke", "a", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"name": "a", "revoked": True}


def test_scopes_are_given_one_by_one_or_together(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert say(data, "--name", "a", "--scope", "edit", "--scope", "read, deposit", "--json") == 0
    assert json.loads(capsys.readouterr().out)["scopes"] == ["read", "deposit", "edit"]


@pytest.mark.parametrize(
    "words",
    [
        ["--name", "a"], ["--name", "a", "--scope", "all"], ["--name", "a", "--scope", ""], ["--name", "a b"],
        ["--name", "taken", "--scope", "read"], ["--revoke", "unknown"], ["--name", "a b", "--scope", "read"],
    ],
)  # fmt: skip
def test_bad_words_about_tokens_are_one_sentence(
    data: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert say(data, "--name", "taken", "--scope", "read") == 0
    capsys.readouterr()
    assert say(data, *words) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert [token.name for token in Tokens(data).all()] == ["taken"]


@pytest.mark.parametrize("words", [[], ["--list", "--revoke", "a"], ["--name", "a", "--list"]])
def test_one_thing_is_done_at_a_time(data: Path, words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        say(data, *words)
    assert ended.value.code == 2


def test_a_folder_that_is_no_archive_gets_no_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert say(tmp_path, "--name", "a", "--scope", "read") == 1
    assert "archive.toml" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("program", ["archive", "mint"])
def test_words_and_former_options_do_the_same(
    data: Path, capsys: pytest.CaptureFixture[str], program: str
) -> None:
    scopes = ["--scope", "read"] if program == "archive" else []

    def run(*words: str) -> str:
        capsys.readouterr()
        assert main([program, "token", *words, "--data", str(data)]) == 0
        return capsys.readouterr().out

    made = [run("add", "new", *scopes), run("--name", "old", *scopes)]
    assert all(re.fullmatch(r"ibi_[A-Za-z0-9_-]{43}\n", each) for each in made)
    assert run("list") == run("--list")
    assert len(run("list").splitlines()) == 2
    assert json.loads(run("list", "--json")) == json.loads(run("--list", "--json"))
    assert run("remove", "old") == run("--revoke", "new") == run("list") == ""


def test_help_of_tokens_names_the_words_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["archive", "token", "--help"])
    printed = capsys.readouterr().out
    assert re.findall(r"^  (\w+) ", printed, re.MULTILINE) == ["add", "list", "remove"]
    assert "--revoke" not in printed
