"""What a resolution asks in its next round, how often, and what it tells of it at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ibi.errors import PeerSilent
from ibi.protocol.language import LanguagePreference
from ibi.protocol.messages import UrlRequest
from ibi.protocol.relation import Relation
from ibi.protocol.url_list import UrlList
from ibi.resolver.model.alert import Alert, AlertKind, Coverage
from ibi.resolver.model.archive import ArchiveResponse
from ibi.resolver.resolve.resolution import MOST_EDITIONS, MOST_ROUNDS
from ibi.resolver.resolve.selection import next_requests
from support.resolver.resolution import ITEM, LATE, NOTHING, A, B, fail, hear, offers, resolve, says

if TYPE_CHECKING:
    from ibi.resolver.resolve.resolution import Redirect, Resolution

ORIGINAL = "ibiurl.requireditemstatus=Original"
LIST = "ibiurl.verblist=GetFileList"


def other(number: int) -> str:
    return f"example.org/x/{3000 + number}/01.01.00.00"


def asked(decision: Redirect | UrlRequest | Alert) -> tuple[str, str]:
    assert isinstance(decision, UrlRequest)
    return str(decision.ibi), str(decision.verbs)


def alert_of(resolution: Resolution) -> Alert:
    alert = resolution.close_round()
    assert isinstance(alert, Alert)
    return alert


@pytest.mark.parametrize(
    ("modifier", "pair", "most"),
    [("!", "ibi_nextedition", MOST_EDITIONS), (":(x)", "ibi_metadata(x)", MOST_ROUNDS - 1)],
)
def test_only_later_editions_are_followed_further_than_other_items(
    modifier: str, pair: str, most: int
) -> None:
    resolution = resolve(f"{ITEM}{modifier}")
    for number in range(most):
        hear(resolution, A, says(A, str(resolution.query.ibi), **{pair: other(number)}))
        assert asked(resolution.close_round())[0] == other(number)
    hear(resolution, A, says(A, str(resolution.query.ibi), **{pair: other(most)}))
    alert = alert_of(resolution)
    assert (alert.kind, alert.leads_to) == (AlertKind.TOO_FAR, other(most))
    assert alert.archives == (str(A.service_ibi),)


def test_time_that_many_editions_have_used_up_is_told_without_a_wait_and_without_silent_archives() -> None:
    resolution = resolve(f"{ITEM}!")
    for number in range(MOST_ROUNDS):
        hear(resolution, A, says(A, str(resolution.query.ibi), ibi_nextedition=other(number)))
        resolution.close_round()
    resolution.count_absent(ArchiveResponse(B, None, LATE), 7)
    fail(resolution, A, PeerSilent("no whole answer in time"))
    alert = resolution.close_round(in_time=False)
    assert isinstance(alert, Alert)
    assert (alert.kind, alert.wait, alert.coverage) == (AlertKind.TOO_FAR, None, None)


def nameless(**pairs: str) -> UrlList:
    """An answer that does not name its item, as the strict policy takes it."""
    return UrlList({name: value for name, value in says(A, **pairs).pairs.items() if name != "ibi"})


@pytest.mark.proves("RES-04", "AMB-53")
def test_no_item_is_asked_for_twice_even_where_answers_do_not_name_what_they_are_about() -> None:
    resolution = resolve(f"{ITEM}!", strict=True)
    hear(resolution, A, nameless(ibi_nextedition=ITEM))
    assert alert_of(resolution).kind is AlertKind.NOT_FOUND
    resolution = resolve(f"{ITEM}!", strict=True)
    hear(resolution, A, nameless(ibi_nextedition=other(1)))
    assert asked(resolution.close_round()) == (other(1), "GetLastEdition")
    hear(resolution, A, nameless(ibi_nextedition=other(1)))
    assert alert_of(resolution).kind is AlertKind.NOT_FOUND
    resolution = resolve(f"{ITEM}!+", strict=True)
    hear(resolution, A, nameless(timestamp="x"))
    assert asked(resolution.close_round()) == (ITEM, "GetLastEdition")  # in any language
    hear(resolution, A, nameless(ibi_nextedition=ITEM))
    assert alert_of(resolution).kind is AlertKind.NOT_FOUND


@pytest.mark.proves("URL-11", "AMB-46")
@pytest.mark.parametrize("query", ["", f"?{ORIGINAL}", f"?{LIST}", f"?{LIST}&{ORIGINAL}"])
def test_where_no_translation_leads_on_the_item_itself_is_asked_for_as_the_url_wants_it(query: str) -> None:
    resolution = resolve(f"{ITEM}+{query}", language="pt")
    hear(resolution, A, says(A, **{"ibi.translation(pt)": other(1)}))
    files = "GetFileList" if LIST in query else ""
    assert asked(resolution.close_round()) == (other(1), files)
    hear(resolution, A, NOTHING)
    assert asked(resolution.close_round()) == (ITEM, files)


@pytest.mark.proves("RES-08")
@pytest.mark.parametrize(
    ("strict", "may_go_on", "state", "goes_on"),
    [
        (False, True, "Copy", True),
        (False, False, "Copy", False),
        (True, True, "Copy", False),
        (True, False, "Copy", False),
    ],
)
def test_before_it_is_told_that_no_original_is_there_the_item_is_asked_for_by_its_own_name(
    strict: bool, may_go_on: bool, state: str, goes_on: bool
) -> None:
    resolution = resolve(f"{ITEM}!?{ORIGINAL}", strict=strict)
    copy = {"url.lastedition": "http://a.example/x", "state.lastedition": state}
    hear(resolution, A, says(A, **copy, ibi_lastedition=other(1)))
    decision = resolution.close_round(may_go_on=may_go_on)
    if goes_on:
        assert asked(decision) == (other(1), "")
    else:
        assert isinstance(decision, Alert)
        assert (decision.kind, decision.archives) == (AlertKind.NO_ORIGINAL, (str(A.service_ibi),))


UNSAFE = says(A, url="http://user@a.example/x")


@pytest.mark.parametrize(
    ("answers", "kind", "about"),
    [
        ([UNSAFE, says(B)], AlertKind.UNSAFE_URL, [A]),
        ([says(A, state="Deleted"), says(B)], AlertKind.NOT_FOUND, [B]),
        ([says(A, state="Deleted"), NOTHING], AlertKind.DELETED, [A]),
        ([says(A), says(B)], AlertKind.NOT_FOUND, [A, B]),
        ([NOTHING, NOTHING], AlertKind.NOT_FOUND, []),
    ],
)
def test_an_alert_names_the_archives_that_it_is_about_and_what_was_asked(
    answers: list[UrlList], kind: AlertKind, about: list[object]
) -> None:
    resolution = resolve(f"{ITEM}?x=1")
    for archive, answer in zip((A, B), answers, strict=True):
        assert hear(resolution, archive, answer) is None
    alert = alert_of(resolution)
    names = tuple(str(archive.service_ibi) for archive in (A, B) if archive in about)
    assert (alert.kind, alert.archives) == (kind, names)
    assert (alert.url, alert.ibi) == (f"http://resolver.example/{ITEM}?x=1", ITEM)
    assert (alert.coverage, alert.leads_to, alert.wait) == (Coverage(2), "", None)
    assert alert.known == any(answer.pairs and answer.state != "Deleted" for answer in answers)


def test_the_item_that_a_later_round_asked_for_is_named_only_where_no_archive_knows_it() -> None:
    for answer, leads_to in ((NOTHING, other(1)), (says(A, other(1)), "")):
        resolution = resolve(f"{ITEM}!")
        hear(resolution, A, says(A, ibi_lastedition=other(1)))
        assert asked(resolution.close_round()) == (other(1), "")
        hear(resolution, A, answer)
        assert alert_of(resolution).leads_to == leads_to


def test_where_the_last_edition_is_named_the_next_one_is_not_asked_for() -> None:
    answer = says(A, ibi_lastedition=other(2), ibi_nextedition=other(1))
    for modifier, left in (("!", ""), ("!+(en)", "GetTranslation(en)")):
        found = next_requests(answer, Relation.from_modifier(modifier), LanguagePreference(), file_list=False)
        assert [(str(forms.main), str(verbs)) for forms, verbs in found] == [(other(2), left)]


def test_a_redirect_after_further_rounds_acknowledges_the_url_that_the_reader_followed() -> None:
    resolution = resolve(f"{ITEM}!?x=1")
    hear(resolution, A, says(A, ibi_lastedition=other(1)))
    assert isinstance(resolution.close_round(), UrlRequest)
    found = hear(resolution, A, UrlList({**offers(A).pairs, "ibi": ("rep", other(1))}))
    assert found is not None
    assert found.acknowledgment is not None
    assert (found.url, found.acknowledgment.url) == ("http://example.org.a/x?x=1", "http://example.org.a/x")
    assert found.acknowledgment.url_persistent == f"http://resolver.example/{ITEM}!?x=1"
