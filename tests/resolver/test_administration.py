"""The administration of a resolver over HTTP: who takes part, what was alarming, what was written down."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from archive.administration_world import PASSWORD, Librarian
from ibi import assembly
from ibi.cli import main
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.resolver import administration
from ibi.resolver.evidence import FILE, Evidence
from ibi.resolver.registry import Registry
from ibi.settings import ResolverSettings
from ibi.signing_in.accounts import Accounts
from ibi.signing_in.roles import Role
from resolver.member import use_cheap_keys
from support.ports import free_port
from support.served import served

SERVICE = IBIForms.parse("rep urlib.net/www/2014/03.22.01.53 ibip J8LNKB5R7W/3FUQHC5")
FIRST, SECOND = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39", "a.example/b/2014/01.01.00.00"
HOSTILE = '"><script>alert(1)</script>'


@dataclass
class Desk:
    """A resolver that is served, and what lies in its data directory."""

    data: Path
    port: int
    registry: Registry

    def somebody(self, name: str = "") -> Librarian:
        librarian = Librarian(self.port)
        if name:
            assert librarian.sign_in(name).status == 303
        return librarian


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    use_cheap_keys(monkeypatch)
    port = free_port()
    data = tmp_path / "resolver"
    data.mkdir()
    ResolverSettings(address=f"127.0.0.1:{port}", service=SERVICE, mirror_key="SECRETKEY").write(data)
    registry = assembly.registry(data, new=True)
    Accounts(data).add("root", Role.ADMINISTRATOR, PASSWORD, "2026-11-22T10:00:00Z")
    with served(lambda: assembly.resolver_service(data), f"127.0.0.1:{port}"):
        yield Desk(data, port, registry)
    registry.close()


def test_an_application_is_approved_and_another_refused_under_the_name_of_the_account(desk: Desk) -> None:
    for service in (FIRST, SECOND):
        desk.registry.apply(parse_ibi(service), "archive.example", "ada@archive.example", HOSTILE, ())
    root = desk.somebody("root")
    assert "Archives that want to be registered: 2" in root.look("/-/admin").text
    page = root.look("/-/admin/applications")
    assert FIRST in page.text
    assert "<script>alert" not in page.text
    assert root.send("/-/admin/applications", ("ibi", FIRST), ("what", "approve")).status == 303
    assert root.send("/-/admin/applications", ("ibi", SECOND), ("what", "refuse")).status == 303
    assert root.send("/-/admin/applications", ("ibi", SECOND), ("what", "approve")).status == 422
    assert root.send("/-/admin/applications", ("ibi", "nothing"), ("what", "approve")).status == 422
    known = desk.registry.entry(parse_ibi(FIRST))
    assert known is not None
    assert not known.applied
    assert desk.registry.entry(parse_ibi(SECOND)) is None
    assert FIRST in root.look("/-/admin/archives").text
    page = root.look("/-/admin/log?what=approved")
    assert "account root" in page.text
    assert SECOND not in page.text


def test_alerts_of_two_originals_are_shown_with_their_evidence(desk: Desk) -> None:
    evidence = Evidence(desk.data / FILE, time.time)
    evidence.write("alert", kind="suspect-originals", ibi=FIRST, archives=f"{SECOND} {HOSTILE}")
    evidence.write("alert", kind="not-found", ibi="x")
    [anchor] = [entry.hash[:16] for entry in evidence.entries() if entry.facts["ibi"] == FIRST]
    evidence.close()
    page = desk.somebody("root").look("/-/admin")
    assert "Alerts of two originals of one item: 1" in page.text
    assert FIRST in page.text
    assert anchor in page.text
    assert "<script>alert" not in page.text


def test_of_a_long_log_only_the_end_is_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(administration, "LAST_BYTES", 3000)
    evidence = Evidence(desk.data / FILE, time.time)
    for number in range(40):
        evidence.write("registered", ibi=f"item {number}", by="command")
    evidence.close()
    found = administration.latest(desk.data / FILE, lambda _: True)
    assert [entry.facts["ibi"] for entry in found[:2]] == ["item 39", "item 38"]
    assert 5 < len(found) < 20
    (desk.data / FILE).unlink()
    assert administration.latest(desk.data / FILE, lambda _: True) == []


def test_the_settings_are_shown_without_secrets_and_every_page_is_there(desk: Desk) -> None:
    root = desk.somebody("root")
    for word in ("", "/applications", "/archives", "/log", "/policies", "/accounts", "/account"):
        page = root.look(f"/-/admin{word}", "pt-BR")
        assert page.status == 200, word
        assert "SECRETKEY" not in page.text
        assert page.headers["content-language"] == "pt-BR"
    assert root.look("/-/admin/deposit").status == 404
    assert "hardened" in root.look("/-/admin/policies").text


def test_nobody_else_gets_in_and_readers_are_served_as_before(desk: Desk) -> None:
    nobody = desk.somebody()
    assert nobody.look("/-/admin/log").status == 303
    assert nobody.sign_in("root", "something else").status == 403
    assert nobody.sign_in("root", origin="http://far.example").status == 403
    assert nobody.look("/-/admin", "en").status == 303
    assert nobody.ask("GET", "/-/admin", None, host="far.example").status == 421
    assert nobody.look("/").status == 200
    assert nobody.look("/-/administrator").status == 404
    root = desk.somebody("root")
    root.look("/-/admin/applications")
    forged = root.post("/-/admin/applications", ("form_token", "x"), ("ibi", FIRST), ("what", "approve"))
    assert forged.status == 403


def test_accounts_are_made_at_the_terminal(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["resolver", "account", "add", "ada", "--role", "administrator", "--generate"]
    assert main([*words, "--data", str(desk.data)]) == 0
    password = capsys.readouterr().out.strip()
    ada = desk.somebody()
    assert ada.sign_in("ada", password).status == 303
    assert re.search(r"ada", ada.look("/-/admin/accounts").text)
    assert main(["resolver", "account", "remove", "ada", "--data", str(desk.data)]) == 0
    assert ada.look("/-/admin").status == 303
