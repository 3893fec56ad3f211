"""Who may take part at a resolver, as its administrator types it."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ibi.app.resolver import open_registry
from ibi.cli import main
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import InclusionRequest, is_key
from ibi.resolver.model.archive import Move
from ibi.runtime.settings import ResolverSettings

if TYPE_CHECKING:
    from pathlib import Path

    Capture = pytest.CaptureFixture[str]

ARCHIVE = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39"
KEY = "12345678901234567890"
MAIL = (
    "From: Ada <ada@archive.example>\nSubject: =?utf-8?q?Solicita=C3=A7=C3=A3o?=\n\n"
    f"archiveserviceibi = {ARCHIVE}\nregistrationkey = {KEY}\n"
)


@pytest.fixture
def data(tmp_path: Path, capsys: Capture) -> Path:
    data = tmp_path / "resolver"
    words = ["resolver", "init", "--data", str(data), "--address", "urlib.net"]
    assert main([*words, "--service-ibi", "J8LNKB5R7W/3FUQHC5"]) == 0
    capsys.readouterr()
    return data


def do(action: str, data: Path, *more: str) -> int:
    return main(["resolver", action, "--data", str(data), *more])


def listed(capsys: Capture, action: str, data: Path) -> list[dict[str, object]]:
    capsys.readouterr()
    assert do(action, data, "--json") == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def evidence(capsys: Capture, data: Path) -> list[tuple[str, str]]:
    capsys.readouterr()
    assert main(["resolver", "log", "show", "--data", str(data), "--json"]) == 0
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [(entry["what"], entry["facts"]["by"]) for entry in entries]


def has_key(data: Path, key: str) -> bool:
    registry = open_registry(data)
    try:
        return registry.check_key(parse_ibi(ARCHIVE), key)
    finally:
        registry.close()


def apply(data: Path) -> str:
    registry = open_registry(data)
    try:
        key = registry.apply(
            parse_ibi(ARCHIVE), "archive.example", "ada@archive.example", "Ada", ["b.example"]
        )
    finally:
        registry.close()
    assert key is not None
    return key


@pytest.mark.proves("REG-01", "MSG-30")
@pytest.mark.parametrize("place", ["file", "stdin"])
def test_register_reads_a_registration_mail_and_shows_all_of_it_but_the_key(
    data: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    path = tmp_path / "mail.eml"
    path.write_text(MAIL)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MAIL.encode())))
    assert do("register", data, "--from-mail", str(path) if place == "file" else "-") == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert ARCHIVE in printed.err
    assert "Ada <ada@archive.example>" in printed.err
    assert "Solicitação" in printed.err
    assert KEY not in printed.err
    assert has_key(data, KEY)
    (archive,) = listed(capsys, "archives", data)
    assert (archive["mail"], archive["name"]) == ("ada@archive.example", "Ada")
    assert evidence(capsys, data) == [("registered", "mail")]


def test_what_archive_init_prints_is_what_register_reads(data: Path, tmp_path: Path, capsys: Capture) -> None:
    words = ["archive", "init", "--data", str(tmp_path / "archive"), "--ip", "192.0.2.1", "--for-trying"]
    assert main([*words, "--address", "archive.example.org"]) == 0
    path = tmp_path / "mail"
    path.write_text(capsys.readouterr().out)
    assert do("register", data, "--from-mail", str(path)) == 0
    assert len(listed(capsys, "archives", data)) == 1


def test_a_weak_key_in_a_mail_is_taken_with_a_warning(data: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "mail"
    path.write_text(MAIL.replace(KEY, "1234567890"))
    assert do("register", data, "--from-mail", str(path)) == 0
    assert "fewer than 20 digits" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["", "registrationkey = 1234567890\n", MAIL + "registrationkey = 99999999999\n"]
)
def test_a_mail_that_is_none_is_one_clear_line(
    data: Path, tmp_path: Path, capsys: Capture, text: str
) -> None:
    path = tmp_path / "mail"
    path.write_text(text)
    assert do("register", data, "--from-mail", str(path)) == 1
    assert do("register", data, "--from-mail", str(path), "--key", KEY) == 1
    assert do("register", data, "--from-mail", str(tmp_path / "absent")) == 1
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 3
    assert KEY not in printed.err
    assert listed(capsys, "archives", data) == []


def test_register_takes_a_mail_address_and_no_nonsense(data: Path, capsys: Capture) -> None:
    words = ("--archive-service", ARCHIVE, "--key", KEY)
    assert do("register", data, *words, "--mail", "a@b\r\nBcc: c@d") == 1
    assert do("register", data, *words, "--mail", "ada@archive.example") == 0
    assert listed(capsys, "archives", data)[0]["mail"] == "ada@archive.example"


@pytest.mark.parametrize("form", ["J8LNKB5R7W/3FUQHC5", "j8lnkb5r7w/3fuqhc5"])
def test_the_resolver_s_own_service_is_not_registered(data: Path, capsys: Capture, form: str) -> None:
    assert do("register", data, "--archive-service", form) == 1
    assert "own service" in capsys.readouterr().err
    assert listed(capsys, "archives", data) == []


@pytest.mark.proves("REG-02")
def test_an_application_is_listed_and_approved(data: Path, capsys: Capture) -> None:
    key = apply(data)
    assert listed(capsys, "archives", data) == []
    (application,) = listed(capsys, "applications", data)
    assert application["service_ibi"] == ARCHIVE
    assert application["address"] == "archive.example"
    assert application["url_hosts"] == ["b.example"]
    assert not has_key(data, key)
    assert do("rotate", data, ARCHIVE) == 1
    assert do("allow-move", data, ARCHIVE) == 1
    assert do("unregister", data, "--archive-service", ARCHIVE) == 1
    assert do("approve", data, ARCHIVE) == 0
    assert has_key(data, key)
    assert listed(capsys, "applications", data) == []
    assert do("approve", data, ARCHIVE) == 1
    assert do("refuse", data, ARCHIVE, "--reason", "Not ours.") == 1
    assert has_key(data, key)
    assert evidence(capsys, data) == [("approved", "command")]


def test_a_refused_application_is_gone(data: Path, capsys: Capture) -> None:
    apply(data)
    assert do("applications", data) == 0
    assert "ada@archive.example" in capsys.readouterr().out
    assert do("refuse", data, ARCHIVE, "--reason", "") == 1
    assert do("refuse", data, ARCHIVE, "--reason", "Not ours.") == 0
    assert listed(capsys, "applications", data) == []


@pytest.mark.proves("MSG-21")
def test_rotate_prints_a_new_key_once_and_the_old_one_is_void(data: Path, capsys: Capture) -> None:
    assert do("rotate", data, ARCHIVE) == 1
    assert do("register", data, "--archive-service", ARCHIVE, "--key", KEY) == 0
    capsys.readouterr()
    assert do("rotate", data, ARCHIVE) == 0
    printed = capsys.readouterr()
    key = printed.out.strip()
    assert is_key(key)
    assert key not in printed.err
    assert has_key(data, key)
    assert not has_key(data, KEY)
    assert evidence(capsys, data) == [("registered", "command"), ("rotated", "command")]


def test_a_held_move_is_listed_and_allowed(data: Path, capsys: Capture) -> None:
    assert do("register", data, "--archive-service", ARCHIVE, "--key", KEY) == 0
    service = parse_ibi(ARCHIVE)
    registry = open_registry(data)
    request = InclusionRequest("old.example", service, "192.0.2.1", "1", "admin@archive.example", KEY)
    registry.include(request, registry.open_change(service), confirmed=True)
    registry.hold_move(service, Move("new.example", "192.0.2.2", 0.0))
    registry.close()
    capsys.readouterr()
    assert do("archives", data) == 0
    assert "new.example" in capsys.readouterr().out
    assert do("allow-move", data, ARCHIVE) == 0
    registry = open_registry(data)
    known = registry.entry(service)
    registry.close()
    assert known is not None
    assert known.move_allowed


def test_a_mail_server_that_is_not_there_stops_nothing(data: Path, capsys: Capture) -> None:
    settings = ResolverSettings.read(data)
    replace(settings, smtp="127.0.0.1:1", mail_from="root@urlib.net").write(data)
    words = ("--archive-service", ARCHIVE, "--key", KEY, "--mail", "ada@archive.example")
    assert do("register", data, *words) == 0
    assert len(listed(capsys, "archives", data)) == 1


def test_an_archive_is_registered_with_the_name_that_readers_know(data: Path, capsys: Capture) -> None:
    named = ("--archive-service", ARCHIVE, "--key", KEY, "--title", "Instituto  de Pesquisas")
    assert do("register", data, *named) == 0
    assert [each["title"] for each in listed(capsys, "archives", data)] == ["Instituto de Pesquisas"]
    assert do("register", data, "--archive-service", ARCHIVE, "--key", KEY) == 0
    assert [each["title"] for each in listed(capsys, "archives", data)] == ["Instituto de Pesquisas"]
