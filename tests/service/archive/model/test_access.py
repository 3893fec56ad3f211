"""Who may have the data of an item, and whose word for a reader's address is believed."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from ibi.archive.model import access
from ibi.archive.model.answer import ArchiveIdentity
from ibi.archive.model.answer import url_list as work_out
from ibi.archive.model.item import Access, Holding, MetadataValue, StoredFile
from ibi.identifier.forms import IBIForms
from ibi.protocol.messages import UrlRequest
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ContentType
from support.archive.archive_fixture import NewArchive, Served
from support.archive.messages import request, running, url_list

DAY = "2026-11-21"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()
REP = "archive.example/w/2021/01.01.00.00"
OTHER = "archive.example/w/2021/01.01.00.01"
LICENSED, STRANGER = "192.0.2.7", "198.51.100.1"


LICENSED_NETWORKS = ("192.0.2.0/24", "2001:db8::/32")


def held(who: Access, embargo: str = "", **more: Any) -> Holding:
    facts: dict[str, Any] = {"forms": IBIForms.parse(f"rep {REP}"), "timestamp": "2020-01-01T00:00:00Z"}
    return Holding(access=who, embargo=embargo, **(facts | more))


# Who may have it


@pytest.mark.proves("SVC-10")
@pytest.mark.parametrize(
    ("who", "embargo", "address", "verdict"),
    [
        (Access.OPEN, "", None, Access.OPEN),
        (Access.CLOSED, "", LICENSED, Access.CLOSED),
        (Access.EMBARGOED, "2026-11-22", LICENSED, Access.EMBARGOED),
        (Access.EMBARGOED, "2026-11-21", STRANGER, Access.OPEN),
        (Access.EMBARGOED, "2026-11-20", None, Access.OPEN),
        (Access.RESTRICTED, "", LICENSED, Access.OPEN),
        (Access.RESTRICTED, "", f"::ffff:{LICENSED}", Access.OPEN),
        (Access.RESTRICTED, "", "2001:db8::1", Access.OPEN),
        (Access.RESTRICTED, "", STRANGER, Access.RESTRICTED),
        (Access.RESTRICTED, "", None, Access.RESTRICTED),
        (Access.RESTRICTED, "", "192.0.2.007", Access.RESTRICTED),
        (Access.RESTRICTED, "", "unknown", Access.RESTRICTED),
        (Access.RESTRICTED, "", "", Access.RESTRICTED),
    ],
)
def test_the_data_go_to_those_who_may_have_them(
    who: Access, embargo: str, address: str | None, verdict: Access
) -> None:
    assert access.access_for(held(who, embargo), LICENSED_NETWORKS, address, DAY) is verdict


def test_without_networks_there_is_no_access_to_restricted_items() -> None:
    assert access.access_for(held(Access.RESTRICTED), (), LICENSED, DAY) is Access.RESTRICTED


# Whose word is believed


@pytest.mark.proves("AMB-54")
@pytest.mark.parametrize(
    ("client_address", "addresses", "reader"),
    [
        ("203.0.113.5", (STRANGER, LICENSED), LICENSED),
        ("203.0.113.5", (LICENSED, STRANGER), STRANGER),
        ("203.0.113.5", (), None),
        (STRANGER, (LICENSED,), None),
        (None, (LICENSED,), None),
    ],
)
def test_a_list_of_addresses_is_believed_from_trusted_resolvers_and_only_its_last(
    client_address: str | None, addresses: tuple[str, ...], reader: str | None
) -> None:
    assert access.reader_address(client_address, addresses, ("203.0.113.5",)) == reader


# For how long it stays so


@pytest.mark.parametrize(
    ("who", "embargo", "now", "seconds"),
    [
        (Access.OPEN, "", NOON, 60),
        (Access.EMBARGOED, "2026-11-21", NOON, 60),
        (Access.EMBARGOED, "2026-11-23", NOON, 60),
        (Access.EMBARGOED, "2026-11-22", NOON + 12 * 3600 - 20.5, 20),
        (Access.EMBARGOED, "2026-11-22", NOON + 12 * 3600 - 0.5, 0),
        (Access.EMBARGOED, "2026-11-22", NOON + 12 * 3600, 60),
        (Access.RESTRICTED, "", NOON, 0),
        (Access.CLOSED, "", NOON, 0),
    ],
)
def test_an_answer_may_be_reused_until_it_would_be_wrong_for_a_reader(
    who: Access, embargo: str, now: float, seconds: int
) -> None:
    assert access.reuse_seconds([held(Access.OPEN), None, held(who, embargo)], 60, now) == seconds


def test_an_embargo_ends_at_midnight_utc_wherever_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "IST-5:30")
        time.tzset()
        ends = NOON + 12 * 3600
        item = held(Access.EMBARGOED, "2026-11-22")
        found = [access.reuse_seconds([item], 60, ends + passed) for passed in (-20.5, 0)]
    time.tzset()
    assert found == [20, 60]


# What is answered

FILES = (StoredFile("a.pdf", 1, "aa", "application/pdf"),)
BASE = "http://archive.example"


def answer(holding: Holding, verbs: str = "", path: str = "", **others: Holding) -> UrlList:
    """Return the answer for a reader without access to anything that is not open."""
    by_name = {name: each for each in (holding, *others.values()) for name in each.names}
    request = UrlRequest(("192.0.2.1",), holding.forms.main, path, VerbList.parse(verbs))
    identity = ArchiveIdentity("archive.example", IBIForms.parse("rep archive.example/w/2020/01.01.00.00"))
    withheld = access.withheld_from((), lambda: None, lambda: NOON)
    return work_out(by_name.get, identity, request, "1234567890", withheld=withheld)


@pytest.mark.proves("SVC-10")
@pytest.mark.parametrize(
    "more", [{"files": FILES}, {"url": "http://far.example/secret"}, {"files": FILES * 2}]
)
def test_who_may_not_have_the_data_gets_the_page_about_them(more: dict[str, Any]) -> None:
    found = answer(held(Access.CLOSED, **more)).entry()
    assert found.url == f"{BASE}/-/item/{REP}"
    assert found.content_type is ContentType.METADATA
    assert found.forms is not None


@pytest.mark.proves("SVC-10", "SVC-12")
def test_who_may_not_have_the_files_gets_the_page_that_says_so() -> None:
    for who in (Access.CLOSED, Access.RESTRICTED, Access.EMBARGOED):
        withheld = held(who, "2026-12-01" if who is Access.EMBARGOED else "", files=FILES)
        for verbs, path in (
            ("", "/a.pdf"),
            ("", "/none.pdf"),
            ("GetFileList", ""),
            ("GetFileList", "/a.pdf"),
        ):
            assert answer(withheld, verbs, path).entry().url == f"{BASE}/-/files/{REP}"
    assert answer(held(Access.OPEN, files=FILES), path="/a.pdf").entry().url


def test_what_a_relation_leads_to_is_withheld_for_its_own_sake() -> None:
    closed = held(
        Access.CLOSED, forms=IBIForms.parse(f"rep {OTHER}"), url="http://far.example/secret", language="pt"
    )
    item = held(
        Access.OPEN, url="http://far.example/1", translations={"pt": closed.forms}, next_edition=closed.forms
    )
    for verbs in ("GetTranslation(pt)", "GetLastEdition"):
        found = answer(item, verbs, closed=closed)
        assert found.entry(VerbList.parse(verbs).relation).url == f"{BASE}/-/item/{OTHER}"
    assert answer(item, closed=closed).entry().url == "http://far.example/1"


def test_metadata_are_open_but_an_item_that_is_metadata_may_be_closed() -> None:
    dublin_core = {"title": (MetadataValue("A title"),)}
    formats = {"mods": "http://far.example/mods"}
    closed = held(Access.CLOSED, files=FILES, metadata=dublin_core, formats=formats)
    pairs = answer(closed, "GetMetadata").pairs
    assert pairs["url.metadata"] == f"{BASE}/-/metadata/{REP}"
    assert answer(closed, "GetMetadata(mods)").pairs["url.metadata(mods)"] == "http://far.example/mods"
    record = held(
        Access.CLOSED, forms=IBIForms.parse(f"rep {OTHER}"), files=FILES, formats=formats,
        content_type=ContentType.METADATA,
    )  # fmt: skip
    item = held(Access.OPEN, url="http://far.example/1", metadata_item=record.forms)
    assert "url.metadata(mods)" not in answer(item, "GetMetadata(mods)", record=record).pairs
    assert answer(item, "GetMetadata", record=record).pairs["url.metadata"] == f"{BASE}/-/item/{OTHER}"


# Over a real socket

RESTRICTED = {"rep": "a.example/c/2010/01.01.00.00", "files": {"a.txt": "a.txt"}, "access": "restricted"}
NAME = str(RESTRICTED["rep"])
NETWORKS = ("192.0.2.0/24",)


def place(served: Served, readers: str, **headers: str) -> str:
    """Where an answer says that the restricted item is: "file" or "page"."""
    found = url_list(served.get(request(NAME, readers=readers), **headers))
    base = f"http://{served.archive.settings.address}"
    places = {f"{base}/col/{NAME}/doc/a.txt": "file", f"{base}/-/item/{NAME}": "page"}
    return places[found.entry().url or ""]


@pytest.mark.proves("SVC-10", "AMB-54")
def test_a_stranger_who_asks_for_a_licensed_reader_is_not_believed(
    new_archive: Callable[..., NewArchive],
) -> None:
    with running(new_archive, RESTRICTED, networks=NETWORKS) as served:
        assert place(served, LICENSED) == "page"
        assert place(served, f"{STRANGER} {LICENSED}", x_forwarded_for=LICENSED) == "page"


@pytest.mark.proves("SVC-10", "AMB-54")
def test_a_trusted_resolver_is_believed_about_the_address_that_it_saw_itself(
    new_archive: Callable[..., NewArchive],
) -> None:
    with running(new_archive, RESTRICTED, networks=NETWORKS, trusted_resolvers=("127.0.0.1",)) as served:
        assert place(served, LICENSED) == "file"
        assert place(served, f"{STRANGER} {LICENSED}") == "file"
        assert place(served, f"{LICENSED} {STRANGER}") == "page"


@pytest.mark.proves("SVC-10", "AMB-54")
def test_behind_a_proxy_the_resolver_is_who_the_proxy_saw(new_archive: Callable[..., NewArchive]) -> None:
    trust = {"trusted_proxies": ("127.0.0.0/8",), "trusted_resolvers": ("203.0.113.5",)}
    with running(new_archive, RESTRICTED, networks=NETWORKS, **trust) as served:
        assert place(served, LICENSED, x_forwarded_for="203.0.113.5") == "file"
        assert place(served, LICENSED, x_forwarded_for=f"203.0.113.5, {STRANGER}") == "page"
        assert place(served, LICENSED) == "page"


@pytest.mark.proves("SVC-10")
def test_what_the_page_was_given_for_is_refused_when_it_is_fetched(
    new_archive: Callable[..., NewArchive],
) -> None:
    with running(new_archive, RESTRICTED, networks=NETWORKS) as served:
        assert served.get(f"/-/item/{NAME}").status == 200
        refused = served.get(f"/col/{NAME}/doc/a.txt", x_forwarded_for=LICENSED)
        assert refused.status in {401, 403}
        assert b"aaa" not in refused.body
    with running(new_archive, RESTRICTED, networks=("127.0.0.0/8",)) as served:
        assert served.get(f"/col/{NAME}/doc/a.txt").body == b"aaa"
