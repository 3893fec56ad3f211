"""Queries over many items: in each order, page by page, and by what is the matter with them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from ibi.archive.model.handover import GiverStage
from ibi.archive.model.item import Access
from ibi.archive.store.tables import batches, copies, fixity, history, listings, transfers
from ibi.archive.store.tables.fixity import AuditResult, FileFault
from ibi.archive.store.tables.listings import FixityRecord, ItemStanding, UnsettledItem
from ibi.archive.store.tables.rows import ListedFile
from ibi.archive.store.tables.transfers import OutgoingTransfer
from ibi.identifier.forms import IBIForms, parse_name
from ibi.protocol.vocabulary import ItemState
from support.archive.archive_fixture import WHEN

if TYPE_CHECKING:
    from ibi.archive.model.item import Holding
    from support.archive.archive_fixture import NewArchive

FIRST, COPY, GONE, META = (f"{name}.example/b/2010/01.01.00.00" for name in ("z", "m", "b", "n"))
IBIP: Final = "8JMKD3MGP8W/35MME4E"
SERVICE: Final = "archive.example/w/2020/01.01.00.00"
NUMBERS: Final = {SERVICE: 1, FIRST: 2, COPY: 3, GONE: 4, META: 5}
MARKED: Final = "2020-01-01T00:00:00Z"


@pytest.fixture
def filled(archive: NewArchive) -> NewArchive:
    """The service item; then a data item with a file and both names, a copy, a removed item, and metadata."""
    (archive.data / "a.txt").write_bytes(b"aaa")
    report = archive.load(
        {"rep": FIRST, "ibip": IBIP, "files": {"a.txt": "a.txt"}, "language": "en", "key": "oai:c.example:1",
         "metadata": {"title": ["One", "Two"], "date": ["2026"]}, "metadata_item": META},
        {"rep": COPY, "state": "Copy", "url": "http://far.example/", "access": "restricted", "key": "oai:no",
         "next_edition": FIRST},
        {"rep": GONE, "state": "Deleted", "timestamp": WHEN, "access": "restricted"},
        {"rep": META, "contenttype": "Metadata", "metadata": {"title": ["Three"]}, "key": "a key",
         "access": "embargoed", "embargo": "2027-01-01", "transferable": False},
    )  # fmt: skip
    assert (report.added, archive.refused) == (4, [])
    return archive


def _held(archive: NewArchive, name: str) -> Holding:
    return archive.catalogue.held(parse_name(name))


@pytest.mark.parametrize(
    ("order", "after", "keys"),
    [
        ("added", 0, ["1", "2", "3", "4", "5"]),
        ("added", 2, ["3", "4", "5"]),
        ("-added", 6, ["5", "4", "3", "2", "1"]),
        ("-added", 3, ["2", "1"]),
        ("name", "", [SERVICE, GONE, COPY, META, FIRST]),
        ("name", COPY, [META, FIRST]),
        ("-name", "~", [FIRST, META, COPY, GONE, SERVICE]),
        ("-name", COPY, [GONE, SERVICE]),
    ],
)
def test_items_come_in_each_order_behind_a_key(
    filled: NewArchive, order: str, after: str | int, keys: list[str]
) -> None:
    expected = [(key, NUMBERS.get(key) or int(key)) for key in keys]
    with filled.catalogue.reading() as run:
        for most in (1, 2, 9):
            assert listings.numbers_in_order(run, order, after, most) == expected[:most]


def test_items_are_chosen_by_state_and_access(filled: NewArchive) -> None:
    with filled.catalogue.reading() as run:

        def chosen(state: str, access: str) -> set[int]:
            return listings.choose(run, [1, 2, 3, 4, 5, 9], state, access)

        assert chosen("", "") == {1, 2, 3, 4, 5}
        assert (chosen("Original", ""), chosen("Deleted", "")) == ({1, 2, 5}, {4})
        assert (chosen("", "restricted"), chosen("", "embargoed"), chosen("", "open")) == ({3}, {5}, {1, 2})
        assert (chosen("Copy", "restricted"), chosen("Original", "restricted")) == ({3}, set())
        assert listings.choose(run, [3], "", "") == {3}


def test_the_facts_of_items_are_these(filled: NewArchive) -> None:
    first = listings.ItemFacts(
        2, 1, WHEN, FIRST, "Original", "Data", WHEN, "en",
        '{"title":[["One",null],["Two",null]],"date":[["2026",null]]}', f"rep {META}", "open", None,
        has_data=True, unsettled=False,
    )  # fmt: skip
    copy = listings.ItemFacts(
        3,
        1,
        WHEN,
        COPY,
        "Copy",
        "Data",
        WHEN,
        None,
        None,
        None,
        "restricted",
        None,
        has_data=True,
        unsettled=False,
    )
    gone = copy._replace(number=4, name=GONE, state="Deleted", has_data=False)
    meta = first._replace(
        number=5, name=META, content_type="Metadata", language=None, metadata='{"title":[["Three",null]]}',
        metadata_item=None, access="embargoed", embargo="2027-01-01", has_data=False,
    )  # fmt: skip
    with filled.catalogue.reading() as run:
        assert listings.facts_after(run, 1, 9) == [first, copy, gone, meta]
        assert listings.facts_after(run, 1, 2) == [first, copy]
        assert listings.facts_after(run, 5, 9) == []
        assert sorted(listings.facts_of(run, [4, 2, 9])) == [first, gone]
        assert listings.event_counts(run, 1, 9) == [(2, 1), (3, 1), (4, 1), (5, 1)]
        assert (listings.event_counts(run, 4, 1), listings.event_counts(run, 5, 1)) == ([(5, 1)], [])
        assert [listings.name_of(run, number) for number in (2, 3, 9)] == [FIRST, COPY, None]
        assert listings.holdings(run, [2, 9]) == {2: _held(filled, FIRST)}
        assert listings.holdings(run, []) == {}
    with filled.item_store.unit_of_work("maria") as work:
        held = work.get(parse_name(FIRST))
        work.change(held, replace(held, unsettled=""), (), "edited")
    with filled.catalogue.reading() as run:
        assert listings.facts_of(run, [2]) == [first._replace(events=2)]
        found = listings.position(run)
        assert listings.changed(run, found.events - 1, found.events) == [2]
        assert listings.changed(run, found.events, found.events) == []
        assert listings.changed(run, found.events - 3, found.events - 1) == [4, 5]
        assert (found.oldest, found.items) == (1, 5)


def test_states_names_and_originals_are_counted_and_come_page_by_page(filled: NewArchive) -> None:
    names = sorted([*NUMBERS, IBIP.upper(), str(filled.settings.service.ibip)])
    with filled.catalogue.reading() as run:
        states = {ItemState.ORIGINAL: 3, ItemState.COPY: 1, ItemState.DELETED: 1}
        assert listings.count_states(run) == states
        assert listings.count_names(run) == len(names) == 7
        assert listings.names_page(run, "", 9) == names
        assert listings.names_page(run, "", 2) == names[:2]
        assert listings.names_page(run, names[2], 9) == names[3:]
        assert listings.originals(run, "", transferable=True) == [FIRST]
        assert listings.originals(run, "", transferable=False) == [SERVICE, META]
        assert listings.originals(run, SERVICE, transferable=False) == [META]
        forms = [_held(filled, name).forms for name in (COPY, FIRST, SERVICE)]
        assert listings.newest_items(run, 9) == forms
        assert listings.newest_items(run, 1) == forms[:1]


def test_the_items_before_an_edition_are_found_by_either_of_its_names(filled: NewArchive) -> None:
    with filled.catalogue.reading() as run:
        forms = _held(filled, FIRST).forms
        assert listings.earlier(run, forms, 9) == [_held(filled, COPY).forms]
        assert listings.earlier(run, IBIForms.parse(f"rep {FIRST}"), 9) == [_held(filled, COPY).forms]
        assert listings.earlier(run, IBIForms.parse(f"ibip {IBIP}"), 9) == []
        assert listings.earlier(run, forms, 0) == []


def test_what_is_the_matter_with_items_stands_beside_them(filled: NewArchive) -> None:
    held = _held(filled, FIRST)
    going = OutgoingTransfer(
        id="1", item=3, peer="b", address="", passage="", proof="", remove=False, who="", stage=GiverStage.OFFERED,
        moment=WHEN,
    )  # fmt: skip
    with filled.catalogue.writing() as writer:
        run = writer.run
        usual = {number: ItemStanding(WHEN, WHEN) for number in (2, 3)}
        assert listings.standings(run, [2, 3]) == usual
        assert listings.standings(run, [9]) == {9: ItemStanding()}
        listed = ListedFile(held.number, held.forms, held.files[0])
        fixity.record_results(run, [AuditResult(listed, FileFault.SIZE, MARKED)])
        transfers.save_outgoing(run, going)
        history.add_event(run, 3, history.ItemEvent("2026-01-01T00:00:00Z", "maria", "edited", {}))
        assert listings.standings(run, [2, 3]) == {
            2: ItemStanding(WHEN, WHEN, is_damaged=True),
            3: ItemStanding(WHEN, "2026-01-01T00:00:00Z", is_leaving=True),
        }
        transfers.save_outgoing(run, replace(going, stage=GiverStage.DONE))
        assert not listings.standings(run, [3])[3].is_leaving
        found = {"a.txt": FixityRecord(held.files[0].sha256, MARKED, "", "size")}
        assert listings.fixity_of(run, 2) == found
        assert found["a.txt"].is_of(held.files[0])
        assert not found["a.txt"].is_of(replace(held.files[0], sha256="0" * 64))
        fixity.record_results(run, [AuditResult(listed, None, MARKED)])
        assert listings.fixity_of(run, 2) == {"a.txt": FixityRecord(held.files[0].sha256, MARKED, MARKED, "")}
        assert listings.fixity_of(run, 3) == {}


def test_copies_that_lag_behind_and_originals_that_are_not_settled_are_counted(filled: NewArchive) -> None:
    with filled.catalogue.writing() as writer:
        run = writer.run
        assert listings.lagging(run) == (0, "")
        copies.save_source(run, 3, copies.CopySource(archive="http://b.example/", since=MARKED))
        copies.save_source(
            run, 2, copies.CopySource(archive="http://b.example/", since="2019-01-01T00:00:00Z")
        )
        assert listings.lagging(run) == (1, MARKED)
        assert listings.count_unsettled(run) == 0
        listings.unsettle_originals(run, MARKED, 1)
        assert listings.count_unsettled(run) == 2
        unsettled = [UnsettledItem(2, FIRST), UnsettledItem(5, META)]
        assert listings.some_unsettled(run, 0, 9) == unsettled
        assert listings.some_unsettled(run, 0, 1) == unsettled[:1]
        assert listings.some_unsettled(run, 2, 9) == unsettled[1:]
        assert listings.facts_of(run, [2])[0].unsettled
        assert [str(forms.main) for forms in listings.newest_items(run, 9)] == [COPY, SERVICE]


def test_items_of_a_batch_are_found_by_names_and_keys(filled: NewArchive) -> None:
    with filled.catalogue.reading() as run:
        assert batches.numbers_of_names(run, [FIRST, IBIP, "nowhere"]) == {FIRST: 2, IBIP: 2}
        assert batches.numbers_of_keys(run, ["a key", "oai:no", "nowhere"]) == {"a key": 5, "oai:no": 3}
        assert batches.numbers_of_keys(run, []) == {}
        assert list(batches.harvested_keys(run)) == ["oai:c.example:1"]
        assert batches.forms_of_keys(run, ["a key", "nowhere"]) == {"a key": _held(filled, META).forms}
        assert batches.forms_of_number(run, 2) == _held(filled, FIRST).forms
        titled = [(2, None, "One", '[["2026",null]]'), (3, "http://far.example/", None, None)]
        assert batches.titles(run, 1, 9) == titled
        assert batches.titles(run, 1, 1) == titled[:1]
        assert batches.titles(run, 2, 9) == titled[1:]
        assert sorted(batches.rows_of(run, [5, 2, 9])) == [2, 5]
    assert _held(filled, META).access is Access.EMBARGOED
