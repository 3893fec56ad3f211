"""The administration of a resolver over HTTP: who takes part, what was alarming, what was written down."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibi.cli import main
from ibi.identifier.forms import parse_ibi
from ibi.resolver import log_pages
from ibi.resolver.evidence import FILE, Evidence
from ibi.resolver.registry import Move
from ibi.settings import ResolverSettings
from resolver.desk import Desk, desk_at
from resolver.member import use_cheap_keys

FIRST, SECOND = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39", "a.example/b/2014/01.01.00.00"
HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    use_cheap_keys(monkeypatch)
    with desk_at(tmp_path) as made:
        yield made


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
    evidence.write("original", ibi=f"rep {FIRST} ibip J8LNKB5R7W/3FUQHC5", archive=SECOND)
    evidence.write("alert", kind="suspect-originals", ibi=FIRST.upper(), archives=f"{SECOND} {HOSTILE}")
    evidence.write("alert", kind="not-found", ibi="x")
    [anchor] = [entry.hash[:16] for entry in evidence.entries() if entry.facts["ibi"] == FIRST.upper()]
    evidence.close()
    root = desk.somebody("root")
    assert "Alerts of two originals of one item: 1" in root.look("/-/admin").text
    alerts = root.look("/-/admin/alerts")
    for page in (root.look("/-/admin"), alerts):
        assert FIRST.upper() in page.text
        assert anchor in page.text
        assert "<script>alert" not in page.text
    assert f"First seen with the original: {SECOND}" in alerts.text


def test_a_long_log_is_read_page_by_page_and_of_each_no_more_than_must_be(tmp_path: Path) -> None:
    evidence, path = Evidence(tmp_path / FILE, time.time), tmp_path / FILE
    for number in range(400):
        evidence.write(
            "registered", ibi=f"item {number} {'x' * 1000}", by="command" if number % 9 else "form"
        )
    evidence.close()
    with path.open("ab") as file:
        file.write(b"nothing that we wrote\n")
    seen, before = [], 0
    while True:
        found = log_pages.page(path, lambda entry: entry.facts["by"] == "form", before, 7, looked_at=30_000)
        assert len(found.entries) <= 7
        seen += [entry.number for entry in found.entries]
        before = found.before
        if not before:
            break
    assert seen == [number + 1 for number in range(400) if number % 9 == 0][::-1]
    assert [each.number for each in log_pages.page(path, lambda _: True, 200, 2).entries] == [199, 198]
    assert log_pages.page(path, lambda _: True, 10**17, 1).entries[0].number == 400
    path.unlink()
    assert log_pages.page(path, lambda _: True) == ([], 0)


def test_a_policy_is_changed_on_a_page_counts_and_stands_in_the_log(desk: Desk) -> None:
    root = desk.somebody("root")
    page = root.look("/-/admin/policies")
    assert "SECRETKEY" not in page.text
    sent = root.send(
        "/-/admin/policies", ("policy", "strict"), ("negative_seconds", "5"), ("admin", "a@b.example")
    )
    assert sent.status == 303
    settings = ResolverSettings.read(desk.data)
    assert (settings.policy, settings.negative_seconds, settings.admin) == ("strict", 5, "a@b.example")
    wrong = root.send("/-/admin/policies", ("negative_seconds", "many"), ("policy", "hardened"))
    assert wrong.status == 422
    assert 'value="many"' in wrong.text
    for field in (("archive_seconds", "-1"), ("request_rate", "nan"), ("policy", HOSTILE), ("admin", "x y")):
        refused = root.send("/-/admin/policies", field)
        assert refused.status == 422
        assert "<script>alert" not in refused.text
    assert ResolverSettings.read(desk.data) == settings
    text = root.look("/-/admin/log?what=setting").text
    assert "account root" in text
    assert "negative_seconds" in text
    assert "archive_seconds" not in text


def test_the_move_of_an_archive_its_new_key_and_its_end_are_written_down(desk: Desk) -> None:
    key = desk.registry.register(parse_ibi(FIRST), None)
    desk.registry.hold_move(parse_ibi(FIRST), Move("new.example", "192.0.2.7", 1.0))
    root = desk.somebody("root")
    page = root.look("/-/admin/archives")
    assert "Let sid.inpe.br/mtc-m21/2012/06.05.15.34.39 move once" in page.text
    assert root.send("/-/admin/archives", ("ibi", FIRST), ("what", "move")).status == 303
    assert "may move once" in root.look("/-/admin/archives?done=may-move").text
    assert root.send("/-/admin/archives", ("ibi", FIRST), ("what", "key")).status == 422
    shown = root.send("/-/admin/archives", ("ibi", FIRST), ("what", "key"), ("sure", "yes"))
    made = re.search(r"<pre>([0-9-]+)</pre>", shown.text)
    assert made
    assert made[1] != key
    assert desk.registry.check_key(parse_ibi(FIRST), made[1])
    assert root.send("/-/admin/archives", ("ibi", FIRST), ("what", "forget"), ("sure", "yes")).status == 303
    assert desk.registry.entry(parse_ibi(FIRST)) is None
    entries = list(Evidence(desk.data / FILE, time.time).entries())
    assert [entry.what for entry in entries] == ["move-allowed", "rotated", "unregistered"]
    assert entries[0].facts == {"ibi": FIRST, "address": "new.example", "by": "account root"}


def test_the_settings_are_shown_without_secrets_and_every_page_is_there(desk: Desk) -> None:
    root = desk.somebody("root")
    for word in ("", "/applications", "/archives", "/alerts", "/log", "/policies", "/accounts", "/account"):
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
