"""The pages of a resolver's administration as values: overview, alerts, log, settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ibi.accounts.layout import Form
from ibi.accounts.people import Role
from ibi.errors import BadField, IbiError, NotHeld, ParseError
from ibi.http.response import Refusal
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import ArchiveTitles
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.evidence.reading import MOST_ENTRIES, OriginalsAlerts
from ibi.resolver.members.settings_changes import CHANGEABLE_OVER_HTTP, setting_text
from ibi.resolver.model.archive import Archive, Move, RegisteredArchive
from ibi.resolver.operations.context import ActingOnResolver
from ibi.resolver.pages.administration import (
    AdministrationPages,
    AlertsPage,
    LogPage,
    OverviewPage,
    PoliciesPage,
)
from ibi.runtime.settings import ResolverSettings
from support.acts.visits import visit

ITEM, OTHER = "a.example/b/2020/01.02.00.00", "a.example/b/2020/01.03.00.00"
ONE, TWO = "c.example/w/2020/01.01.00.00", "d.example/w/2020/01.01.00.00"
SERVICE = IBIForms.parse("rep urlib.net/www/2014/03.22.01.53")
NOW = 1_800_000_000.0


def archive(name: str, *, included: bool = True, move: bool = False, title: str = "") -> RegisteredArchive:
    service = parse_ibi(name)
    return RegisteredArchive(
        service, (), "2026-11-01T10:00:00Z", None, Archive(service, "c.example") if included else None,
        move=Move("new.example", "192.0.2.1", 0.0) if move else None, titles=ArchiveTitles("", title),
    )  # fmt: skip


class Resolver:
    """The pages of a resolver with these Archives, and its evidence."""

    def __init__(self, data: Path) -> None:
        ResolverSettings(address="urlib.example", service=SERVICE, mirror_key="secret").write(data)
        self.data = data
        self.evidence = Evidence(data / EVIDENCE_FILE, lambda: NOW)
        self.archives = [archive(ONE, title="Um", move=True), archive(TWO, included=False), archive(ITEM)]
        registrar: Any = SimpleNamespace(
            registered=lambda: self.archives, waiting=lambda: [archive(OTHER), archive(OTHER)]
        )
        alerts = OriginalsAlerts(data / EVIDENCE_FILE)
        acting = ActingOnResolver(data, registrar, self.evidence, alerts, lambda: None)  # type: ignore[arg-type,return-value]  # no status is asked for
        standings: Any = [SimpleNamespace(standing=each) for each in ("silent", "heard", "silent")]
        self.handlers = AdministrationPages(acting, lambda: standings, data / EVIDENCE_FILE).handlers()

    def alert(self, item: str) -> None:
        self.evidence.write("alert", kind="suspect-originals", ibi=item, archives=f"{ONE} {TWO}")

    def show(self, word: str, query: str = "", typed: Form | None = None) -> Any:
        return self.handlers[word].show(visit(query=query), typed)

    def send(self, word: str, role: Any = Role.ADMINISTRATOR, **fields: str) -> Any:
        return self.handlers[word].do(visit(role=role), Form([*fields.items()]))


@pytest.fixture
def resolver(tmp_path: Path) -> Iterator[Resolver]:
    made = Resolver(tmp_path)
    yield made
    made.evidence.close()


TITLES = {parse_ibi(ONE).canonical: ArchiveTitles("", "Um")}


def test_the_overview_counts_archives_and_shows_the_alerts_that_are_open(resolver: Resolver) -> None:
    for item in (ITEM, OTHER):
        resolver.alert(item)
    before = resolver.show("")
    assert [each.item for each in before.alerts] == [OTHER, ITEM]
    assert resolver.send("alerts", ibi=ITEM) == "/-/admin/alerts?done=settled"
    page = resolver.show("")
    assert [each.item for each in page.alerts] == [OTHER]
    assert page == OverviewPage(3, 2, 2, 1, 2, page.alerts, TITLES)


def test_alerts_are_settled_by_an_administrator_who_is_written_down(resolver: Resolver) -> None:
    resolver.alert(ITEM)
    resolver.alert(OTHER)
    page = resolver.show("alerts")
    assert (page, [each.item for each in page.found.alerts]) == (
        AlertsPage(page.found, TITLES), [OTHER, ITEM],
    )  # fmt: skip
    assert [each.item for each in resolver.show("alerts", "before=2&lang=en").found.alerts] == [ITEM]
    at = len((resolver.data / EVIDENCE_FILE).read_bytes().splitlines(keepends=True)[0])
    assert [each.item for each in resolver.show("alerts", f"at={at}").found.alerts] == [ITEM]
    assert resolver.show("alerts", "before=x", Form()) == page
    with pytest.raises(Refusal) as refused:
        resolver.send("alerts", Role.KEEPER, ibi=ITEM)
    assert (refused.value.status, str(refused.value)) == (
        403, "your account does not permit this; ask an administrator",
    )  # fmt: skip
    resolver.send("alerts", ibi=ITEM)
    [settled] = [each for each in resolver.evidence.entries() if each.what == "settled"]
    assert settled.facts == {"ibi": ITEM, "by": "account root"}
    with pytest.raises(NotHeld):
        resolver.send("alerts", ibi=ITEM)


def test_the_log_is_shown_by_kind_by_name_and_by_page(resolver: Resolver) -> None:
    for number in range(MOST_ENTRIES + 1):
        resolver.evidence.write("registered" if number else "approved", ibi=(OTHER, ITEM)[number % 2], by="x")

    def numbers(query: str) -> tuple[list[int], str, str]:
        page = resolver.show("log", query)
        return [each.number for each in page.entries], page.what, page.ibi

    page = resolver.show("log")
    assert [each.number for each in page.entries] == list(range(MOST_ENTRIES + 1, 1, -1))
    assert page == LogPage(page.entries, "", "", page.at, 0)
    assert page.at > 0
    assert [each.number for each in resolver.show("log", f"at={page.at}").entries] == [1]
    assert numbers("what=approved&done=x") == ([1], "approved", "")
    assert numbers(f"ibi={ITEM}&limit=2") == ([200, 198], "", ITEM)
    assert numbers("before=3") == ([2, 1], "", "")
    with pytest.raises(ParseError):
        resolver.show("log", "ibi=nothing")
    with pytest.raises(BadField):
        resolver.show("log", "before=0")
    typed = Form([("what", "x"), ("ibi", "nothing")])
    assert resolver.show("log", "what=approved", typed) == LogPage([], "x", "nothing", 0, 0)


def form(now: dict[str, str], **changes: str) -> dict[str, str]:
    """The form of the settings as a browser sends it."""
    return {**now, **{f"was.{name}": text for name, text in now.items()}, **changes}


def test_the_settings_are_shown_without_secrets(resolver: Resolver) -> None:
    settings = ResolverSettings.read(resolver.data)
    now = {name: setting_text(getattr(settings, name)) for name in CHANGEABLE_OVER_HTTP}
    others = [
        ("address", "urlib.example"), ("service", str(SERVICE)), ("aliases", "-"), ("public_url", "-"),
        ("allow_private_archives", "no"), ("express", "yes"), ("upstream", "-"), ("metrics_networks", "-"),
        ("mirror", "-"), ("smtp", "-"), ("smtp_password_file", "-"), ("mail_from", "-"),
    ]  # fmt: skip
    assert resolver.show("policies") == PoliciesPage(now, now, others, [])
    assert (now["policy"], now["request_rate"], now["admin"]) == ("hardened", "20", "")
    typed = Form([*form(now, negative_seconds="5", hedge_seconds="0.5", policy="strict").items()])
    changed = {"negative_seconds": "5", "hedge_seconds": "0.5", "policy": "strict"}
    assert resolver.show("policies", typed=typed) == PoliciesPage(now | changed, now, others, [])
    ResolverSettings(address="urlib.example", service=SERVICE, negative_seconds=7, policy="strict").write(
        resolver.data
    )
    later = now | {"negative_seconds": "7", "policy": "strict"}
    assert resolver.show("policies", typed=typed) == PoliciesPage(
        later | changed, later, others, ["negative_seconds"]
    )


def test_settings_are_changed_where_the_form_knew_them(resolver: Resolver) -> None:
    now: dict[str, str] = resolver.show("policies").now
    assert resolver.send("policies", **form(now)) == "/-/admin/policies?done=unchanged"
    assert resolver.send("policies", **form(now, negative_seconds="5")) == "/-/admin/policies?done=set"
    assert ResolverSettings.read(resolver.data).negative_seconds == 5
    [entry] = resolver.evidence.entries()
    assert entry.facts == {"name": "negative_seconds", "before": "60", "after": "5", "by": "account root"}
    with pytest.raises(Refusal) as refused:
        resolver.send("policies", **form(now, negative_seconds="9"))
    assert (refused.value.status, str(refused.value)) == (
        409, "somebody else has changed negative_seconds meanwhile, so nothing was saved: now it is 5",
    )  # fmt: skip
    with pytest.raises(IbiError) as older:
        resolver.send("policies", policy="strict")
    assert str(older.value) == "this is not the form of this page; open the page again"
    page = resolver.send("policies", **form(now, negative_seconds="60", stale_seconds="9"))
    assert [str(each) for each in page.notes] == ["stale_seconds takes effect once the resolver is restarted"]
    assert page.now["stale_seconds"] == page.values["stale_seconds"] == "9"
