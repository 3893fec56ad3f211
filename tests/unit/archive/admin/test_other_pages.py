"""The pages besides those of items, as values: the state of the Archive, its tokens, resolvers, copies and imports."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ibi.accounts.layout import Form
from ibi.accounts.people import Role
from ibi.accounts.tokens import Scope, Tokens
from ibi.archive.admin.item_lists import ItemList, ItemQuery
from ibi.archive.admin.other_pages import (
    ArchiveHealth,
    AuditPage,
    CopyPage,
    ImportPage,
    MembershipPage,
    OverviewPage,
    PreviewRecord,
    StatisticsPage,
    TokensPage,
    TransferPage,
)
from ibi.archive.ingest.sources.table import TableColumns
from ibi.archive.membership.joining import Resolvers
from ibi.archive.model.item import Holding
from ibi.archive.preservation.audit import SERVED_AUDIT
from ibi.archive.store.tables import fixity, memberships, transfers, usage
from ibi.archive.store.tables.fixity import AuditPosition, AuditResult, FileFault, KnownFault
from ibi.archive.store.tables.memberships import MembershipRecord, MembershipStanding
from ibi.archive.store.tables.rows import ListedFile
from ibi.archive.store.tables.usage import UsageCounts, UsageRow
from ibi.errors import BadItem, IbiError, NotHeld
from ibi.runtime.settings import Peer
from support.acts.page_values import AUDIT_DAYS, Pages, pages_of
from support.archive.archive_fixture import NOW, WHEN, NewArchive
from support.archive.search_fixture import indexed

PEER, RESOLVER = "https://other.example", "http://resolver.example"
SURE = ("sure", "yes")
SERVICE = "8JMKD3MGP8W/34PGRBS"


@pytest.fixture
def pages(archive: NewArchive) -> Iterator[Pages]:
    with pages_of(archive) as made:
        yield made


def line(number: int, **more: Any) -> dict[str, Any]:
    name = f"a.example/b/2013/01.01.{number // 60:02}.{number % 60:02}"
    return {"key": str(number), "rep": name, "url": f"http://far.example/{number}", **more}


def with_file(pages: Pages) -> Holding:
    (pages.archive.data / "a.txt").write_bytes(b"abc")
    return pages.held({"key": "f", "rep": "a.example/b/2012/02.02.00.00", "files": {"a.txt": "a.txt"}})[0]


def test_the_first_page_tells_the_state_of_the_archive_and_what_was_changed_last(pages: Pages) -> None:
    items = pages.held(*(line(number) for number in range(20)))
    file, [copy] = with_file(pages), pages.held(line(99, state="Copy", timestamp="2011-01-01T00:00:00Z"))
    page = pages.show("")
    states = {"Original": 22, "Copy": 1, "Deleted": 0}
    health = ArchiveHealth(states, 1, 3, page.health.free, 0, "", 0, 0, 0, [], switched_on=True)
    # The copy was added last, though its timestamp is old; the service and the first items are not among the twenty.
    assert page == OverviewPage(health, [file, *items[:1:-1], copy])
    assert (page.health.free > 0, page.health.states["Copy"]) == (True, 1)
    assert pages.others.waiting() == {"audit": 0, "transfer": 0, "membership": 0}


def test_what_waits_for_a_person_is_counted_by_its_page(pages: Pages, archive: NewArchive) -> None:
    item = with_file(pages)
    listed = ListedFile(item.number, item.forms, item.files[0])
    problem = IbiError("no answer")
    keys = Resolvers.read(archive.data).joining(f"{RESOLVER}/{SERVICE}", None, also=False)
    keys.write(archive.data)
    member = MembershipRecord(RESOLVER, MembershipStanding.INCLUDED, WHEN, problem=problem)
    Peer.write_tables(archive.data, {"other": Peer(address=PEER, token="t")})
    with archive.catalogue.writing() as writer:
        fixity.record_results(writer.run, [AuditResult(listed, FileFault.MISSING, WHEN)])
        fixity.save_position(writer.run, SERVED_AUDIT, AuditPosition(NOW))
        memberships.save(writer.run, member)
        memberships.save(
            writer.run, MembershipRecord("http://left.example", MembershipStanding.INCLUDED, WHEN)
        )
    offered = ("ibi", str(item.forms.main)), ("to", "other")
    assert pages.do(f"transfer/{item.forms.main}", *offered, SURE) == "/-/admin/transfer?done=offered"
    assert pages.others.waiting() == {"audit": 1, "transfer": 1, "membership": 1}
    page = pages.show("audit")
    found = page.health
    assert (found.faults, found.audited, found.transfers, found.switched_on) == (1, WHEN, 1, True)
    [shown] = found.members
    assert (replace(shown, problem=None), str(shown.problem)) == (replace(member, problem=None), "no answer")
    assert page == AuditPage(found, [KnownFault(listed, FileFault.MISSING, WHEN, "")], AUDIT_DAYS)


def test_visits_are_shown_by_month_the_latest_first_of_three_years(pages: Pages, archive: NewArchive) -> None:
    [item] = pages.held(line(1))
    months = [f"{year}-{month:02}" for year in (2020, 2021, 2022, 2023) for month in range(1, 13)]
    with archive.catalogue.writing() as writer:
        for month in months:
            for country in ("BR", "PT") if month == "2023-12" else ("BR",):
                usage.count_visits(writer.run, item.number, month, country, UsageCounts(4, 3, 2, 1))
    rows = [UsageRow("", month, "BR", UsageCounts(4, 3, 2, 1)) for month in months[:11:-1]]
    page = pages.show("statistics")
    assert page == StatisticsPage([rows[0], rows[0]._replace(country="PT"), *rows[1:]])
    assert len(rows) == 36


def test_the_state_at_each_resolver_is_shown_and_what_was_not_confirmed_is_marked(
    pages: Pages, archive: NewArchive
) -> None:
    empty = MembershipPage(Resolvers.read(archive.data).settings, [])
    assert pages.show("membership") == empty
    joined = pages.do("membership", ("what", "join"), ("resolver", f"{RESOLVER}/{SERVICE}"))
    now = Resolvers.read(archive.data)
    key = now.keys[RESOLVER]
    assert joined == MembershipPage(now.settings, [(RESOLVER, None)], RESOLVER, key, joined.command)
    assert key in joined.command
    member = MembershipRecord(RESOLVER, MembershipStanding.INCLUDED, WHEN, WHEN)
    with archive.catalogue.writing() as writer:
        memberships.save(writer.run, member)
    for typed, more in (
        ([("what", "switch")], {"unconfirmed": "switch"}),
        ([("what", "leave"), ("resolver", RESOLVER)], {"unconfirmed": RESOLVER}),
        ([("what", "join"), ("resolver", "x")], {"resolver": "x"}),
    ):
        assert pages.show("membership", Form(typed)) == MembershipPage(
            now.settings, [(RESOLVER, member)], **more
        )
    for off in ([("what", "switch"), ("switched_on", "no")], [("what", "leave"), ("resolver", RESOLVER)]):
        with pytest.raises(IbiError) as refused:
            pages.do("membership", *off)
        assert str(refused.value) == "tick the box to confirm"
    assert Resolvers.read(archive.data).keys == now.keys
    there = "/-/admin/membership?done="
    for word, sure in (("no", [SURE]), ("yes", [])):
        done = pages.do("membership", ("what", "switch"), ("switched_on", word), *sure)
        assert done == f"{there}switched-{'off' if sure else 'on'}"
        assert Resolvers.read(archive.data).settings.switched_on is not bool(sure)
    assert pages.do("membership", ("what", "leave"), ("resolver", RESOLVER), SURE) == f"{there}left"
    assert Resolvers.read(archive.data).keys == {}
    with pytest.raises(BadItem) as strange:
        pages.do("membership", ("what", "burn"))
    assert str(strange.value) == "this is not the form of this page; open the page again"


def test_an_original_is_handed_over_once_confirmed_and_taken_back(pages: Pages, archive: NewArchive) -> None:
    Peer.write_tables(
        archive.data, {"other": Peer(address=PEER, token="t"), "third": Peer(address=PEER, token="")}
    )
    [item] = pages.held(line(1))
    name = str(item.forms.main)
    assert pages.show("transfer") == TransferPage(None, {"other": PEER}, [])
    assert pages.show(f"transfer/{name}") == TransferPage(item, {"other": PEER}, [])
    with pytest.raises(BadItem) as refused:
        pages.do(f"transfer/{name}", ("to", "other"))
    assert str(refused.value) == "tick the box to confirm: the other Archive will hold the original"
    assert pages.do(f"transfer/{name}", ("to", "other"), SURE) == "/-/admin/transfer?done=offered"
    with archive.catalogue.reading() as run:
        [given] = transfers.open_outgoing(run)
    facts = {
        "transfer": given.id,
        "item": name,
        "to": PEER,
        "stage": "offered",
        "since": given.moment,
        "problem": None,
    }
    assert pages.show("transfer") == TransferPage(None, {"other": PEER}, [facts])
    with pytest.raises(NotHeld):
        pages.do("transfer", ("transfer", "0" * 32))


def test_the_form_of_a_copy_keeps_what_was_typed(pages: Pages, archive: NewArchive) -> None:
    assert pages.show("copy") == CopyPage("", "", archive.settings.resolver)
    Resolvers.read(archive.data).joining(f"{RESOLVER}/{SERVICE}", None, also=False).write(archive.data)
    typed = Form([("ibi", " a "), ("archive", "b")])
    assert pages.show("copy", typed) == CopyPage("a", "b", RESOLVER)


def test_a_token_is_shown_once_and_revoked_once_confirmed(pages: Pages, archive: NewArchive) -> None:
    assert pages.show("tokens") == TokensPage(())
    made = pages.do("tokens", ("name", "harvester"), ("scopes", "read"), ("scopes", "edit"))
    [token] = Tokens(archive.data).all()
    assert (token.name, token.scopes, token.made) == ("harvester", (Scope.READ, Scope.EDIT), WHEN)
    assert made == TokensPage([token], made.made, "harvester")
    found = Tokens(archive.data).find(made.made)
    assert found == token
    typed = Form([("name", "x"), ("scopes", "read"), ("scopes", "admin")])
    assert pages.show("tokens", typed) == TokensPage([token], name="x", scopes=("read", "admin"))
    revoked = [("what", "revoke"), ("name", "harvester")]
    assert pages.show("tokens", Form(revoked)) == TokensPage([token], unconfirmed="harvester")
    with pytest.raises(IbiError) as refused:
        pages.do("tokens", *revoked)
    assert (str(refused.value), Tokens(archive.data).all()) == ("tick the box to confirm", [token])
    assert pages.do("tokens", *revoked, SURE) == "/-/admin/tokens?done=revoked"
    assert list(Tokens(archive.data).all()) == []


TABLE = "title,creator,date,url,colour\n"


def test_an_import_is_tried_out_first_and_then_taken_in(pages: Pages, archive: NewArchive) -> None:
    assert pages.show("import") == ImportPage()
    typed = Form([("format", "ris"), ("update", "yes")])
    assert pages.show("import", typed) == ImportPage(format="ris", update=True)
    table = f"title,creator,url\n{'T' * 301},A; B,http://far.example/1\nOther,,x y\n".encode()
    page = pages.do("import", files={"list.csv": pages.staged("list.csv", table)}, role=Role.ADMINISTRATOR)
    report = dict.fromkeys(("added", "changed", "removed", "unchanged", "refused"), 0)
    texts = {"title": "T" * 300, "creator": "A; B", "date": "", "type": ""}
    [first, second] = page.preview
    assert first == PreviewRecord(2, first.name, texts, "http://far.example/1")
    assert (second.line, second.texts, second.place) == (3, {}, "")
    problem = second.problem
    assert page == ImportPage(
        report | {"added": 1, "refused": 1}, [(3, second.name, page.refused[0][2])], [], page.upload, "list.csv",
        "csv", columns=page.columns, preview=[first, second],
    )  # fmt: skip
    assert (str(problem), page.columns.unknown) == (str(page.refused[0][2]), ())
    before = archive.catalogue.count()
    sent = ("upload", page.upload), ("name", f"{'x' * 200}.csv"), ("format", "csv")
    done = pages.do("import", *sent, role=Role.ADMINISTRATOR)
    assert done == ImportPage(page.report, done.refused, [], "", "x" * 200, "csv", done=True)
    assert archive.catalogue.count() == before + 1
    with pytest.raises(NotHeld):
        pages.do("import", *sent, role=Role.ADMINISTRATOR)


def test_an_import_of_no_file_of_two_or_with_unknown_columns_is_refused(pages: Pages) -> None:
    one = "choose one file with records: JSON lines, BibTeX, RIS or CSV"
    files = {name: pages.staged(name, b"title\nT\n") for name in ("a.csv", "b.csv")}
    for given in ({}, files):
        with pytest.raises(BadItem) as refused:
            pages.do("import", files=given, role=Role.ADMINISTRATOR)
        assert str(refused.value) == one
    strange = {"a.csv": pages.staged("a.csv", f"{TABLE}T,,,http://far.example/,red\n".encode())}
    with pytest.raises(BadItem) as unknown:
        pages.do("import", files=strange, role=Role.ADMINISTRATOR)
    known, _, rest = str(unknown.value).partition("; ")
    assert known == "columns that are not known: colour"
    assert rest == "rename or remove them. Known ones: title, creator, date, url"
    assert list((pages.archive.data / "uploads").glob("*.part")) == []
    assert TableColumns() == ((), ())


def test_long_lists_are_read_block_by_block_in_every_order(pages: Pages, archive: NewArchive) -> None:
    """A thousand items and more: three blocks of five hundred rows."""
    numbers = range(1005)
    names = [str(each.forms.main) for each in pages.held(*(line(number) for number in numbers))]
    service = str(archive.settings.service.main)
    index = indexed(archive)
    items = ItemList(archive.catalogue, index)
    try:
        for order in ("added", "-added", "name", "-name", "changed", "-changed"):
            known = [*names, service] if "name" in order else [service, *names]
            if order.startswith("-"):
                known.reverse()
            found, after = list[str](), ""
            for _ in range(2):
                page = items.page(ItemQuery(order=order, after=after), 700)
                found += [str(each.holding.forms.main) for each in page.items]
                after = page.after
            assert (found, after) == (known, "")
            table = list(csv.reader(io.StringIO(items.csv(ItemQuery(order=order)).body.decode("utf-8-sig"))))
            assert [row[0] for row in table[1:]] == known
    finally:
        index.close()


def test_a_page_ends_where_too_many_items_were_looked_at_and_leads_on(
    pages: Pages, archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages.held(*(line(number) for number in range(504)), line(504, access="closed"))
    index = indexed(archive)
    items = ItemList(archive.catalogue, index)
    monkeypatch.setattr("ibi.archive.admin.item_lists.MOST_LOOKED_AT", 500)
    monkeypatch.setattr("ibi.archive.admin.item_lists.MOST_EXPORTED", 500)
    try:
        query = ItemQuery(access="closed", order="added")
        first = items.page(query)
        assert (first.items, first.after != "") == ([], True)
        [closed] = items.page(ItemQuery(access="closed", order="added", after=first.after)).items
        assert closed.holding.access == "closed"
        assert len(items.csv(ItemQuery()).body.splitlines()) == 501
        monkeypatch.setattr("ibi.archive.admin.item_lists.MOST_EXPORTED", 501)
        assert len(items.csv(ItemQuery()).body.splitlines()) == 507
    finally:
        index.close()
