"""`ibi resolver set` and `ibi resolver token`: what counts while a resolver runs, and which programs may decide."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.cli import main
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.runtime.settings import ResolverSettings

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def data(tmp_path: Path, capsys: Capture) -> Path:
    words = ["resolver", "init", "--data", str(tmp_path / "r"), "--address", "urlib.net"]
    assert main([*words, "--service-ibi", "J8LNKB5R7W/3FUQHC5"]) == 0
    capsys.readouterr()
    return tmp_path / "r"


def change(data: Path, *words: str) -> int:
    return main(["resolver", "set", "--data", str(data), *words])


def test_settings_are_changed_printed_and_written_down(data: Path, capsys: Capture) -> None:
    assert (
        change(data, "policy", "strict", "archive_seconds", "2.5", "aliases", "a.example, b.example:81") == 0
    )
    assert (
        capsys.readouterr().out == "policy: strict\narchive_seconds: 2.5\naliases: a.example,b.example:81\n"
    )
    settings = ResolverSettings.read(data)
    assert (settings.policy, settings.archive_seconds) == ("strict", 2.5)
    assert settings.aliases == ("a.example", "b.example:81")
    assert change(data, "stale_seconds", "60", "allow_private_archives", "yes", "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"stale_seconds": 60, "allow_private_archives": True}
    assert "restarted" in printed.err
    assert change(data, "policy", "strict") == 0
    assert capsys.readouterr().err == "nothing has changed\n"
    entries = list(Evidence(data / EVIDENCE_FILE, time.time).entries())
    assert [entry.facts["name"] for entry in entries] == [
        "policy", "archive_seconds", "aliases", "stale_seconds", "allow_private_archives",
    ]  # fmt: skip
    assert entries[0].facts == {"name": "policy", "before": "hardened", "after": "strict", "by": "command"}


@pytest.mark.parametrize(
    "words",
    [
        ["policy"], ["policy", "lenient"], ["archive_seconds", "0"], ["archive_seconds", "nan"], ["service", "x"],
        ["mirror_key", "x"], ["aliases", "a b:c"], ["metrics_networks", "10.0.0.1/8"], ["request_burst", "1.5"],
        ["allow_private_archives", "perhaps"], ["admin", "not a mail"], ["policy", "strict", "admin", "x y"],
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_is_one_sentence_and_changes_nothing(
    data: Path, capsys: Capture, words: list[str]
) -> None:
    before = (data / "resolver.toml").read_bytes()
    assert change(data, *words) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert (data / "resolver.toml").read_bytes() == before


def test_every_setting_that_the_help_lists_can_be_set(capsys: Capture) -> None:
    from ibi.resolver.members.settings_changes import CHANGEABLE_BY_COMMAND

    with pytest.raises(SystemExit):
        main(["resolver", "set", "--help"])
    listed = re.findall(r"^  ([a-z_]+) {2,}", capsys.readouterr().out, re.MULTILINE)
    assert set(listed) >= set(CHANGEABLE_BY_COMMAND)
    assert {name for name in listed if "_" in name} <= set(CHANGEABLE_BY_COMMAND)


def test_a_token_is_printed_once_listed_and_removed(data: Path, capsys: Capture) -> None:
    def token(*words: str) -> int:
        return main(["resolver", "token", *words, "--data", str(data)])

    assert token("add", "watcher", "--scope", "read") == 0
    printed = capsys.readouterr()
    known = Tokens(data).find(printed.out.strip())
    assert known is not None
    assert (known.name, known.scopes) == ("watcher", (Scope.READ,))
    assert token("list", "--json") == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["tokens"]] == ["watcher"]
    assert token("add", "other", "--scope", "deposit") == 1
    assert token("add", "small", "--scope", "resolve") == 0
    assert token("remove", "watcher") == 0
    assert token("remove", "watcher") == 1
    assert Tokens(data).find(printed.out.strip()) is None
    assert main(["resolver", "token", "list", "--data", str(data / "nothing")]) == 1


def test_comments_stay_and_what_the_environment_decides_is_not_changed(
    data: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = data / "resolver.toml"
    path.write_text(f"# Ask Maria first.\n\n{path.read_text()}\n# The end.\n")
    before = path.read_text()
    assert change(data, "request_rate", "7", "aliases", "a.example") == 0
    assert path.read_text() == before.replace("request_rate = 20.0", "request_rate = 7.0").replace(
        "aliases = []", 'aliases = ["a.example"]'
    )
    capsys.readouterr()
    written, entries = path.read_bytes(), (data / EVIDENCE_FILE).read_bytes()
    monkeypatch.setenv("IBI_RESOLVER_REQUEST_RATE", "50")
    assert change(data, "request_rate", "8") == 1
    assert capsys.readouterr().err == (
        "ibi: request_rate is decided by IBI_RESOLVER_REQUEST_RATE in the environment\n"
    )
    assert (path.read_bytes(), (data / EVIDENCE_FILE).read_bytes()) == (written, entries)
    assert change(data, "request_burst", "9") == 0
    assert b"request_rate = 7.0" in path.read_bytes()
    monkeypatch.setenv("IBI_RESOLVER_REQEST_RATE", "50")
    assert change(data, "request_burst", "10") == 1
    assert capsys.readouterr().err == "ibi: IBI_RESOLVER_REQEST_RATE: there is no setting reqest_rate\n"


def test_the_environment_names_the_data_directory(
    data: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IBI_DATA", str(data))
    assert main(["resolver", "set", "request_burst", "9"]) == 0
    assert ResolverSettings.read(data).request_burst == 9
    other = data.parent / "other"
    assert main(["resolver", "set", "--data", str(other), "request_burst", "9"]) == 1
    assert str(other) in capsys.readouterr().err
