"""The pages of a resolver, in both languages."""

from __future__ import annotations

import pytest

from ibi.errors import ParseError, PeerSilent
from ibi.identifier.forms import parse_ibi
from ibi.identifier.unwrapping import unwrap
from ibi.protocol.messages import UrlRequest
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.relation import ITEM
from ibi.protocol.url_list import Entry, UrlList, WantedEntry
from ibi.protocol.verb_list import VerbList
from ibi.resolver.members.status import NetworkStatus
from ibi.resolver.model.alert import STATUS, Alert, AlertKind, Coverage
from ibi.resolver.model.archive import ArchiveResponse
from ibi.resolver.model.statements import ArchiveStatement, RoundStatements, Statements
from ibi.resolver.pages.alert_details import MOST_NAMED, MOST_ROUNDS
from ibi.resolver.pages.explanation import Explanation
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolution import Redirect
from ibi.resolver.resolve.resolver import RoundTrace, Trace
from ibi.web.resolver_pages import MOST_OPEN, WRAPPER_NAMES
from support.resolver.resolution import archive_of
from support.web.html_page import Page
from support.web.unnamed import alert, explanation, find, home

FIRST = "archive.example/first/2026/03.02.10.15"
ARCHIVE, OTHER = "archive.example/first/2026/02.01.09.00", "archive.example/second/2026/02.01.09.30"
URL = f"http://resolver.example/{FIRST}"
MOST_BYTES = 45_000
"""The style sheet fits beside it into a page of 60 kB."""

pytestmark = pytest.mark.proves("RES-13")


def _fault(path: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        PersistentURL.parse(path)
    return caught.value


@pytest.mark.parametrize("kind", list(AlertKind))
def test_every_alert_has_a_page_in_both_languages(kind: AlertKind) -> None:
    value = Alert(kind, url=URL, ibi=FIRST, problem=_fault("/x") if kind is AlertKind.BAD_URL else None)
    english, portuguese = Page(alert(value, "en")), Page(alert(value, "pt-BR"))
    assert f"Status {STATUS[kind]}" in english.words & portuguese.words
    assert english.heading != portuguese.heading
    assert (english.language, portuguese.language) == ("en", "pt-BR")


def test_a_fault_is_shown_with_a_caret_below_it_and_a_proposal_to_click() -> None:
    path = "/archive.example/first/2O26/03.02.10.15"
    value = Alert(AlertKind.BAD_URL, url=path, problem=_fault(path), proposals=(URL,))
    body = alert(value, "pt-BR")
    page = Page(body)
    assert b'<span class="fault">                       ^^^^</span>' in body
    assert URL in page.links
    assert {"O ano tem pelo menos quatro dígitos", "Você quis dizer"} <= page.words
    assert page.forms == ["/-/find"]


def test_an_alert_tells_who_was_silent_and_when_to_try_again() -> None:
    value = Alert(
        AlertKind.INCOMPLETE,
        URL,
        FIRST,
        Coverage(3, ((OTHER, PeerSilent("no whole answer within 3 s")),)),
        (ARCHIVE,),
    )
    page = Page(alert(value, "en"))
    assert {
        OTHER,
        ARCHIVE,
        "no whole answer within 3 s",
        "3",
        "2",
        "Please try again in 30 seconds.",
    } <= page.words


def test_a_removed_item_keeps_its_date() -> None:
    value = Alert(AlertKind.DELETED, URL, FIRST, timestamp="2026-04-02T08:00:00Z")
    assert any(word.startswith("2 de abril de 2026") for word in Page(alert(value, "pt-BR")).words)


def test_a_missing_translation_offers_the_languages_that_exist() -> None:
    value = Alert(
        AlertKind.NO_TRANSLATION, URL, FIRST, alternates=(("en", f"{URL}+(en)"), ("pt-BR", f"{URL}+(pt-BR)"))
    )
    links = Page(alert(value, "pt-BR")).links
    assert links[f"{URL}+(pt-BR)"].startswith("português (Brasil)")


def test_alerts_where_spelling_does_not_matter_have_no_search_box() -> None:
    assert Page(alert(Alert(AlertKind.SUSPECT_ORIGINALS, URL, FIRST), "en")).forms == []
    assert Page(alert(Alert(AlertKind.NOT_FOUND, URL, FIRST), "en")).forms == ["/-/find"]


def test_what_others_wrote_is_never_markup() -> None:
    evil = '"><script>alert(1)</script>'
    why = PeerSilent("{evil}", evil=evil)
    value = Alert(
        AlertKind.NO_TRANSLATION, evil, evil, Coverage(1, ((evil, why),)), (evil,), evil,
        ((evil, "javascript:alert(1)"),),
        proposals=("javascript:alert(2)",),
    )  # fmt: skip
    for body in (alert(value, "en"), find(evil, "en")):
        assert b"<script" not in body
        assert not [link for link in Page(body).links if link.startswith("javascript")]


def _alert(one_round: RoundStatements, kind: AlertKind = AlertKind.INCOMPLETE, count: int = 3) -> Alert:
    return Alert(kind, URL, FIRST, Coverage(count), statements=Statements((one_round,)))


def test_an_alert_lists_what_each_archive_said_in_the_words_of_explanations_and_in_both_languages() -> None:
    late = ArchiveStatement(OTHER, "other.example", "silent", PeerSilent("no whole answer within 3 s"))
    one_round = RoundStatements(
        1, FIRST, (), "", (ArchiveStatement(ARCHIVE, "a.example", "url list"), late), ()
    )
    english, portuguese = (Page(alert(_alert(one_round), language)) for language in ("en", "pt-BR"))
    assert {ARCHIVE, OTHER, "it knows the item", "no answer: no whole answer within 3 s"} <= (english.words)
    assert any(word.startswith("sem resposta: ") for word in portuguese.words)
    assert "conhece o item" in portuguese.words


@pytest.mark.parametrize(("count", "is_open"), [(MOST_OPEN - 1, True), (MOST_OPEN, False)])
def test_a_short_list_is_seen_at_once_and_a_long_one_unfolds(count: int, *, is_open: bool) -> None:
    named = tuple(ArchiveStatement(f"{ARCHIVE}.{n}", "", "copy") for n in range(count))
    body = alert(_alert(RoundStatements(1, FIRST, (), "", named, ())), "en")
    assert (b"<details open>" in body, b"<details>" in body) == (is_open, not is_open)


def test_of_very_many_archives_the_page_stays_small_whatever_they_said() -> None:
    evil = '"><img src=x onerror=alert(1)>' + "&'\"" * 3000
    statement = ArchiveStatement("a" * 9_000, "b" * 9_000, "silent", PeerSilent("{evil}", evil=evil))
    one_round = RoundStatements(1, evil, (evil,) * 9, evil, (), (("nothing known", 9_999), ("silent", 9_999)))
    rounds = (one_round._replace(named=(statement,) * MOST_NAMED), *(one_round,) * (MOST_ROUNDS - 1))
    silent = ((OTHER, PeerSilent("no whole answer within 3 s")),) * 10_000
    value = Alert(
        AlertKind.INCOMPLETE,
        URL,
        FIRST,
        Coverage(10_030, silent),
        (ARCHIVE,) * 10_000,
        statements=Statements(rounds),
    )
    body = alert(value, "en")
    assert len(body) < MOST_BYTES
    assert b"<img" not in body
    assert {"Others: 9,999", "it does not know the item", "9,990"} <= Page(body).words


def _trace() -> Trace:
    first, other = archive_of(ARCHIVE, "archive.example:80"), archive_of(OTHER, "other.example")
    round_trace = RoundTrace(
        UrlRequest(("192.0.2.1",), parse_ibi(FIRST), verbs=VerbList(("GetLastEdition",))), "hint", 0.0
    )
    round_trace.queried = [first, other, archive_of("x.example/y/2026/01.01.00.00")]
    round_trace.responses = [
        ArchiveResponse(first, UrlList({"url.lastedition": "http://a/b", "urlx": "no"}), at=0.004),
        ArchiveResponse(other, None, PeerSilent("no whole answer within 3 s"), at=3.0),
    ]
    trace = Trace(URL, Policy(), original_required=False, in_full=True)
    trace.rounds.append(round_trace)
    return trace


def test_an_explanation_of_a_redirect_tells_each_round_and_the_reason() -> None:
    trace = _trace()
    chosen = archive_of(ARCHIVE)
    found = WantedEntry(ITEM, Entry())
    decision = Redirect("http://a/b", chosen, found, None, UrlList({}))
    page = Page(explanation(Explanation(decision, trace), "pt-BR"))
    assert "http://a/b" in page.links
    assert {"Rodada 1", "conhece o item", "4 ms", "GetLastEdition", "não foi esperado"} <= page.words
    assert "Foi a primeira resposta que atende ao pedido." in page.words
    assert "url.lastedition http://a/b" in page.words
    assert not [word for word in page.words if "urlx" in word]


def test_an_explanation_of_an_alert_tells_what_the_reader_would_be_told() -> None:
    page = Page(explanation(Explanation(Alert(AlertKind.DELETED, URL, FIRST), _trace()), "en"))
    assert {"Status 410", "This item was removed"} <= page.words


def test_the_front_page_has_a_box_and_explains_every_mark() -> None:
    page = Page(home(NetworkStatus(0.0, 0.0), "pt-BR"))
    assert page.forms == ["/-/find"]
    assert {"!", "+", "+(pt)", ":", "a última edição", "os metadados"} <= page.words


@pytest.mark.proves("WILD-01")
def test_a_found_identifier_is_shown_with_its_link_date_and_wrappers() -> None:
    page = Page(find(f"(ver http://urlib.net/rep/{FIRST}!:(oai_dc)).", "pt-BR"))
    assert page.links[f"/{FIRST}!:(oai_dc)"] == f"{FIRST}!:(oai_dc)"
    assert f"/-/explain/{FIRST}!:(oai_dc)" in page.links
    assert {"nome de repositório uniforme", "o endereço de um resolvedor", "pontuação"} <= page.words
    assert any(word.startswith("2 de março de 2026") for word in page.words)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("LK47B6W/362SFKH", "IBIp, the opaque form"),
        ("6qtX3pFwXQZ3r59YCT/GUQnU", "opaque identifier from before the standard"),
        (FIRST, "uniform repository name"),
    ],
)
def test_each_form_of_identifier_is_named(text: str, form: str) -> None:
    assert form in Page(find(text, "en")).words


def test_a_text_without_identifier_says_so_and_keeps_the_text() -> None:
    body = find("nothing to see", "en")
    assert b'value="nothing to see"' in body
    assert "There is no IBI in this text" in Page(body).words


def test_a_slip_of_the_hand_is_answered_with_the_likely_name() -> None:
    assert (
        "/sid.inpe.br/mtc-m21b/2016/11.18.17.34"
        in Page(find("sid.inpe.br/mtc-m21b/20l6/11.18.17.34", "en")).links
    )


def test_an_empty_box_is_no_mistake() -> None:
    page = Page(find("  ", "en"))
    assert page.heading == "Find an identifier"
    assert page.forms == ["/-/find"]


@pytest.mark.parametrize(
    "text",
    [
        f"upn:LCETB2:{FIRST}", f"ibi:{FIRST}", f"http://a.example/col/{FIRST}/doc/x.pdf", f"../{FIRST}",
        f"http://x.example/archive.cgi/{FIRST}", f"{FIRST}-TDI", f"&lt;{FIRST}&gt;", f"{FIRST}#page=3",
        f"https://translate.example/w?u=http://urlib.net/{FIRST}", FIRST.replace("/", "%2F"), f"{FIRST}\u200b",
        FIRST.replace("/2026", "  /2026"), FIRST.replace("/03.02", "\n/03.02"), f"x http:/{FIRST}",
    ],
)  # fmt: skip
def test_whatever_stands_around_an_identifier_has_a_name_for_people(text: str) -> None:
    unwrapped = unwrap(text)
    assert {kind for kind, _ in unwrapped.wrappers} <= WRAPPER_NAMES.keys()
    assert str(unwrapped.ibi) in Page(find(text, "pt-BR")).words


def test_an_edition_that_no_archive_knows_is_named_on_the_page() -> None:
    value = Alert(AlertKind.NOT_FOUND, url=URL, ibi=FIRST, known=True, leads_to="archive.example/next/2026")
    for language in ("en", "pt-BR"):
        assert b"archive.example/next/2026" in alert(value, language)
