"""Whole answers to URL requests: for how long each may be reused, by whom, and with which position."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice, product
from string import ascii_lowercase
from typing import Any, Self

import pytest

from ibi.archive.model.item import Access, Holding
from ibi.archive.model.url_key import LONGEST_REUSE, UrlKeys
from ibi.archive.service.messages import AdapterSettings, MessageService
from ibi.archive.store.data_directory import identity_of
from ibi.http.request import Request
from ibi.http.response import Response
from ibi.identifier.forms import IBIForms, Name, parse_name
from ibi.protocol.extensions.changes import LONGEST_VALIDITY, MOST_RESTS
from ibi.protocol.messages import Acknowledgment, UrlRequest
from ibi.protocol.pair_list import MAX_BODY, MAX_PAIRS, read_pairs
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ContentType, ItemState
from support.archive.archive_fixture import WHEN, settings_for

NOW = 1_767_225_570.0  # half a minute before 2026
POSITION = "41.00000000000000aa"
TRUSTED, STRANGER, READER = "192.0.2.7", "198.51.100.1", "203.0.113.9"
URL = "http://far.example/"
ROBOTS = ("x-robots-tag", "noindex, nofollow")
NOT_KEPT = (("cache-control", "no-store"), ROBOTS)
OPEN = AdapterSettings((), (), (), filter_answers=True, reuse_seconds=60)
TOO_LONG = Response(
    400,
    b"error {the answer to this would be longer than a resolver reads}",
    "text/plain",
    (("cache-control", "no-store"), ROBOTS),
)


def name_of(number: int) -> str:
    return f"a.example/b/2010/01.01.00.{number:02}"


def item(number: int, **facts: Any) -> Holding:
    usual: dict[str, Any] = {"number": number, "timestamp": WHEN, "url": URL}
    return Holding(**{"forms": IBIForms.parse(f"rep {name_of(number)}")} | usual | facts)


def chain(length: int) -> list[Holding]:
    """Editions, each of which names the next one."""
    later = [item(number + 1).forms for number in range(1, length)]
    return [item(number, next_edition=edition) for number, edition in enumerate([*later, None], 1)]


@dataclass
class Shelf:
    """A snapshot of items, a log of changes that has it, and a service that answers from it."""

    items: list[Holding]
    settings: AdapterSettings = OPEN
    position: str = POSITION
    rules: int = 7
    logged: int = 7
    """The rules that the snapshot has."""
    others: int = 0
    names_read: list[str] = field(default_factory=list)
    clock: list[float] = field(default_factory=lambda: [NOW])

    @contextmanager
    def snapshot(self) -> Iterator[Self]:
        yield replace(self, rules=self.logged)

    def note_other_rules(self) -> None:
        self.others += 1

    def holding(self, name: Name) -> Holding | None:
        self.names_read.append(str(name))
        return next((each for each in self.items if name in each.names), None)

    def now(self) -> float:
        """The next moment of the clock, or its last one."""
        return self.clock.pop(0) if len(self.clock) > 1 else self.clock[0]

    def service(self, *, logs: bool = True) -> MessageService:
        changes: Any = self if logs else None
        identity, keys = identity_of(settings_for("archive.example")), UrlKeys(b"s" * 16, lambda: NOW)
        lookup: Any = None if logs else self.holding  # with a log of changes, a snapshot has the items
        return MessageService(lookup, identity, self.settings, keys, self.now, print, changes=changes)

    def answer(
        self, verbs: str = "", peer: str = STRANGER, *, logs: bool = True
    ) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
        """The pairs of the answer about the first item, its key as (item, seconds of reuse), and the headers."""
        found = self.service(logs=logs).answer(asking(verbs, peer))
        assert (found.status, found.content_type) == (200, "text/plain")
        pairs: dict[str, Any] = dict(read_pairs(found.body))
        if "urlkey" in pairs:
            message = Acknowledgment(
                (READER,), ContentType.DATA, ItemState.ORIGINAL, URL, URL, str(pairs["urlkey"]), count=1
            )
            key = UrlKeys(b"s" * 16, lambda: NOW).read(message)
            assert key is not None
            pairs["urlkey"] = key.number, key.expires - 600 - int(NOW)
        return pairs, found.headers


def asking(verbs: str = "", peer: str = STRANGER, name: str = name_of(1)) -> Request:
    message = UrlRequest((STRANGER, READER), parse_name(name), "", VerbList.parse(verbs))
    return Request("GET", "/", message.query(), {}, peer=peer)


def kept(seconds: int, *, position: bool = True) -> tuple[tuple[str, str], ...]:
    shared = ", s-maxage=0" if position else ""
    return ("cache-control", f"max-age={seconds}{shared}"), ROBOTS


def about(reuse: int, **more: Any) -> dict[str, Any]:
    """The pairs of an answer about the first item, which may be reused for so many seconds."""
    service = ("rep", "archive.example/w/2020/01.01.00.00", "ibip", "LK47B6W/3P5GNKB")
    return {
        "archiveaddress": "archive.example",
        "ibi": ("rep", name_of(1)),
        "ibi.archiveservice": service,
        "ibi.platformsoftware": (),
        "urlkey": (1, reuse),
        **({"acknowledgment.batch": "yes"} if reuse else {}),
        **more,
    }


def at(url: str, relation: str = "", kind: str = "Data") -> dict[str, Any]:
    """The pairs of one relation of it."""
    facts = {"url": url, "contenttype": kind, "state": "Original", "timestamp": WHEN}
    return {f"{name}{relation}": value for name, value in facts.items()}


PAGE = f"http://archive.example/-/item/{name_of(1)}"
PLAIN = at(URL)
AS_OF = {"changes.asof": POSITION}


def test_an_open_item_is_reused_until_it_changes_or_for_the_seconds_of_the_settings() -> None:
    shelf = Shelf([item(1)])
    assert shelf.answer() == (about(LONGEST_VALIDITY, **PLAIN, **AS_OF), kept(60))
    assert shelf.answer(logs=False) == (about(60, **PLAIN), kept(60, position=False))
    shelf.position = ""
    assert shelf.answer() == (about(60, **PLAIN), kept(60, position=False))
    assert shelf.others == 0


def test_settings_of_another_process_take_the_position_from_an_answer() -> None:
    shelf = Shelf([item(1)], logged=8)
    assert shelf.answer() == (about(60, **PLAIN), kept(60, position=False))
    assert shelf.others == 1


@pytest.mark.parametrize(
    ("setting", "seconds"),
    [(-1, 0), (0, 0), (1, 1), (LONGEST_REUSE, LONGEST_REUSE), (LONGEST_REUSE + 1, LONGEST_REUSE)],
)
def test_the_settings_limit_the_reuse(setting: int, seconds: int) -> None:
    shelf = Shelf([item(1)], replace(OPEN, reuse_seconds=setting))
    headers = kept(seconds, position=False) if seconds else NOT_KEPT
    assert shelf.answer(logs=False) == (about(seconds, **PLAIN), headers)


def test_where_some_resolvers_are_trusted_only_they_reuse_answers_and_tell_the_address_of_the_reader() -> (
    None
):
    settings = replace(OPEN, trusted_resolvers=(f"{TRUSTED}/32",), networks=(f"{READER}/32",))
    shelf = Shelf([item(1)], settings)
    assert shelf.answer(peer=TRUSTED) == (about(LONGEST_VALIDITY, **PLAIN, **AS_OF), kept(60))
    assert shelf.answer(peer=STRANGER) == (about(0, **PLAIN), NOT_KEPT)
    shelf.items = [item(1, access=Access.RESTRICTED)]
    assert shelf.answer(peer=TRUSTED) == (about(0, **PLAIN), NOT_KEPT)
    assert shelf.answer(peer=STRANGER) == (about(0, **at(PAGE, kind="Metadata")), NOT_KEPT)


def test_an_embargo_ends_the_reuse_by_one_reading_of_the_clock() -> None:
    page = at(PAGE, kind="Metadata")
    shelf = Shelf([item(1, access=Access.EMBARGOED, embargo="2026-01-01")], clock=[NOW, NOW + 60])
    assert shelf.answer() == (about(30, **page, **AS_OF, **{"changes.seconds": "30"}), kept(30))
    assert shelf.answer()[0]["url"] == URL
    shelf.clock = [NOW - 60]
    assert shelf.answer() == (about(90, **page, **AS_OF, **{"changes.seconds": "90"}), kept(60))
    assert shelf.answer(logs=False) == (about(60, **page), kept(60, position=False))
    shelf.clock = [NOW + 29.5]
    assert shelf.answer() == (about(0, **page), NOT_KEPT)


def test_each_item_on_the_way_limits_the_reuse() -> None:
    first, last = chain(2)
    facts: dict[str, Any] = {"access": Access.EMBARGOED, "embargo": "2026-01-01"}
    limits = {"urlkey": (1, 30), "changes.rests": name_of(2), "changes.seconds": "30"} | AS_OF
    for items in ([replace(first, **facts), last], [first, replace(last, **facts)]):
        pairs, headers = Shelf(items).answer("GetLastEdition")
        assert ({name: pairs[name] for name in limits}, headers) == (limits, kept(30))


@pytest.mark.parametrize("rests", [1, MOST_RESTS, MOST_RESTS + 1])
def test_an_answer_that_rests_on_too_much_has_no_position(rests: int) -> None:
    shelf = Shelf(chain(rests + 1))
    names = [name_of(number) for number in range(2, rests + 2)]
    found = at(URL, ".lastedition") | {"ibi.lastedition": ("rep", names[-1])}
    if rests > MOST_RESTS:
        assert shelf.answer("GetLastEdition") == (about(60, **found), kept(60, position=False))
    else:
        found["changes.rests"] = tuple(names) if rests > 1 else names[0]
        assert shelf.answer("GetLastEdition") == (about(LONGEST_VALIDITY, **found, **AS_OF), kept(60))
    assert shelf.names_read == [name_of(1), *names]


def test_an_item_to_which_several_relations_lead_is_looked_up_once() -> None:
    other = item(2)
    links = {"fr": other.forms, "de": other.forms}
    shelf = Shelf([item(1, translations=links, next_edition=other.forms), other])
    found: dict[str, Any] = {"changes.rests": name_of(2)}
    for relation, name in ((".translation", 1), (".translation(de)", 2), (".translation(fr)", 2)):
        found |= at(URL, relation) | {f"ibi{relation}": ("rep", name_of(name))}
    assert shelf.answer("GetTranslation") == (about(LONGEST_VALIDITY, **found, **AS_OF), kept(60))
    shelf.settings = replace(OPEN, filter_answers=False)
    pairs, headers = shelf.answer()
    assert (len(pairs), headers) == (53, kept(60))
    assert shelf.names_read == [name_of(1), name_of(2)] * 2


def test_what_has_no_url_is_not_reused() -> None:
    assert Shelf([]).answer() == ({}, NOT_KEPT)
    removed = about(0, state="Deleted", timestamp=WHEN)
    del removed["urlkey"]
    assert Shelf([item(1, state=ItemState.DELETED)]).answer() == (removed, NOT_KEPT)


def test_an_answer_that_its_position_makes_too_long_goes_without_and_a_longer_one_is_refused() -> None:
    shelf = Shelf([item(1)])
    with_position, without = (len(shelf.service(logs=logs).answer(asking()).body) for logs in (True, False))
    found = []
    for length in (with_position, with_position - 1, without, without - 1):
        shelf.items = [item(1, url=URL + "x" * (MAX_BODY - length))]
        found.append(shelf.service().answer(asking()))
    assert [len(each.body) for each in found[:3]] == [
        MAX_BODY,
        MAX_BODY + 1 - with_position + without,
        MAX_BODY,
    ]
    assert [each.headers for each in found[:3]] == [kept(60), *[kept(60, position=False)] * 2]
    assert found[3] == TOO_LONG


def test_an_answer_has_at_most_as_many_pairs_as_resolvers_read() -> None:
    def shelf(translations: int, settings: AdapterSettings) -> Shelf:
        tags = ("".join(letters) for letters in product(ascii_lowercase, repeat=3))
        links = dict.fromkeys(islice(tags, translations), IBIForms.parse("rep b.br/b/2010/01.01.00.00"))
        return Shelf([item(1, translations=links)], replace(settings, filter_answers=False))

    # Each translation has two pairs. An answer that may not be reused has one pair less.
    most = (MAX_PAIRS - len(shelf(0, OPEN).answer(logs=False)[0])) // 2
    assert len(shelf(most, OPEN).answer(logs=False)[0]) == MAX_PAIRS
    one_more = shelf(most + 1, replace(OPEN, reuse_seconds=0))
    assert one_more.service(logs=False).answer(asking()) == TOO_LONG
    # Where so many are met on the way, the answer is not even made.
    assert shelf(MAX_PAIRS + 1, OPEN).service(logs=False).answer(asking()) == TOO_LONG
