"""What each response does to a resolution that awaits one Archive, or none: the table of the README, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from ibi.errors import IbiError, PeerSilent, WrongArchive
from ibi.resolver.model.alert import Alert, AlertKind
from ibi.resolver.model.archive import Archive, ArchiveResponse
from ibi.resolver.resolve.resolution import Redirect, UpstreamRedirect
from support.resolver.resolution import ITEM, LATE, NOTHING, A, B, C, offers, resolve, says

if TYPE_CHECKING:
    from ibi.protocol.url_list import UrlList
    from ibi.resolver.model.archive import ResponseSource

REQUIRED = f"{ITEM}?ibiurl.requireditemstatus=Original"
SAID = Literal["original", "copy", "removed", "nothing", "a lie", "late"]


def response(archive: Archive, said: SAID) -> ArchiveResponse:
    if said == "late":
        return ArchiveResponse(archive, None, LATE)
    other = B if archive is A else A
    answers: dict[str, UrlList] = {
        "original": offers(archive),
        "copy": offers(archive, "Copy"),
        "removed": says(archive, state="Deleted"),
        "nothing": NOTHING,
        "a lie": offers(other),
    }
    return ArchiveResponse(archive, answers[said])


Heard = list[tuple[Archive, SAID]]
Decided = tuple[Archive, str] | None
"""The Archive of the redirect, and why it was preferred."""


@pytest.mark.proves("RES-05")
@pytest.mark.parametrize(
    ("holder", "home", "heard", "decided"),
    [
        (None, None, [(B, "copy")], (B, "")),
        (None, None, [(B, "late"), (C, "nothing"), (A, "copy")], (A, "")),
        (A, None, [(A, "original")], (A, "")),
        (A, None, [(B, "copy")], None),
        (A, None, [(B, "copy"), (A, "original")], (A, "holder")),
        (None, A, [(B, "copy"), (A, "original")], (A, "prefix")),
        (A, B, [(B, "copy")], None),
        (A, B, [(B, "copy"), (A, "original")], (A, "holder")),
        (A, None, [(B, "copy"), (C, "copy"), (A, "nothing")], (B, "")),
        (A, None, [(B, "copy"), (C, "nothing")], None),
        (A, None, [(B, "copy"), (C, "late")], None),
        (A, None, [(B, "copy"), (C, "late"), (A, "original")], (A, "holder")),
        (A, None, [(B, "copy"), (C, "nothing"), (A, "original")], (A, "holder")),
        *[(A, None, [(B, "copy"), (A, said)], (B, "")) for said in ("nothing", "removed", "a lie", "late")],
        *[(A, None, [(A, said), (B, "copy")], (B, "")) for said in ("nothing", "removed", "a lie", "late")],
        (A, None, [(C, "late"), (B, "copy")], None),
    ],
)
def test_an_answer_of_the_awaited_archive_goes_before_a_faster_one(
    holder: Archive | None, home: Archive | None, heard: Heard, decided: Decided
) -> None:
    resolution, required, strict = resolve(ITEM), resolve(REQUIRED), resolve(ITEM, strict=True)
    for each in (resolution, required, strict):
        each.expect(holder and holder.service, home and home.service)
    found = None
    for archive, said in heard:
        assert found is None
        found = resolution.hear(response(archive, said))
        assert required.hear(response(archive, said)) is None
    assert (found and (found.archive, found.preferred)) == decided
    first = next(archive for archive, said in heard if said in {"original", "copy"})
    taken = resolution.take_candidate()
    if decided is None:  # the awaited one has had its time
        assert taken is not None
        assert (taken.archive, taken.preferred) == (first, "")
        assert resolution.close_round() is taken
    in_order = (strict.hear(response(archive, said)) for archive, said in heard if said != "a lie")
    assert next(found.archive for found in in_order if found is not None) is first


@pytest.mark.parametrize(
    ("source", "reused", "stale"),
    [("network", False, False), ("shared", True, False), ("cache", True, False), ("stale", False, True)],
)
def test_a_redirect_says_where_its_answer_came_from(
    source: ResponseSource, reused: bool, stale: bool
) -> None:
    found = resolve(ITEM).hear(ArchiveResponse(A, offers(A), source=source))
    assert found is not None
    assert (found.url, found.archive, found.reused, found.stale) == (
        "http://example.org.a/x", A, reused, stale,
    )  # fmt: skip
    assert (found.acknowledgment is None) == stale
    assert (found.coverage, found.complete, found.incomplete) == (None, True, (0, 0))
    assert UpstreamRedirect("http://a.example/").incomplete == (0, 0)


@pytest.mark.parametrize(
    ("url", "answer"),
    [
        (REQUIRED, offers(A)),
        (ITEM, NOTHING),
        (ITEM, offers(B)),
        (ITEM, says(A, state="Deleted")),
        (ITEM, says(A, url="http://user@a.example/x")),
    ],
    ids=["original required", "nothing known", "in another name", "removed", "unsafe"],
)
def test_an_expired_answer_that_does_not_satisfy_decides_nothing_and_counts_for_nothing(
    url: str, answer: UrlList
) -> None:
    resolution = resolve(url)
    assert resolution.hear(ArchiveResponse(A, answer, source="stale")) is None
    assert resolution.disbelieved == ()
    alert = resolution.close_round()
    assert isinstance(alert, Alert)
    assert alert.coverage is not None
    assert (alert.kind, alert.coverage.total) == (AlertKind.INCOMPLETE, 0)


REPLACED, SILENT = WrongArchive("it is another Archive"), PeerSilent("no answer in time")


@pytest.mark.parametrize(
    ("url", "holder", "source", "error", "kind"),
    [
        (ITEM, None, "breaker", REPLACED, AlertKind.NOT_FOUND),
        (ITEM, B, "breaker", REPLACED, AlertKind.NOT_FOUND),
        (ITEM, A, "breaker", REPLACED, AlertKind.INCOMPLETE),
        (REQUIRED, None, "breaker", REPLACED, AlertKind.INCOMPLETE),
        (ITEM, None, "network", REPLACED, AlertKind.INCOMPLETE),
        (ITEM, None, "breaker", SILENT, AlertKind.INCOMPLETE),
    ],
)
def test_an_archive_in_whose_place_another_server_answers_keeps_no_reader_from_a_not_found(
    url: str, holder: Archive | None, source: ResponseSource, error: IbiError, kind: AlertKind
) -> None:
    resolution = resolve(url)
    resolution.expect(holder and holder.service)
    assert resolution.hear(ArchiveResponse(A, None, error, source=source)) is None
    assert resolution.hear(ArchiveResponse(B, NOTHING)) is None
    alert = resolution.close_round()
    assert isinstance(alert, Alert)
    assert alert.kind is kind


def test_only_the_known_holder_can_say_that_an_item_was_removed_while_another_archive_is_silent() -> None:
    for holder, answer, kind in (
        (A, says(A, state="Deleted"), AlertKind.DELETED),
        (B, says(A, state="Deleted"), AlertKind.INCOMPLETE),
        (None, says(A, state="Deleted"), AlertKind.INCOMPLETE),
        (A, says(A), AlertKind.INCOMPLETE),
    ):
        resolution = resolve(ITEM)
        resolution.expect(holder and holder.service)
        resolution.hear(ArchiveResponse(A, answer))
        resolution.hear(ArchiveResponse(C, None, LATE))
        alert = resolution.close_round()
        assert isinstance(alert, Alert)
        assert alert.kind is kind


def test_what_stays_known_of_a_removed_item_is_told_by_its_holder_else_by_the_first_that_says_it() -> None:
    for holder, title in ((None, "B"), (C, "C"), (A, "B")):  # A says nothing of it
        resolution = resolve(ITEM)
        resolution.expect(holder and holder.service)
        resolution.hear(ArchiveResponse(A, says(A, state="Deleted")))
        for archive, name in ((B, "B"), (C, "C")):
            resolution.hear(ArchiveResponse(archive, says(archive, state="Deleted", tombstone_title=name)))
        alert = resolution.close_round()
        assert isinstance(alert, Alert)
        assert alert.tombstone is not None
        assert alert.tombstone.title == title


def test_of_archives_that_are_switched_off_the_first_that_will_be_back_says_when_to_try_again() -> None:
    for moments, wait in (((7, 5, 9), 5), ((None, 7), 7), ((7, None), 7), ((None, None), 30)):
        resolution = resolve(ITEM)
        for archive, back_in in zip((A, B, C), moments, strict=False):
            resolution.count_absent(ArchiveResponse(archive, None, LATE), back_in)
        alert = resolution.close_round()
        assert isinstance(alert, Alert)
        assert alert.retry_after == wait


def test_a_redirect_where_the_original_is_required_says_how_many_archives_were_silent() -> None:
    resolution = resolve(REQUIRED)
    resolution.hear(ArchiveResponse(A, offers(A)))
    resolution.hear(ArchiveResponse(B, NOTHING))
    resolution.hear(ArchiveResponse(C, None, LATE))
    found = resolution.close_round()
    assert isinstance(found, Redirect)
    assert (found.complete, found.incomplete) == (False, (1, 3))
